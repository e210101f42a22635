//! One document on top of another: what a fault or a control says of the rules, on top of what the stack says.

/// `over` on top of `under`, which stays as it is.
pub(super) fn overlaid(under: &toml::Table, over: &toml::Table) -> toml::Table {
    let mut all = under.clone();
    overlay(&mut all, over);
    all
}

/// `over` wins, table by table.
fn overlay(under: &mut toml::Table, over: &toml::Table) {
    for (key, value) in over {
        match (under.get_mut(key), value) {
            (Some(toml::Value::Table(under)), toml::Value::Table(over)) => overlay(under, over),
            _ => drop(under.insert(key.clone(), value.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_on_top_wins_and_what_it_does_not_name_stays() {
        let table = |text: &str| toml::from_str::<toml::Table>(text).unwrap();
        let stack = table("[database]\nlock_timeout_ms = 100\npool = 9\n[chain]\nretries = 1");
        let all = overlaid(&stack, &table("database = { pool = 2 }\n[degrade]\ndefer_max_minor = 0"));
        assert_eq!(
            all,
            table("[database]\nlock_timeout_ms = 100\npool = 2\n[chain]\nretries = 1\n[degrade]\ndefer_max_minor = 0")
        );
        assert_eq!(stack["database"]["pool"].as_integer(), Some(9), "and what lies below is as it was");
    }
}
