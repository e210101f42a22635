//! The numbers that waits are spread by.

use resilience::retry::Jitter;

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
