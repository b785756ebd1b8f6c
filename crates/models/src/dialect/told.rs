//! Tools and calls as text, for templates that know of neither: what Hermes and Qwen are told.

use serde_json::{Value, json};

use super::{Dialect, formats::HERMES};
use crate::python_json::{Style, dumps};

const BEFORE: &str = "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided \
     with function signatures within <tools></tools> XML tags:\n<tools>";
const AFTER: &str = "\n</tools>\n\nFor each function call, return a json object with function name and arguments within \
     <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": \
     <args-json-object>}\n</tool_call>";

impl Dialect {
    /// A conversation in which tools, calls and their results are text. `tools` are objects as
    /// templates get them.
    #[must_use]
    pub fn tell(&self, messages: Vec<Value>, tools: &[Value]) -> Vec<Value> {
        let mut told: Vec<Value> = Vec::with_capacity(messages.len() + 1);
        for message in messages {
            match message["role"].as_str() {
                Some("tool") => add_result(&mut told, &message),
                Some("assistant") if message.get("tool_calls").is_some() => told.push(with_calls(&message)),
                _ => told.push(message),
            }
        }
        if !tools.is_empty() {
            let lines: String = tools.iter().map(|tool| format!("\n{}", text(tool))).collect();
            let tools = format!("{BEFORE}{lines}{AFTER}");
            match told.first_mut().filter(|first| first["role"] == "system") {
                Some(first) => first["content"] = join(first, "\n\n", &tools),
                None => told.insert(0, json!({"role": "system", "content": tools})),
            }
        }
        told
    }
}

fn text(value: &Value) -> String {
    dumps(value, &Style::default()).expect("a value is JSON")
}

fn join(message: &Value, between: &str, text: &str) -> Value {
    let content = message["content"].as_str().unwrap_or_default();
    if content.is_empty() { text.into() } else { format!("{content}{between}{text}").into() }
}

/// Results are said by the user, those of one turn together.
fn add_result(told: &mut Vec<Value>, message: &Value) {
    let content = message["content"].as_str().unwrap_or_default();
    let result = format!("<tool_response>\n{content}\n</tool_response>");
    let is_result = |last: &&mut Value| {
        last["role"] == "user" && last["content"].as_str().is_some_and(|text| text.starts_with("<tool_response>"))
    };
    match told.last_mut().filter(is_result) {
        Some(last) => last["content"] = join(last, "\n", &result),
        None => told.push(json!({"role": "user", "content": result})),
    }
}

/// Calls as the format writes them.
fn with_calls(message: &Value) -> Value {
    let mut calls = String::new();
    for (i, call) in message["tool_calls"].as_array().into_iter().flatten().enumerate() {
        let (name, arguments) = (call["function"]["name"].as_str(), text(&call["function"]["arguments"]));
        let before = if i == 0 { format!("{}{}", HERMES.trigger, HERMES.first) } else { HERMES.next.to_owned() };
        let name = name.unwrap_or_default();
        calls += &format!("{before}{name}{}{arguments}{}", HERMES.middle, HERMES.close);
    }
    let mut message = message.clone();
    message["content"] = join(&message, "\n", &calls);
    if let Some(fields) = message.as_object_mut() {
        fields.remove("tool_calls");
    }
    message
}
