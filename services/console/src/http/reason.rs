//! Why an operator does something: said with whatever is done, and kept with it.

use contracts::{
    FieldError,
    validate::{Validate, Violations},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    Error,
    store::audit::{self, Action},
};

/// The longest that is kept.
const LONGEST: usize = 200;

/// A body that says nothing else.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Reason {
    #[schema(min_length = 1, max_length = 200)]
    pub reason: String,
}

impl Validate for Reason {
    fn validate(&self) -> Result<(), Vec<FieldError>> {
        let mut violations = Violations::default();
        check(&self.reason, &mut violations);
        violations.finish()
    }
}

pub(super) fn check(reason: &str, violations: &mut Violations) {
    let length = reason.trim().chars().count();
    violations.require((1..=LONGEST).contains(&length), "reason", "must have 1 to 200 characters");
}

/// Before the act: what is done to others cannot be written in one transaction with it, and one that nobody knows of is
/// worse than one that was only tried.
pub(super) async fn note(api: &super::Api, deadline: resilience::Deadline, action: Action<'_>) -> Result<(), Error> {
    let noting = async {
        let mut tx = api.rulebook.database.begin(deadline).await?;
        audit::record(&mut tx, action).await?;
        Ok::<_, Error>(tx.commit().await?)
    };
    durable::within(deadline, noting).await
}
