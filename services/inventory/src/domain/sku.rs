//! A SKU that came from outside a validated body: a path or a cursor. What is none names no product.

use std::str::FromStr;

use contracts::validate::MAX_CODE_LEN;

/// 1 to 64 visible ASCII characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sku(String);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a SKU is 1 to 64 visible ASCII characters")]
pub struct NotASku;

impl Sku {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Sku {
    type Err = NotASku;

    fn from_str(text: &str) -> Result<Self, NotASku> {
        let visible = text.bytes().all(|b| b.is_ascii_graphic());
        if visible && (1..=MAX_CODE_LEN).contains(&text.len()) { Ok(Self(text.to_owned())) } else { Err(NotASku) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_nul_and_overlong_text_are_no_sku() {
        for bad in ["", " ", "TEA 1", "TEA\0", "tée", &"X".repeat(65)] {
            assert_eq!(bad.parse::<Sku>(), Err(NotASku), "{bad:?}");
        }
        assert_eq!("TEA-1".parse::<Sku>().unwrap().as_str(), "TEA-1");
    }
}
