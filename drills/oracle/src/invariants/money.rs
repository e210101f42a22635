//! (1) to (3): the provider's ledgers against what orders say.
//!
//! A ledger is the one place that cannot be argued with: an approved charge less its refunds is money that the shop
//! has, whatever any service believes.

use std::collections::{BTreeMap, HashMap};

use contracts::{
    payment::{AttemptState, Channel, RefundState},
    provider::ChargeState,
};
use uuid::Uuid;

use crate::{Verdict, World, report::Finding};

/// An approved charge, and what went back of it.
#[derive(Debug, Clone)]
pub struct Charged {
    /// The provider's id of it, which only one channel knows.
    pub id: String,
    pub channel: usize,
    pub amount_minor: i64,
    pub refunded_minor: i64,
}

impl Charged {
    fn is(&self, channel: &str, provider_ref: &str) -> bool {
        Channel::ALL.get(self.channel).is_some_and(|own| own.as_str() == channel) && self.id == provider_ref
    }

    /// Whether there is still money of it with the shop.
    #[must_use]
    pub fn open(&self) -> bool {
        self.amount_minor > self.refunded_minor
    }
}

/// The charges of every order.
#[derive(Debug, Default)]
pub struct Books {
    by_order: BTreeMap<Uuid, Vec<Charged>>,
    /// What fits no order, and what no order explains.
    odd: Vec<Finding>,
}

impl Books {
    #[must_use]
    pub fn of(world: &World) -> Self {
        let attempts: HashMap<Uuid, Uuid> =
            world.orders.iter().filter_map(|(id, order)| Some((order.attempt?, *id))).collect();
        let mut books = Self::default();
        for (channel, ledger) in world.ledgers.iter().enumerate() {
            let mut refunds: HashMap<&str, i64> = HashMap::new();
            for refund in &ledger.refunds {
                *refunds.entry(&refund.charge_id).or_default() += refund.amount_minor;
            }
            for charge in ledger.charges.iter().filter(|charge| charge.state == ChargeState::Approved) {
                let subject = || format!("charge {}", charge.id);
                let charged = Charged {
                    id: charge.id.clone(),
                    channel,
                    amount_minor: charge.amount_minor,
                    refunded_minor: refunds.get(charge.id.as_str()).copied().unwrap_or_default(),
                };
                if charged.refunded_minor > charged.amount_minor {
                    let what = format!("{} of {} came back", charged.refunded_minor, charged.amount_minor);
                    books.odd.push(Finding::new(subject(), what));
                }
                match charge.key.parse().ok().and_then(|attempt: Uuid| attempts.get(&attempt)) {
                    Some(order) if charge.reference == order.to_string() => {
                        books.by_order.entry(*order).or_default().push(charged);
                    }
                    Some(order) => {
                        let what = format!("its attempt is order {order}'s, it says {}", charge.reference);
                        books.odd.push(Finding::new(subject(), what));
                        books.by_order.entry(*order).or_default().push(charged);
                    }
                    None if charged.open() => {
                        let what = format!("no order has its attempt {}", charge.key);
                        books.odd.push(Finding::new(subject(), what));
                    }
                    None => {}
                }
            }
        }
        books
    }

    #[must_use]
    pub fn of_order(&self, order: Uuid) -> &[Charged] {
        self.by_order.get(&order).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether a person looks at a refund of the order, or of a charge of it that was one too many.
    #[must_use]
    pub fn in_review(&self, world: &World, order: Uuid) -> bool {
        world.refunds.iter().filter(|refund| refund.is(RefundState::Review)).any(|refund| {
            let of_charge = |charge: &Charged| charge.is(&refund.channel, &refund.provider_ref);
            refund.order_id == Some(order) || self.of_order(order).iter().any(of_charge)
        })
    }

    /// What the shop has for an order.
    fn paid(&self, order: Uuid) -> i64 {
        self.of_order(order).iter().map(|charge| charge.amount_minor.saturating_sub(charge.refunded_minor)).sum()
    }

    fn open(&self, order: Uuid) -> usize {
        self.of_order(order).iter().filter(|charge| charge.open()).count()
    }
}

/// (1) Charged less refunded is what the order says is paid.
#[must_use]
pub fn paid_is_charged(world: &World, books: &Books) -> Verdict {
    let mut found = books.odd.clone();
    let mut apart = Vec::new();
    let settled = || world.orders.iter().filter(|(_, order)| order.settled());
    for (id, order) in settled() {
        if books.in_review(world, *id) {
            apart.push(Finding::order(id, "a refund of it is in review"));
            continue;
        }
        let owed = if order.confirmed() { order.total_minor.saturating_sub(order.refunded_minor) } else { 0 };
        let paid = books.paid(*id);
        if paid != owed {
            found.push(Finding::order(id, format!("{} and {owed} to pay, the ledgers say {paid}", order.status)));
        }
    }
    for attempt in world.attempts.values().filter(|attempt| attempt.is(AttemptState::Approved)) {
        let charges = attempt.order_id.map(|order| books.of_order(order)).unwrap_or_default();
        if !charges.iter().any(|charge| Some(&charge.id) == attempt.provider_ref.as_ref()) {
            let what = format!("approved by charge {:?}, which no ledger has", attempt.provider_ref);
            found.push(Finding::new(format!("attempt {}", attempt.id), what));
        }
    }
    Verdict::new(1, "charged less refunded is what the order says is paid", settled().count())
        .with(found)
        .with_apart(apart)
}

/// (2) No confirmed order without exactly one unrefunded charge.
#[must_use]
pub fn confirmed_has_one_charge(world: &World, books: &Books) -> Verdict {
    let confirmed = || world.orders.iter().filter(|(_, order)| order.confirmed());
    let found = confirmed().filter_map(|(id, _)| match books.open(*id) {
        1 => None,
        _ if books.in_review(world, *id) => None,
        count => Some(Finding::order(id, format!("confirmed, with {count} charges that are not refunded"))),
    });
    Verdict::new(2, "a confirmed order has exactly one unrefunded charge", confirmed().count()).with(found.collect())
}

/// (3) No dead order with an unrefunded charge.
#[must_use]
pub fn dead_has_none(world: &World, books: &Books) -> Verdict {
    let dead = world.orders.values().filter(|order| order.dead()).count();
    Verdict::new(3, "a dead order has no unrefunded charge", dead).with(to_go_back(world, books))
}

/// Money of dead orders that the shop still has.
fn to_go_back(world: &World, books: &Books) -> Vec<Finding> {
    let dead = world.orders.iter().filter(|(_, order)| order.dead());
    dead.filter_map(|(id, order)| match books.open(*id) {
        0 => None,
        _ if books.in_review(world, *id) => None,
        count => Some(Finding::order(id, format!("{}, with {count} charges that are not refunded", order.status))),
    })
    .collect()
}

/// Money that payment finds and gives back by itself: charges of dead orders, and second ones of living orders.
#[must_use]
pub fn under_way(world: &World, books: &Books) -> Vec<Finding> {
    let mut found = to_go_back(world, books);
    for (id, _) in world.orders.iter().filter(|(_, order)| order.confirmed()) {
        let count = books.open(*id);
        if count > 1 && !books.in_review(world, *id) {
            found.push(Finding::order(id, format!("{} charges more than one to give back", count - 1)));
        }
    }
    found
}
