//! `/v1/dead-letters`: messages that no consumer could use, looked at and sent again.

use std::fmt;

use actix_web::{HttpRequest, HttpResponse, web};
use chassis::{
    ApiProblem, RequestContext,
    extract::{Body, Query, path},
};
use chrono::{DateTime, Utc};
use contracts::{OrderId, topic::DEAD_LETTER_SUFFIX};
use events::dlq::{self, DeadLetter, Selection};
use serde::{Deserialize, Serialize};
use tokio::time::timeout_at;
use utoipa::{IntoParams, ToSchema};

use super::{
    Api, on_main,
    operator::Operator,
    reason::{Reason, note},
};
use crate::{Error, store::audit::Action};

/// Of one answer unless asked otherwise, and at most.
const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 200;

/// A letter, as the page shows it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Letter {
    id: String,
    topic: String,
    partition: i32,
    offset: i64,
    at: Option<DateTime<Utc>>,
    event_type: Option<String>,
    reason: Option<String>,
    detail: Option<String>,
    /// The consumer group that gave it up.
    consumer: Option<String>,
    order_id: Option<OrderId>,
    origin_topic: Option<String>,
    /// Whether it was sent again since.
    replayed: bool,
    /// The beginning of what it says.
    payload: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Letters {
    items: Vec<Letter>,
}

/// Where a letter lies: `orders.dlq-0-7`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LetterId {
    topic: String,
    partition: i32,
    offset: i64,
}

impl fmt::Display for LetterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.topic, self.partition, self.offset)
    }
}

impl std::str::FromStr for LetterId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parsed = || {
            let (rest, offset) = text.rsplit_once('-')?;
            let (topic, partition) = rest.rsplit_once('-')?;
            let topic = topic.ends_with(DEAD_LETTER_SUFFIX).then(|| topic.to_owned())?;
            Some(Self { topic, partition: partition.parse().ok()?, offset: offset.parse().ok()? })
        };
        parsed().ok_or(Error::NotFound("there is no such letter"))
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// With or without `.dlq`; all by default.
    topic: Option<String>,
    /// 1 to 200, by default 50.
    limit: Option<String>,
}

/// The newest, newest first.
#[utoipa::path(
    get, path = "/v1/dead-letters", tag = "dead letters", params(ListQuery),
    responses(
        (status = 200, body = Letters),
        (status = 400, description = "`invalid-request`, naming `topic`, `limit` or the `query`"),
        (status = 503, description = "`overloaded`: Kafka does not answer"),
    )
)]
pub(super) async fn list(
    api: web::Data<Api>,
    context: RequestContext,
    query: Query<ListQuery>,
) -> Result<HttpResponse, ApiProblem> {
    let ListQuery { topic, limit } = query.0;
    let limit = match limit {
        None => DEFAULT_LIMIT,
        Some(text) => text
            .parse()
            .ok()
            .filter(|limit| (1..=MAX_LIMIT).contains(limit))
            .ok_or(Error::BadQuery { field: "limit", detail: "must be 1 to 200" })?,
    };
    let kafka = api.kafka.clone();
    let reading = async move {
        let reading = dlq::newest(&kafka, topic.as_deref(), limit);
        let letters = timeout_at(context.deadline.instant(), reading).await.map_err(|_| Error::OutOfTime)??;
        let items = letters.into_iter().map(|letter| shown(letter, &kafka.topic_prefix)).collect();
        Ok::<_, Error>(Letters { items })
    };
    Ok(HttpResponse::Ok().json(on_main(&api, reading).await?))
}

fn shown(letter: DeadLetter, prefix: &str) -> Letter {
    let bare = |topic: String| topic.strip_prefix(prefix).map(str::to_owned).unwrap_or(topic);
    let topic = bare(letter.topic);
    let id = LetterId { topic: topic.clone(), partition: letter.partition, offset: letter.offset };
    Letter {
        id: id.to_string(),
        topic,
        partition: letter.partition,
        offset: letter.offset,
        at: letter.time,
        event_type: letter.event_type,
        reason: letter.reason,
        detail: letter.detail,
        consumer: letter.group,
        order_id: letter.key.and_then(|key| key.parse().ok()),
        origin_topic: letter.origin_topic.map(bare),
        replayed: letter.replayed,
        payload: letter.payload,
    }
}

/// How many messages went out for a letter: none, where it had gone before.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Replayed {
    messages: usize,
}

/// Sends a letter to where it came from, once.
#[utoipa::path(
    post, path = "/v1/dead-letters/{letter}/replay", tag = "dead letters", params(("letter" = String, Path)),
    request_body = Reason,
    responses(
        (status = 200, body = Replayed),
        (status = 404, description = "`not-found`: there is no such letter, or it does not say where it came from"),
        (status = 503, description = "`overloaded`: Kafka does not answer"),
    )
)]
pub(super) async fn replay(
    request: HttpRequest,
    api: web::Data<Api>,
    context: RequestContext,
    operator: Operator,
    body: Body<Reason>,
) -> Result<HttpResponse, ApiProblem> {
    let id: LetterId = path(&request, "letter")?;
    let sending = {
        let api = Api::clone(&api);
        async move {
            let target = id.to_string();
            let action =
                Action { operator: &operator.name, action: "replay", target: &target, reason: body.0.reason.trim() };
            note(&api, context.deadline, action).await?;
            timeout_at(context.deadline.instant(), send_again(&api, &id)).await.map_err(|_| Error::OutOfTime)?
        }
    };
    let replayed = on_main(&api, sending).await?;
    api.letters_changed.notify_one();
    Ok(HttpResponse::Ok().json(replayed))
}

async fn send_again(api: &Api, id: &LetterId) -> Result<Replayed, Error> {
    let none = Error::NotFound("there is no such letter");
    let which = Selection::At { partition: id.partition, offset: id.offset };
    let sent = match dlq::replay(&api.kafka, Some(&id.topic), &which).await {
        Err(dlq::DlqError::UnknownTopic(..)) => return Err(none),
        sent => sent?,
    };
    if sent.without_origin > 0 {
        return Err(Error::NotFound("the letter does not say where it came from"));
    }
    if sent.letters.is_empty() {
        // It went before, or is none.
        let letters = dlq::list(&api.kafka, Some(&id.topic)).await?;
        letters.iter().find(|letter| (letter.partition, letter.offset) == (id.partition, id.offset)).ok_or(none)?;
    }
    Ok(Replayed { messages: sent.messages })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_is_named_by_where_it_lies() {
        let id: LetterId = "payments.reconcile.dlq-0-17".parse().unwrap();
        assert_eq!(id, LetterId { topic: "payments.reconcile.dlq".to_owned(), partition: 0, offset: 17 });
        assert_eq!(id.to_string(), "payments.reconcile.dlq-0-17");
        for none in
            ["", "orders.dlq", "orders.dlq-0", "orders-0-7", "orders.dlq-x-7", "orders.dlq-0-99999999999999999999"]
        {
            assert!(none.parse::<LetterId>().is_err(), "{none}");
        }
    }
}
