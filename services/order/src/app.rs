//! The only place where the service's parts are constructed.

use std::sync::Arc;

use anyhow::Context;
use chassis::{App, Degradable, Downstream, Lifecycle, Wiring, downstream};
use contracts::topic::{COUPONS, PAYMENTS};
use durable::{Database, inbox, outbox::Outbox};
use events::{Consumer, ConsumerConfig, Relay, RelayConfig};
use rules::Degrade;
use serde_json::json;

use crate::{
    config::Config,
    downstream::{
        coupon::Coupon, inventory::Inventory, payment::Payment, products::Products, recommendation::Recommendation,
        snapshots::Snapshots,
    },
    events::{GROUP, Outcomes},
    http::{self, Api},
    jobs, meters,
    store::MIGRATIONS,
    workflow::{Changes, Workflow},
};

/// Which rule guards a callee.
type Rule = fn(&rules::Downstreams) -> &rules::Downstream;

/// What requests, messages and jobs work with.
pub struct Parts {
    pub database: Database,
    pub outbox: Outbox,
    pub workflow: Arc<Workflow>,
    pub products: Arc<Products>,
    pub admission: Degradable,
    pub callees: [Downstream; 5],
}

/// The parts, without anything that runs by itself.
pub async fn parts(config: &Config, wiring: &Wiring, lifecycle: &Lifecycle) -> anyhow::Result<Parts> {
    let rules = &wiring.rules.handle;
    let database = chassis::database::open(wiring, config.database_url.clone(), &MIGRATIONS).await?;
    let outbox = Outbox::new(database.pool().clone());

    let token = wiring.credentials.own_token();
    let callee = |name, url: &str, rule: Rule| Downstream::live(name, url, Some(token), rules, rule, lifecycle);
    let inventory = callee("inventory", &config.inventory_url, |rules| &rules.inventory)?;
    let charges = callee("payment", &config.payment_url, |rules| &rules.payment)?;
    let status = callee("payment_status", &config.payment_url, |rules| &rules.payment_status)?;
    let coupon = callee("coupon", &config.coupon_url, |rules| &rules.coupon)?;
    let recommendation = callee("recommendation", &config.recommendation_url, |rules| &rules.recommendation)?;
    let callees = [&inventory, &charges, &status, &coupon, &recommendation].map(Clone::clone);
    let degradable = |feature| Degradable::live(feature, rules, lifecycle);
    let inventory = Inventory(inventory);
    let redis = cache::connect_lazily(&config.redis_url).context("REDIS_URL")?;
    let snapshots = Snapshots::new(redis, config.redis_key_prefix.clone(), rules);
    let products = Arc::new(Products::new(inventory.clone(), snapshots, rules, degradable(Degrade::AVAILABILITY)));
    let admission = degradable(Degrade::ADMISSION);
    let workflow = Arc::new(Workflow {
        inventory,
        payment: Payment::new(charges, status, rules, degradable(Degrade::PAYMENT)),
        coupon: Coupon::new(coupon, degradable(Degrade::COUPON)),
        recommendation: Arc::new(Recommendation::new(recommendation, rules, degradable(Degrade::RECOMMENDATION))),
        database: database.clone(),
        outbox: outbox.clone(),
        rules: rules.clone(),
        changes: Changes::default(),
    });
    Ok(Parts { database, outbox, workflow, products, admission, callees })
}

pub async fn build(config: Config, wiring: Wiring, lifecycle: Lifecycle) -> anyhow::Result<App> {
    let Parts { database, outbox, workflow, products, admission, callees } =
        parts(&config, &wiring, &lifecycle).await?;
    let rules = &wiring.rules.handle;
    let messaging = &wiring.rules.rules.messaging;
    let consuming = ConsumerConfig::in_flight(messaging.max_in_flight, messaging.max_in_flight_per_partition);

    let relay_rules = rules.clone();
    let relay = Relay::live(outbox, config.kafka.clone(), move || {
        let messaging = &relay_rules.current().messaging;
        RelayConfig {
            poll_interval: messaging.relay_poll,
            lease_ttl: messaging.relay_lease,
            retention: messaging.outbox_retention,
            ..RelayConfig::default()
        }
    });
    lifecycle.spawn_background("relay", |stop| relay.run(stop));
    let consumer = Consumer::new(config.kafka, GROUP, &[PAYMENTS, COUPONS], Outcomes(workflow.clone()), consuming);
    lifecycle.spawn_background("outcomes", |stop| async move {
        if let Err(error) = consumer.run(stop).await {
            tracing::error!(%error, "the consumer cannot run");
        }
    });
    lifecycle.spawn_background("recover", |stop| jobs::recover::run(workflow.clone(), stop));
    lifecycle.spawn_background("walk", |stop| jobs::walk::run(workflow.clone(), stop));
    lifecycle.spawn_background("prune", |stop| jobs::prune::run(workflow.clone(), stop));
    let inbox_retention = {
        let rules = rules.clone();
        move || rules.current().messaging.inbox_retention
    };
    lifecycle
        .spawn_background("inbox pruning", |stop| inbox::keep_pruned(database.pool().clone(), inbox_retention, stop));
    let pool = database.clone();
    lifecycle.measured_by(move || pool.measure());
    lifecycle.spawn_background("gauges", |stop| jobs::gauges::run(workflow.clone(), stop));

    let api = Api { workflow: workflow.clone(), products: products.clone(), admission: admission.clone(), lifecycle };
    let (ready, closing) = (database.clone(), database.clone());
    Ok(App {
        routes: Arc::new(move |routes| http::routes(&api, routes)),
        openapi: http::openapi::document(),
        ready: Arc::new(move || {
            let database = ready.clone();
            Box::pin(async move { database.ping().await.map_err(|error| error.to_string()) })
        }),
        state: Arc::new(move || {
            let (connections, idle) = database.connections();
            json!({
                "database": {"connections": connections, "idle": idle},
                "downstream": downstream::snapshots(&callees),
                "degrade": [
                    workflow.recommendation.switch().snapshot(),
                    workflow.coupon.switch().snapshot(),
                    workflow.payment.switch().snapshot(),
                    products.availability().snapshot(),
                    admission.snapshot(),
                ],
                "last_known": {
                    "products": products.snapshots()[0],
                    "product_pages": products.snapshots()[1],
                    "shared_products": products.shared().snapshot(),
                    "recommendations": workflow.recommendation.snapshot(),
                },
            })
        }),
        meters: meters::describe,
        close: Box::pin(async move { closing.close().await }),
    })
}
