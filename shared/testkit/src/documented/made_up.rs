//! Values for a schema, and values that are almost for it.

use rand::{Rng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// Makes values up for the schemas of `document`.
pub(super) struct MadeUp<'a> {
    pub document: &'a Value,
    pub known: &'a [&'a str],
    pub rng: StdRng,
}

/// What a body may be instead of JSON.
const NO_JSON: [&str; 6] = ["", "{", "null", "[]", "\"text\"", "{\"a\":1}{\"b\":2}"];
/// Texts that trip whoever takes them for plain ones.
const ODD_TEXTS: [&str; 8] = ["", " ", "0", "-1", "a\u{0}b", "\u{1f4a3}\u{202e}", "' or 1=1 --", "../../etc/passwd"];
const ODD_NUMBERS: [i64; 7] = [0, -1, 1, 2_147_483_648, i64::MAX, i64::MIN, 100_000];
/// Path segments, encoded as far as a client must.
const ODD_SEGMENTS: [&str; 8] = ["x", "0", "%00", "%2e%2e%2f", "%F0%9F%92%A3", "a%20b", "%2F", "%ff"];

impl MadeUp<'_> {
    pub fn path_segment(&mut self, schema: &Value) -> String {
        match self.rng.random_range(0..10) {
            0 => "x".repeat(300),
            1..3 => (*ODD_SEGMENTS.choose(&mut self.rng).expect("some")).to_owned(),
            _ => {
                let text = self.right_text(schema);
                let plain: String = text.chars().filter(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).collect();
                if plain.is_empty() { "x".to_owned() } else { plain }
            }
        }
    }

    pub fn text(&mut self, schema: &Value) -> String {
        if self.rng.random_bool(0.3) {
            return (*ODD_TEXTS.choose(&mut self.rng).expect("some")).to_owned();
        }
        self.right_text(schema)
    }

    /// Of characters that a header can carry.
    pub fn header_text(&mut self, schema: &Value) -> String {
        match self.rng.random_range(0..10) {
            0 => String::new(),
            1 => "x".repeat(300),
            2 => "a b".to_owned(),
            3 => "\"quoted\"".to_owned(),
            _ => self.right_text(schema).chars().filter(char::is_ascii_graphic).collect(),
        }
    }

    fn right_text(&mut self, schema: &Value) -> String {
        match self.value(schema, 0) {
            Value::String(text) => text,
            other => other.to_string(),
        }
    }

    /// As text: right in more than half of all cases, and else wrong somewhere, or no JSON.
    pub fn body(&mut self, schema: &Value) -> String {
        let right = self.value(schema, 0);
        match self.rng.random_range(0..100) {
            0..60 => right.to_string(),
            60..90 => self.spoilt(right).to_string(),
            90..97 => (*NO_JSON.choose(&mut self.rng).expect("some")).to_owned(),
            97 => "[".repeat(2_000),
            98 => format!("{{\"a\":\"{}\"}}", "x".repeat(70_000)),
            _ => right.to_string().replace('"', "'"),
        }
    }

    /// One that the schema allows, as far as it is told by the words that our documents use.
    fn value(&mut self, schema: &Value, depth: usize) -> Value {
        if let Some(reference) = schema["$ref"].as_str() {
            let document = self.document;
            return self
                .value(&document["components"]["schemas"][reference.rsplit('/').next().unwrap_or_default()], depth);
        }
        for choice in ["oneOf", "anyOf"] {
            if let Some(options) = schema[choice].as_array() {
                let chosen = options.choose(&mut self.rng).cloned().unwrap_or_default();
                return self.value(&chosen, depth);
            }
        }
        if let Some(all) = schema["allOf"].as_array() {
            let parts: Vec<Value> = all.iter().map(|part| self.value(part, depth)).collect();
            let members = parts.into_iter().filter_map(|part| part.as_object().cloned()).flatten();
            return Value::Object(members.collect());
        }
        if let Some(values) = schema["enum"].as_array() {
            return values.choose(&mut self.rng).cloned().unwrap_or_default();
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) => kinds.choose(&mut self.rng).cloned().unwrap_or_default(),
            kind => kind.clone(),
        };
        match kind.as_str() {
            Some("object") => self.object(schema, depth),
            Some("array") => {
                let least = schema["minItems"].as_u64().unwrap_or(0);
                let most = schema["maxItems"].as_u64().unwrap_or(3).clamp(least, least + 3);
                let count = if depth > 5 { least } else { self.rng.random_range(least..=most) };
                (0..count).map(|_| self.value(&schema["items"], depth + 1)).collect()
            }
            Some("integer") => {
                let least = schema["minimum"].as_i64().unwrap_or(1);
                let most = schema["maximum"].as_i64().unwrap_or(20).max(least);
                json!(self.rng.random_range(least..=most))
            }
            Some("number") => json!(1.5),
            Some("boolean") => json!(self.rng.random_bool(0.5)),
            Some("null") => Value::Null,
            _ => json!(self.string(schema)),
        }
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Value {
        let wanted: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut members = Map::new();
        for (name, member) in schema["properties"].as_object().into_iter().flatten() {
            if wanted.contains(&name.as_str()) || self.rng.random_bool(0.5) {
                members.insert(name.clone(), self.value(member, depth + 1));
            }
        }
        Value::Object(members)
    }

    fn string(&mut self, schema: &Value) -> String {
        match schema["format"].as_str() {
            // Some of them twice, so that what was made is met again.
            Some("uuid") => match self.rng.random_range(0..3) {
                0 => Uuid::from_u128(u128::from(self.rng.random_range(1..4_u8)) | (7 << 76) | (8 << 60)).to_string(),
                _ => Uuid::now_v7().to_string(),
            },
            Some("date-time") => "2026-01-02T03:04:05Z".to_owned(),
            _ if !self.known.is_empty() && self.rng.random_bool(0.8) => {
                (*self.known.choose(&mut self.rng).expect("some")).to_owned()
            }
            _ => {
                let least = usize::try_from(schema["minLength"].as_u64().unwrap_or(1)).unwrap_or(1);
                let most = usize::try_from(schema["maxLength"].as_u64().unwrap_or(20)).unwrap_or(20).max(least);
                let length = self.rng.random_range(least..=most);
                (0..length).map(|_| char::from(self.rng.random_range(b'A'..=b'Z'))).collect()
            }
        }
    }

    /// Wrong in one place.
    fn spoilt(&mut self, value: Value) -> Value {
        match value {
            Value::Object(mut members) if !members.is_empty() && self.rng.random_bool(0.8) => {
                let names: Vec<String> = members.keys().cloned().collect();
                let name = names.choose(&mut self.rng).cloned().unwrap_or_default();
                match self.rng.random_range(0..4) {
                    0 => drop(members.remove(&name)),
                    1 => drop(members.insert("unheard_of".to_owned(), json!(1))),
                    _ => {
                        let inner = members.remove(&name).unwrap_or_default();
                        let inner = self.spoilt(inner);
                        members.insert(name, inner);
                    }
                }
                Value::Object(members)
            }
            Value::Array(mut items) if !items.is_empty() && self.rng.random_bool(0.8) => {
                let at = self.rng.random_range(0..items.len());
                match self.rng.random_range(0..3) {
                    0 => items = vec![items[at].clone(); 50],
                    _ => items[at] = self.spoilt(items[at].clone()),
                }
                Value::Array(items)
            }
            other => self.other_than(&other),
        }
    }

    fn other_than(&mut self, value: &Value) -> Value {
        let text = *ODD_TEXTS.choose(&mut self.rng).expect("some");
        let number = *ODD_NUMBERS.choose(&mut self.rng).expect("some");
        let others = [
            json!(text),
            json!(number),
            json!(1e300),
            json!(1.5),
            json!("x".repeat(10_000)),
            json!(null),
            json!([]),
            json!({"a": [value]}),
            json!(true),
        ];
        others.choose(&mut self.rng).cloned().unwrap_or_default()
    }
}
