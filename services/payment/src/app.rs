//! The only place that constructs things.

use std::sync::Arc;

use ::events::{Consumer, ConsumerConfig, KafkaConfig, Relay, RelayConfig};
use anyhow::Context;
use chassis::{
    App, Degradation, Downstream, Lifecycle, Wiring,
    downstream::{self, DownstreamError},
};
use contracts::{
    payment::Channel,
    topic::{ORDERS, RECONCILE},
};
use durable::{inbox, outbox::Outbox};
use rules::{Downstreams, Messaging};
use serde_json::json;
use sqlx::migrate::Migrator;

use crate::{
    config::Config,
    downstream::provider::{Provider, Providers},
    events::{self, Orders, Questions},
    http::{self, Api},
    jobs, meters,
    workflow::{Payments, reconcile},
};

/// The service's own tables; versions from 100.
pub static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/payment");

pub async fn build(config: Config, wiring: Wiring, lifecycle: Lifecycle) -> anyhow::Result<App> {
    let rules = &wiring.rules.rules;
    let connections = rules.database.connections();
    let database = chassis::database::open(&wiring, config.database_url.clone(), &MIGRATIONS).await?;

    let outbox = Outbox::new(database.pool().clone());
    let in_force = wiring.rules.handle.clone();
    let relay = Relay::live(outbox.clone(), config.kafka.clone(), move || {
        let messaging = &in_force.current().messaging;
        RelayConfig {
            poll_interval: messaging.relay_poll,
            lease_ttl: messaging.relay_lease,
            retention: messaging.outbox_retention,
            ..RelayConfig::default()
        }
    });
    lifecycle.spawn_background("relay", |stop| relay.run(stop));
    let pool = database.clone();
    lifecycle.measured_by(move || pool.measure());

    let (providers, callees) = providers(&config, &wiring, &lifecycle).context("no client for the provider")?;
    let degradation = Degradation::new(&wiring.rules.handle, &lifecycle);
    let payments = Payments::new(database.clone(), outbox, providers, wiring.rules.handle.clone(), degradation);
    consume(&payments, &config.kafka, &rules.messaging, &lifecycle);
    let backlog = jobs::start(&payments, &lifecycle, wiring.dev);
    let (pool, in_force) = (database.pool().clone(), wiring.rules.handle.clone());
    let retention = move || in_force.current().messaging.inbox_retention;
    lifecycle.spawn_background("inbox pruning", |stop| inbox::keep_pruned(pool, retention, stop));
    let api = Api { lifecycle, payments, webhook_secrets: Arc::new(config.webhook_secrets) };

    let (pinged, shown, closed) = (database.clone(), database.clone(), database);
    Ok(App {
        routes: Arc::new(move |config| http::routes(config, api.clone())),
        openapi: http::openapi::document(),
        ready: Arc::new(move || {
            let database = pinged.clone();
            Box::pin(async move { database.ping().await.map_err(|error| error.to_string()) })
        }),
        state: Arc::new(move || {
            let (open, idle) = shown.connections();
            json!({
                "database": {"connections": open, "idle": idle, "limit": connections},
                "downstream": downstream::snapshots(&callees),
                "payments": backlog.shown(),
            })
        }),
        meters: meters::describe,
        close: Box::pin(async move { closed.close().await }),
    })
}

/// Each channel with clients and guards of its own for charges, for questions, and for its ledger.
fn providers(
    config: &Config,
    wiring: &Wiring,
    lifecycle: &Lifecycle,
) -> Result<(Providers, Vec<Downstream>), DownstreamError> {
    let live = |name, url: &str, choose: fn(&Downstreams) -> &rules::Downstream| {
        Downstream::live(name, url, None, &wiring.rules.handle, choose, lifecycle)
    };
    let url = &config.provider_primary_url;
    let primary = [
        live("provider", url, |rules| &rules.provider)?,
        live("provider_status", url, |rules| &rules.provider_status)?,
        live("provider_ledger", url, |rules| &rules.provider_ledger)?,
    ];
    let url = &config.provider_backup_url;
    let backup = [
        live("provider_backup", url, |rules| &rules.provider_backup)?,
        live("provider_backup_status", url, |rules| &rules.provider_status)?,
        live("provider_backup_ledger", url, |rules| &rules.provider_ledger)?,
    ];
    let all = primary.iter().chain(&backup).cloned().collect();
    let at =
        |channel, [charges, questions, ledgers]: [Downstream; 3]| Provider::new(channel, charges, questions, ledgers);
    Ok((Providers { primary: at(Channel::Primary, primary), backup: at(Channel::Backup, backup) }, all))
}

/// What order says, and our own questions.
fn consume(payments: &Payments, kafka: &KafkaConfig, messaging: &Messaging, lifecycle: &Lifecycle) {
    let consuming = ConsumerConfig::in_flight(messaging.max_in_flight, messaging.max_in_flight_per_partition);
    let orders = Consumer::new(kafka.clone(), events::GROUP, &[ORDERS], Orders(payments.clone()), consuming.clone());
    lifecycle.spawn_background("orders consumer", |stop| async move {
        if let Err(error) = orders.run(stop).await {
            tracing::error!(%error, "the consumer of orders cannot run");
        }
    });
    let own = payments.clone();
    let questions = Consumer::of_queue(
        kafka.clone(),
        reconcile::GROUP,
        &RECONCILE,
        |tier| Questions { payments: own.clone(), tier },
        consuming,
    );
    lifecycle.spawn_background("questions consumer", |stop| async move {
        if let Err(error) = questions.run(stop).await {
            tracing::error!(%error, "the consumer of questions cannot run");
        }
    });
}
