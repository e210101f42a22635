//! Who is calling: users by a signed token, services by a secret of their own.

use std::{
    collections::BTreeMap,
    future::{Ready, ready},
};

use actix_web::{
    Error, FromRequest, HttpMessage, HttpRequest,
    body::MessageBody,
    dev::{Payload, ServiceRequest, ServiceResponse},
    http::header,
    middleware::Next,
    web,
};
use contracts::{Problem, ProblemType, Service, UserId};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use crate::{
    ApiProblem, dev_secrets,
    env::{ConfigError, Env, bad, check_secret},
    guards, hs256, problem,
};

/// What a user's token says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    pub sub: UserId,
    /// What an operator is called by, in histories and logs; the id where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    pub scope: Scope,
    /// Seconds since 1970, UTC.
    pub exp: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    User,
    Operator,
}

/// A token for `claims`.
pub fn mint(secret: &str, claims: &Claims) -> Result<String, jsonwebtoken::errors::Error> {
    hs256::install();
    jsonwebtoken::encode(&Header::new(Algorithm::HS256), claims, &EncodingKey::from_secret(secret.as_bytes())?)
}

/// The secrets of one process.
#[derive(Clone)]
pub struct Credentials {
    jwt: DecodingKey,
    /// What this service shows to others.
    own_token: String,
    /// Who may call this service, and by which token.
    callers: BTreeMap<String, String>,
}

impl Credentials {
    /// `AUTH_JWT_SECRET`, `INTERNAL_TOKEN` and `INTERNAL_TOKENS` (`caller:token,…`).
    pub fn from_env(service: Service, env: &mut Env) -> Result<Self, ConfigError> {
        let dev = env.is_dev()?;
        let jwt = env.secret("AUTH_JWT_SECRET", dev_secrets::AUTH_JWT_SECRET)?;
        let own_token = env.secret("INTERNAL_TOKEN", &dev_secrets::internal_token(service.as_str()))?;
        let callers = match env.get("INTERNAL_TOKENS") {
            Some(list) => parse_callers(&list, dev)?,
            None if dev => {
                Service::WITH_CONSOLE.iter().map(|s| (s.to_string(), dev_secrets::internal_token(s.as_str()))).collect()
            }
            None => return Err(bad("INTERNAL_TOKENS", "is required unless APP_ENV=dev")),
        };
        hs256::install();
        let jwt =
            DecodingKey::from_secret(jwt.as_bytes()).map_err(|error| bad("AUTH_JWT_SECRET", error.to_string()))?;
        Ok(Self { jwt, own_token, callers })
    }

    #[must_use]
    pub fn own_token(&self) -> &str {
        &self.own_token
    }

    fn user(&self, token: &str) -> Option<Claims> {
        // The algorithm is fixed here and never taken from the token: `alg: none` and key confusion end at this line.
        let mut validation = Validation::new(Algorithm::HS256);
        validation.leeway = 0;
        validation.set_required_spec_claims(&["exp", "sub"]);
        jsonwebtoken::decode::<Claims>(token, &self.jwt, &validation).ok().map(|data| data.claims)
    }

    fn caller(&self, token: &str) -> Option<&str> {
        // All are compared, each in constant time, so that the time taken tells nothing about any of them.
        let mut found = None;
        for (name, expected) in &self.callers {
            if bool::from(expected.as_bytes().ct_eq(token.as_bytes())) {
                found = Some(name.as_str());
            }
        }
        found
    }
}

/// `caller:token,…`
fn parse_callers(list: &str, dev: bool) -> Result<BTreeMap<String, String>, ConfigError> {
    const VARIABLE: &str = "INTERNAL_TOKENS";
    let mut callers = BTreeMap::new();
    for entry in list.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let (name, token) = match entry.split_once(':') {
            Some((name, token)) if !name.is_empty() && !token.is_empty() => (name, token),
            // The entry itself may hold a secret; it is not repeated.
            _ => return Err(bad(VARIABLE, "is not of the form caller:token,caller:token")),
        };
        if !dev {
            check_secret(VARIABLE, token)?;
        }
        if callers.insert(name.to_owned(), token.to_owned()).is_some() {
            return Err(bad(VARIABLE, format!("names {name} twice")));
        }
    }
    Ok(callers)
}

/// The user of a request that [`require_user`] let through.
#[derive(Debug, Clone)]
pub struct User {
    pub id: UserId,
    pub tenant: Option<String>,
    pub tier: Option<String>,
}

/// The service that sent a request which [`require_caller`] let through.
#[derive(Debug, Clone)]
pub struct Caller(pub String);

/// The operator of a request that a scope for operators let through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operator {
    pub name: String,
}

/// The longest name of an operator; a longer one is cut.
const MAX_OPERATOR_NAME: usize = 64;

/// Whoever says what a webhook tells. Not yet proved when the guards see it: the proof covers the body, which they do not
/// read, so that its quota is all that a stranger can use up.
#[derive(Debug, Clone)]
pub struct Sender(pub String);

/// For webhooks: the handler checks the signature. The sender's name is the last part of the path. Behind it are the
/// [`guards`].
pub async fn accept_sender<B: MessageBody>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, Error> {
    let name = request.match_pattern().and_then(|pattern| Some(pattern.rsplit_once('/')?.1.to_owned()));
    request.extensions_mut().insert(Sender(name.unwrap_or_default()));
    guards::admit(request, next).await
}

/// For scopes that users call. Behind it are the [`guards`].
pub async fn require_user<B: MessageBody>(request: ServiceRequest, next: Next<B>) -> Result<ServiceResponse<B>, Error> {
    let claims = credentials(&request)?.user(bearer(&request)?).ok_or_else(unauthenticated)?;
    request.extensions_mut().insert(User { id: claims.sub, tenant: claims.tenant, tier: claims.tier });
    guards::admit(request, next).await
}

/// For scopes that services call. Behind it are the [`guards`].
pub async fn require_caller<B: MessageBody>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, Error> {
    let caller = credentials(&request)?.caller(bearer(&request)?).map(str::to_owned).ok_or_else(unauthenticated)?;
    request.extensions_mut().insert(Caller(caller));
    guards::admit(request, next).await
}

/// The operator whose token a request shows: 401 without a valid one, 403 with a user's. For scopes that have more ways
/// to know an operator by; they put what they found among the request's extensions and go on to [`guards::admit`].
pub fn operator(request: &ServiceRequest) -> Result<Operator, ApiProblem> {
    let claims = credentials(request)?.user(bearer(request)?).ok_or_else(unauthenticated)?;
    match claims.scope {
        Scope::Operator => {
            let name = claims.name.filter(|name| !name.trim().is_empty()).unwrap_or_else(|| claims.sub.to_string());
            Ok(Operator { name: name.chars().filter(|c| !c.is_control()).take(MAX_OPERATOR_NAME).collect() })
        }
        Scope::User => {
            Err(Problem::new(ProblemType::Forbidden, "this is for operators, and the token is a user's").into())
        }
    }
}

/// For scopes that show one caller what is none of the others' business: the console alone. Behind it are the [`guards`].
pub async fn require_console<B: MessageBody>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, Error> {
    let caller = credentials(&request)?.caller(bearer(&request)?).ok_or_else(unauthenticated)?;
    if caller != Service::Console.as_str() {
        let refused = Problem::new(ProblemType::Forbidden, "this is for the console alone");
        return Err(ApiProblem::from(refused).into());
    }
    request.extensions_mut().insert(Caller(Service::Console.to_string()));
    guards::admit(request, next).await
}

/// Whether a request shows the token of a service, wherever it is going.
pub(crate) fn is_caller(request: &ServiceRequest) -> bool {
    credentials(request).is_ok_and(|known| bearer(request).is_ok_and(|token| known.caller(token).is_some()))
}

fn credentials(request: &ServiceRequest) -> Result<&Credentials, ApiProblem> {
    match request.app_data::<web::Data<Credentials>>() {
        Some(credentials) => Ok(credentials.get_ref()),
        None => Err(problem::internal().into()),
    }
}

fn bearer(request: &ServiceRequest) -> Result<&str, ApiProblem> {
    let value = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let (scheme, token) = value.and_then(|value| value.split_once(' ')).ok_or_else(unauthenticated)?;
    if scheme.eq_ignore_ascii_case("bearer") { Ok(token.trim()) } else { Err(unauthenticated()) }
}

/// One answer for a missing, expired, forged or foreign token: which of them it was helps only an attacker.
fn unauthenticated() -> ApiProblem {
    Problem::new(ProblemType::Unauthenticated, "a valid bearer token is required").into()
}

macro_rules! from_extensions {
    ($name:ident) => {
        impl FromRequest for $name {
            type Error = ApiProblem;
            type Future = Ready<Result<Self, ApiProblem>>;

            fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
                // Missing only on a route outside the scope that authenticates; refused, never let through.
                ready(request.extensions().get::<Self>().cloned().ok_or_else(unauthenticated))
            }
        }
    };
}

from_extensions!(User);
from_extensions!(Caller);
from_extensions!(Operator);

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials() -> Credentials {
        let mut env = Env::from_pairs([("APP_ENV".to_owned(), "dev".to_owned())]);
        Credentials::from_env(Service::Order, &mut env).unwrap()
    }

    fn claims(exp: i64) -> Claims {
        let exp = u64::try_from(chrono::Utc::now().timestamp() + exp).unwrap();
        Claims { sub: UserId::generate(), name: None, tenant: None, tier: None, scope: Scope::User, exp }
    }

    #[test]
    fn a_token_of_ours_is_read_back() {
        let claims = claims(60);
        let token = mint(dev_secrets::AUTH_JWT_SECRET, &claims).unwrap();
        assert_eq!(credentials().user(&token), Some(claims));
    }

    #[test]
    fn expired_wrongly_signed_unsigned_and_garbled_tokens_are_refused() {
        let expired = mint(dev_secrets::AUTH_JWT_SECRET, &claims(-1)).unwrap();
        let forged = mint("another-secret-of-at-least-32-bytes!!", &claims(60)).unwrap();
        // {"alg":"none","typ":"JWT"} with the payload of a valid token and no signature.
        let valid = mint(dev_secrets::AUTH_JWT_SECRET, &claims(60)).unwrap();
        let payload = valid.split('.').nth(1).unwrap();
        let unsigned = format!("eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.{payload}.");
        for token in [expired.as_str(), &forged, &unsigned, "", "a.b.c", "x"] {
            assert_eq!(credentials().user(token), None, "{token}");
        }
    }

    #[test]
    fn a_caller_is_known_by_its_own_token_alone() {
        let credentials = credentials();
        assert_eq!(credentials.caller(&dev_secrets::internal_token("payment")), Some("payment"));
        assert_eq!(credentials.caller("dev-only-internal-token-of-"), None);
        assert_eq!(credentials.caller(""), None);
    }

    #[test]
    fn a_malformed_list_of_callers_is_refused_without_repeating_a_secret() {
        for bad in ["order", ":t", "order:", "order:a,order:b"] {
            let error = parse_callers(bad, true).unwrap_err();
            assert_eq!(error.variable, "INTERNAL_TOKENS");
        }
        let error = parse_callers("just-a-secret-without-a-name", true).unwrap_err().to_string();
        assert!(!error.contains("just-a-secret"), "{error}");
        assert!(parse_callers(&format!("order:{}", dev_secrets::internal_token("order")), false).is_err());
    }
}
