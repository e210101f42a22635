//! `rules list|publish|canary|promote|rollback|switch`: what operators do in the console, from the shell.

use std::{fs, process::ExitCode, time::Duration};

use anyhow::{Context, Result, bail};
use contracts::{
    Problem,
    ruling::{
        Because, Instances, PublishRules, StartCanary, TurnSwitch, Version, VersionState, VersionWithDocument, Versions,
    },
};
use reqwest::{Client, RequestBuilder};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use crate::{
    args::{Act, Console, Rules, Token},
    layout::Checkout,
    say::say,
    state::the_system,
    token,
};

const TIMEOUT: Duration = Duration::from_secs(10);

pub async fn run(checkout: &Checkout, wanted: Rules) -> Result<ExitCode> {
    match wanted {
        Rules::Check { .. } => {}
        Rules::List { json, to } => list(&Desk::at(checkout, &to)?, json).await?,
        Rules::Publish { file, owner, based_on, act } => {
            let document = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
            let desk = Desk::at(checkout, &act.to)?;
            let based_on = match based_on {
                Some(version) => Some(version),
                None => desk.newest().await?.map(|newest| newest.version),
            };
            let owner = owner.unwrap_or_else(|| desk.operator.clone());
            let publish = PublishRules { document, owner, reason: act.reason, based_on };
            match desk.post("/v1/rules", &publish).await? {
                Ok(draft) => said(&draft),
                Err(problem) => return Ok(refused(&file.display().to_string(), &problem)),
            }
        }
        Rules::Canary { version, instances, act } => {
            let canary = StartCanary { instances, reason: act.reason.clone() };
            acted(checkout, &act, &format!("/v1/rules/{version}/canary"), &canary).await?;
        }
        Rules::Promote { version, act } => {
            let version = which(checkout, &act, version, &[VersionState::Canary, VersionState::Draft]).await?;
            let because = Because { reason: act.reason.clone() };
            acted(checkout, &act, &format!("/v1/rules/{version}/promote"), &because).await?;
        }
        Rules::Rollback { version, act } => {
            let version = which(checkout, &act, version, &[VersionState::Canary, VersionState::Active]).await?;
            let because = Because { reason: act.reason.clone() };
            acted(checkout, &act, &format!("/v1/rules/{version}/rollback"), &because).await?;
        }
        Rules::Switch { feature, value, act } => {
            let turn = TurnSwitch { feature, value, reason: act.reason.clone() };
            acted(checkout, &act, "/v1/switches", &turn).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn acted(checkout: &Checkout, act: &Act, path: &str, body: &impl Serialize) -> Result<()> {
    match Desk::at(checkout, &act.to)?.post(path, body).await? {
        Ok(now) => said(&now),
        Err(problem) => bail!("{}", told(&problem)),
    }
    Ok(())
}

/// The version that is meant where none is named: the newest that stands so, in this order.
async fn which(checkout: &Checkout, act: &Act, named: Option<i64>, meant: &[VersionState]) -> Result<i64> {
    if let Some(version) = named {
        return Ok(version);
    }
    let versions: Versions = Desk::at(checkout, &act.to)?.get("/v1/rules?limit=200").await?;
    let find = |state: &VersionState| versions.items.iter().find(|item| item.state == *state);
    let found = meant.iter().find_map(find).map(|item| item.version);
    let names: Vec<_> = meant.iter().map(|state| state.as_str()).collect();
    found.with_context(|| format!("no version is {}", names.join(" or ")))
}

async fn list(desk: &Desk, as_json: bool) -> Result<()> {
    let versions: Versions = desk.get("/v1/rules?limit=200").await?;
    let instances: Instances = desk.get("/v1/rules/instances").await?;
    if as_json {
        let both = json!({"versions": versions, "instances": instances.items});
        say!("{}", serde_json::to_string_pretty(&both)?);
        return Ok(());
    }
    if versions.items.is_empty() {
        say!("no version was published yet; each service runs on rules of its own");
    }
    for item in &versions.items {
        say!("{}", line(item));
    }
    if !instances.items.is_empty() {
        say!("\n{:<22} {:>7}  {:<16} should run on", "instance", "runs on", "from");
    }
    for item in &instances.items {
        let expected = item.expected.map_or_else(|| "its own".to_owned(), |version| version.to_string());
        let error = item.error.as_ref().map_or_else(String::new, |error| format!("  refused {}", plain(error)));
        say!("{:<22} {:>7}  {:<16} {expected}{error}", plain(&item.instance), item.version, plain(&item.origin));
    }
    Ok(())
}

/// `   4  active       2026-11-30T05:00:00Z  ada (checkout): less patience`
fn line(item: &Version) -> String {
    let on = item.canary.as_ref().map_or_else(String::new, |names| format!(" on {}", names.join(", ")));
    let at = item.created_at.format("%FT%TZ");
    let who = if item.author == item.owner { item.author.clone() } else { format!("{} ({})", item.author, item.owner) };
    plain(&format!("{:>4}  {:<11}  {at}  {who}: {}{on}", item.version, item.state.as_str(), item.reason))
}

/// What somebody else wrote does nothing to a terminal.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

fn said(now: &VersionWithDocument) {
    let item = &now.item;
    let on = item.canary.as_ref().map_or_else(String::new, |names| format!(" on {}", names.join(", ")));
    say!("version {} is {}{on}", item.version, item.state.as_str().replace('_', " "));
}

/// One line a mistake, as `rules check` has them, and exit code 1.
fn refused(file: &str, problem: &Problem) -> ExitCode {
    for error in &problem.errors {
        let at = error.line.map_or_else(String::new, |line| format!(":{line}"));
        say!("{file}{at}: {}: {}", plain(&error.field), plain(&error.detail.replace('\n', " ")));
    }
    say!("refused: {}", told(problem));
    ExitCode::FAILURE
}

fn told(problem: &Problem) -> String {
    let title = problem.title.to_lowercase();
    if problem.errors.is_empty() { format!("{title}: {}", plain(&problem.detail)) } else { plain(&problem.detail) }
}

/// The console, and who asks.
struct Desk {
    client: Client,
    url: String,
    operator: String,
    token: String,
}

impl Desk {
    fn at(checkout: &Checkout, to: &Console) -> Result<Self> {
        let url = match &to.console {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => {
                let system = the_system(checkout, to.port_base)?;
                let (layout, _) = system.context("nothing is running; --console names a console elsewhere")?;
                crate::system::console_url(&layout)
            }
        };
        let account = ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
        let operator = to.operator.clone().or(account).filter(|name| !name.is_empty());
        let operator = operator.unwrap_or_else(|| "operator".to_owned());
        let wanted = Token { user: operator.clone(), tenant: None, tier: None, operator: true };
        let client = Client::builder().timeout(TIMEOUT).no_proxy().build().context("no HTTP client")?;
        Ok(Self { client, url, operator, token: token::mint(&wanted)? })
    }

    async fn newest(&self) -> Result<Option<Version>> {
        Ok(self.get::<Versions>("/v1/rules?limit=1").await?.items.into_iter().next())
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        match self.send(self.client.get(format!("{}{path}", self.url))).await? {
            Ok(answer) => Ok(answer),
            Err(problem) => bail!("{}", told(&problem)),
        }
    }

    async fn post(&self, path: &str, body: &impl Serialize) -> Result<Result<VersionWithDocument, Problem>> {
        self.send(self.client.post(format!("{}{path}", self.url)).json(body)).await
    }

    /// The answer, or what the console refuses it for.
    async fn send<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<Result<T, Problem>> {
        let sent = request.bearer_auth(&self.token).send().await;
        let answer = sent.with_context(|| {
            format!("the console does not answer at {}, is it running? ./dev status says", self.url)
        })?;
        let (status, text) = (answer.status(), answer.text().await.context("the console broke off")?);
        if status.is_success() {
            return Ok(Ok(serde_json::from_str(&text).context("that is no console of ours")?));
        }
        match serde_json::from_str::<Problem>(&text) {
            Ok(problem) => Ok(Err(problem)),
            Err(_) => bail!("{} answered {status}, which no console of ours would", self.url),
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use contracts::{FieldError, ProblemType};

    use super::*;

    #[test]
    fn a_version_is_one_line_that_does_nothing_to_a_terminal() {
        let item = Version {
            version: 4,
            state: VersionState::Canary,
            author: "ada".to_owned(),
            owner: "checkout".to_owned(),
            reason: "less \u{1b}[2Jpatience".to_owned(),
            created_at: DateTime::UNIX_EPOCH,
            activated_at: None,
            canary: Some(vec!["order-0".to_owned()]),
            based_on: Some(3),
        };
        let expected = "   4  canary       1970-01-01T00:00:00Z  ada (checkout): less [2Jpatience on order-0";
        assert_eq!(line(&item), expected);
    }

    #[test]
    fn a_refusal_says_what_it_is_and_why() {
        let problem = Problem::new(ProblemType::VersionConflict, "it is based on none");
        assert_eq!(told(&problem), "somebody else changed this first: it is based on none");
        let problem = Problem::validation(vec![FieldError::new("reason", "must be one line")]);
        assert_eq!(told(&problem), "reason must be one line");
    }
}
