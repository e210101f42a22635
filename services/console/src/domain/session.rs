//! What a browser holds while its operator is in: an id that nobody can guess, and what follows from it.
//!
//! Two values are derived, each for a purpose of its own, and neither leads back: the hash by which the session is kept,
//! and the token that the page shows with whatever it does. A foreign page can have a browser send the cookie; the token
//! it cannot read.

use std::fmt;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The value of the cookie.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionId([u8; 32]);

/// By what a session is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionHash([u8; 32]);

impl SessionId {
    #[must_use]
    pub fn generate() -> Self {
        Self(rand::random())
    }

    /// `None` for what cannot be one of ours.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Self(bytes))
    }

    /// For the cookie, and for nothing else.
    #[must_use]
    pub fn reveal(&self) -> String {
        hex::encode(self.0)
    }

    #[must_use]
    pub fn hash(&self) -> SessionHash {
        SessionHash(self.derived("session"))
    }

    #[must_use]
    pub fn csrf(&self) -> String {
        hex::encode(self.derived("csrf"))
    }

    /// Whether `shown` is the token of this session, in constant time.
    #[must_use]
    pub fn has_csrf(&self, shown: &str) -> bool {
        self.csrf().as_bytes().ct_eq(shown.as_bytes()).into()
    }

    fn derived(&self, purpose: &str) -> [u8; 32] {
        Sha256::new().chain_update(purpose).chain_update(self.0).finalize().into()
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionId(…)")
    }
}

impl SessionHash {
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_back_from_its_cookie_and_nothing_else_is_one() {
        let id = SessionId::generate();
        assert_eq!(SessionId::parse(&id.reveal()), Some(id.clone()));
        assert_ne!(SessionId::generate(), id);
        for other in ["", "x", &id.reveal()[1..], &format!("{}00", id.reveal()), &"g".repeat(64)] {
            assert_eq!(SessionId::parse(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_derived_from_an_id_differs_by_purpose_and_shows_nothing_of_it() {
        let id = SessionId::generate();
        let (hash, csrf) = (hex::encode(id.hash().as_bytes()), id.csrf());
        assert!(hash != csrf && hash != id.reveal() && csrf != id.reveal());
        assert!(!format!("{id:?}").contains(&id.reveal()));
        assert!(id.has_csrf(&csrf) && !id.has_csrf("") && !id.has_csrf(&SessionId::generate().csrf()));
    }
}
