//! How each instance was seen, for as long as rates reach back; and what else is known.

use std::{
    collections::{BTreeSet, VecDeque},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use contracts::Service;
use tokio_util::sync::CancellationToken;

use crate::domain::{
    live::{
        Beside, Snapshot,
        look::{Look, View},
    },
    target::Target,
};

/// What rates are told over: long enough to be calm, short enough to see what happens.
const WINDOW: Duration = Duration::from_millis(5_500);
/// Looks of one instance: those of the window, and some to spare.
const MOST: usize = 8;

/// An instance, and how it was seen.
pub struct Instance {
    pub target: Target,
    /// It has no address any more: nobody needs to look at it.
    pub gone: CancellationToken,
    /// What one that was found by its address calls itself.
    said: OnceLock<String>,
    looks: Mutex<VecDeque<Arc<Look>>>,
}

impl Instance {
    fn unseen(target: Target) -> Arc<Self> {
        Arc::new(Self { target, gone: CancellationToken::new(), said: OnceLock::new(), looks: Mutex::default() })
    }

    /// One that was found by its address, and is called so until it says its name.
    fn found(service: &str, url: String, address: SocketAddr) -> Arc<Self> {
        Self::unseen(Target { service: service.to_owned(), instance: address.to_string(), url })
    }

    fn is_found(&self) -> bool {
        self.target.url.strip_prefix("http://") == Some(self.target.instance.as_str())
    }

    fn name(&self) -> &str {
        self.said.get().unwrap_or(&self.target.instance)
    }

    pub fn keep(&self, look: Look) {
        if let Some(name) = look.state["instance"].as_str().filter(|_| self.is_found()) {
            self.said.get_or_init(|| name.to_owned());
        }
        let mut looks = self.looks();
        if looks.len() == MOST {
            looks.pop_front();
        }
        looks.push_back(Arc::new(look));
    }

    /// The last look, and the first one of the window before it that was answered.
    fn ends(&self) -> (Option<Arc<Look>>, Option<Arc<Look>>) {
        let looks = self.looks();
        let Some(later) = looks.back().cloned() else { return (None, None) };
        let is_within = |look: &&Arc<Look>| later.at.saturating_sub(look.at) <= WINDOW && look.at < later.at;
        let earlier = looks.iter().filter(is_within).find(|look| look.is_answered()).cloned();
        (earlier, Some(later))
    }

    fn looks(&self) -> MutexGuard<'_, VecDeque<Arc<Look>>> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All that is watched.
pub struct Watched {
    instances: Mutex<Vec<Arc<Instance>>>,
    beside: Mutex<Beside>,
}

impl Watched {
    #[must_use]
    pub fn new(targets: Vec<Target>) -> Self {
        let instances = targets.into_iter().map(Instance::unseen).collect();
        Self { instances: Mutex::new(instances), beside: Mutex::default() }
    }

    #[must_use]
    pub fn instances(&self) -> Vec<Arc<Instance>> {
        self.list().clone()
    }

    /// The instances of a service are at these addresses now, and nowhere else. Those that are new, to be looked at.
    #[must_use]
    pub fn found(&self, service: &str, at: &BTreeSet<SocketAddr>) -> Vec<Arc<Instance>> {
        let mut list = self.list();
        let url = |address: &SocketAddr| format!("http://{address}");
        let here: BTreeSet<String> = at.iter().map(url).collect();
        list.retain(|known| {
            let stays = known.target.service != service || here.contains(&known.target.url);
            if !stays {
                known.gone.cancel();
            }
            stays
        });
        let is_new = |address: &&SocketAddr| !list.iter().any(|known| known.target.url == url(address));
        let new: Vec<_> =
            at.iter().filter(is_new).map(|address| Instance::found(service, url(address), *address)).collect();
        list.extend(new.iter().cloned());
        // What was found later is not last: the picture stays as it is.
        list.sort_by_key(|known| (rank(&known.target.service), known.target.url.clone()));
        new
    }

    /// The faults in force, by link and name; `None` while no links answer.
    pub fn note_faults(&self, faults: Option<Vec<(String, String)>>) {
        self.beside().faults = faults;
    }

    pub fn note_dead_letters(&self, open: Option<u64>) {
        self.beside().dead_letters = open;
    }

    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let instances = self.instances();
        let seen: Vec<_> = instances.iter().map(|instance| (instance, instance.ends())).collect();
        let views: Vec<View<'_>> = seen
            .iter()
            .map(|(instance, (earlier, later))| View {
                service: &instance.target.service,
                instance: instance.name(),
                earlier: earlier.as_deref(),
                later: later.as_deref(),
            })
            .collect();
        let beside = self.beside().clone();
        Snapshot::of(chrono::Utc::now(), &views, &beside)
    }

    /// How many messages the instances have given up, since they began.
    #[must_use]
    pub fn given_up(&self) -> u64 {
        let instances = self.instances();
        let last = instances.iter().filter_map(|instance| instance.looks().back().cloned());
        last.filter_map(|look| look.samples.sum("dead_letters_total", |_| true))
            .map(crate::domain::live::look::whole)
            .sum()
    }

    fn list(&self) -> MutexGuard<'_, Vec<Arc<Instance>>> {
        self.instances.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn beside(&self) -> MutexGuard<'_, Beside> {
        self.beside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The order of the services in the picture.
fn rank(service: &str) -> usize {
    Service::ALL.iter().position(|known| known.as_str() == service).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(addresses: &[&str]) -> BTreeSet<SocketAddr> {
        addresses.iter().map(|address| address.parse().unwrap()).collect()
    }

    fn urls(instances: &[Arc<Instance>]) -> Vec<&str> {
        instances.iter().map(|instance| instance.target.url.as_str()).collect()
    }

    #[test]
    fn who_comes_is_watched_who_goes_is_forgotten_and_who_stays_keeps_what_was_seen() {
        let fixed = Target { service: "payment".into(), instance: "payment-0".into(), url: "http://p:1".into() };
        let watched = Watched::new(vec![fixed]);
        let first = watched.found("order", &at(&["10.0.0.2:9080", "10.0.0.1:9080"]));
        assert_eq!(urls(&first), ["http://10.0.0.1:9080", "http://10.0.0.2:9080"]);
        first[1].keep(Look::unreachable(Duration::ZERO, "breaks off"));
        let second = watched.found("order", &at(&["10.0.0.2:9080", "[::1]:9080"]));
        assert_eq!(urls(&second), ["http://[::1]:9080"]);
        assert_eq!(urls(&watched.instances()), ["http://10.0.0.2:9080", "http://[::1]:9080", "http://p:1"]);
        assert!(first[0].gone.is_cancelled() && !first[1].gone.is_cancelled());
        assert!(watched.instances()[0].ends().1.is_some(), "seen before");
        assert_eq!(urls(&watched.found("order", &at(&[]))), [""; 0]);
        assert_eq!(urls(&watched.instances()), ["http://p:1"]);
    }
}
