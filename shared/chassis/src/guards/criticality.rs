//! How important a request is: what its route says, and what its caller says.
//!
//! One of our own services passes on what it is working for. A caller outside can step back and not push forward:
//! otherwise everybody would be critical.

use actix_web::dev::ServiceRequest;
use contracts::{Problem, ProblemType, headers};
use rules::Criticality;

use super::Asking;
use crate::ApiProblem;

pub(super) fn of(request: &ServiceRequest, by_rule: Criticality, asking: &Asking) -> Result<Criticality, ApiProblem> {
    let Some(value) = request.headers().get(headers::CRITICALITY) else { return Ok(by_rule) };
    let said = match value.as_bytes() {
        b"critical" => Criticality::Critical,
        b"sheddable" => Criticality::Sheddable,
        _ => {
            let problem = Problem::new(ProblemType::InvalidRequest, "x-criticality is none that is known");
            return Err(problem.with_field(headers::CRITICALITY, "must be critical or sheddable").into());
        }
    };
    Ok(match asking {
        Asking::User(_) | Asking::Sender(_) => said.min(by_rule),
        // Nobody acts for an operator, and what one says is meant.
        Asking::Caller(_) | Asking::Operator(_) => said,
    })
}
