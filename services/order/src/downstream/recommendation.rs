//! Recommendation: degradable, and never waited for by an order.

use chassis::{CallError, Downstream, RequestContext};
use contracts::{UserId, order::Suggestion, recommendation::Recommendations};

#[derive(Clone)]
pub struct Recommendation(pub Downstream);

/// Suggestions shown with an order or a product.
const SHOWN: usize = 5;

impl Recommendation {
    /// What goes with `sku`.
    pub async fn suggest(
        &self,
        context: &RequestContext,
        user: UserId,
        sku: &str,
    ) -> Result<Vec<Suggestion>, CallError> {
        let path = format!("/v1/recommendations?user_id={user}&sku={}&limit={SHOWN}", percent_encoded(sku));
        let answer = self.0.get::<Recommendations>(context, &path).await?;
        Ok(answer.body.items.into_iter().map(|item| Suggestion { sku: item.sku, name: item.name }).collect())
    }
}

/// SKUs are visible ASCII, which includes characters that mean something in a query.
pub fn percent_encoded(text: &str) -> String {
    text.bytes()
        .map(|b| match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(b).to_string(),
            other => format!("%{other:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_something_in_a_query_is_encoded() {
        assert_eq!(percent_encoded("TEA-1_a.~"), "TEA-1_a.~");
        assert_eq!(percent_encoded("a&b=c/d?"), "a%26b%3Dc%2Fd%3F");
    }
}
