//! Where the oracle looks: five databases, the provider's ledgers, and the dead letters.

use std::time::Duration;

use anyhow::Context;
use contracts::{Service, provider::Ledger};
use events::KafkaConfig;
use sqlx::{PgPool, postgres::PgPoolOptions};

use crate::world::{World, read};

/// A store that says nothing for so long cannot be looked at.
const PATIENCE: Duration = Duration::from_secs(10);

/// Addresses.
#[derive(Debug, Clone)]
pub struct Sources {
    pub databases: Databases,
    /// Of the provider's channels, primary first: `http://host:port`.
    pub ledgers: Vec<String>,
    /// None: dead letters are not asked for, and an event that ended there counts as not applied.
    pub kafka: Option<KafkaConfig>,
}

/// The address of each service's database.
#[derive(Debug, Clone)]
pub struct Databases {
    pub order: String,
    pub inventory: String,
    pub payment: String,
    pub coupon: String,
    pub recommendation: String,
}

impl Databases {
    /// All on one server, each named after its service.
    #[must_use]
    pub fn on(server: &str) -> Self {
        let of = |service: Service| format!("{}/{service}", server.trim_end_matches('/'));
        Self {
            order: of(Service::Order),
            inventory: of(Service::Inventory),
            payment: of(Service::Payment),
            coupon: of(Service::Coupon),
            recommendation: of(Service::Recommendation),
        }
    }
}

/// Open connections to all of them.
#[derive(Debug)]
pub struct Stores {
    pub(crate) order: PgPool,
    pub(crate) inventory: PgPool,
    pub(crate) payment: PgPool,
    pub(crate) coupon: PgPool,
    pub(crate) recommendation: PgPool,
    ledgers: Vec<String>,
    kafka: Option<KafkaConfig>,
    http: reqwest::Client,
}

impl Stores {
    pub async fn open(sources: &Sources) -> anyhow::Result<Self> {
        let of = &sources.databases;
        let (order, inventory, payment, coupon, recommendation) = tokio::try_join!(
            database(Service::Order, &of.order),
            database(Service::Inventory, &of.inventory),
            database(Service::Payment, &of.payment),
            database(Service::Coupon, &of.coupon),
            database(Service::Recommendation, &of.recommendation),
        )?;
        let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().context("no HTTP client")?;
        let (ledgers, kafka) = (sources.ledgers.clone(), sources.kafka.clone());
        Ok(Self { order, inventory, payment, coupon, recommendation, ledgers, kafka, http })
    }

    /// The databases and ledgers as they are now, without dead letters and answers.
    pub async fn look(&self) -> anyhow::Result<World> {
        let world = read::databases(self).await?;
        Ok(World { ledgers: self.ledgers().await?, ..world })
    }

    /// What no consumer could use. Reading it takes a while.
    pub async fn letters(&self) -> anyhow::Result<Vec<events::dlq::DeadLetter>> {
        match &self.kafka {
            Some(kafka) => events::dlq::list(kafka, None).await.context("the dead letters cannot be read"),
            None => Ok(Vec::new()),
        }
    }

    async fn ledgers(&self) -> anyhow::Result<Vec<Ledger>> {
        let mut ledgers = Vec::new();
        for url in &self.ledgers {
            let ask =
                async { self.http.get(format!("{url}/v1/ledger")).send().await?.error_for_status()?.json().await };
            ledgers.push(ask.await.with_context(|| format!("the ledger at {url} cannot be read"))?);
        }
        Ok(ledgers)
    }

    pub async fn close(&self) {
        for pool in [&self.order, &self.inventory, &self.payment, &self.coupon, &self.recommendation] {
            pool.close().await;
        }
    }
}

/// One connection, since the oracle must not take from the system what it needs to become quiet.
async fn database(service: Service, url: &str) -> anyhow::Result<PgPool> {
    let options = PgPoolOptions::new().max_connections(1).acquire_timeout(PATIENCE);
    options.connect(url).await.with_context(|| format!("the database of {service} does not answer"))
}
