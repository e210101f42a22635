//! What runs by itself: [`watch`] looks at every instance, [`discover`] finds those that come and go, [`compose`] makes the snapshots of it, [`links`] and [`letters`]
//! find out what no instance says, [`forget`] and [`prune`] forget instances and sessions. (The board keeps itself up to
//! date.)

pub mod compose;
pub mod discover;
pub mod forget;
pub mod letters;
pub mod links;
pub mod prune;
pub mod watch;
