//! A system that is watched as closely as it can be: the finest log, a collector of traces, and secrets of its own in the
//! environment of every process.

use std::{fs, path::PathBuf, time::Duration};

use contracts::{Service, UserId, headers, trace::TraceContext};
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use testkit::eventually;

use super::{
    shop::{fresh_key, order_of},
    system::{HURRIED, System, checkout, command, dev},
};

pub const JWT_SECRET: &str = "planted-jwt-secret-0123456789abcdef";
pub const DATABASE_PASSWORD: &str = "planted-database-password";
pub const ALERT_PATH: &str = "planted-alert-address";
pub const OPERATOR_PASSWORD: &str = "planted-operator-password";

/// A second system, beside the one that tests share.
pub struct Watched {
    pub base: u16,
    rules: PathBuf,
    pub token: String,
    pub client: Client,
}

impl Watched {
    pub fn start(beside: &System, collector: &str) -> Self {
        let base = beside.base + 2_000;
        let rules = beside.folder().join("watched-rules.toml");
        fs::write(&rules, HURRIED).unwrap();
        // Before anything can fail, so that whatever does is cleared away.
        let client = Client::builder().no_proxy().timeout(Duration::from_secs(10)).build().unwrap();
        let mut watched = Self { base, rules: rules.clone(), token: String::new(), client };
        let started = command(&["up", "--detach", "--port-base", &base.to_string()])
            .env("RULES_FILE", &rules)
            .env("LOG_LEVEL", "trace")
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector)
            .env("AUTH_JWT_SECRET", JWT_SECRET)
            .env("PGPASSWORD", DATABASE_PASSWORD)
            .env("CONSOLE_OPERATORS", format!("ada:{OPERATOR_PASSWORD}"))
            .env("ALERT_WEBHOOK_URL", format!("http://127.0.0.1:9/{ALERT_PATH}"))
            .output()
            .unwrap();
        assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
        let user = UserId::generate().to_string();
        let minted = command(&["token", "--user", &user]).env("AUTH_JWT_SECRET", JWT_SECRET).output().unwrap();
        watched.token = String::from_utf8(minted.stdout).unwrap().trim().to_owned();
        watched
    }

    pub fn url(&self, service: Service, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", service.api_port(self.base, 0))
    }

    pub fn place(&self, order: &Value) -> RequestBuilder {
        let request = self.client.post(self.url(Service::Order, "/v1/orders")).bearer_auth(&self.token);
        request.header(headers::IDEMPOTENCY_KEY, fresh_key()).json(order)
    }

    /// The status and the body.
    pub async fn told(&self, request: RequestBuilder) -> (u16, String) {
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    /// The order that is placed within the trace `outside`. Its id: 202, it is not decided.
    pub async fn places_within(&self, outside: &TraceContext, method: &str) -> String {
        let placed = self.place(&order_of("TEA-EARLGREY-100", 1, method));
        let (status, body) = self.told(placed.header(headers::TRACEPARENT, outside.to_string())).await;
        assert_eq!(status, 202, "{body}");
        serde_json::from_str::<Value>(&body).unwrap()["id"].as_str().unwrap().to_owned()
    }

    /// Waits until an order's answer says so.
    pub async fn says(&self, order: &str, what: &str) {
        eventually(what, async || {
            let look = self.client.get(self.url(Service::Order, &format!("/v1/orders/{order}")));
            let (_, body) = self.told(look.bearer_auth(&self.token)).await;
            body.contains(what).then_some(())
        })
        .await;
    }

    /// Puts these rules in force beside the hurried ones, in the services that take part in a payment.
    pub async fn rule(&self, version: i64, rules: &str) {
        let fresh = self.rules.with_extension("new");
        fs::write(&fresh, format!("version = {version}\n{HURRIED}{rules}")).unwrap();
        fs::rename(&fresh, &self.rules).unwrap();
        for service in [Service::Order, Service::Payment] {
            let url = format!("http://127.0.0.1:{}/internal/state", service.admin_port(self.base, 0));
            eventually("the rules are in force", async || {
                let (_, body) = self.told(self.client.get(&url)).await;
                (serde_json::from_str::<Value>(&body).unwrap()["rules"]["version"] == version).then_some(())
            })
            .await;
        }
    }

    pub async fn provider_sends_webhooks(&self, mode: &str) {
        let url = format!("http://127.0.0.1:{}/admin/behaviour", self.base + 6);
        self.client.put(url).json(&json!({"webhook": mode})).send().await.unwrap().error_for_status().unwrap();
    }

    /// Everything that the processes wrote, by file.
    pub fn logs(&self) -> Vec<(String, String)> {
        let folder = checkout().join(format!("target/dev/{}/logs", self.base));
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        files
            .map(|path| (path.display().to_string(), String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()))
            .collect()
    }

    /// What the admin listeners show, by address.
    pub async fn shown(&self) -> Vec<(String, String)> {
        let mut shown = Vec::new();
        for service in Service::WITH_CONSOLE {
            for path in ["/internal/state", "/metrics", "/readyz"] {
                let url = format!("http://127.0.0.1:{}{path}", service.admin_port(self.base, 0));
                let (status, text) = self.told(self.client.get(&url)).await;
                assert_eq!(status, 200, "{url}: {text}");
                shown.push((url, text));
            }
        }
        shown
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        dev(&["down", "--wipe", "--port-base", &self.base.to_string()]);
    }
}
