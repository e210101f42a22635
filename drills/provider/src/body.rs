//! How a request is read: the body, and the key that goes with whatever moves money.

use std::{fmt, marker::PhantomData, pin::Pin};

use actix_web::{
    FromRequest, HttpRequest,
    dev::Payload,
    error::{JsonPayloadError, PayloadError},
    web,
};
use contracts::{
    Problem, ProblemType,
    headers::{self, IdempotencyKey},
    validate::Validate,
};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, MapAccess, Visitor, value::MapAccessDeserializer},
};

use crate::problems::Refusal;

/// A body that was read and is in range.
pub struct Body<T>(pub T);

/// A JSON object. Serde alone would also take an array with the fields in their order.
struct Object<T>(T);

const MAX_BODY: usize = 64 * 1024;

/// The `idempotency-key` header, which every request that moves money needs.
pub fn required_key(request: &HttpRequest) -> Result<String, Refusal> {
    let Some(value) = request.headers().get(headers::IDEMPOTENCY_KEY) else {
        return Err(Refusal::new(ProblemType::IdempotencyKeyMissing, "the idempotency-key header is missing"));
    };
    let key = value.to_str().ok().and_then(|text| IdempotencyKey::parse(text).ok());
    let key = key.ok_or_else(|| {
        Problem::new(ProblemType::InvalidRequest, "the idempotency key cannot be read")
            .with_field(headers::IDEMPOTENCY_KEY, headers::NotAnIdempotencyKey.to_string())
    })?;
    Ok(key.as_str().to_owned())
}

pub fn json_config() -> web::JsonConfig {
    web::JsonConfig::default().limit(MAX_BODY).content_type_required(true).error_handler(|error, _| {
        match error {
            JsonPayloadError::ContentType => {
                Refusal::new(ProblemType::UnsupportedMediaType, "the body must be application/json")
            }
            JsonPayloadError::Overflow { .. }
            | JsonPayloadError::OverflowKnownLength { .. }
            | JsonPayloadError::Payload(PayloadError::Overflow) => {
                Refusal::new(ProblemType::PayloadTooLarge, format!("the body exceeds {MAX_BODY} bytes"))
            }
            other => Refusal::new(ProblemType::InvalidRequest, other.to_string()),
        }
        .into()
    })
}

impl<T: DeserializeOwned + Validate + 'static> FromRequest for Body<T> {
    type Error = actix_web::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self, Self::Error>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let read = web::Json::<Object<T>>::from_request(request, payload);
        Box::pin(async move {
            let Object(value) = read.await?.into_inner();
            value.validate().map_err(Refusal::from)?;
            Ok(Self(value))
        })
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<T>(PhantomData<T>);

        impl<'de, T: DeserializeOwned> Visitor<'de> for Members<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(members)).map(Object)
            }
        }

        deserializer.deserialize_map(Members(PhantomData))
    }
}
