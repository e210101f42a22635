//! Speaking on stdout without dying of it: whoever listened may have left, and a full disk may hold the log. `println!`
//! panics then, and would leave a system without its supervisor.

use std::{
    fmt,
    io::{Write, stdout},
};

/// One line.
pub fn line(text: fmt::Arguments<'_>) {
    let mut out = stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

macro_rules! say {
    ($($arg:tt)*) => { $crate::say::line(format_args!($($arg)*)) };
}
pub(crate) use say;
