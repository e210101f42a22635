//! Who may change the rules in force. The console comes before the file: while a version of it is in force, a file that
//! changes is remembered and not applied; when the console takes back the last version that it gave, the service
//! returns to rules of its own, which are the file's or the built-in ones.
//!
//! Every change goes through here: apply, which is one swap, then keep for the next start. To be called where it may
//! block, since a disk may be slow.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rules::{
    Origin, Rules, RulesHandle,
    source::{Kept, Own},
};

use crate::rules_kept::Shelf;

/// One a process.
#[derive(Debug)]
pub(crate) struct Desk {
    pub handle: RulesHandle,
    shelf: Shelf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    own: Own,
    /// Whether what is in force came from the console, now or before the start.
    is_ruled: bool,
}

impl Desk {
    pub fn new(handle: RulesHandle, shelf: Shelf, own: Own, is_ruled: bool) -> Self {
        Self { handle, shelf, state: Mutex::new(State { own, is_ruled }) }
    }

    /// A file that was started with is kept like one that came into force later.
    pub fn begin(&self) {
        let state = self.state();
        if let (false, Some(document)) = (state.is_ruled, &state.own.document) {
            self.shelf.keep(&of_file(document));
        }
    }

    /// The document that the file had last, whether or not it is in force.
    pub fn of_file(&self) -> Option<String> {
        self.state().own.document.clone()
    }

    /// The file has become this.
    pub fn file_says(&self, document: String, rules: Rules) {
        let mut state = self.state();
        let rule_version = rules.version;
        if state.is_ruled {
            tracing::info!(rule_version, "the rules file changed; it counts once the console has no version in force");
        } else {
            self.handle.apply(rules.clone(), Origin::File);
            tracing::info!(rule_version, rules_origin = ?Origin::File, "new rules are in force");
            self.shelf.keep(&of_file(&document));
        }
        state.own = Own { rules, origin: Origin::File, document: Some(document) };
    }

    /// The console gives a version. Its number counts, whatever the document calls itself.
    pub fn console_says(&self, version: i64, document: String, rules: Rules) {
        let mut state = self.state();
        state.is_ruled = true;
        self.handle.apply(Rules { version, ..rules }, Origin::Console);
        tracing::info!(rule_version = version, rules_origin = ?Origin::Console, "new rules are in force");
        self.shelf.keep(&Kept { origin: Origin::Console, version: Some(version), document });
    }

    /// What the console gave is in force no more, and nothing else is.
    pub fn console_takes_back(&self) {
        let mut state = self.state();
        if !state.is_ruled {
            return;
        }
        state.is_ruled = false;
        let Own { rules, origin, document } = &state.own;
        self.handle.apply(rules.clone(), *origin);
        let (rule_version, rules_origin) = (rules.version, *origin);
        tracing::warn!(rule_version, ?rules_origin, "the console took its rules back; the service's own are in force");
        match document {
            Some(document) => self.shelf.keep(&of_file(document)),
            None => self.shelf.clear(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn of_file(document: &str) -> Kept {
    Kept { origin: Origin::File, version: None, document: document.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desk() -> Desk {
        let own = Own { rules: Rules::default(), origin: Origin::Default, document: None };
        Desk::new(RulesHandle::new(Rules::default(), Origin::Default), Shelf::default(), own, false)
    }

    fn numbered(version: i64) -> Rules {
        Rules { version, ..Rules::default() }
    }

    fn in_force(desk: &Desk) -> (i64, Origin) {
        let in_force = desk.handle.in_force();
        (in_force.rules.version, in_force.origin)
    }

    #[test]
    fn while_the_console_rules_the_file_waits() {
        let desk = desk();
        desk.file_says("version = 1".to_owned(), numbered(1));
        assert_eq!(in_force(&desk), (1, Origin::File));
        desk.console_says(9, String::new(), numbered(4));
        assert_eq!(in_force(&desk), (9, Origin::Console), "the number is the console's");
        desk.file_says("version = 2".to_owned(), numbered(2));
        assert_eq!(in_force(&desk), (9, Origin::Console));
        desk.console_takes_back();
        assert_eq!(in_force(&desk), (2, Origin::File), "what the file has become meanwhile");
        desk.file_says("version = 3".to_owned(), numbered(3));
        assert_eq!(in_force(&desk), (3, Origin::File));
    }

    #[test]
    fn without_a_file_what_is_taken_back_leaves_the_defaults() {
        let desk = desk();
        desk.console_takes_back();
        desk.console_says(1, String::new(), numbered(1));
        desk.console_takes_back();
        assert_eq!(in_force(&desk), (0, Origin::Default));
    }
}
