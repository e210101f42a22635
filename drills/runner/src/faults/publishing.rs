//! Rules as operators change them: published in the console, tried out or put in force, and taken back at the end.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use chassis::{
    auth::{Claims, Scope, mint},
    dev_secrets,
};
use contracts::{Service, UserId};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::Faults;

/// Services hear of a version at once; a busy machine, or a console that has only just come back, lets them wait longer.
const HEARD_WITHIN: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(100);
const NAME: &str = "the drill";

impl Faults {
    /// Publishes these rules and puts them in force on these instances, or everywhere where none is named. Returns the
    /// version once it is in force there.
    pub(super) async fn publish(&self, rules: &toml::Table, to: &[String]) -> Result<i64> {
        let document = toml::to_string(rules).context("cannot write the rules")?;
        let newest = self.console("GET", "/v1/rules?limit=1", None).await?;
        // Null where there is none yet.
        let newest = &newest["items"][0]["version"];
        let draft = json!({"document": document, "owner": NAME, "reason": NAME, "based_on": newest});
        let draft = self.console("POST", "/v1/rules", Some(draft)).await?;
        let version = draft["version"].as_i64().context("the console gave no number")?;
        let (act, said) = match to {
            [] => ("promote", json!({"reason": NAME})),
            some => ("canary", json!({"reason": NAME, "instances": some})),
        };
        self.console("POST", &format!("/v1/rules/{version}/{act}"), Some(said)).await?;
        self.until("does not go by the version that was published", |instance, now| {
            let is_meant = to.is_empty() || to.iter().any(|name| name == instance);
            is_meant == (now == version)
        })
        .await?;
        Ok(version)
    }

    /// Takes a version back. Returns once no instance goes by it any more.
    pub(super) async fn take_back(&self, version: i64) -> Result<()> {
        let said = json!({"reason": NAME});
        self.console("POST", &format!("/v1/rules/{version}/rollback"), Some(said)).await?;
        self.until("still goes by the version that was taken back", |_, now| now != version).await
    }

    async fn until(&self, otherwise: &str, fine: impl Fn(&str, i64) -> bool) -> Result<()> {
        let give_up = Instant::now() + HEARD_WITHIN;
        'again: loop {
            for service in Service::ALL {
                for replica in 0..self.normal.replicas.get(service.as_str()).copied().unwrap_or(1) {
                    let instance = format!("{service}-{replica}");
                    let now = self.version_in_force(&self.stack.admin(service, replica)).await;
                    if now.is_ok_and(|now| fine(&instance, now)) {
                        continue;
                    }
                    if Instant::now() > give_up {
                        bail!("{instance} {otherwise}");
                    }
                    sleep(LOOK_EVERY).await;
                    continue 'again;
                }
            }
            return Ok(());
        }
    }

    async fn console(&self, method: &str, path: &str, body: Option<Value>) -> Result<Value> {
        let url = format!("{}{path}", self.stack.api(Service::Console, 0));
        let request = match body {
            Some(body) => self.client.post(url).json(&body),
            None => self.client.get(url),
        };
        let answer = request.bearer_auth(token()?).send().await.context("the console does not answer")?;
        let (status, said) = (answer.status(), answer.json::<Value>().await.unwrap_or_default());
        if status.is_success() { Ok(said) } else { bail!("the console refused {method} {path}: {said}") }
    }
}

/// Of an operator who is called by what this is.
fn token() -> Result<String> {
    let exp = chrono::Utc::now().timestamp().unsigned_abs() + 60;
    let name = Some(NAME.to_owned());
    let claims = Claims { sub: UserId::generate(), name, tenant: None, tier: None, scope: Scope::Operator, exp };
    mint(dev_secrets::AUTH_JWT_SECRET, &claims).context("cannot sign a token")
}
