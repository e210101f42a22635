//! Turns one switch in a document, and leaves every other line as it was written.

use contracts::FieldError;
use toml_edit::{DocumentMut, Item, Value};

/// The section that the switches stand in.
const SECTION: &str = "degrade";

/// Whether there is such a feature, and it has such a level.
pub fn known(feature: &str, value: &str) -> Result<(), Vec<FieldError>> {
    let Some(found) = rules::feature(feature) else {
        let names: Vec<_> = rules::FEATURES.iter().map(|feature| feature.name).collect();
        return Err(vec![FieldError::new("feature", format!("must be one of {}", names.join(", ")))]);
    };
    if found.levels.contains(&value) {
        Ok(())
    } else {
        Err(vec![FieldError::new("value", format!("must be one of {}", found.levels.join(", ")))])
    }
}

/// `document` with `degrade.<feature> = "<value>"`. `None` where that place is taken by something else, which no valid
/// document has.
pub fn turned(document: &str, feature: &str, value: &str) -> Option<String> {
    let mut document: DocumentMut = document.parse().ok()?;
    let section = document.entry(SECTION).or_insert_with(toml_edit::table).as_table_like_mut()?;
    match section.get_mut(feature) {
        Some(Item::Value(there)) => {
            // What stands around it on its line.
            let decor = there.decor().clone();
            *there = Value::from(value);
            *there.decor_mut() = decor;
        }
        Some(_) => return None,
        None => drop(section.insert(feature, toml_edit::value(value))),
    }
    Some(document.to_string())
}

#[cfg(test)]
mod tests {
    use rules::{PaymentLevel, Rules};

    use super::*;

    #[test]
    fn one_line_changes_and_the_comments_stay() {
        let document = "# mine\nversion = 3\n\n[degrade] # switches\npayment = \"on\"  # since March\ncoupon = \"off\"\n\n# the end\n";
        let turned = turned(document, "payment", "defer").unwrap();
        assert_eq!(turned, document.replace("\"on\"", "\"defer\""));
        assert_eq!(Rules::from_toml(&turned).unwrap().degrade.payment, PaymentLevel::Defer);
    }

    #[test]
    fn a_switch_that_the_document_does_not_name_is_added() {
        for (document, expected) in [
            ("", "[degrade]\npayment = \"off\"\n"),
            ("# mine\nversion = 3\n", "# mine\nversion = 3\n\n[degrade]\npayment = \"off\"\n"),
            ("[degrade]\ncoupon = \"off\" # why\n", "[degrade]\ncoupon = \"off\" # why\npayment = \"off\"\n"),
        ] {
            let turned = turned(document, "payment", "off").unwrap();
            assert_eq!(turned, expected);
            assert_eq!(Rules::from_toml(&turned).unwrap().degrade.payment, PaymentLevel::Off);
        }
    }

    #[test]
    fn a_switch_is_found_however_it_is_written() {
        for document in ["degrade.payment = \"on\"\n", "degrade = { payment = \"on\" }\n"] {
            assert_eq!(turned(document, "payment", "off").unwrap(), document.replace("\"on\"", "\"off\""));
        }
        assert_eq!(turned("degrade = 3", "payment", "off"), None);
        assert_eq!(turned("[degrade.payment]\nx = 1", "payment", "off"), None);
    }

    #[test]
    fn a_feature_or_a_level_that_is_none_is_told_which_there_are() {
        assert!(known("payment", "backup_only").is_ok());
        let told = |feature, value| known(feature, value).unwrap_err().remove(0);
        assert_eq!(told("mail", "off").field, "feature");
        assert_eq!(told("payment", "cache").detail, "must be one of on, backup_only, defer, off");
    }
}
