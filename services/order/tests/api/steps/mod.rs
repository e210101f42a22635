//! The step harness: every journey of an order, failing at each call and at each write, dying at each crash point and
//! resumed, with each message delivered twice and each request sent again. What is checked is not what an order says but
//! where its money and its goods are.

mod answers;
mod audit;
mod bench;
mod hearing;
mod siblings;

use chassis::crash::{Died, dies_at};
use contracts::order::OrderStatus;
use order::workflow::CRASH_POINTS;
use testkit::failing_write;

use bench::{Bench, Ticket, ticket};
use siblings::{Books, FAILURES, Provider};

/// What a client and its order go through.
struct Journey {
    name: &'static str,
    coupon: bool,
    /// The largest total that may be deferred.
    defer_max_minor: i64,
    /// How the siblings are.
    siblings: fn(&mut Books),
    /// Where an earlier run died.
    died_before: Option<&'static str>,
    cancels: Cancels,
    /// Whether the broker loses what was said of the first steps.
    loses: bool,
    /// How the order ends when nothing else goes wrong.
    ends: OrderStatus,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cancels {
    Never,
    /// As soon as the client has its first answer.
    AtOnce,
    /// Once everybody has heard of the order.
    Late,
}

const PLAIN: Journey = Journey {
    name: "a plain order",
    coupon: false,
    defer_max_minor: 0,
    siblings: |_| {},
    died_before: None,
    cancels: Cancels::Never,
    loses: false,
    ends: OrderStatus::Confirmed,
};

fn journeys() -> Vec<Journey> {
    use Cancels::{AtOnce, Late};
    use OrderStatus::{Cancelled, Confirmed, Rejected};
    let away: fn(&mut Books) = |books| books.provider = Provider::Away;
    let lost_reply: fn(&mut Books) = |books| books.provider = Provider::LosesReplies;
    let lost_request: fn(&mut Books) = |books| books.provider = Provider::LosesRequests;
    let no_coupons: fn(&mut Books) = |books| books.coupon_away = true;
    vec![
        PLAIN,
        Journey { name: "with a coupon", coupon: true, ..PLAIN },
        Journey { name: "with a pending coupon", coupon: true, siblings: no_coupons, ..PLAIN },
        Journey { name: "out of stock", siblings: |books| books.out_of_stock = true, ends: Rejected, ..PLAIN },
        Journey {
            name: "declined, with a coupon",
            coupon: true,
            siblings: |books| books.provider = Provider::Declines,
            ends: Rejected,
            ..PLAIN
        },
        Journey { name: "a lost reply", siblings: lost_reply, ..PLAIN },
        Journey { name: "a lost request", siblings: lost_request, ends: Rejected, ..PLAIN },
        Journey {
            name: "a lost reply and a lost message",
            siblings: lost_reply,
            loses: true,
            ends: Confirmed,
            ..PLAIN
        },
        Journey { name: "refused without the provider", siblings: away, ends: Rejected, ..PLAIN },
        Journey { name: "deferred without the provider", siblings: away, defer_max_minor: 10_000, ..PLAIN },
        Journey { name: "cancelled at once", coupon: true, cancels: AtOnce, ends: Cancelled, ..PLAIN },
        Journey { name: "cancelled late", coupon: true, cancels: Late, ends: Cancelled, ..PLAIN },
        Journey {
            name: "cancelled after its coupon was paid out",
            coupon: true,
            siblings: no_coupons,
            cancels: Late,
            ends: Cancelled,
            ..PLAIN
        },
        Journey {
            name: "cancelled while its coupon is pending",
            coupon: true,
            siblings: no_coupons,
            cancels: AtOnce,
            ends: Cancelled,
            ..PLAIN
        },
        Journey {
            name: "cancelled after a lost reply",
            siblings: lost_reply,
            cancels: AtOnce,
            ends: Cancelled,
            ..PLAIN
        },
        Journey {
            name: "cancelled while deferred",
            siblings: away,
            defer_max_minor: 10_000,
            cancels: AtOnce,
            ends: Cancelled,
            ..PLAIN
        },
        Journey { name: "confirmed, and the broker forgets", coupon: true, loses: true, ..PLAIN },
        Journey { name: "cancelled, and the broker forgets", cancels: AtOnce, loses: true, ends: Cancelled, ..PLAIN },
        Journey {
            name: "deferred, and the broker forgets",
            siblings: away,
            defer_max_minor: 10_000,
            loses: true,
            ends: Rejected,
            ..PLAIN
        },
        Journey { name: "left when it was made", died_before: Some("order.created"), ..PLAIN },
        Journey { name: "left with its intent", died_before: Some("order.charge_intended"), ends: Rejected, ..PLAIN },
        Journey { name: "left with its answer", died_before: Some("order.charge_answered"), ..PLAIN },
    ]
}

impl Journey {
    async fn begin(&self, bench: &Bench) -> Ticket {
        bench.clear().await;
        (self.siblings)(&mut bench.siblings.books());
        let ticket = ticket(self.coupon);
        if let Some(point) = self.died_before {
            assert_eq!(dies_at(point, bench.place(&ticket)).await, Err(Died), "{}: {point} is not passed", self.name);
            bench.expire_leases().await;
        }
        ticket
    }

    /// To the end.
    async fn run(&self, bench: &Bench, ticket: &Ticket) {
        if self.died_before.is_none() {
            bench.place(ticket).await;
        }
        if self.cancels == Cancels::AtOnce {
            bench.cancel_all().await;
        }
        if self.loses {
            bench.lose().await;
        }
        bench.settle(ticket).await;
        if self.cancels == Cancels::Late {
            bench.cancel_all().await;
            bench.cancel_all().await;
            bench.settle(ticket).await;
        }
    }

    async fn bench(&self) -> Bench {
        Bench::start(self.defer_max_minor).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn undisturbed_each_journey_ends_as_it_should() {
    for journey in journeys() {
        let bench = journey.bench().await;
        let ticket = journey.begin(&bench).await;
        journey.run(&bench, &ticket).await;
        bench.check(journey.name).await;
        let orders = bench.orders().await;
        assert_eq!(orders[0].status, journey.ends, "{}: {orders:#?}", journey.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_journey_survives_the_failure_of_any_one_call() {
    for journey in journeys() {
        let bench = journey.bench().await;
        let ticket = journey.begin(&bench).await;
        journey.run(&bench, &ticket).await;
        let calls = bench.siblings.books().calls;
        for nth in 1..=calls {
            for failure in FAILURES {
                let what = format!("{}, call {nth} of {calls}: {failure:?}", journey.name);
                let ticket = journey.begin(&bench).await;
                bench.siblings.books().failing = Some((nth, failure));
                journey.run(&bench, &ticket).await;
                bench.check(&what).await;
            }
        }
    }
}

/// What the workflow writes; not what the recoverer notes for itself.
const WRITES: [&str; 7] = [
    "insert or delete or update of outcome on idempotency_keys",
    "insert or update of version on orders",
    "insert on order_items",
    "insert on order_history",
    "insert or update on refunds",
    "insert on inbox",
    "insert on outbox",
];

#[tokio::test(flavor = "multi_thread")]
async fn each_journey_survives_the_failure_of_any_one_write() {
    // Between them they write everything that there is to write.
    let telling = [
        "with a pending coupon",
        "declined, with a coupon",
        "a lost reply",
        "refused without the provider",
        "cancelled after a lost reply",
        "cancelled while deferred",
    ];
    let journeys = journeys().into_iter().filter(|journey| telling.contains(&journey.name)).collect::<Vec<_>>();
    assert_eq!(journeys.len(), telling.len());
    for journey in journeys {
        let bench = journey.bench().await;
        for number in 1.. {
            let ticket = journey.begin(&bench).await;
            failing_write::arm(bench.pool(), &WRITES, number).await;
            journey.run(&bench, &ticket).await;
            let made = failing_write::count(bench.pool()).await;
            failing_write::disarm(bench.pool()).await;
            bench.check(&format!("{}, write {number} of {made} failed", journey.name)).await;
            if made < number {
                assert!(number > 5, "{} writes next to nothing", journey.name);
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_journey_is_resumed_after_a_crash_at_any_point() {
    let mut passed = std::collections::BTreeSet::new();
    for journey in journeys() {
        let bench = journey.bench().await;
        for point in CRASH_POINTS {
            let what = format!("{}, crash at {point}", journey.name);
            let ticket = journey.begin(&bench).await;
            if dies_at(point, journey.run(&bench, &ticket)).await == Err(Died) {
                passed.insert(*point);
                bench.expire_leases().await;
                bench.settle(&ticket).await;
            }
            bench.check(&what).await;
        }
    }
    let never: Vec<_> = CRASH_POINTS.iter().filter(|point| !passed.contains(**point)).collect();
    assert_eq!(never, Vec::<&&str>::new(), "no journey passes these points");
}

#[test]
fn every_crash_point_is_in_the_drill_that_goes_through_them() {
    let drill = concat!(env!("CARGO_MANIFEST_DIR"), "/../../drills/scenarios/crash-points.toml");
    let drill = std::fs::read_to_string(drill).unwrap();
    let missing: Vec<_> = CRASH_POINTS.iter().filter(|point| !drill.contains(&format!("\"{point}\""))).collect();
    assert_eq!(missing, Vec::<&&str>::new());
}
