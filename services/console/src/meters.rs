//! What the console's own metrics mean. It has none yet beside those of every service.

pub const fn describe() {}
