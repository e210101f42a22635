//! Do the books balance? The oracle says so, of everything that happened since the system was started.

use std::time::Duration;

use oracle::Report;

use super::system::System;

/// What the slowest thing that moves by itself may take here: a question to the provider at the last tier, after a
/// lease that had to expire first.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until nothing moves, and finds nothing wrong, nothing given up, and nothing that a person would have to decide.
pub async fn clean(system: &System) -> Report {
    let report = judged(system, PATIENCE).await;
    let apart = report.invariants.iter().map(|verdict| verdict.apart.len()).sum::<usize>();
    assert_eq!(apart, 0, "something is left for a person to decide\n{report}");
    report
}

/// The same, but what waits for a person is left to the caller to look at.
pub async fn judged(system: &System, patience: Duration) -> Report {
    let answers = system.shop.log().read().unwrap();
    let report = oracle::consult(&system.sources(), answers, patience).await.unwrap();
    assert!(report.unquiet.is_empty() && report.clean(), "{report}");
    eprintln!("{report}");
    report
}
