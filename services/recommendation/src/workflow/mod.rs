//! One file an act.

mod recommend;

pub use recommend::{CANDIDATES, MAX_LIMIT, Recommender, Unavailable, Wanted};
