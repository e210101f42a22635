//! The people behind the traffic: as many as asked for, the same ones for the same seed, each with a token.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use anyhow::Context;
use chassis::auth::{self, Claims, Scope};
use chrono::Utc;
use contracts::UserId;
use uuid::Uuid;

/// One of them. No `Debug`: the token is a secret, if only of development.
#[derive(Clone)]
pub struct User {
    pub id: UserId,
    pub token: Arc<str>,
}

/// All of them; never empty.
pub struct Users(Vec<User>);

impl Users {
    /// Signs a token each, good for `good_for`.
    pub fn mint(count: NonZeroU32, seed: u64, secret: &str, good_for: Duration) -> anyhow::Result<Self> {
        let exp = u64::try_from(Utc::now().timestamp()).context("the clock stands before 1970")? + good_for.as_secs();
        let user = |n| {
            let id = UserId::from_uuid(Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("load-{seed}-{n}").as_bytes()));
            let claims = Claims { sub: id, name: None, tenant: None, tier: None, scope: Scope::User, exp };
            let token = auth::mint(secret, &claims).context("cannot sign a token")?;
            Ok(User { id, token: token.into() })
        };
        Ok(Self((0..count.get()).map(user).collect::<anyhow::Result<_>>()?))
    }

    /// The user with this number; numbers beyond the last begin anew.
    #[must_use]
    pub fn get(&self, number: u32) -> &User {
        &self.0[number as usize % self.0.len()]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use chassis::dev_secrets::AUTH_JWT_SECRET;

    use super::*;

    fn ids(seed: u64) -> Vec<UserId> {
        let users = Users::mint(NonZeroU32::new(5).unwrap(), seed, AUTH_JWT_SECRET, Duration::from_secs(60)).unwrap();
        (0..5).map(|n| users.get(n).id).collect()
    }

    #[test]
    fn a_seed_names_its_users_and_another_seed_others() {
        assert_eq!(ids(1), ids(1));
        let both: HashSet<UserId> = ids(1).into_iter().chain(ids(2)).collect();
        assert_eq!(both.len(), 10);
    }
}
