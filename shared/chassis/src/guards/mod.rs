//! The inbound guards, composed: what a request that has shown who it is passes before its handler.
//!
//! The authentication of a scope calls [`admit`], so that a route behind authentication is behind the guards too, and
//! nobody unknown uses anything up. In this order: in-flight cap → the route's bucket → the bucket of whoever asks →
//! the cluster's quota → composite rules. The route's bucket is looked at before the user's is touched, and taken from after it: a full house costs nobody their own
//! quota, and a user far above theirs takes nothing from the others.
//!
//! A refusal stores nothing and asks nobody. The limiters are made once a process, outside the web server's workers, or
//! every quota would be multiplied by their number; new rules reconfigure them, and they keep what they have counted.

mod criticality;
mod in_flight;
mod key_limits;
mod quotas;
mod rate_limit_headers;
mod refusal;
mod route_limits;
mod tenants;
mod waiting;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use actix_web::{
    Error, HttpMessage,
    body::{BodySize, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    middleware::Next,
    web,
};
use contracts::Service;
use rules::{Rules, RulesHandle};
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior};

use crate::{
    ApiProblem, Lifecycle, RequestContext, auth,
    context::{OPERATORS, Shared, USERS},
    problem,
    signals::Signals,
};
use in_flight::InFlight;
use key_limits::KeyLimits;
use quotas::{Presence, Quotas};
use rate_limit_headers::Governed;
use refusal::{Refusal, Refusals};
use route_limits::RouteLimits;
use tenants::Tenants;

pub use quotas::{BadRule, SharedRedis};
pub use refusal::Refused;
pub use waiting::{Place, Waiting};

/// Often enough that memory follows the present, seldom enough that nobody notices.
const EVICT_EVERY: Duration = Duration::from_secs(5);

/// The guards' state; one a process.
pub struct Guards {
    service: Service,
    in_flight: InFlight,
    routes: RouteLimits,
    keys: KeyLimits,
    quotas: Quotas,
    signals: Signals,
    refusals: Refusals,
    tenants: Tenants,
}

/// Who asks, as far as the guards care.
enum Asking {
    User(auth::User),
    Caller(auth::Caller),
    Sender(auth::Sender),
    Operator(auth::Operator),
}

impl Asking {
    /// The consumer that composite rules judge by.
    fn consumer(&self) -> &str {
        match self {
            Self::User(user) => user.tenant.as_deref().unwrap_or(USERS),
            Self::Caller(caller) => &caller.0,
            Self::Sender(sender) => &sender.0,
            Self::Operator(_) => OPERATORS,
        }
    }
}

impl Guards {
    /// With `redis`, quotas of the whole cluster are counted there, for all instances together; `instance` is the name
    /// of this one. To be called on the runtime that is to talk to Redis.
    pub fn new(
        service: Service,
        instance: &str,
        redis: Option<SharedRedis>,
        signals: Signals,
        rules: &Rules,
    ) -> Result<Self, BadRule> {
        signals.apply(rules);
        Ok(Self {
            service,
            in_flight: InFlight::default(),
            routes: RouteLimits::new(service, rules)?,
            keys: KeyLimits::new(&rules.key_limits)?,
            quotas: Quotas::new(service, instance, redis, rules)?,
            signals,
            refusals: Refusals::new()?,
            tenants: Tenants::default(),
        })
    }

    /// Follows the rules and forgets idle keys, until shutdown.
    pub fn keep_up(self: &Arc<Self>, rules: &RulesHandle, lifecycle: &Lifecycle) {
        let (guards, rules) = (self.clone(), rules.clone());
        let mut changes = rules.subscribe();
        lifecycle.spawn_background("guards", |stop| async move {
            // What changed between their making and the subscription.
            guards.apply(&rules.current());
            let mut presence = Presence::default();
            presence.follow(&guards.quotas);
            let mut tick = tokio::time::interval(EVICT_EVERY);
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    () = stop.cancelled() => return,
                    // The sender cannot be gone: `rules` holds one.
                    _ = changes.changed() => {
                        let in_force = changes.borrow_and_update().clone();
                        guards.apply(&in_force.rules);
                        presence.follow(&guards.quotas);
                    }
                    _ = tick.tick() => guards.keys.evict_idle(),
                }
            }
        });
    }

    fn apply(&self, rules: &Rules) {
        self.signals.apply(rules);
        let applied = [
            self.routes.apply(rules).map_err(BadRule::from),
            self.keys.apply(&rules.key_limits).map_err(BadRule::from),
            self.quotas.apply(rules),
        ];
        for error in applied.into_iter().filter_map(Result::err) {
            // Rules are validated before they come into force, so this tells of a gap in their validation.
            tracing::error!(%error, rule_version = rules.version, "a limiter cannot take its new rule and keeps the old");
        }
    }

    /// For `/internal/state`.
    pub(crate) fn snapshot(&self, rules: &Rules) -> Value {
        let caps = in_flight::caps(self.service, rules);
        json!({
            "in_flight": {
                "taken": self.in_flight.taken(), "limit": caps.critical, "sheddable_limit": caps.sheddable
            },
            "routes": self.routes.snapshot(rules),
            "keys": self.keys.snapshot(),
            "quotas": self.quotas.snapshot(),
            "composite": self.signals.snapshot(),
            "degrade": BTreeMap::from(rules.degrade.levels()),
        })
    }

    /// Gauges, set when somebody asks for them.
    pub(crate) fn measure(&self, rules: &Rules) {
        let caps = in_flight::caps(self.service, rules);
        metrics::gauge!("http_inflight_limit").set(f64::from(caps.critical));
        self.routes.measure();
        self.keys.measure();
        self.quotas.measure();
        self.refusals.measure();
        self.signals.measure();
        for (feature, level) in rules.degrade.levels() {
            let levels = rules::feature(feature).map_or(&[] as &[&str], |feature| feature.levels);
            let index = levels.iter().position(|known| *known == level).unwrap_or_default();
            metrics::gauge!("stability_degrade_level", "feature" => feature).set(index as f64);
        }
    }
}

/// Lets a request through to its handler, or answers in its place. Who asks has to be among its extensions.
pub async fn admit<B: MessageBody>(request: ServiceRequest, next: Next<B>) -> Result<ServiceResponse<B>, Error> {
    let shared = request.app_data::<web::Data<Shared>>().cloned();
    let mut context = request.extensions().get::<RequestContext>().cloned();
    let asking = {
        let extensions = request.extensions();
        let user = extensions.get::<auth::User>().cloned().map(Asking::User);
        let caller = || extensions.get::<auth::Caller>().cloned().map(Asking::Caller);
        let sender = || extensions.get::<auth::Sender>().cloned().map(Asking::Sender);
        let operator = || extensions.get::<auth::Operator>().cloned().map(Asking::Operator);
        user.or_else(caller).or_else(sender).or_else(operator)
    };
    let (Some(shared), Some(context), Some(asking)) = (shared, context.as_mut(), asking) else {
        return Err(ApiProblem::from(problem::internal()).into());
    };
    let (guards, rules) = (&shared.guards, shared.rules.current());
    let pattern = request.match_pattern().unwrap_or_default();
    let rule = rules.route(request.method().as_str(), &pattern);
    let criticality = criticality::of(&request, rule.criticality, &asking)?;
    context.criticality = criticality;
    context.consumer = asking.consumer().into();
    request.extensions_mut().insert(context.clone());
    if let Asking::User(auth::User { tenant: Some(tenant), .. }) = &asking {
        guards.tenants.count(tenant);
    }
    let refuse = |refused| guards.refusals.answer(refused, rules.version);

    let caps = in_flight::caps(guards.service, &rules);
    let permit = guards.in_flight.enter(caps.of(criticality)).map_err(refuse)?;
    let route = guards.routes.find(request.method().as_str(), &pattern);
    let route_permit = match (route, rule.max_in_flight) {
        (Some(route), Some(most)) => {
            let caps = in_flight::Caps::new(most, caps.sheddable_share);
            Some(route.in_flight.enter(caps.of(criticality)).map_err(refuse)?)
        }
        _ => None,
    };
    let waiting = route.map(|route| route.waiting.clone()).unwrap_or_default();
    let place = Place::new([permit].into_iter().chain(route_permit), waiting, rule.max_waiting);
    let mut governed = Governed::default();
    let taken = route.map(|route| route.look()).transpose().map_err(refuse)?.flatten();
    guards.keys.take(&asking, rule.key_limit, &mut governed).map_err(refuse)?;
    if let Some(route) = route {
        let taken = match taken {
            Some(taken) => taken,
            None => route.take(context.deadline).await.map_err(refuse)?,
        };
        governed.add(route_limits::POLICY, &taken);
    }
    if let Some(quota) = &rule.quota {
        guards.quotas.take(quota, context.deadline, &mut governed).await.map_err(refuse)?;
    }

    let provider = guards.service.as_str();
    guards.signals.check(context, provider).map_err(|held| refuse(Refusal::by_rule(&held)))?;

    request.extensions_mut().insert(place);
    let started = Instant::now();
    let answer = next.call(request).await;
    // A request that its client leaves ends above, and says nothing.
    let (failed, bytes) = match &answer {
        Ok(answer) => (answer.status().is_server_error(), bytes(answer.response().body())),
        Err(error) => (error.as_response_error().status_code().is_server_error(), 0),
    };
    guards.signals.record(context, provider, failed, started.elapsed(), bytes);
    let mut answer = answer?;
    governed.write(answer.headers_mut());
    // The request outlives its handler; its place does not.
    answer.request().extensions_mut().remove::<Place>();
    Ok(answer)
}

/// Of a body whose length is known.
fn bytes(body: &impl MessageBody) -> u64 {
    match body.size() {
        BodySize::Sized(bytes) => bytes,
        BodySize::None | BodySize::Stream => 0,
    }
}
