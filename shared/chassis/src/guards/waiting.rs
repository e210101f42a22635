//! Waits for something to change, counted apart from what is in flight.
//!
//! A request that only waits does next to nothing, so that it would be a waste to refuse work for its sake; but each
//! holds its client's connection, so that they have a cap of their own. While it waits, its place among the requests in
//! flight is somebody else's; afterwards it takes it again, over the mark if need be, for the moment that its answer
//! takes.

use std::{
    future::{Ready, ready},
    sync::Arc,
};

use actix_web::{FromRequest, HttpMessage, HttpRequest, dev::Payload};

use super::in_flight::{InFlight, Permit};
use crate::{ApiProblem, problem};

/// The places that a request has among those in flight, for handlers that may give them up for a while.
#[derive(Debug, Clone)]
pub struct Place {
    permits: Arc<[Permit]>,
    /// Those that wait on this route.
    waiting: InFlight,
    most: u32,
}

impl Place {
    /// At most `most` may wait at once.
    pub(super) fn new(permits: impl IntoIterator<Item = Permit>, waiting: InFlight, most: u32) -> Self {
        Self { permits: permits.into_iter().collect(), waiting, most }
    }

    /// Steps aside until what this gives is dropped; `None` when as many wait already as may.
    #[must_use]
    pub fn wait(&self) -> Option<Waiting> {
        let one_of = self.waiting.enter(self.most).ok()?;
        self.permits.iter().for_each(Permit::step_aside);
        Some(Waiting { place: self.clone(), _one_of: one_of })
    }
}

/// A wait that is under way. It may outlive its request, whose client left.
#[derive(Debug)]
pub struct Waiting {
    // Keeps the permits: they would give their places back a second time.
    place: Place,
    _one_of: Permit,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.place.permits.iter().for_each(Permit::step_back);
    }
}

impl FromRequest for Place {
    type Error = ApiProblem;
    type Future = Ready<Result<Self, ApiProblem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        // Missing only on a route outside the guards.
        ready(request.extensions().get::<Self>().cloned().ok_or_else(|| problem::internal().into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_not_in_flight_and_takes_the_place_again() {
        let (in_flight, waiting) = (InFlight::default(), InFlight::default());
        let place = Place::new([in_flight.enter(1).unwrap()], waiting.clone(), 1);
        let wait = place.wait().unwrap();
        assert_eq!((in_flight.taken(), waiting.taken()), (0, 1));
        let other = in_flight.enter(1).unwrap();
        drop(wait);
        assert_eq!((in_flight.taken(), waiting.taken()), (2, 0));
        drop((other, place));
        assert_eq!(in_flight.taken(), 0);
    }

    #[test]
    fn no_more_wait_than_may() {
        let waiting = InFlight::default();
        let places: Vec<_> = (0..3).map(|_| Place::new([], waiting.clone(), 2)).collect();
        let waits: Vec<_> = places.iter().map(Place::wait).collect();
        assert!(waits[0].is_some() && waits[1].is_some() && waits[2].is_none());
        drop(waits);
        assert!(places[2].wait().is_some());
    }

    #[test]
    fn a_request_that_is_gone_before_its_wait_gives_its_place_back_once() {
        let in_flight = InFlight::default();
        let place = Place::new([in_flight.enter(5).unwrap()], InFlight::default(), 1);
        let wait = place.wait().unwrap();
        drop(place);
        assert_eq!(in_flight.taken(), 0);
        drop(wait);
        assert_eq!(in_flight.taken(), 0);
        assert!(in_flight.enter(1).is_ok());
    }
}
