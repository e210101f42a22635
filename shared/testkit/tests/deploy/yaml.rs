//! YAML as the values of JSON, which tests can index.

use std::fs;

use serde_json::Value;
use yaml_rust2::{Yaml, YamlLoader};

use crate::checkout;

/// The documents of a file. A key that stands there twice is an error.
pub fn documents(file: &str) -> Vec<Value> {
    read(&fs::read_to_string(checkout().join(file)).unwrap_or_else(|error| panic!("{file}: {error}")), file)
}

/// The only document of a file.
pub fn document(file: &str) -> Value {
    let mut all = documents(file);
    assert_eq!(all.len(), 1, "{file}");
    all.remove(0)
}

pub fn read(text: &str, name: &str) -> Vec<Value> {
    let documents = YamlLoader::load_from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
    documents.iter().map(json).collect()
}

fn json(yaml: &Yaml) -> Value {
    match yaml {
        Yaml::Real(text) => text.parse::<f64>().map_or(Value::Null, Value::from),
        Yaml::Integer(number) => Value::from(*number),
        Yaml::String(text) => Value::from(text.as_str()),
        Yaml::Boolean(is) => Value::from(*is),
        Yaml::Array(items) => items.iter().map(json).collect(),
        Yaml::Hash(entries) => entries
            .iter()
            .map(|(key, value)| (key.as_str().map_or_else(|| format!("{key:?}"), str::to_owned), json(value)))
            .collect(),
        Yaml::Null | Yaml::BadValue | Yaml::Alias(_) => Value::Null,
    }
}

/// The items of a list; none where there is no list.
pub fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}
