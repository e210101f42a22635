//! Who may place an order while an operator lets in the listed users alone.
//!
//! Orders only: what is placed already can be looked at, and products too.

use chassis::RequestContext;
use contracts::UserId;

use super::Api;
use crate::error::Error;

/// Refuses users who are not listed, if only those are admitted. Nothing has been stored by then.
pub fn admit(api: &Api, context: &RequestContext, user: UserId) -> Result<(), Error> {
    let level = api.admission.level(context);
    let rules = api.workflow.rules.current();
    if level == "all" || rules.degrade.allow_list.contains(&user.as_uuid()) {
        return Ok(());
    }
    api.admission.serve((), level);
    Err(Error::NotAdmitted { rule_version: rules.version })
}
