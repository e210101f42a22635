//! Worlds explored to their end, and what is found in them once a safeguard is left out. `--nocapture` shows how many
//! states there are, and the shortest way to each counterexample.

mod mutations;
mod worlds;

use std::{collections::BTreeSet, time::SystemTime};

use model::{Model, claims, story};
use stateright::{Checker, Expectation, HasDiscoveries, Model as _};

/// What an exploration came to.
struct Explored {
    /// One line.
    summary: String,
    /// What was claimed and does not hold, shortest way first, with that way told.
    broken: Vec<(&'static str, String)>,
    /// What was seen of what has to be seen somewhere.
    seen: BTreeSet<&'static str>,
}

/// `until`: to the end, or to the first counterexample.
fn explore(model: Model, until: HasDiscoveries, threads: usize) -> Explored {
    let began = SystemTime::now();
    let checker = model.checker().finish_when(until).threads(threads).spawn_bfs().join();
    let seconds = began.elapsed().unwrap_or_default().as_secs_f64();
    let discoveries = checker.discoveries();
    let (mut broken, mut seen) = (Vec::new(), BTreeSet::new());
    for property in claims::all() {
        let Some(path) = discoveries.get(property.name) else { continue };
        match property.expectation {
            Expectation::Sometimes => {
                seen.insert(property.name);
            }
            _ => broken.push((property.name, path.clone())),
        }
    }
    broken.sort_by_key(|(_, path)| path.clone().into_actions().len());
    let steps = broken.first().map(|(_, path)| path.clone().into_actions().len() - 1);
    let found = steps.map_or_else(String::new, |steps| format!(", broken in {steps} steps"));
    let summary = format!(
        "{:>9} states, depth {:>2}, {seconds:>5.1} s{found}: {}",
        checker.unique_state_count(),
        checker.max_depth(),
        model.setting.name
    );
    Explored { summary, broken: broken.into_iter().map(|(name, path)| (name, story::tell(path))).collect(), seen }
}
