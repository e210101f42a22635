//! What a command was asked for, on its output.

use std::io::{Write, stdout};

pub fn say(text: &str) {
    // Whoever listened may have left.
    let _ = writeln!(stdout().lock(), "{text}");
}
