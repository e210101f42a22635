//! A service started in this process, on ports of the system's choice, with the credentials of development.

use std::{future::Future, net::SocketAddr};

use anyhow::Context;
use chassis::{
    App, Env, Lifecycle, Wiring,
    auth::{self, Claims, Scope},
    dev_secrets,
    rules_file::LoadedRules,
    service::{self, Running},
    telemetry,
};
use contracts::{Service, UserId};
use reqwest::{Client, RequestBuilder};
use rules::{Origin, Rules, RulesHandle};
use tokio::runtime::Handle;

/// A running service and a client for it.
pub struct TestApp {
    pub running: Running,
    pub client: Client,
    /// Those in force; what is applied here is what a changed file would do.
    pub rules: RulesHandle,
}

impl TestApp {
    /// Builds the service with `rules` and serves it.
    ///
    /// # Panics
    /// When the service cannot be built.
    pub async fn start<Fut>(service: Service, rules: Rules, build: impl FnOnce(Wiring, Lifecycle) -> Fut) -> Self
    where
        Fut: Future<Output = anyhow::Result<App>>,
    {
        Self::start_wired(wiring(service, rules), build).await
    }

    /// [`Self::start`] in surroundings of the test's own.
    ///
    /// # Panics
    /// When the service cannot be built.
    pub async fn start_wired<Fut>(wiring: Wiring, build: impl FnOnce(Wiring, Lifecycle) -> Fut) -> Self
    where
        Fut: Future<Output = anyhow::Result<App>>,
    {
        telemetry::metrics();
        let rules = wiring.rules.handle.clone();
        let lifecycle = Lifecycle::new(Handle::current());
        let started = async {
            let app = build(wiring.clone(), lifecycle.clone()).await?;
            service::serve(&wiring, lifecycle, app).context("cannot listen")
        };
        let running = started.await.expect("the service starts");
        let client = Client::builder().no_proxy().build().expect("a client");
        Self { running, client, rules }
    }

    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.running.api_addr())
    }

    #[must_use]
    pub fn admin_url(&self, path: &str) -> String {
        format!("http://{}{path}", self.running.admin_addr())
    }

    pub fn get(&self, path: &str) -> RequestBuilder {
        self.client.get(self.url(path))
    }

    pub fn post(&self, path: &str) -> RequestBuilder {
        self.client.post(self.url(path))
    }

    pub fn put(&self, path: &str) -> RequestBuilder {
        self.client.put(self.url(path))
    }
}

/// The wiring of `service` on ephemeral ports, in dev.
///
/// # Panics
/// Never: the variables given are sound.
#[must_use]
pub fn wiring(service: Service, rules: Rules) -> Wiring {
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0)).to_string();
    let variables = [("APP_ENV", "dev"), ("API_ADDR", any_port.as_str()), ("ADMIN_ADDR", any_port.as_str())];
    let mut env = Env::from_pairs(variables.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let mut wiring = Wiring::from_env(service, &mut env).expect("sound wiring");
    wiring.rules = LoadedRules::fixed(rules, Origin::Default);
    // A test that means the cluster's quotas names a Redis of its own.
    wiring.redis = None;
    wiring
}

/// A user's token that is valid for an hour.
#[must_use]
pub fn user_token(user: UserId) -> String {
    token(user, None, None)
}

/// The token of an operator who is called `name`, valid for an hour.
#[must_use]
pub fn operator_token(name: &str) -> String {
    sign(UserId::generate(), Some(name), None, None, Scope::Operator)
}

/// The token of a user of a tier, such as `vip`.
#[must_use]
pub fn tier_token(user: UserId, tier: &str) -> String {
    token(user, None, Some(tier))
}

/// The token of a user of a tenant.
#[must_use]
pub fn tenant_token(user: UserId, tenant: &str) -> String {
    token(user, Some(tenant), None)
}

/// The token by which `service` is known to the others.
#[must_use]
pub fn caller_token(service: Service) -> String {
    dev_secrets::internal_token(service.as_str())
}

fn token(user: UserId, tenant: Option<&str>, tier: Option<&str>) -> String {
    sign(user, None, tenant, tier, Scope::User)
}

fn sign(sub: UserId, name: Option<&str>, tenant: Option<&str>, tier: Option<&str>, scope: Scope) -> String {
    let exp = chrono::Utc::now().timestamp().unsigned_abs() + 3_600;
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let claims = Claims { sub, name: owned(name), tenant: owned(tenant), tier: owned(tier), scope, exp };
    auth::mint(dev_secrets::AUTH_JWT_SECRET, &claims).expect("claims of ours can be signed")
}
