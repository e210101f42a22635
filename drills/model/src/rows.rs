//! Rows of the services' own types, each distinct one kept once.
//!
//! A world holds whole `Order`s and `Attempt`s, so that `decide` gets exactly what it gets in production, and yet is
//! small to copy and quick to hash: two equal rows are the same row, and its number stands for it. Rows are never
//! dropped; a check makes a few hundred of them.

use std::{
    fmt,
    hash::{Hash, Hasher},
    ops::Deref,
    sync::{Mutex, PoisonError},
};

/// One kept row. Cheap to copy; equal rows are equal by number.
pub struct Row<T: 'static>(&'static Kept<T>);

struct Kept<T: 'static> {
    number: usize,
    value: T,
}

/// Where rows of one type are kept.
pub struct Shelf<T: 'static>(Mutex<Vec<Row<T>>>);

impl<T: PartialEq + 'static> Shelf<T> {
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// The row that equals `value`.
    pub fn keep(&self, value: T) -> Row<T> {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(row) = rows.iter().find(|row| row.0.value == value) {
            return *row;
        }
        let kept: &'static Kept<T> = Box::leak(Box::new(Kept { number: rows.len(), value }));
        let row = Row(kept);
        rows.push(row);
        row
    }
}

impl<T: PartialEq + 'static> Default for Shelf<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: 'static> Clone for Row<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: 'static> Copy for Row<T> {}

impl<T: 'static> PartialEq for Row<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0.number == other.0.number
    }
}

impl<T: 'static> Eq for Row<T> {}

impl<T: 'static> Hash for Row<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.number.hash(state);
    }
}

impl<T: 'static> Deref for Row<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T: 'static> fmt::Debug for Row<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0.number)
    }
}
