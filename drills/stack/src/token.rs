//! `token`: a user's or an operator's token for this system.

use std::{
    env,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result};
use chassis::{
    auth::{self, Claims, Scope},
    dev_secrets,
};
use contracts::UserId;
use uuid::Uuid;

use crate::args::Token;

pub const DEFAULT_USER: &str = "demo";
const GOOD_FOR: Duration = Duration::from_secs(12 * 60 * 60);

pub fn mint(wanted: &Token) -> Result<String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock stands before 1970")?;
    auth::mint(&signing_secret(), &claims(wanted, now)).context("cannot sign the token")
}

/// `AUTH_JWT_SECRET` where that is set, as it is in containers; the well-known one otherwise.
pub fn signing_secret() -> String {
    let set = env::var("AUTH_JWT_SECRET").ok().filter(|secret| !secret.is_empty());
    set.unwrap_or_else(|| dev_secrets::AUTH_JWT_SECRET.to_owned())
}

fn claims(wanted: &Token, now: Duration) -> Claims {
    Claims {
        sub: user_id(&wanted.user),
        name: wanted.operator.then(|| wanted.user.clone()),
        tenant: wanted.tenant.clone(),
        tier: wanted.tier.clone(),
        scope: if wanted.operator { Scope::Operator } else { Scope::User },
        exp: (now + GOOD_FOR).as_secs(),
    }
}

/// A name always means the same user.
fn user_id(user: &str) -> UserId {
    UserId::from_uuid(Uuid::parse_str(user).unwrap_or_else(|_| Uuid::new_v5(&Uuid::NAMESPACE_OID, user.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_always_the_same_user_and_a_uuid_is_itself() {
        assert_eq!(user_id("ada"), user_id("ada"));
        assert_ne!(user_id("ada"), user_id("bob"));
        let id = "0190a2b4-0000-7000-8000-000000000001";
        assert_eq!(user_id(id).to_string(), id);
    }

    #[test]
    fn claims_say_what_was_asked_for() {
        let wanted = Token { user: "ada".into(), tenant: Some("t".into()), tier: Some("vip".into()), operator: true };
        let claims = claims(&wanted, Duration::from_secs(1000));
        assert_eq!((claims.tenant.as_deref(), claims.tier.as_deref()), (Some("t"), Some("vip")));
        assert_eq!((claims.scope, claims.exp), (Scope::Operator, 1000 + 12 * 60 * 60));
        assert_eq!(claims.name.as_deref(), Some("ada"), "what an operator does is told by name");
    }
}
