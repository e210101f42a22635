//! All links and the faults on them: what the admin API works on.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use contracts::FieldError;
use tokio::time::sleep;

use crate::{
    active::{Active, View},
    fault::FaultRequest,
    link::Link,
};

pub struct Switchboard {
    pub links: Vec<Arc<Link>>,
    seed: u64,
    /// Ids are never used twice, so that a late removal meets no other fault.
    next_id: AtomicU64,
    /// Faults since the start or the last reset: the nth gets the nth seed.
    asked: AtomicU64,
    /// Faults that are over; what they have done can still be read.
    ended: Mutex<VecDeque<Arc<Active>>>,
}

const REMEMBERED: usize = 256;
/// Faults in force on one link; nobody needs more, and each costs every request a throw.
const MAX_FAULTS: usize = 16;

impl Switchboard {
    pub fn new(links: Vec<Arc<Link>>, seed: u64) -> Self {
        let (next_id, asked) = (AtomicU64::new(1), AtomicU64::new(0));
        Self { links, seed, next_id, asked, ended: Mutex::new(VecDeque::new()) }
    }

    pub fn link(&self, name: &str) -> Option<&Arc<Link>> {
        self.links.iter().find(|link| link.name == name)
    }

    pub async fn add(self: &Arc<Self>, request: &FaultRequest) -> Result<View, Vec<FieldError>> {
        let Some(link) = self.link(&request.link) else {
            let names: Vec<&str> = self.links.iter().map(|link| link.name.as_str()).collect();
            return Err(vec![wrong("link", format!("there is no such link; there are {}", names.join(", ")))]);
        };
        let fault = request.check(link.protocol)?;
        if link.faults().len() >= MAX_FAULTS {
            return Err(vec![wrong("link", format!("has {MAX_FAULTS} faults already"))]);
        }
        let nth = self.asked.fetch_add(1, Ordering::Relaxed);
        let seed = fault.seed.unwrap_or_else(|| self.seed.wrapping_add(nth));
        let (id, lasts) = (self.next_id.fetch_add(1, Ordering::Relaxed), fault.lasts);
        let fault = Arc::new(Active::new(id, &link.name, fault, seed, link.tally()));
        link.add(fault.clone()).await;
        if let Some(lasts) = lasts {
            let (board, fault, closing) = (self.clone(), fault.clone(), link.closing.clone());
            link.tasks.spawn(async move {
                tokio::select! {
                    () = closing.cancelled() => {}
                    () = fault.over() => {}
                    () = sleep(lasts) => drop(board.remove(fault.id).await),
                }
            });
        }
        Ok(fault.view())
    }

    /// In force or over.
    pub fn fault(&self, id: u64) -> Option<View> {
        let here = self.links.iter().find_map(|link| link.faults().iter().find(|f| f.id == id).cloned());
        here.or_else(|| self.ended().iter().find(|f| f.id == id).cloned()).map(|fault| fault.view())
    }

    pub fn faults(&self) -> Vec<View> {
        self.links.iter().flat_map(|link| link.faults().iter().map(|f| f.view()).collect::<Vec<_>>()).collect()
    }

    /// `None` if no such fault is in force.
    pub async fn remove(&self, id: u64) -> Option<View> {
        for link in &self.links {
            let Some(fault) = link.faults().iter().find(|fault| fault.id == id).cloned() else { continue };
            link.remove(id).await;
            let view = fault.view();
            let mut ended = self.ended();
            if ended.len() == REMEMBERED {
                ended.pop_front();
            }
            ended.push_back(fault);
            return Some(view);
        }
        None
    }

    /// No faults, no counts, and the same luck as after a start.
    pub async fn reset(&self) {
        for fault in self.faults() {
            self.remove(fault.id).await;
        }
        self.ended().clear();
        self.asked.store(0, Ordering::Relaxed);
        self.links.iter().for_each(|link| link.forget_counts());
    }

    fn ended(&self) -> MutexGuard<'_, VecDeque<Arc<Active>>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wrong(field: &str, detail: impl Into<String>) -> FieldError {
    FieldError::new(field, detail)
}
