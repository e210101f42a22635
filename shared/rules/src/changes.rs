//! What differs between two rule sets, value by value, with what their documents leave out filled in.

use toml::{Table, Value};

use crate::{Rules, path::key};

/// A value that is not the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The key, as a document would have it.
    pub path: String,
    /// `None` where nothing was said, and there is no default.
    pub before: Option<Value>,
    pub after: Option<Value>,
}

impl Rules {
    /// What `after` says otherwise, in the order of the paths; but for the number of the version, which is no rule.
    #[must_use]
    pub fn changes(&self, after: &Self) -> Vec<Change> {
        let table = |rules: &Self| Table::try_from(rules).unwrap_or_default();
        let mut found = Vec::new();
        compare("", &table(self), &table(after), &mut found);
        found.retain(|change| change.path != "version");
        found
    }
}

fn compare(within: &str, before: &Table, after: &Table, found: &mut Vec<Change>) {
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let path = if within.is_empty() { key(name) } else { format!("{within}.{}", key(name)) };
        match (before.get(name), after.get(name)) {
            (Some(Value::Table(before)), Some(Value::Table(after))) => compare(&path, before, after, found),
            // One that is there as a whole, or not at all, is told value by value too.
            (Some(Value::Table(before)), None) => compare(&path, before, &Table::new(), found),
            (None, Some(Value::Table(after))) => compare(&path, &Table::new(), after, found),
            (before, after) if before == after => {}
            (before, after) => found.push(Change { path, before: before.cloned(), after: after.cloned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(before: &str, after: &str) -> Vec<(String, Option<Value>, Option<Value>)> {
        let read = |text| Rules::from_toml(text).unwrap();
        read(before)
            .changes(&read(after))
            .into_iter()
            .map(|change| (change.path, change.before, change.after))
            .collect()
    }

    #[test]
    fn a_value_that_is_the_default_is_no_change() {
        assert_eq!(told("", "version = 4\n[chain]\nretries = 3"), []);
    }

    #[test]
    fn a_change_is_told_with_its_path_and_both_values() {
        let expected = ("chain.retries".to_owned(), Some(Value::Integer(3)), Some(Value::Integer(2)));
        assert_eq!(told("", "[chain]\nretries = 2"), [expected]);
        let path = "route.\"POST /v1/orders\".min_useful_budget_ms".to_owned();
        let expected = (path, Some(Value::Integer(10)), Some(Value::Integer(20)));
        assert_eq!(told("", "[route.\"POST /v1/orders\"]\nmin_useful_budget_ms = 20"), [expected]);
    }

    #[test]
    fn what_is_on_one_side_alone_is_told_value_by_value() {
        let with = "[route.\"GET /v1/stock\"]\ntimeout_ms = 300";
        let added = told("", with);
        let timeout = "route.\"GET /v1/stock\".timeout_ms".to_owned();
        assert!(added.contains(&(timeout.clone(), None, Some(Value::Integer(300)))), "{added:?}");
        assert!(told(with, "").contains(&(timeout, Some(Value::Integer(300)), None)));
    }
}
