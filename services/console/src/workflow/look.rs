//! Looks: differences, switches, and what the instances run on.

use contracts::ruling::{AppliedRules, Changed, Difference, DocumentError, Instances, Switch, Switches, Validity};
use resilience::Deadline;
use rules::{FEATURES, Rules};
use serde_json::Value;

use super::{Rulebook, board::expected};
use crate::{
    Error,
    store::{instances, versions},
};

impl Rulebook {
    /// What `version` says otherwise than `against`; by default than the one in force, or for that one itself than the
    /// one that it was made from. Nothing to hold it against, or 0, are the built-in defaults.
    pub async fn difference(
        &self,
        version: i64,
        against: Option<i64>,
        deadline: Deadline,
    ) -> Result<Difference, Error> {
        let mut tx = self.database.begin(deadline).await?;
        let after = versions::find(&mut tx, version).await?;
        let active = versions::in_force(&mut tx).await?.active.map(|held| held.version);
        let usual = || active.filter(|active| *active != version).or(after.item.based_on);
        let against = against.or_else(usual).filter(|against| *against != 0);
        let before = match against {
            Some(number) => Rules::from_toml(&versions::find(&mut tx, number).await?.document)?,
            None => Rules::default(),
        };
        let value =
            |value: Option<_>| value.map_or(Value::Null, |value| serde_json::to_value(value).unwrap_or_default());
        let changes = before.changes(&Rules::from_toml(&after.document)?).into_iter();
        let changes = changes.map(|change| Changed {
            path: change.path,
            before: value(change.before),
            after: value(change.after),
        });
        Ok(Difference { against, changes: changes.collect() })
    }

    /// Where each feature stands in the version in force.
    pub fn switches(&self) -> Result<Switches, Error> {
        let rules = match &self.board.in_force().active {
            Some(held) => Rules::from_toml(&held.document)?,
            None => Rules::default(),
        };
        let levels = rules.degrade.levels();
        let items = FEATURES.iter().map(|feature| {
            let normal = feature.levels.first().copied().unwrap_or_default();
            let stands = levels.iter().find(|(name, _)| *name == feature.name).map_or(normal, |(_, level)| *level);
            Switch {
                feature: feature.name.to_owned(),
                value: stands.to_owned(),
                values: feature.levels.iter().map(|level| (*level).to_owned()).collect(),
                normal: normal.to_owned(),
            }
        });
        Ok(Switches { items: items.collect() })
    }

    pub async fn applied(&self, applied: &AppliedRules, deadline: Deadline) -> Result<(), Error> {
        let mut tx = self.database.begin(deadline).await?;
        instances::put(&mut tx, applied).await?;
        tx.commit().await?;
        Ok(())
    }

    pub async fn instances(&self, deadline: Deadline) -> Result<Instances, Error> {
        let mut tx = self.database.begin(deadline).await?;
        let mut items = instances::all(&mut tx).await?;
        let in_force = self.board.in_force();
        for item in &mut items {
            item.expected = expected(&in_force, &item.instance);
        }
        Ok(Instances { items })
    }
}

/// Everything that is wrong with a document.
#[must_use]
pub fn validity(document: &str) -> Validity {
    let errors = Rules::from_toml(document).err().map(|refused| refused.violations).unwrap_or_default();
    let errors = errors.into_iter();
    let errors: Vec<_> =
        errors.map(|wrong| DocumentError { path: wrong.path, line: wrong.line, detail: wrong.reason }).collect();
    Validity { valid: errors.is_empty(), errors }
}
