//! One word out of several, each as often as its weight says: with what orders are paid, which coupon they carry.

use std::{fmt, str::FromStr};

use rand::Rng;

/// `tok_approve`, or `tok_approve=8,tok_decline=2`. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    weights: Vec<(String, u32)>,
    total: u32,
}

/// The text is no choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a choice is one WORD, or WORD=WEIGHT,… with at least one weight above 0")]
pub struct BadChoice;

impl Choice {
    /// Always this.
    #[must_use]
    pub fn only(word: &str) -> Self {
        Self { weights: vec![(word.to_owned(), 1)], total: 1 }
    }

    /// Takes no chance where there is nothing to choose: what is drawn afterwards stays the same.
    pub fn pick(&self, chance: &mut impl Rng) -> &str {
        let mut point = if self.weights.len() > 1 { chance.random_range(0..self.total) } else { 0 };
        for (word, weight) in &self.weights {
            if point < *weight {
                return word;
            }
            point -= weight;
        }
        // Not reached for a point below the total; the first word rather than a panic in the middle of a run.
        self.weights.first().map_or("", |(word, _)| word)
    }
}

impl FromStr for Choice {
    type Err = BadChoice;

    fn from_str(text: &str) -> Result<Self, BadChoice> {
        let word = |word: &str| match word.trim() {
            "" => Err(BadChoice),
            word => Ok(word.to_owned()),
        };
        if !text.contains(['=', ',']) {
            return Ok(Self { weights: vec![(word(text)?, 1)], total: 1 });
        }
        let part = |part: &str| {
            let (name, weight) = part.split_once('=').ok_or(BadChoice)?;
            Ok((word(name)?, weight.trim().parse::<u32>().map_err(|_| BadChoice)?))
        };
        let weights = text.split(',').map(part).collect::<Result<Vec<_>, _>>()?;
        let total = weights.iter().try_fold(0_u32, |sum, (_, weight)| sum.checked_add(*weight)).ok_or(BadChoice)?;
        if total == 0 { Err(BadChoice) } else { Ok(Self { weights, total }) }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.weights.iter().map(|(word, weight)| format!("{word}={weight}")).collect();
        f.write_str(&parts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::StdRng};

    use super::*;

    #[test]
    fn words_come_as_often_as_their_weights_say() {
        let choice: Choice = "tok_approve=3, tok_decline=1".parse().unwrap();
        let mut chance = StdRng::seed_from_u64(1);
        let declined = (0..4_000).filter(|_| choice.pick(&mut chance) == "tok_decline").count();
        assert!((850..1_150).contains(&declined), "{declined} of 4 000");
        assert_eq!(choice.to_string(), "tok_approve=3,tok_decline=1");
    }

    #[test]
    fn a_single_word_takes_no_chance() {
        let (mut one, mut other) = (StdRng::seed_from_u64(1), StdRng::seed_from_u64(1));
        assert_eq!("tok_approve".parse::<Choice>().unwrap().pick(&mut one), "tok_approve");
        assert_eq!(one.random::<u64>(), other.random::<u64>());
    }

    #[test]
    fn what_is_no_choice_is_refused() {
        for bad in ["", "a,b", "a=0", "a=x", "=1", "a=1,b", "a=4294967295,b=1"] {
            assert_eq!(bad.parse::<Choice>(), Err(BadChoice), "{bad}");
        }
    }
}
