//! Changes: publish, try out, promote, roll back, switch.

use contracts::ruling::{PublishRules, TurnSwitch, VersionState, VersionWithDocument};
use durable::database::Tx;
use resilience::Deadline;
use rules::Rules;

use super::Rulebook;
use crate::{
    Error,
    domain::{
        Act,
        history::{self, decide, publish, take_over},
        switch,
    },
    store::{
        audit::{self, Action},
        instances,
        versions::{self, Written},
    },
};

impl Rulebook {
    /// A draft, if its writer has seen the newest version.
    pub async fn publish(
        &self,
        operator: &str,
        wanted: &PublishRules,
        deadline: Deadline,
    ) -> Result<VersionWithDocument, Error> {
        Rules::from_toml(&wanted.document)?;
        let mut tx = self.database.begin(deadline).await?;
        let version = publish(&versions::to_decide_on(&mut tx).await?, wanted.based_on)?;
        let written = Written {
            version,
            state: VersionState::Draft,
            document: &wanted.document,
            author: operator,
            owner: wanted.owner.trim(),
            reason: wanted.reason.trim(),
            based_on: wanted.based_on,
        };
        versions::add(&mut tx, written).await?;
        self.end(tx, version, Action { operator, action: "publish", target: "", reason: &wanted.reason }).await
    }

    /// Tries a version out, promotes it, or takes it back.
    pub async fn act(
        &self,
        operator: &str,
        version: i64,
        act: &Act,
        reason: &str,
        deadline: Deadline,
    ) -> Result<VersionWithDocument, Error> {
        let mut tx = self.database.begin(deadline).await?;
        let changes = decide(&versions::to_decide_on(&mut tx).await?, version, act)?;
        if !matches!(act, Act::Rollback) {
            // It may have been written before a release that refuses it.
            Rules::from_toml(&versions::find(&mut tx, version).await?.document)?;
        }
        carry_out(&mut tx, &changes).await?;
        let (action, target) = match act {
            Act::Canary(instances) => ("canary", format!(" on {}", instances.join(", "))),
            Act::Promote => ("promote", String::new()),
            Act::Rollback => ("rollback", String::new()),
        };
        self.end(tx, version, Action { operator, action, target: &target, reason }).await
    }

    /// A version that is in force at once, and in which one line differs from the one before.
    pub async fn turn_switch(
        &self,
        operator: &str,
        wanted: &TurnSwitch,
        deadline: Deadline,
    ) -> Result<VersionWithDocument, Error> {
        let (feature, value) = (wanted.feature.as_str(), wanted.value.as_str());
        switch::known(feature, value).map_err(Error::Invalid)?;
        let mut tx = self.database.begin(deadline).await?;
        let (version, changes) = take_over(&versions::to_decide_on(&mut tx).await?);
        let active = versions::in_force(&mut tx).await?.active;
        if active.is_none()
            && let Some(instance) = instances::on_rules_of_its_own(&mut tx).await?
        {
            // A version made from the defaults would take away what nobody here has seen.
            return Err(Error::UnknownRules(instance));
        }
        let before = active.as_ref().map_or("", |held| &held.document);
        let document = switch::turned(before, feature, value).ok_or(Error::Conflict)?;
        Rules::from_toml(&document)?;
        carry_out(&mut tx, &changes).await?;
        let written = Written {
            version,
            state: VersionState::Active,
            document: &document,
            author: operator,
            owner: operator,
            reason: wanted.reason.trim(),
            based_on: active.map(|held| held.version),
        };
        versions::add(&mut tx, written).await?;
        let target = format!(" ({feature} = {value})");
        self.end(tx, version, Action { operator, action: "switch", target: &target, reason: &wanted.reason }).await
    }

    /// Writes down who did it, commits, and tells those who wait.
    async fn end(&self, mut tx: Tx, version: i64, action: Action<'_>) -> Result<VersionWithDocument, Error> {
        let target = format!("version {version}{}", action.target);
        audit::record(&mut tx, Action { target: &target, reason: action.reason.trim(), ..action }).await?;
        let now = versions::find(&mut tx, version).await?;
        tx.commit().await?;
        tracing::info!(operator = action.operator, action = action.action, target, "an operator acted");
        // What is committed is done; the board looks again soon in any case.
        if let Err(error) = self.board.look().await {
            tracing::warn!(%error, "the versions cannot be read after a change");
        }
        Ok(now)
    }
}

async fn carry_out(tx: &mut Tx, changes: &[history::Change]) -> Result<(), Error> {
    for change in changes {
        versions::change(tx, change).await?;
    }
    Ok(())
}
