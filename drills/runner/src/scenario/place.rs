//! Where in a file a key stands, so that a mistake leads to its line.

use toml::de::{DeTable, DeValue};

/// The line, from 1, of a path such as `faults[1].kind`; of the nearest part of it that the file has.
#[must_use]
pub fn line_of(text: &str, path: &str) -> Option<usize> {
    let (document, _) = DeTable::parse_recoverable(text);
    let mut table = Some(document.get_ref());
    let mut value: Option<&DeValue<'_>> = None;
    let mut at = None;
    for part in path.split(['.', '[']).filter(|part| !part.is_empty()) {
        if let Some(index) = part.strip_suffix(']') {
            let Some(found) = value.and_then(DeValue::as_array).and_then(|all| all.get(index.parse::<usize>().ok()?))
            else {
                break;
            };
            at = Some(found.span().start);
            value = Some(found.get_ref());
        } else {
            let Some((key, found)) = table.and_then(|all| all.iter().find(|(key, _)| key.get_ref().as_ref() == part))
            else {
                break;
            };
            at = Some(key.span().start);
            value = Some(found.get_ref());
        }
        table = value.and_then(DeValue::as_table);
    }
    at.map(|offset| line_at(text, offset))
}

/// The line that holds a byte, from 1.
pub fn line_at(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_to_its_line_and_a_missing_key_to_what_it_is_missing_in() {
        let text = "id = 'a'\n[load]\nrate = 1\n\n[[faults]]\nkind = 'x'\n[[faults]]\nat = '1s'\nkind = 'y'\n";
        assert_eq!(line_of(text, "load.rate"), Some(3));
        assert_eq!(line_of(text, "faults[1].kind"), Some(9));
        assert_eq!(line_of(text, "faults[0].link"), line_of(text, "faults[0]"));
        assert_eq!(line_of(text, "nothing"), None);
    }
}
