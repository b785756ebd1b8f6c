//! The input of a response: a text, or items that become messages.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::openai::history;

/// A call and its result are items of their own; everything else is a message.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item {
    FunctionCall { call_id: String, name: String, arguments: String },
    FunctionCallOutput { call_id: String, output: Value },
    Reasoning { content: Option<Vec<Thought>>, summary: Option<Vec<Thought>> },
}

#[derive(Deserialize)]
struct Thought {
    text: String,
}

/// The messages of an input.
pub(super) fn messages(input: Value) -> Result<Vec<Value>, ApiError> {
    let items = match input {
        Value::String(text) => return Ok(vec![json!({"role": "user", "content": text})]),
        Value::Array(items) if !items.is_empty() => items,
        _ => return Err(ApiError::field("input", "it is neither a text nor a list of items")),
    };
    let mut all: Vec<Value> = Vec::with_capacity(items.len());
    for (i, item) in items.into_iter().enumerate() {
        add(&format!("input[{i}]"), item, &mut all)?;
    }
    Ok(all)
}

fn add(field: &str, mut item: Value, all: &mut Vec<Value>) -> Result<(), ApiError> {
    if matches!(item["type"].as_str(), None | Some("message")) {
        if let Some(object) = item.as_object_mut() {
            ["type", "id", "status"].into_iter().for_each(|name| drop(object.remove(name)));
        }
        let mut message = history::message(field, item)?;
        if message["role"] == "assistant"
            && let Some(thought) = take_thought(all)
        {
            message["reasoning_content"] = thought;
        }
        all.push(message);
        return Ok(());
    }
    let item = serde_json::from_value(item).map_err(|error| ApiError::field(field, error))?;
    match item {
        Item::FunctionCall { call_id, name, arguments } => {
            let call = json!({"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}});
            let call = history::message(field, json!({"role": "assistant", "tool_calls": [call]}))?;
            match all.last_mut().filter(|last| last["role"] == "assistant") {
                // Calls of one answer are one message.
                Some(last) => match last["tool_calls"].as_array_mut() {
                    Some(calls) => calls.push(call["tool_calls"][0].clone()),
                    None => last["tool_calls"] = call["tool_calls"].clone(),
                },
                None => all.push(call),
            }
        }
        Item::FunctionCallOutput { call_id, output } => {
            let output = match output {
                Value::String(text) => text,
                Value::Array(parts) => {
                    let text = |part: &Value| part["text"].as_str().map(str::to_owned);
                    let texts: Option<Vec<String>> = parts.iter().map(text).collect();
                    texts.ok_or_else(|| ApiError::field(field, "only texts may be the output of a tool"))?.join("\n")
                }
                other => other.to_string(),
            };
            all.push(json!({"role": "tool", "tool_call_id": call_id, "content": output}));
        }
        Item::Reasoning { content, summary } => {
            let thoughts = content.filter(|all| !all.is_empty()).or(summary).unwrap_or_default();
            let text = thoughts.into_iter().map(|thought| thought.text).collect::<Vec<_>>().join("\n");
            if !text.is_empty() {
                all.push(json!({"role": "assistant", "content": "", "reasoning_content": text}));
            }
        }
    }
    Ok(())
}

/// Reasoning that stands before a message is part of it.
fn take_thought(all: &mut Vec<Value>) -> Option<Value> {
    let last = all.last()?;
    let is_thought = last["role"] == "assistant" && last["content"] == "" && last.get("tool_calls").is_none();
    if is_thought { all.pop().map(|mut last| last["reasoning_content"].take()) } else { None }
}
