//! What a charge request will meet: a pure function of behaviour, payment method and dice.
//!
//! The throw is made whole before anything is looked at, so that changing one ratio does not shift the dice of another
//! and a drill with the same seed meets the same luck.

use std::time::Duration;

use contracts::provider::{Behaviour, ChargeState};
use rand::Rng;

use crate::method::Method;

/// One throw of the dice, each number from 0 (included) to 1 (excluded).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Throw {
    pub error: f64,
    pub hang: f64,
    pub decline: f64,
    pub lose_reply: f64,
    pub jitter: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fate {
    /// Its part in [`delay`], from 0 (included) to 1 (excluded).
    pub jitter: f64,
    pub then: Then,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Nothing is charged and this status is answered.
    Fail { status: u16 },
    /// Nothing is charged and nothing is answered.
    Vanish,
    /// The key is decided, unless it was before.
    Decide { decision: Decision, reply: Reply },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    Approve,
    Decline(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    Sent,
    Lost,
}

impl Throw {
    pub fn of(dice: &mut impl Rng) -> Self {
        Self {
            error: dice.random(),
            hang: dice.random(),
            decline: dice.random(),
            lose_reply: dice.random(),
            jitter: dice.random(),
        }
    }
}

impl Decision {
    #[must_use]
    pub const fn state(self) -> ChargeState {
        match self {
            Self::Approve => ChargeState::Approved,
            Self::Decline(_) => ChargeState::Declined,
        }
    }

    #[must_use]
    pub fn decline_code(self) -> Option<String> {
        match self {
            Self::Approve => None,
            Self::Decline(code) => Some(code.to_owned()),
        }
    }
}

#[must_use]
pub fn decide(behaviour: &Behaviour, method: Method, throw: &Throw) -> Fate {
    let then = match method {
        Method::Error(status) => Then::Fail { status },
        Method::LostRequest => Then::Vanish,
        Method::LostReply => Then::Decide { decision: Decision::Approve, reply: Reply::Lost },
        Method::Approve | Method::Decline | Method::Slow(_) => by_ratio(behaviour, method, throw),
    };
    Fate { jitter: throw.jitter, then }
}

/// How long a charge takes once its turn has come: by the behaviour of then, so that what stood in line while the provider
/// was slow goes fast when it is well again.
#[must_use]
pub fn delay(behaviour: &Behaviour, method: Method, jitter: f64) -> Duration {
    let base = Duration::from_millis(behaviour.latency_ms)
        + Duration::from_millis(behaviour.jitter_ms).mul_f64(jitter.clamp(0.0, 1.0));
    if let Method::Slow(more) = method { base + more } else { base }
}

/// The ratios, in the order in which a request would meet them.
fn by_ratio(behaviour: &Behaviour, method: Method, throw: &Throw) -> Then {
    if throw.error < behaviour.error_ratio {
        return Then::Fail { status: 500 };
    }
    if throw.hang < behaviour.hang_ratio {
        return Then::Vanish;
    }
    let decision = if method == Method::Decline {
        Decision::Decline("card_declined")
    } else if throw.decline < behaviour.decline_ratio {
        Decision::Decline("do_not_honor")
    } else {
        Decision::Approve
    };
    let reply = if throw.lose_reply < behaviour.lose_reply_ratio { Reply::Lost } else { Reply::Sent };
    Then::Decide { decision, reply }
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::StdRng};

    use super::*;

    /// Loses to every ratio but 1.
    const LUCKY: Throw = Throw { error: 0.999, hang: 0.999, decline: 0.999, lose_reply: 0.999, jitter: 0.0 };

    fn then(behaviour: &Behaviour, method: Method) -> Then {
        decide(behaviour, method, &LUCKY).then
    }

    #[test]
    fn without_faults_a_method_gets_what_its_name_says() {
        let calm = Behaviour::default();
        let sent = |decision| Then::Decide { decision, reply: Reply::Sent };
        assert_eq!(then(&calm, Method::Approve), sent(Decision::Approve));
        assert_eq!(then(&calm, Method::Slow(Duration::from_secs(1))), sent(Decision::Approve));
        assert_eq!(then(&calm, Method::Decline), sent(Decision::Decline("card_declined")));
        assert_eq!(then(&calm, Method::LostReply), Then::Decide { decision: Decision::Approve, reply: Reply::Lost });
        assert_eq!(then(&calm, Method::LostRequest), Then::Vanish);
        assert_eq!(then(&calm, Method::Error(418)), Then::Fail { status: 418 });
    }

    #[test]
    fn a_ratio_of_one_always_strikes_and_a_ratio_of_zero_never() {
        let unlucky = Throw { error: 0.0, hang: 0.0, decline: 0.0, lose_reply: 0.0, jitter: 0.0 };
        let calm = decide(&Behaviour::default(), Method::Approve, &unlucky).then;
        assert_eq!(calm, Then::Decide { decision: Decision::Approve, reply: Reply::Sent });

        let of = |change: fn(&mut Behaviour)| {
            let mut behaviour = Behaviour::default();
            change(&mut behaviour);
            then(&behaviour, Method::Approve)
        };
        assert_eq!(of(|b| b.error_ratio = 1.0), Then::Fail { status: 500 });
        assert_eq!(of(|b| b.hang_ratio = 1.0), Then::Vanish);
        assert_eq!(
            of(|b| b.decline_ratio = 1.0),
            Then::Decide { decision: Decision::Decline("do_not_honor"), reply: Reply::Sent }
        );
        assert_eq!(of(|b| b.lose_reply_ratio = 1.0), Then::Decide { decision: Decision::Approve, reply: Reply::Lost });
    }

    #[test]
    fn the_methods_that_fail_on_purpose_do_so_whatever_the_ratios_are() {
        let all = Behaviour {
            error_ratio: 1.0,
            hang_ratio: 1.0,
            decline_ratio: 1.0,
            lose_reply_ratio: 1.0,
            ..Behaviour::default()
        };
        assert_eq!(then(&all, Method::LostReply), Then::Decide { decision: Decision::Approve, reply: Reply::Lost });
        assert_eq!(then(&all, Method::LostRequest), Then::Vanish);
        assert_eq!(then(&all, Method::Error(404)), Then::Fail { status: 404 });
    }

    #[test]
    fn delays_add_up() {
        let slow = Behaviour { latency_ms: 100, jitter_ms: 50, ..Behaviour::default() };
        assert_eq!(delay(&slow, Method::Error(500), 0.5), Duration::from_millis(125));
        let method = Method::Slow(Duration::from_millis(1_000));
        assert_eq!(delay(&slow, method, 0.5), Duration::from_millis(1_125));
        assert_eq!(decide(&slow, method, &Throw { jitter: 0.5, ..LUCKY }).jitter, 0.5);
    }

    #[test]
    fn the_same_seed_throws_the_same_dice_and_a_ratio_is_met() {
        let throws = |seed| {
            let mut dice = StdRng::seed_from_u64(seed);
            (0..10_000).map(|_| Throw::of(&mut dice)).collect::<Vec<_>>()
        };
        assert_eq!(throws(7), throws(7));
        assert_ne!(throws(7), throws(8));

        let behaviour = Behaviour { error_ratio: 0.3, ..Behaviour::default() };
        let failed = throws(7)
            .iter()
            .filter(|throw| matches!(decide(&behaviour, Method::Approve, throw).then, Then::Fail { .. }))
            .count();
        assert!((2_800..=3_200).contains(&failed), "{failed} of 10 000");
    }
}
