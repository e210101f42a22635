//! Recommendation: degradable, and never waited for by an order.

use chassis::{CallError, Degradable, Downstream, RequestContext};
use contracts::{
    UserId,
    order::Suggestion,
    recommendation::{Recommendations, Recommended, default_list},
};
use resilience::{
    degrade::{Chain, Served},
    last_known::{LastKnown, LastKnownSnapshot},
};
use rules::RulesHandle;

use super::products::limits;

/// One a process.
pub struct Recommendation {
    callee: Downstream,
    switch: Degradable,
    rules: RulesHandle,
    /// By SKU. What a user owns is not left out of another's answer, which is what makes it the lesser one.
    last: LastKnown<Vec<Suggestion>>,
}

/// Suggestions shown with an order or a product.
const SHOWN: usize = 5;

impl Recommendation {
    #[must_use]
    pub fn new(callee: Downstream, rules: &RulesHandle, switch: Degradable) -> Self {
        Self { callee, switch, rules: rules.clone(), last: LastKnown::new(limits(rules)) }
    }

    /// What goes with `sku`: as recommendation says, or said last, or the default list, or nothing.
    pub async fn suggest(&self, context: &RequestContext, user: UserId, sku: &str) -> Served<Vec<Suggestion>> {
        self.last.reconfigure(limits(&self.rules));
        let chain = self.switch.begin(context);
        self.less(chain.or("live", async || self.ask(context, user, sku).await.map_err(drop)).await, sku).await
    }

    /// The same for one who cannot wait for recommendation.
    pub async fn suggest_at_once(&self, context: &RequestContext, sku: &str) -> Served<Vec<Suggestion>> {
        self.less(self.switch.begin(context), sku).await
    }

    #[must_use]
    pub fn switch(&self) -> &Degradable {
        &self.switch
    }

    #[must_use]
    pub fn snapshot(&self) -> LastKnownSnapshot {
        self.last.snapshot()
    }

    async fn ask(&self, context: &RequestContext, user: UserId, sku: &str) -> Result<Vec<Suggestion>, CallError> {
        let path = format!("/v1/recommendations?user_id={user}&sku={}&limit={SHOWN}", percent_encoded(sku));
        let answer = self.callee.get::<Recommendations>(context, &path).await?;
        let found: Vec<_> = answer.body.items.into_iter().map(suggestion).collect();
        self.last.keep(sku, found.clone());
        Ok(found)
    }

    /// The levels below "live": local, and at once.
    async fn less(&self, chain: Chain<'_, Vec<Suggestion>, ()>, sku: &str) -> Served<Vec<Suggestion>> {
        let last = || std::future::ready(self.last.recall(sku).map(|(last, _)| last).map_err(drop));
        let listed = || {
            let others = default_list().into_iter().filter(|item| item.sku != sku);
            std::future::ready(Ok(others.map(suggestion).take(SHOWN).collect()))
        };
        let chain = chain.or("cache", last).await.or("default", listed).await;
        let chain = chain.or("off", || std::future::ready(Ok(Vec::new()))).await;
        self.switch.finish(chain).unwrap_or_else(|_| self.switch.serve(Vec::new(), "off"))
    }
}

fn suggestion(item: Recommended) -> Suggestion {
    Suggestion { sku: item.sku, name: item.name }
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
