//! Random histories of a small shop: first in a model that is nothing but the domain, then in PostgreSQL, which must
//! agree with the model at every step.

use std::{collections::BTreeMap, time::Duration};

use contracts::{
    OrderId,
    inventory::{
        Reservation,
        ReservationState::{Committed, Held, Released},
        Restock,
    },
    order::{ItemRequest, OrderItem},
    validate::Code,
};
use inventory::{
    Error,
    domain::{Command, Decision, Level, Movement, decide},
    workflow,
};
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};
use resilience::Deadline;

use crate::shop::Shop;

const SKUS: [&str; 3] = ["MODEL-A", "MODEL-B", "MODEL-C"];
const ORDERS: usize = 6;
const AT_FIRST: i64 = 5;

#[derive(Debug, Clone)]
enum Step {
    /// Units of each SKU, of which some are zero.
    Reserve(usize, [i64; 3]),
    Commit(usize),
    Release(usize),
    Restock(usize, i64),
}

fn history() -> impl Strategy<Value = Vec<Step>> {
    let order = 0..ORDERS;
    let units = [0..4i64, 0..4i64, 0..4i64].prop_filter("something is wanted", |units| units.iter().any(|n| *n > 0));
    let step = prop_oneof![
        3 => (order.clone(), units).prop_map(|(order, units)| Step::Reserve(order, units)),
        2 => order.clone().prop_map(Step::Commit),
        2 => order.prop_map(Step::Release),
        1 => (0..SKUS.len(), 1..4i64).prop_map(|(sku, units)| Step::Restock(sku, units)),
    ];
    prop::collection::vec(step, 1..60)
}

fn items(units: [i64; 3]) -> Vec<ItemRequest> {
    let wanted = SKUS.iter().zip(units).filter(|(_, quantity)| *quantity > 0);
    wanted.map(|(sku, quantity)| ItemRequest { sku: (*sku).to_owned(), quantity }).collect()
}

struct Model {
    levels: BTreeMap<String, Level>,
    orders: Vec<(OrderId, Option<Reservation>)>,
}

impl Model {
    fn new() -> Self {
        Self {
            levels: SKUS.iter().map(|sku| ((*sku).to_owned(), Level::delivered(AT_FIRST))).collect(),
            orders: (0..ORDERS).map(|_| (OrderId::generate(), None)).collect(),
        }
    }

    /// Whether the step had a place in this history; a movement that the rules forbid fails the test.
    fn apply(&mut self, step: &Step) -> bool {
        match step {
            Step::Restock(sku, units) => {
                let level = self.levels.get_mut(SKUS[*sku]).unwrap();
                *level = level.restocked(*units).unwrap();
                true
            }
            Step::Reserve(order, units) => self.command(*order, Command::Reserve(&items(*units))),
            Step::Commit(order) => self.command(*order, Command::Commit),
            Step::Release(order) => self.command(*order, Command::Release),
        }
    }

    fn command(&mut self, order: usize, command: Command<'_>) -> bool {
        let (order_id, current) = self.orders[order].clone();
        let Ok(decision) = decide(current.as_ref(), command) else { return false };
        self.orders[order].1 = match (decision, command) {
            (Decision::Stands, _) => current,
            (Decision::Hold, Command::Reserve(items)) => {
                if items.iter().any(|item| self.levels[&item.sku].available() < item.quantity) {
                    return false;
                }
                let line = |item: &ItemRequest| OrderItem {
                    sku: item.sku.clone(),
                    name: item.sku.clone(),
                    quantity: item.quantity,
                    unit_price_minor: 100,
                };
                let items: Vec<OrderItem> = items.iter().map(line).collect();
                self.shift(&items, Movement::Reserve);
                Some(Reservation { order_id, state: Held, items, currency: contracts::Currency::USD })
            }
            (Decision::Move { to, movement }, _) => current.map(|current| {
                self.shift(&current.items, movement);
                Reservation { state: to, ..current }
            }),
            (Decision::Bury | Decision::Hold, _) => {
                Some(Reservation { order_id, state: Released, items: vec![], currency: contracts::Currency::USD })
            }
        };
        true
    }

    fn shift(&mut self, items: &[OrderItem], movement: Movement) {
        for item in items {
            let level = self.levels.get_mut(&item.sku).unwrap();
            *level = level.moved(movement, item.quantity).unwrap();
        }
    }

    fn units(&self, sku: &str, state: contracts::inventory::ReservationState) -> i64 {
        let reservations = self.orders.iter().filter_map(|(_, reservation)| reservation.as_ref());
        let items = reservations.filter(|reservation| reservation.state == state).flat_map(|r| &r.items);
        items.filter(|item| item.sku == sku).map(|item| item.quantity).sum()
    }
}

proptest! {
    #[test]
    fn in_any_history_reserved_units_are_held_ones_and_sold_units_committed_ones(history in history()) {
        let mut model = Model::new();
        for step in &history {
            model.apply(step);
            for (sku, level) in &model.levels {
                prop_assert_eq!(level.reserved, model.units(sku, Held));
                prop_assert_eq!(level.sold, model.units(sku, Committed));
                prop_assert_eq!(level.received, level.on_hand + level.sold);
            }
        }
    }
}

#[tokio::test]
async fn the_database_agrees_with_the_model_at_every_step_of_random_histories() {
    let shop = Shop::open().await;
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRunner::deterministic().rng().clone());
    for sku in SKUS {
        shop.sell(sku, AT_FIRST).await;
    }
    for round in 0..10 {
        // Every round begins with new orders on untouched stock.
        sqlx::query(
            "with gone as (delete from reservation_items)
             update stock set on_hand = $1, reserved = 0, sold = 0, received = $1 where sku like 'MODEL-%'",
        )
        .bind(AT_FIRST)
        .execute(shop.database.pool())
        .await
        .unwrap();
        let history = history().new_tree(&mut runner).unwrap().current();
        let mut model = Model::new();
        for (number, step) in history.iter().enumerate() {
            let expected = model.apply(step);
            let happened = run(&shop, &model, step, &format!("{round}-{number}")).await;
            assert_eq!(happened, expected, "round {round}, step {number} of {history:?}");
            for (sku, level) in &model.levels {
                assert_eq!(shop.units(sku).await, (level.on_hand, level.reserved, level.sold), "{step:?}");
            }
        }
    }
}

async fn run(shop: &Shop, model: &Model, step: &Step, reference: &str) -> bool {
    let deadline = Deadline::after(Duration::from_secs(10));
    let outcome = match step {
        Step::Reserve(order, units) => {
            workflow::reserve(&shop.database, deadline, model.orders[*order].0, &items(*units)).await.map(drop)
        }
        Step::Commit(order) => {
            workflow::settle_once(&shop.database, deadline, model.orders[*order].0, Command::Commit).await.map(drop)
        }
        Step::Release(order) => {
            workflow::settle_once(&shop.database, deadline, model.orders[*order].0, Command::Release).await.map(drop)
        }
        Step::Restock(sku, quantity) => {
            let sku: Code = SKUS[*sku].parse().unwrap();
            let delivery = Restock { quantity: *quantity, reference: reference.to_owned() };
            workflow::restock(&shop.database, deadline, &sku, &delivery).await.map(drop)
        }
    };
    match outcome {
        Ok(()) => true,
        Err(Error::OutOfStock { .. } | Error::Reservation { .. }) => false,
        Err(other) => panic!("{step:?}: {other}"),
    }
}
