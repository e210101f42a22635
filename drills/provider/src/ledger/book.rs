//! The ledger in memory: what was decided under which key. No I/O; what it adds it also queues for the file.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use contracts::{
    Currency,
    provider::{ChargeRequest, ChargeState, Ledger, LedgerCharge, LedgerRefund},
};
use serde::{Deserialize, Serialize};

use crate::fate::Decision;

/// A line of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Entry {
    Charge(ChargeEntry),
    Refund(LedgerRefund),
}

/// The payment method is kept too, so that another body under the same key is told apart even after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChargeEntry {
    #[serde(flatten)]
    pub charge: LedgerCharge,
    pub payment_method: String,
}

/// An outcome, and whether this request brought it about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Booked<T> {
    pub entry: T,
    pub replayed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("the key was used for another request")]
    KeyReused,
    #[error("there is no such charge")]
    NoSuchCharge,
    #[error("{left_minor} is left of the charge")]
    MoreThanLeft { left_minor: i64 },
}

/// What the file does not have yet, in order.
#[derive(Debug, Default)]
pub struct Unwritten {
    /// The file is emptied before the entries are written.
    pub clear_first: bool,
    pub entries: Vec<Entry>,
}

#[derive(Debug, Default)]
pub struct Book {
    charges: Vec<ChargeEntry>,
    charge_by_key: HashMap<String, usize>,
    charge_by_id: HashMap<String, usize>,
    refunds: Vec<LedgerRefund>,
    refund_by_key: HashMap<String, usize>,
    refunded_minor: HashMap<String, i64>,
    unwritten: Unwritten,
    changes: u64,
}

impl Book {
    /// Decides `key` unless it was decided before.
    pub fn charge(
        &mut self,
        id: String,
        key: String,
        request: ChargeRequest,
        decision: Decision,
        at: DateTime<Utc>,
    ) -> Result<Booked<LedgerCharge>, Refused> {
        if let Some(found) = self.charge_by_key.get(&key).and_then(|at| self.charges.get(*at)) {
            return if found.is_of(&request) {
                Ok(Booked { entry: found.charge.clone(), replayed: true })
            } else {
                Err(Refused::KeyReused)
            };
        }
        let charge = LedgerCharge {
            id,
            key,
            reference: request.reference,
            amount_minor: request.amount_minor,
            currency: request.currency,
            state: decision.state(),
            decline_code: decision.decline_code(),
            at,
        };
        self.change(Entry::Charge(ChargeEntry { charge: charge.clone(), payment_method: request.payment_method }));
        Ok(Booked { entry: charge, replayed: false })
    }

    /// Gives `amount_minor` of a charge back, unless `key` did so before. Never more than was charged.
    pub fn refund(
        &mut self,
        id: String,
        key: String,
        charge_id: &str,
        amount_minor: i64,
        at: DateTime<Utc>,
    ) -> Result<Booked<(LedgerRefund, Currency)>, Refused> {
        let charge = self.charge_by_id.get(charge_id).and_then(|at| self.charges.get(*at));
        let charge = &charge.ok_or(Refused::NoSuchCharge)?.charge;
        let currency = charge.currency;
        if let Some(found) = self.refund_by_key.get(&key).and_then(|at| self.refunds.get(*at)) {
            return if found.charge_id == charge_id && found.amount_minor == amount_minor {
                Ok(Booked { entry: (found.clone(), currency), replayed: true })
            } else {
                Err(Refused::KeyReused)
            };
        }
        let charged = if charge.state == ChargeState::Approved { charge.amount_minor } else { 0 };
        let left_minor = charged - self.refunded_minor.get(charge_id).copied().unwrap_or(0);
        if amount_minor > left_minor {
            return Err(Refused::MoreThanLeft { left_minor });
        }
        let refund = LedgerRefund { id, key, charge_id: charge_id.to_owned(), amount_minor, at };
        self.change(Entry::Refund(refund.clone()));
        Ok(Booked { entry: (refund, currency), replayed: false })
    }

    pub fn by_key(&self, key: &str) -> Option<LedgerCharge> {
        let at = *self.charge_by_key.get(key)?;
        self.charges.get(at).map(|entry| entry.charge.clone())
    }

    pub fn ledger(&self) -> Ledger {
        Ledger {
            charges: self.charges.iter().map(|entry| entry.charge.clone()).collect(),
            refunds: self.refunds.clone(),
        }
    }

    pub fn clear(&mut self) {
        let unwritten = Unwritten { clear_first: true, entries: Vec::new() };
        *self = Self { unwritten, changes: self.changes + 1, ..Self::default() };
    }

    /// Takes up an entry that the file has.
    pub fn replay(&mut self, entry: Entry) {
        match entry {
            Entry::Charge(entry) => {
                let at = self.charges.len();
                self.charge_by_key.insert(entry.charge.key.clone(), at);
                self.charge_by_id.insert(entry.charge.id.clone(), at);
                self.charges.push(entry);
            }
            Entry::Refund(refund) => {
                let sum = self.refunded_minor.entry(refund.charge_id.clone()).or_default();
                *sum = sum.saturating_add(refund.amount_minor);
                self.refund_by_key.insert(refund.key.clone(), self.refunds.len());
                self.refunds.push(refund);
            }
        }
    }

    /// How many changes there have been: what a reader saw is durable once the file has got this far.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    pub fn has_unwritten(&self) -> bool {
        self.unwritten.clear_first || !self.unwritten.entries.is_empty()
    }

    pub fn take_unwritten(&mut self) -> Unwritten {
        std::mem::take(&mut self.unwritten)
    }

    fn change(&mut self, entry: Entry) {
        self.replay(entry.clone());
        self.unwritten.entries.push(entry);
        self.changes += 1;
    }
}

impl ChargeEntry {
    fn is_of(&self, request: &ChargeRequest) -> bool {
        self.charge.amount_minor == request.amount_minor
            && self.charge.currency == request.currency
            && self.charge.reference == request.reference
            && self.payment_method == request.payment_method
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(amount_minor: i64) -> ChargeRequest {
        ChargeRequest {
            amount_minor,
            currency: Currency::USD,
            payment_method: "tok_approve".to_owned(),
            reference: "order-1".to_owned(),
        }
    }

    fn book_with(decision: Decision) -> Book {
        let mut book = Book::default();
        book.charge("ch".to_owned(), "k".to_owned(), request(100), decision, Utc::now()).unwrap();
        book
    }

    fn refund(book: &mut Book, key: &str, amount: i64) -> Result<Booked<(LedgerRefund, Currency)>, Refused> {
        book.refund(format!("re-{key}"), key.to_owned(), "ch", amount, Utc::now())
    }

    #[test]
    fn a_key_is_decided_once_and_keeps_its_decision() {
        let mut book = book_with(Decision::Approve);
        let decline = Decision::Decline("x");
        let again = book.charge("other".to_owned(), "k".to_owned(), request(100), decline, Utc::now()).unwrap();
        assert!(again.replayed);
        assert_eq!((again.entry.id.as_str(), again.entry.state), ("ch", ChargeState::Approved));
        assert_eq!(book.take_unwritten().entries.len(), 1);
    }

    #[test]
    fn a_key_does_not_serve_another_body() {
        let mut book = book_with(Decision::Approve);
        let other_method = ChargeRequest { payment_method: "tok_decline".to_owned(), ..request(100) };
        for body in [request(101), other_method] {
            let answer = book.charge("x".to_owned(), "k".to_owned(), body, Decision::Approve, Utc::now());
            assert_eq!(answer, Err(Refused::KeyReused));
        }
    }

    #[test]
    fn refunds_never_exceed_the_charge() {
        let mut book = book_with(Decision::Approve);
        refund(&mut book, "a", 60).unwrap();
        assert_eq!(refund(&mut book, "b", 41), Err(Refused::MoreThanLeft { left_minor: 40 }));
        assert!(refund(&mut book, "a", 60).unwrap().replayed, "a repeat takes nothing");
        assert_eq!(refund(&mut book, "a", 40), Err(Refused::KeyReused));
        refund(&mut book, "b", 40).unwrap();
        assert_eq!(refund(&mut book, "c", 1), Err(Refused::MoreThanLeft { left_minor: 0 }));
        assert_eq!(refund(&mut book, "c", i64::MAX), Err(Refused::MoreThanLeft { left_minor: 0 }));
    }

    #[test]
    fn a_declined_charge_has_nothing_to_give_back() {
        let mut book = book_with(Decision::Decline("x"));
        assert_eq!(refund(&mut book, "a", 1), Err(Refused::MoreThanLeft { left_minor: 0 }));
        assert_eq!(book.refund("r".to_owned(), "a".to_owned(), "nobody", 1, Utc::now()), Err(Refused::NoSuchCharge));
    }

    #[test]
    fn a_cleared_book_is_empty_and_says_that_something_changed() {
        let mut book = book_with(Decision::Approve);
        let before = book.changes();
        book.clear();
        assert_eq!(book.ledger(), Ledger::default());
        assert!(book.changes() > before && book.has_unwritten());
        let unwritten = book.take_unwritten();
        assert!(unwritten.clear_first && unwritten.entries.is_empty());
    }
}
