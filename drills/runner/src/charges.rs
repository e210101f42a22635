//! When the provider decided a charge, against when its client asked: whether anything was begun for somebody who had
//! stopped waiting.

use std::{collections::HashMap, time::Duration};

use anyhow::{Context, Result};
use chrono::{DateTime, Utc};
use contracts::{OrderId, provider::Ledger};
use load::{Answer, Kind};
use reqwest::Client;

use crate::{log::Charged, scenario::CHANNELS, stack::Stack};

/// The orders that clients were told of: when their request was due, and when by the clock it left.
#[derive(Debug, Default)]
pub struct Placed(HashMap<OrderId, (Duration, DateTime<Utc>)>);

impl Placed {
    pub fn note(&mut self, answer: &Answer) {
        let Some(order) = answer.order_id.filter(|_| answer.request.kind == Kind::PlaceOrder) else { return };
        let left = answer.at - answer.answered.saturating_sub(answer.sent);
        let first = self.0.entry(order).or_insert((answer.intended, left));
        if left < first.1 {
            *first = (answer.intended, left);
        }
    }

    fn charged(&self, ledger: &Ledger) -> impl Iterator<Item = Charged> {
        ledger.charges.iter().filter_map(|charge| {
            let (due, left) = *self.0.get(&charge.reference.parse().ok()?)?;
            // One clock: what seems to be before it is its resolution.
            Some(Charged { due, delay: (charge.at - left).to_std().unwrap_or_default() })
        })
    }
}

/// Of all charges at both channels.
pub async fn delays(client: &Client, stack: &Stack, placed: &Placed) -> Result<Vec<Charged>> {
    let mut all = Vec::new();
    for channel in CHANNELS {
        let answer = client.get(format!("{}/v1/ledger", stack.provider(channel))).send().await;
        let ledger: Ledger = answer.context("the provider does not answer")?.error_for_status()?.json().await?;
        all.extend(placed.charged(&ledger));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use contracts::{
        Currency,
        provider::{ChargeState, LedgerCharge},
    };

    use super::*;

    #[test]
    fn a_charge_is_as_late_as_it_is_after_the_first_request_for_its_order() {
        let (order, other) = (OrderId::generate(), OrderId::generate());
        let left = Utc::now();
        let placed = Placed(HashMap::from([(order, (Duration::from_secs(4), left))]));
        let charge = |reference: OrderId, ms| LedgerCharge {
            id: "c".into(),
            key: "k".into(),
            reference: reference.to_string(),
            amount_minor: 1,
            currency: Currency::USD,
            state: ChargeState::Approved,
            decline_code: None,
            at: left + TimeDelta::milliseconds(ms),
        };
        let ledger = Ledger { charges: vec![charge(order, 250), charge(other, 9), charge(order, -1)], refunds: vec![] };
        let delays: Vec<_> = placed.charged(&ledger).map(|c| (c.due.as_secs(), c.delay.as_millis())).collect();
        assert_eq!(delays, [(4, 250), (4, 0)]);
    }
}
