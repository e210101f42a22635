//! The API's document, served on the admin port.

use chassis::openapi::ForOperators;
use utoipa::OpenApi;

use super::{audit, current, faults, letters, live, orders, reviews, rules, session, switches};

#[derive(OpenApi)]
#[openapi(
    info(title = "console", description = "Where operators look and act, and services ask for the rules."),
    paths(
        session::begin, session::show, session::end,
        rules::list, rules::publish, rules::validate, rules::instances, rules::one, rules::diff, rules::canary,
        rules::promote, rules::rollback, switches::list, switches::turn, current::current, current::applied,
        audit::list, live::show, live::events,
        orders::list, orders::get, orders::history, orders::place, orders::products,
        letters::list, letters::replay, reviews::list, reviews::ask,
        faults::list, faults::set, faults::remove, faults::remove_all
    ),
    // Named in paths alone, from which schemas are not gathered.
    components(schemas(contracts::OrderId, contracts::AttemptId)),
    modifiers(&ForOperators)
)]
pub struct Document;
