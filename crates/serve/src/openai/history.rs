//! The messages of a conversation, as clients keep them and as chat templates take them.
//!
//! Answers are sent back as they came: with calls of tools, reasoning, and fields that are null or
//! empty. A template gets contents as one text, and the arguments of calls as the object that their
//! text is.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::error::ApiError;

/// A message of a conversation. What is refused here would not reach the model.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    role: String,
    content: Option<Content>,
    name: Option<String>,
    tool_calls: Option<Vec<Call>>,
    tool_call_id: Option<String>,
    #[serde(alias = "reasoning")]
    reasoning_content: Option<String>,
    refusal: Option<String>,
    /// Links that an answer had beside its text.
    #[serde(rename = "annotations")]
    _annotations: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "it is not a text, or a list of texts")]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

/// Only texts have a type that is known here.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[allow(clippy::large_enum_variant, reason = "almost all parts are texts")]
enum Part {
    #[serde(alias = "input_text", alias = "output_text")]
    Text {
        text: String,
        /// Asks for a prefix to be kept, as all are.
        #[serde(rename = "cache_control")]
        _cache_control: Option<Value>,
        #[serde(rename = "annotations")]
        _annotations: Option<Value>,
        #[serde(rename = "logprobs")]
        _logprobs: Option<Value>,
    },
    Refusal {
        refusal: String,
    },
}

/// A call of a tool that an answer has made.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    id: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    function: Function,
    #[serde(rename = "index")]
    _index: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Function {
    name: String,
    #[serde(default)]
    arguments: Value,
}

/// Parts that hold a text.
const TEXTS: [&str; 4] = ["text", "input_text", "output_text", "refusal"];

/// The messages as a template takes them.
pub(super) fn messages(values: Vec<Value>) -> Result<Vec<Value>, ApiError> {
    if values.is_empty() {
        return Err(ApiError::field("messages", "the list is empty"));
    }
    values.into_iter().enumerate().map(|(i, value)| message(&format!("messages[{i}]"), value)).collect()
}

pub(super) fn message(field: &str, mut value: Value) -> Result<Value, ApiError> {
    if let Some(object) = value.as_object_mut() {
        object.retain(|_, value| !value.is_null());
    }
    let of_content = value.get("content").and_then(Value::as_array).into_iter().flatten();
    if let Some(other) = of_content.filter_map(|part| part["type"].as_str()).find(|kind| !TEXTS.contains(kind)) {
        return Err(ApiError::field(&format!("{field}.content"), format!("parts of type {other:?} are not supported")));
    }
    let message: Message = serde_json::from_value(value).map_err(|error| match error.to_string() {
        reason if reason.starts_with("it is not a text") => ApiError::field(&format!("{field}.content"), reason),
        reason => ApiError::field(field, reason),
    })?;
    let Message { role, content, name, tool_calls, tool_call_id, reasoning_content, refusal, .. } = message;
    let calls = tool_calls.unwrap_or_default();
    // An answer that was cut off in a call has neither, and comes back as it was.
    let may_lack = !calls.is_empty() || role == "assistant";
    let Some(content) = content.map(text).or(refusal).or_else(|| may_lack.then(String::new)) else {
        return Err(ApiError::field(&format!("{field}.content"), "it is required"));
    };
    let mut message = json!({"role": role, "content": content});
    let texts = [("name", name), ("tool_call_id", tool_call_id), ("reasoning_content", reasoning_content)];
    for (name, text) in texts {
        if let Some(text) = text {
            message[name] = text.into();
        }
    }
    if !calls.is_empty() {
        let field = format!("{field}.tool_calls");
        message["tool_calls"] = calls.into_iter().map(|call| of_call(&field, call)).collect::<Result<_, _>>()?;
    }
    Ok(message)
}

fn text(content: Content) -> String {
    match content {
        Content::Text(text) => text,
        Content::Parts(parts) => {
            let text = |part| match part {
                Part::Text { text, .. } | Part::Refusal { refusal: text } => text,
            };
            parts.into_iter().map(text).collect::<Vec<String>>().join("\n")
        }
    }
}

/// Templates write arguments as JSON, so that a text of JSON would be quoted.
fn of_call(field: &str, call: Call) -> Result<Value, ApiError> {
    let Call { id, kind, function: Function { name, arguments }, .. } = call;
    if let Some(kind) = kind.filter(|kind| kind != "function") {
        return Err(ApiError::field(field, format!("calls of type {kind:?} are not supported")));
    }
    let arguments = match arguments {
        Value::Null => Value::Object(Map::new()),
        Value::String(text) if text.trim().is_empty() => Value::Object(Map::new()),
        Value::String(text) => serde_json::from_str(&text)
            .map_err(|error| ApiError::field(field, format!("the arguments of {name} are not JSON: {error}")))?,
        other => other,
    };
    if !arguments.is_object() {
        return Err(ApiError::field(field, format!("the arguments of {name} are no object")));
    }
    let mut call = json!({"type": "function", "function": {"name": name, "arguments": arguments}});
    if let Some(id) = id {
        call["id"] = id.into();
    }
    Ok(call)
}
