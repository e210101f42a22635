//! Problems (RFC 9457): one table of every refusal that a service may give, with its status.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use utoipa::{PartialSchema, ToSchema, openapi};

use crate::OrderId;

macro_rules! problem_types {
    ($($variant:ident $slug:literal $status:literal $title:literal),+ $(,)?) => {
        /// The kinds of problem, each a `urn:problem:<slug>`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ProblemType {
            $(#[doc = concat!("`urn:problem:", $slug, "`, status ", stringify!($status))] $variant,)+
        }

        impl ProblemType {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            #[must_use]
            pub const fn slug(self) -> &'static str {
                match self { $(Self::$variant => $slug),+ }
            }

            #[must_use]
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status),+ }
            }

            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title),+ }
            }

            #[must_use]
            pub fn from_slug(slug: &str) -> Option<Self> {
                match slug { $($slug => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

problem_types! {
    InvalidRequest "invalid-request" 400 "The request could not be read",
    IdempotencyKeyMissing "idempotency-key-missing" 400 "An idempotency key is required",
    Unauthenticated "unauthenticated" 401 "Valid credentials are required",
    PaymentDeclined "payment-declined" 402 "The payment was declined",
    Forbidden "forbidden" 403 "These credentials do not allow this",
    NotFound "not-found" 404 "There is no such resource",
    MethodNotAllowed "method-not-allowed" 405 "The resource does not have this method",
    OutOfStock "out-of-stock" 409 "Not enough stock",
    IdempotencyInFlight "idempotency-in-flight" 409 "The first request with this key is still running",
    NotCancellable "not-cancellable" 409 "The order cannot be cancelled",
    ReservationReleased "reservation-released" 409 "The reservation was released",
    PaymentFenced "payment-fenced" 409 "The payment attempt was fenced",
    CouponExpired "coupon-expired" 409 "The coupon is not valid now",
    CouponExhausted "coupon-exhausted" 409 "The coupon has no redemptions left",
    CouponAlreadyUsed "coupon-already-used" 409 "The coupon was used before",
    VersionConflict "version-conflict" 409 "Somebody else changed this first",
    PayloadTooLarge "payload-too-large" 413 "The request is too large",
    UnsupportedMediaType "unsupported-media-type" 415 "The content type is not supported",
    ValidationFailed "validation-failed" 422 "A value is out of its range",
    UnknownSku "unknown-sku" 422 "There is no such product",
    CouponUnknown "coupon-unknown" 422 "There is no such coupon",
    IdempotencyKeyReused "idempotency-key-reused" 422 "The key was used for another request",
    ContentMismatch "content-mismatch" 422 "The id was used with other content",
    RateLimited "rate-limited" 429 "Too many requests",
    Internal "internal" 500 "Something went wrong on our side",
    Overloaded "overloaded" 503 "Too much is in flight",
    PaymentUnavailable "payment-unavailable" 503 "Payment is unavailable",
    InventoryUnavailable "inventory-unavailable" 503 "Inventory is unavailable",
    PaymentNotDispatched "payment-not-dispatched" 503 "The payment was not sent to the provider",
    StorageUnavailable "storage-unavailable" 503 "The database is unavailable",
    DeadlineExceeded "deadline-exceeded" 504 "There was not enough time",
}

const URN: &str = "urn:problem:";

impl ProblemType {
    /// Whether the same request, sent again later, may fare better.
    #[must_use]
    pub const fn retryable(self) -> bool {
        matches!(self, Self::IdempotencyInFlight | Self::RateLimited | Self::DeadlineExceeded) || self.status() == 503
    }

    /// What a bare status means, where nothing else is known.
    #[must_use]
    pub const fn of_status(status: u16) -> Self {
        match status {
            401 => Self::Unauthenticated,
            403 => Self::Forbidden,
            404 => Self::NotFound,
            405 => Self::MethodNotAllowed,
            413 => Self::PayloadTooLarge,
            415 => Self::UnsupportedMediaType,
            429 => Self::RateLimited,
            400..=499 => Self::InvalidRequest,
            503 => Self::Overloaded,
            504 => Self::DeadlineExceeded,
            _ => Self::Internal,
        }
    }

    /// What refuses so, for a problem that does not say it more exactly: whoever is told to come back is told by what.
    #[must_use]
    pub const fn mechanism(self) -> Option<&'static str> {
        match self {
            Self::IdempotencyInFlight => Some("idempotency"),
            Self::RateLimited => Some("rate_limit"),
            Self::Overloaded => Some("in_flight"),
            Self::PaymentUnavailable | Self::PaymentNotDispatched => Some("payment"),
            Self::InventoryUnavailable => Some("inventory"),
            Self::StorageUnavailable => Some("storage"),
            Self::DeadlineExceeded => Some("deadline"),
            _ => None,
        }
    }
}

impl fmt::Display for ProblemType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.slug())
    }
}

impl Serialize for ProblemType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{URN}{}", self.slug()))
    }
}

impl<'de> Deserialize<'de> for ProblemType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let urn = String::deserialize(deserializer)?;
        urn.strip_prefix(URN)
            .and_then(Self::from_slug)
            .ok_or_else(|| serde::de::Error::custom(format!("unknown problem type `{urn}`")))
    }
}

impl PartialSchema for ProblemType {
    fn schema() -> openapi::RefOr<openapi::Schema> {
        openapi::ObjectBuilder::new()
            .schema_type(openapi::schema::Type::String)
            .enum_values(Some(Self::ALL.iter().map(|kind| format!("{URN}{}", kind.slug()))))
            .into()
    }
}

impl ToSchema for ProblemType {}

/// One value that was refused, by its path in the request (`items[0].quantity`, `limit`, `idempotency-key`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldError {
    pub field: String,
    pub detail: String,
    /// Where the value stands, from 1, in a document of lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

impl FieldError {
    pub fn new(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { field: field.into(), detail: detail.into(), line: None }
    }
}

/// A problem body, with our extension members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    #[serde(rename = "type")]
    pub kind: ProblemType,
    pub title: String,
    pub status: u16,
    pub detail: String,
    /// What refused: for example `rate_limit.user`, `breaker.payment`, `deadline`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mechanism: Option<String>,
    /// The version of the rules that were in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_version: Option<i64>,
    /// Whether the same request, sent again later, may fare better.
    pub retryable: bool,
    /// Milliseconds to wait before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order_id: Option<OrderId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// Members of one kind alone, such as `sku` and `available` of `out-of-stock`.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Problem {
    /// The wait that a retryable problem suggests unless it knows better.
    pub const DEFAULT_RETRY_AFTER_MS: u64 = 1_000;

    #[must_use]
    pub fn new(kind: ProblemType, detail: impl Into<String>) -> Self {
        Self {
            kind,
            title: kind.title().to_owned(),
            status: kind.status(),
            detail: detail.into(),
            mechanism: kind.mechanism().map(str::to_owned),
            rule_version: None,
            retryable: kind.retryable(),
            retry_after_ms: kind.retryable().then_some(Self::DEFAULT_RETRY_AFTER_MS),
            order_id: None,
            errors: Vec::new(),
            extra: Map::new(),
        }
    }

    /// A 422 that names every value out of range.
    #[must_use]
    pub fn validation(errors: Vec<FieldError>) -> Self {
        let detail = errors.iter().map(|e| format!("{} {}", e.field, e.detail)).collect::<Vec<_>>().join("; ");
        Self { errors, ..Self::new(ProblemType::ValidationFailed, detail) }
    }

    #[must_use]
    pub fn with_field(mut self, field: impl Into<String>, detail: impl Into<String>) -> Self {
        self.errors.push(FieldError::new(field, detail));
        self
    }

    #[must_use]
    pub fn with_order(mut self, order: OrderId) -> Self {
        self.order_id = Some(order);
        self
    }

    #[must_use]
    pub fn with_mechanism(mut self, mechanism: impl Into<String>) -> Self {
        self.mechanism = Some(mechanism.into());
        self
    }

    #[must_use]
    pub fn with_retry_after_ms(mut self, wait_ms: u64) -> Self {
        self.retryable = true;
        self.retry_after_ms = Some(wait_ms);
        self
    }

    /// Adds a member that this kind of problem has to itself.
    #[must_use]
    pub fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.extra.insert(member.to_owned(), value.into());
        self
    }

    /// `Retry-After`: whole seconds, rounded up; on every 429 and 503 and every retryable 409.
    #[must_use]
    pub fn retry_after_seconds(&self) -> Option<u64> {
        let due = matches!(self.status, 429 | 503) || (self.status == 409 && self.retryable);
        due.then(|| self.retry_after_ms.unwrap_or(Self::DEFAULT_RETRY_AFTER_MS).div_ceil(1_000).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_round_trips_through_its_urn() {
        for kind in ProblemType::ALL {
            let json = serde_json::to_string(kind).unwrap();
            assert_eq!(json, format!("\"urn:problem:{}\"", kind.slug()));
            assert_eq!(serde_json::from_str::<ProblemType>(&json).unwrap(), *kind);
        }
    }

    #[test]
    fn retry_after_goes_with_every_429_and_503_and_retryable_409_and_with_nothing_else() {
        for kind in ProblemType::ALL {
            let due = matches!(kind.status(), 429 | 503) || *kind == ProblemType::IdempotencyInFlight;
            assert_eq!(Problem::new(*kind, "x").retry_after_seconds().is_some(), due, "{kind}");
        }
        let problem = Problem::new(ProblemType::RateLimited, "x").with_retry_after_ms(1_001);
        assert_eq!(problem.retry_after_seconds(), Some(2));
    }

    #[test]
    fn whoever_may_come_back_is_told_when_and_by_what_they_were_refused() {
        for kind in ProblemType::ALL {
            let problem = Problem::new(*kind, "x");
            assert_eq!(problem.mechanism.is_some(), kind.retryable(), "{kind}");
            assert_eq!(problem.retry_after_ms.is_some(), kind.retryable(), "{kind}");
        }
        let problem = Problem::new(ProblemType::Overloaded, "x").with_mechanism("degrade.admission");
        assert_eq!(problem.mechanism.as_deref(), Some("degrade.admission"), "what is known better");
    }

    #[test]
    fn members_of_one_kind_stand_beside_the_common_ones() {
        let problem = Problem::new(ProblemType::OutOfStock, "x").with("sku", "TEA-1").with("available", 3);
        let json = serde_json::to_value(&problem).unwrap();
        assert_eq!(json["sku"], "TEA-1");
        assert_eq!(json["available"], 3);
        assert_eq!(json["status"], 409);
        assert_eq!(json["retryable"], false);
        assert_eq!(serde_json::from_value::<Problem>(json).unwrap(), problem);
    }
}
