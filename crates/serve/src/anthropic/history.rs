//! Conversations as Anthropic's clients keep them: blocks, with calls and their results inside.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::ApiError;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    role: String,
    content: Content,
}

/// A text, or blocks.
#[derive(Deserialize)]
#[serde(untagged, expecting = "it is not a text, or a list of blocks of a type that is supported")]
pub(super) enum Content {
    Text(String),
    Blocks(Vec<Block>),
}

/// Blocks have fields beside these that ask for nothing here, such as `cache_control`.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block {
    Text {
        text: String,
    },
    Thinking {
        thinking: String,
    },
    /// What only Anthropic's models can read.
    RedactedThinking {},
    ToolUse {
        id: String,
        name: String,
        input: Value,
    },
    ToolResult {
        tool_use_id: String,
        content: Option<Content>,
        is_error: Option<bool>,
    },
}

/// Messages as a template takes them.
pub(super) fn messages(system: Option<Value>, messages: Vec<Value>) -> Result<Vec<Value>, ApiError> {
    let mut told = Vec::with_capacity(messages.len() + 1);
    if let Some(system) = system {
        let system = read("system", system)?;
        told.push(json!({"role": "system", "content": texts("system", system)?}));
    }
    if messages.is_empty() {
        return Err(ApiError::field("messages", "the list is empty"));
    }
    for (i, message) in messages.into_iter().enumerate() {
        let field = format!("messages[{i}]");
        let Message { role, content } = read(&field, message)?;
        match (role.as_str(), content) {
            ("user" | "assistant" | "system", Content::Text(text)) => {
                told.push(json!({"role": role, "content": text}));
            }
            ("user", Content::Blocks(blocks)) => of_user(&field, blocks, &mut told)?,
            ("assistant", Content::Blocks(blocks)) => told.push(of_assistant(&field, blocks)?),
            ("system", content) => told.push(json!({"role": role, "content": texts(&field, content)?})),
            _ => return Err(ApiError::field(&field, format!("the role {role:?} is unknown"))),
        }
    }
    Ok(told)
}

fn read<T: serde::de::DeserializeOwned>(field: &str, value: Value) -> Result<T, ApiError> {
    serde_json::from_value(value).map_err(|error| ApiError::field(field, error))
}

/// A text of texts alone.
fn texts(field: &str, content: Content) -> Result<String, ApiError> {
    let blocks = match content {
        Content::Text(text) => return Ok(text),
        Content::Blocks(blocks) => blocks,
    };
    let text = |block| match block {
        Block::Text { text } => Ok(text),
        _ => Err(ApiError::field(field, "only texts may stand here")),
    };
    Ok(blocks.into_iter().map(text).collect::<Result<Vec<String>, _>>()?.join("\n"))
}

/// Results come first, each as a message of its own, then what the user says.
fn of_user(field: &str, blocks: Vec<Block>, told: &mut Vec<Value>) -> Result<(), ApiError> {
    let mut said = Vec::new();
    for block in blocks {
        match block {
            Block::Text { text } => said.push(text),
            Block::ToolResult { tool_use_id, content, is_error } => {
                let text = content.map(|content| texts(field, content)).transpose()?.unwrap_or_default();
                let text = if is_error == Some(true) { format!("Error: {text}") } else { text };
                told.push(json!({"role": "tool", "tool_call_id": tool_use_id, "content": text}));
            }
            _ => return Err(ApiError::field(field, "users say texts and results of tools alone")),
        }
    }
    if !said.is_empty() {
        told.push(json!({"role": "user", "content": said.join("\n")}));
    }
    Ok(())
}

fn of_assistant(field: &str, blocks: Vec<Block>) -> Result<Value, ApiError> {
    let (mut said, mut thought, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    for block in blocks {
        match block {
            Block::Text { text } => said.push(text),
            Block::Thinking { thinking } => thought.push(thinking),
            Block::RedactedThinking {} => {}
            Block::ToolUse { id, name, input } => {
                calls.push(json!({"id": id, "type": "function", "function": {"name": name, "arguments": input}}))
            }
            Block::ToolResult { .. } => return Err(ApiError::field(field, "results of tools are the user's")),
        }
    }
    let mut message = json!({"role": "assistant", "content": said.join("\n")});
    if !thought.is_empty() {
        message["reasoning_content"] = thought.join("\n").into();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    Ok(message)
}
