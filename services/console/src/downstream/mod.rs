//! Whom the console asks, each behind guards of its own. They follow no rule that an operator could change: what shows
//! what is wrong must not be switched off with it.

use std::{fmt, time::Duration};

use anyhow::Context;
use chassis::{
    Downstream, RequestContext,
    auth::{self, Claims, Scope},
};
use chrono::Utc;
use contracts::UserId;
use reqwest::Method;
use resilience::bulkhead::BulkheadConfig;
use serde_json::Value;
use uuid::Uuid;

use crate::Error;

const RESERVE: Duration = Duration::from_millis(20);
/// Of a user's token: as long as one request.
const TOKEN_LASTS_SECONDS: u64 = 60;

/// Where they are.
#[derive(Debug, Clone)]
pub struct Addresses {
    /// `ORDER_URL`
    pub order_url: String,
    /// `PAYMENT_URL`
    pub payment_url: String,
    /// `COUPON_URL`
    pub coupon_url: String,
    /// `LINKS_ADMIN_URL`: unset where no links run, and no fault can be set.
    pub links_admin_url: Option<String>,
    /// `AUTH_JWT_SECRET`: signs the token of the user that an order is placed for.
    pub users_secret: Secret,
}

/// Shown to nobody by accident.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The callees; clones share their guards.
#[derive(Clone)]
pub struct Callees {
    pub order: Downstream,
    /// Order again, as its users see it.
    shop: Downstream,
    pub payment: Downstream,
    pub coupon: Downstream,
    /// The admin API of the links, where they run.
    pub links: Option<Downstream>,
    users_secret: Secret,
}

impl Callees {
    pub fn new(at: &Addresses, own_token: &str) -> anyhow::Result<Self> {
        let callee = |name, url: &str, token| {
            Downstream::new(name, url, token, &rule(), RESERVE).with_context(|| format!("no client for {name}"))
        };
        Ok(Self {
            order: callee("order", &at.order_url, Some(own_token))?,
            shop: callee("shop", &at.order_url, None)?,
            payment: callee("payment", &at.payment_url, Some(own_token))?,
            coupon: callee("coupon", &at.coupon_url, Some(own_token))?,
            links: at.links_admin_url.as_deref().map(|url| callee("links", url, None)).transpose()?,
            users_secret: at.users_secret.clone(),
        })
    }

    /// What order answers to a user, whatever it is: its status and its body.
    pub async fn as_user(
        &self,
        context: &RequestContext,
        user: UserId,
        request: (Method, &str),
        body: Option<&Value>,
        headers: &[(&str, &str)],
    ) -> Result<(u16, Value), Error> {
        let token = format!("Bearer {}", self.token(user)?);
        let headers: Vec<_> = headers.iter().copied().chain([("authorization", token.as_str())]).collect();
        let judge = |status: u16, bytes: &[u8]| {
            Ok((status, serde_json::from_slice(bytes).unwrap_or_else(|_| String::from_utf8_lossy(bytes).into())))
        };
        let (method, path) = request;
        let answer = self.shop.call_judged(context, method, path, body, &headers, judge).await;
        answer.map_err(|error| Error::Callee { callee: "order", error })
    }

    fn token(&self, user: UserId) -> Result<String, Error> {
        let exp = Utc::now().timestamp().unsigned_abs() + TOKEN_LASTS_SECONDS;
        let claims = Claims { sub: user, name: None, tenant: None, tier: None, scope: Scope::User, exp };
        auth::mint(&self.users_secret.0, &claims).map_err(|error| {
            tracing::error!(%error, "a user's token cannot be signed");
            Error::Panicked(chassis::lifecycle::Panicked)
        })
    }
}

/// A name always means the same user, and an id means itself.
#[must_use]
pub fn user_of(text: &str) -> UserId {
    UserId::from_uuid(Uuid::parse_str(text).unwrap_or_else(|_| Uuid::new_v5(&Uuid::NAMESPACE_OID, text.as_bytes())))
}

/// A few people wait for it, longer than a customer would.
fn rule() -> rules::Downstream {
    let longest = Duration::from_secs(10);
    rules::Downstream {
        timeout: longest,
        attempt_timeout: longest,
        bulkhead: BulkheadConfig { cap: 20, max_waiting: 20, ..BulkheadConfig::default() },
        ..rules::Downstream::default()
    }
}
