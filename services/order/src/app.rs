//! The only place where the service's parts are constructed.

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use chassis::{App, Downstream, Lifecycle, Wiring, downstream};
use contracts::topic::PAYMENTS;
use durable::{Database, database::DatabaseConfig, migrations, outbox::Outbox};
use events::{Consumer, ConsumerConfig, Relay, RelayConfig};
use serde_json::json;

use crate::{
    config::Config,
    downstream::{coupon::Coupon, inventory::Inventory, payment::Payment, recommendation::Recommendation},
    events::payments::{GROUP, Payments},
    http::{self, Api},
    jobs,
    store::MIGRATIONS,
    workflow::{Changes, Workflow},
};

/// How long a start waits for the database to come up.
const DATABASE_PATIENCE: Duration = Duration::from_secs(30);

/// Which rule guards a callee.
type Rule = fn(&rules::Downstreams) -> &rules::Downstream;

pub async fn build(config: Config, wiring: Wiring, lifecycle: Lifecycle) -> anyhow::Result<App> {
    let rules = Arc::new(wiring.rules.rules.clone());
    let database = Database::connect(&database_config(&config, &rules.database), DATABASE_PATIENCE)
        .await
        .context("DATABASE_URL: the database does not answer")?;
    database.migrate(&migrations::MIGRATIONS, &MIGRATIONS).await.context("the migrations do not apply")?;
    let outbox = Outbox::new(database.pool().clone());

    let token = wiring.credentials.own_token();
    let in_force = &wiring.rules.handle;
    let callee = |name, url: &str, rule: Rule| Downstream::live(name, url, Some(token), in_force, rule, &lifecycle);
    let inventory = callee("inventory", &config.inventory_url, |rules| &rules.inventory)?;
    let charges = callee("payment", &config.payment_url, |rules| &rules.payment)?;
    let status = callee("payment_status", &config.payment_url, |rules| &rules.payment_status)?;
    let coupon = callee("coupon", &config.coupon_url, |rules| &rules.coupon)?;
    let recommendation = callee("recommendation", &config.recommendation_url, |rules| &rules.recommendation)?;
    let callees = [&inventory, &charges, &status, &coupon, &recommendation].map(Clone::clone);
    let workflow = Arc::new(Workflow {
        inventory: Inventory(inventory),
        payment: Payment { charges, status },
        coupon: Coupon(coupon),
        recommendation: Recommendation(recommendation),
        database: database.clone(),
        outbox: outbox.clone(),
        rules: rules.clone(),
        changes: Changes::default(),
    });

    let messaging = &rules.messaging;
    let relay_config = RelayConfig {
        poll_interval: messaging.relay_poll,
        lease_ttl: messaging.relay_lease,
        retention: messaging.outbox_retention,
        ..RelayConfig::default()
    };
    let relay = Relay::new(outbox, config.kafka.clone(), relay_config);
    lifecycle.spawn_background("relay", |stop| async move {
        relay.run(stop).await;
    });
    let consumer =
        Consumer::new(config.kafka, GROUP, &[PAYMENTS], Payments(workflow.clone()), ConsumerConfig::default());
    lifecycle.spawn_background("payments", |stop| async move {
        if let Err(error) = consumer.run(stop).await {
            tracing::error!(%error, "the consumer cannot run");
        }
    });
    lifecycle.spawn_background("recover", |stop| jobs::recover::run(workflow.clone(), stop));
    lifecycle.spawn_background("prune", |stop| jobs::prune::run(workflow.clone(), stop));
    lifecycle.spawn_background("gauges", |stop| jobs::gauges::run(workflow.clone(), stop));

    let api = Api { workflow: workflow.clone(), lifecycle };
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
                "free_waits": workflow.changes.free_waits(),
                "downstream": downstream::snapshots(&callees),
            })
        }),
        close: Box::pin(async move { closing.close().await }),
    })
}

fn database_config(config: &Config, rules: &rules::Database) -> DatabaseConfig {
    let cores = std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1));
    DatabaseConfig {
        url: config.database_url.clone(),
        connections: rules.pool.map_or(2 * cores + 1, Into::into),
        acquire_timeout: rules.acquire_timeout,
        lock_timeout: rules.lock_timeout,
        statement_timeout: rules.statement_timeout,
    }
}
