//! Numbers for spreading waits out: one seed, one sequence, no lock. SplitMix64, which needs no more state than a
//! counter; good enough for jitter, and for nothing that must not be guessed.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Debug)]
pub struct Jitter(AtomicU64);

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

impl Jitter {
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// The next number, in [0, 1).
    #[must_use]
    pub fn next(&self) -> f64 {
        let mut bits = self.0.fetch_add(GOLDEN, Relaxed).wrapping_add(GOLDEN);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^= bits >> 31;
        // 53 bits are what an f64 holds exactly.
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_fill_the_interval_evenly() {
        let jitter = Jitter::new(42);
        let mut tenths = [0_u32; 10];
        for _ in 0..10_000 {
            let x = jitter.next();
            assert!((0.0..1.0).contains(&x));
            tenths[(x * 10.0) as usize] += 1;
        }
        assert!(tenths.iter().all(|n| (850..1_150).contains(n)), "{tenths:?}");
    }
}
