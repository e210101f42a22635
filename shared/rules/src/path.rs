//! Paths into a document, as a person would write them: `route."POST /v1/orders".timeout_ms`.

use std::fmt;

use serde_path_to_error::Segment as Seen;
use toml::de::{DeTable, DeValue};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path(Vec<Segment>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Key(String),
    Index(usize),
}

/// A key that may hold anything, quoted where it has to be.
pub fn key(name: &str) -> String {
    let bare = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if bare { name.to_owned() } else { format!("\"{name}\"") }
}

impl Path {
    pub fn of(path: &serde_path_to_error::Path) -> Self {
        let segments = path.iter().filter_map(|segment| match segment {
            Seen::Map { key } => Some(Segment::Key(key.clone())),
            Seen::Enum { variant } => Some(Segment::Key(variant.clone())),
            Seen::Seq { index } => Some(Segment::Index(*index)),
            Seen::Unknown => None,
        });
        Self(segments.collect())
    }

    /// What [`fmt::Display`] wrote. Quotes within quotes are not our keys' way.
    pub fn parse(text: &str) -> Self {
        let mut segments = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let (segment, after) = match first {
                '.' => {
                    rest = &rest[1..];
                    continue;
                }
                '"' => match rest[1..].split_once('"') {
                    Some((name, after)) => (Segment::Key(name.to_owned()), after),
                    None => (Segment::Key(rest[1..].to_owned()), ""),
                },
                '[' => match rest[1..].split_once(']') {
                    Some((index, after)) => {
                        (index.parse().map_or(Segment::Key(index.to_owned()), Segment::Index), after)
                    }
                    None => break,
                },
                _ => {
                    let end = rest.find(['.', '[']).unwrap_or(rest.len());
                    (Segment::Key(rest[..end].to_owned()), &rest[end..])
                }
            };
            segments.push(segment);
            rest = after;
        }
        Self(segments)
    }

    /// The line of `text`, from 1, at which this path is written. `None` where the document does not say it.
    pub fn line(&self, text: &str) -> Option<usize> {
        let (document, _) = DeTable::parse_recoverable(text);
        let mut table = Some(document.get_ref());
        let mut value: Option<&DeValue<'_>> = None;
        let mut at = None;
        for segment in &self.0 {
            match segment {
                Segment::Key(name) => {
                    let (key, found) = table?.iter().find(|(key, _)| key.get_ref().as_ref() == name)?;
                    at = Some(key.span().start);
                    value = Some(found.get_ref());
                }
                Segment::Index(index) => {
                    let found = value?.as_array()?.get(*index)?;
                    at = Some(found.span().start);
                    value = Some(found.get_ref());
                }
            }
            table = value.and_then(DeValue::as_table);
        }
        at.map(|offset| line_at(text, offset))
    }

    /// Takes the innermost part of this path that `document` has out of it: the path itself, or the nearest table
    /// around it. False when it has none of it.
    pub fn remove_from(&self, document: &mut toml::Table) -> bool {
        let keys: Vec<&str> = self.0.iter().map_while(Segment::as_key).collect();
        remove(document, &keys)
    }
}

impl Segment {
    fn as_key(&self) -> Option<&str> {
        match self {
            Self::Key(name) => Some(name),
            Self::Index(_) => None,
        }
    }
}

/// The line that holds a byte, from 1.
pub fn line_at(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

fn remove(table: &mut toml::Table, keys: &[&str]) -> bool {
    let Some((first, deeper)) = keys.split_first() else { return false };
    let within = table.get_mut(*first).and_then(toml::Value::as_table_mut).is_some_and(|inner| remove(inner, deeper));
    within || table.remove(*first).is_some()
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Key(name) if index == 0 => f.write_str(&key(name))?,
                Segment::Key(name) => write!(f, ".{}", key(name))?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "version = 3\n\n[route.\"POST /v1/orders\"]\ntimeout_ms = 5\n\n[composite.x]\nconditions = [\n  { metric = \"calls\" },\n  { metric = \"bytes\" },\n]\n";

    #[test]
    fn a_path_is_written_and_read_the_same() {
        for text in ["version", "route.\"POST /v1/orders\".timeout_ms", "composite.x.conditions[1].metric"] {
            assert_eq!(Path::parse(text).to_string(), text);
        }
    }

    #[test]
    fn a_path_knows_its_line() {
        let line = |text: &str| Path::parse(text).line(DOCUMENT);
        assert_eq!(line("version"), Some(1));
        assert_eq!(line("route.\"POST /v1/orders\".timeout_ms"), Some(4));
        assert_eq!(line("composite.x.conditions[1].metric"), Some(9));
        assert_eq!(line("composite.x.action"), None);
    }

    #[test]
    fn what_is_removed_is_the_path_or_the_table_around_it() {
        let mut document: toml::Table = toml::from_str(DOCUMENT).unwrap();
        assert!(Path::parse("route.\"POST /v1/orders\".timeout_ms").remove_from(&mut document));
        assert!(Path::parse("composite.x.conditions[1].metric").remove_from(&mut document));
        assert!(!document["composite"]["x"].as_table().unwrap().contains_key("conditions"));
        assert!(Path::parse("composite.x.action").remove_from(&mut document));
        assert!(!document["composite"].as_table().unwrap().contains_key("x"));
        assert!(!Path::parse("database.pool").remove_from(&mut document));
    }
}
