//! Arguments as `<parameter=NAME>\nVALUE\n</parameter>\n`, where texts stand as they are.

use serde_json::Value;

/// Text after a value.
pub(super) const CLOSE: &str = "\n</parameter>\n";

/// Text before a value of any name.
pub(super) const OPEN: &str = "<parameter=";
pub(super) const OPENED: &str = ">\n";

/// Returns the text before the value of a name.
pub(super) fn open(name: &str) -> String {
    format!("{OPEN}{name}{OPENED}")
}

/// An argument of a tool.
pub(super) struct Property<'a> {
    pub(super) name: &'a str,
    pub(super) schema: &'a Value,
    pub(super) is_required: bool,
    /// A text, which is written without quotes.
    pub(super) is_text: bool,
}

/// The arguments that a schema names.
pub(super) fn properties(schema: &Value) -> Vec<Property<'_>> {
    let required = |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
    let all = schema["properties"].as_object().into_iter().flatten();
    all.map(|(name, schema)| Property { name, schema, is_required: required(name), is_text: is_text(schema) }).collect()
}

/// Returns whether a schema is of strings that may stand without quotes. Other rules than a choice
/// are enforced where a string is JSON.
fn is_text(schema: &Value) -> bool {
    const PLAIN: [&str; 6] = ["type", "title", "description", "default", "examples", "enum"];
    let is_plain = |fields: &serde_json::Map<String, Value>| fields.keys().all(|key| PLAIN.contains(&key.as_str()));
    schema["type"] == "string" && schema.as_object().is_some_and(is_plain)
}

/// The schema of an argument, with the definitions that it may name.
pub(super) fn with_definitions(schema: &Value, of: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(fields) = schema.as_object_mut() {
        for name in ["$defs", "definitions"] {
            if let Some(definitions) = of.get(name) {
                fields.insert(name.to_owned(), definitions.clone());
            }
        }
    }
    schema
}

/// The texts of which an argument is one.
pub(super) fn choices(schema: &Value) -> Option<Vec<&str>> {
    schema.get("enum")?.as_array()?.iter().map(Value::as_str).collect()
}
