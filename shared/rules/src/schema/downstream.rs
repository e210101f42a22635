//! Callees: how long a call may take, how many at once and a second, when to leave off and when to try again.

use std::time::Duration;

use resilience::{
    breaker::{BreakerConfig, Window},
    bulkhead::BulkheadConfig,
    rate_limit::{LeakyBucketConfig, LimiterConfig, Quota},
    retry::RetryConfig,
};
use serde::{Deserialize, Serialize};

use super::ms;
use crate::millis;

/// One entry a callee, and one for each way of calling it that must not suffer from another: what asks after a charge
/// has to get through while charges do not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Downstreams {
    pub inventory: Downstream,
    /// Charges.
    pub payment: Downstream,
    /// Fences of attempts and questions after them.
    pub payment_status: Downstream,
    pub coupon: Downstream,
    pub recommendation: Downstream,
    /// Charges at the primary channel.
    pub provider: Downstream,
    /// Charges at the backup channel.
    pub provider_backup: Downstream,
    /// Questions after charges, and refunds, at either channel. Each channel has guards of its own by this rule.
    pub provider_status: Downstream,
    /// The whole ledger of either channel, likewise.
    pub provider_ledger: Downstream,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Downstream {
    /// The most time for one call with all its tries; what remains of the request's budget may be less.
    #[serde(rename = "timeout_ms", with = "millis")]
    pub timeout: Duration,
    /// The most time for one try.
    #[serde(rename = "attempt_timeout_ms", with = "millis")]
    pub attempt_timeout: Duration,
    /// For the TCP connection alone. Short, since a peer in the same network answers in about a millisecond.
    #[serde(rename = "connect_timeout_ms", with = "millis")]
    pub connect_timeout: Duration,
    /// How long an unused connection is kept: below the callee's keep-alive (75 s), so that we close first.
    #[serde(rename = "pool_idle_ms", with = "millis")]
    pub pool_idle: Duration,
    /// Connections kept. The bulkhead lies below it, else each call beyond it would open one and throw it away.
    pub pool: u32,
    pub bulkhead: BulkheadConfig,
    /// What we send at most, whatever comes in.
    pub limit: LimiterConfig,
    pub breaker: BreakerConfig,
    pub retry: RetryConfig,
    /// Whether the chain's purse goes out with a call, since the callee calls others. One that calls nobody cannot
    /// spend it, so it stays here, and a call that got no answer can still be tried again.
    pub passes_purse: bool,
}

impl Default for Downstream {
    fn default() -> Self {
        Self {
            timeout: ms(1_000),
            attempt_timeout: ms(1_000),
            connect_timeout: ms(200),
            pool_idle: ms(30_000),
            // Some kilobytes each; more than any bulkhead here.
            pool: 100,
            bulkhead: BulkheadConfig::default(),
            // Above what the routes let in; it is there for a loop gone wild.
            limit: LimiterConfig::TokenBucket(Quota::new(1_000.0, 1_500)),
            breaker: BreakerConfig { slow_threshold: ms(500), ..core_breaker() },
            retry: RetryConfig::default(),
            passes_purse: false,
        }
    }
}

/// For callees without whom no order is placed: a hundred calls are a third of a second at full rate, so one bad
/// moment does not open it; twenty are enough to judge by; half failing is more than chance; half a minute lets a
/// process restart; ten probes say more than one.
fn core_breaker() -> BreakerConfig {
    BreakerConfig {
        window: Window::Calls(100),
        minimum_calls: 20,
        failure_ratio: 0.5,
        slow_ratio: 0.6,
        open: ms(30_000),
        probes: 10,
        ..BreakerConfig::default()
    }
}

/// For those that can be done without: judged sooner, since leaving them out costs little, and tried again sooner,
/// since trying costs little too.
fn degradable_breaker() -> BreakerConfig {
    BreakerConfig {
        window: Window::Calls(60),
        failure_ratio: 0.6,
        open: ms(15_000),
        probes: 5,
        slow_threshold: ms(100),
        ..core_breaker()
    }
}

/// Calls at once. Arrivals a second × seconds that a healthy call takes × 2.
fn at_once(cap: u32) -> BulkheadConfig {
    BulkheadConfig { cap, max_waiting: cap, ..BulkheadConfig::default() }
}

fn retries(max_retries: u32) -> RetryConfig {
    RetryConfig { max_retries, ..RetryConfig::default() }
}

impl Default for Downstreams {
    fn default() -> Self {
        let degradable = Downstream {
            // Degradable: better no discount now than a slow order.
            timeout: ms(150),
            attempt_timeout: ms(150),
            breaker: degradable_breaker(),
            // 800 pages a second × 10 ms × 2 = 16, and the orders' coupons.
            bulkhead: BulkheadConfig { wait: ms(20), ..at_once(20) },
            ..Downstream::default()
        };
        // A charge is never tried again in line: two of 1.5 s do not fit into 2 s, and the first may have been made.
        let charges = Downstream { retry: retries(0), ..Downstream::default() };
        let slow = |slow_threshold, breaker| BreakerConfig { slow_threshold, ..breaker };
        Self {
            inventory: Downstream {
                // A reservation is one short transaction; 400 ms leave room for a lock queue on a hot product, or for
                // a second try after a first of 150 ms.
                timeout: ms(400),
                attempt_timeout: ms(150),
                // 300 orders a second × 20 ms × 2 = 12, and 800 pages × 10 ms × 2 = 16.
                bulkhead: at_once(30),
                breaker: slow(ms(100), core_breaker()),
                limit: LimiterConfig::TokenBucket(Quota::new(1_200.0, 1_800)),
                ..Downstream::default()
            },
            payment: Downstream {
                // Longer than the provider's cap by the time that it takes to record the outcome.
                timeout: ms(2_000),
                attempt_timeout: ms(2_000),
                // 40 at 100 ms carry 400 a second, and 50 ms let a burst pass.
                bulkhead: BulkheadConfig { wait: ms(50), ..at_once(40) },
                // What fails here is in doubt afterwards and has to be reconciled: left off sooner than the others.
                breaker: slow(ms(1_000), BreakerConfig { failure_ratio: 0.3, ..core_breaker() }),
                // One: a connection that was refused is worth another try, and time for more there is not.
                retry: retries(1),
                passes_purse: true,
                ..Downstream::default()
            },
            payment_status: Downstream {
                // One statement at the callee; a fence waits for a row lock at most.
                timeout: ms(500),
                attempt_timeout: ms(250),
                // A few for every charge in doubt.
                bulkhead: at_once(10),
                breaker: slow(ms(200), core_breaker()),
                limit: LimiterConfig::TokenBucket(Quota::new(100.0, 100)),
                ..Downstream::default()
            },
            // One: within 150 ms there is time for another try only if the first failed at once.
            coupon: Downstream { retry: retries(1), ..degradable.clone() },
            // None: there is an answer in the cache, and it is never waited for.
            recommendation: Downstream { retry: retries(0), ..degradable },
            provider: Downstream {
                timeout: ms(1_500),
                attempt_timeout: ms(1_500),
                // 300 charges a second × 100 ms × 2.
                bulkhead: at_once(60),
                breaker: slow(ms(1_000), core_breaker()),
                ..charges.clone()
            },
            provider_backup: Downstream {
                timeout: ms(1_500),
                attempt_timeout: ms(1_500),
                bulkhead: at_once(20),
                breaker: slow(ms(1_000), core_breaker()),
                // The backup is the smaller one, and wants its charges evenly spaced: 100 a second keep its 20 busy.
                limit: LimiterConfig::LeakyBucket(LeakyBucketConfig { per_second: 100.0, max_wait: ms(50) }),
                ..charges
            },
            provider_status: Downstream {
                timeout: ms(1_000),
                attempt_timeout: ms(500),
                bulkhead: at_once(10),
                breaker: slow(ms(300), core_breaker()),
                // A provider in trouble is not asked after its charges as fast as they went wrong.
                limit: LimiterConfig::LeakyBucket(LeakyBucketConfig { per_second: 20.0, max_wait: ms(200) }),
                ..Downstream::default()
            },
            provider_ledger: Downstream {
                // A day's charges are some megabytes, and nobody waits for them.
                timeout: ms(10_000),
                attempt_timeout: ms(10_000),
                // One replica reads, and one more that believes that it does.
                bulkhead: at_once(2),
                breaker: slow(ms(8_000), core_breaker()),
                limit: LimiterConfig::TokenBucket(Quota::new(1.0, 2)),
                ..Downstream::default()
            },
        }
    }
}

impl Downstreams {
    #[must_use]
    pub fn all(&self) -> [(&'static str, &Downstream); 9] {
        [
            ("inventory", &self.inventory),
            ("payment", &self.payment),
            ("payment_status", &self.payment_status),
            ("coupon", &self.coupon),
            ("recommendation", &self.recommendation),
            ("provider", &self.provider),
            ("provider_backup", &self.provider_backup),
            ("provider_status", &self.provider_status),
            ("provider_ledger", &self.provider_ledger),
        ]
    }
}
