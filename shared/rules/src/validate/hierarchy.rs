//! Each hop outlasts what it waits for, by the reserve at least: gateway > order > payment > provider.

use std::time::Duration;

use super::Report;
use crate::{Rules, path::key};

pub(super) fn check(rules: &Rules, report: &mut Report) {
    let reserve = rules.network.reserve;
    let downstream = &rules.downstream;
    let mut inside = |path: &str, inner: Duration, before: &[(&str, Duration)], outer_path: &str, outer: Duration| {
        let taken: Duration = before.iter().map(|(_, time)| *time).sum();
        let reserves = reserve.saturating_mul(1 + u32::try_from(before.len()).unwrap_or(u32::MAX));
        if inner.saturating_add(taken).saturating_add(reserves) > outer {
            let after: String = before.iter().map(|(path, time)| format!(" after {path} ({time:?})")).collect();
            let reason =
                format!("{inner:?}{after} and {reserves:?} of reserve do not fit into {outer_path} ({outer:?})");
            report.refuse(path, reason);
        }
    };

    let gateway = rules.gateway.timeout;
    for (name, route) in &rules.route {
        let path = format!("route.{}.timeout_ms", key(name));
        inside(&path, route.timeout, &[], "gateway.timeout_ms", gateway);
    }

    let order = format!("route.{}.timeout_ms", key(Rules::PLACE_ORDER));
    let place_order = rules.place_order_route().timeout;
    // What comes one after the other has to fit together: stock, coupon, charge.
    let first = [
        ("downstream.inventory.timeout_ms", downstream.inventory.timeout),
        ("downstream.coupon.timeout_ms", downstream.coupon.timeout),
    ];
    inside("downstream.payment.timeout_ms", downstream.payment.timeout, &first, &order, place_order);
    // Another run must not take an order over while the first one may still be at it.
    inside(&order, place_order, &[], "idempotency.lease_ms", rules.idempotency.lease);

    let provider = "downstream.provider.timeout_ms";
    let charge = format!("route.{}.timeout_ms", key(Rules::CHARGE));
    let charge_time = rules.charge_route().timeout;
    inside(provider, downstream.provider.timeout, &[], "downstream.payment.timeout_ms", downstream.payment.timeout);
    inside(provider, downstream.provider.timeout, &[], &charge, charge_time);
    // The backup is tried only when the primary was not reached, which is known once the connection has failed.
    let connecting = [("downstream.provider.connect_timeout_ms", downstream.provider.connect_timeout)];
    let backup = downstream.provider_backup.timeout;
    inside("downstream.provider_backup.timeout_ms", backup, &connecting, &charge, charge_time);
}
