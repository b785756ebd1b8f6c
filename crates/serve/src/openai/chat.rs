//! `POST /v1/chat/completions`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State as Shared;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use warpfold_engine::Request;
use warpfold_models::ChatOptions;

use super::answer::{Answer, Kind, Wanted};
use super::params::{self, Common, check_at_most};
use super::prompt::{Marks, tokenize};
use super::schema;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::share::Tenant;
use crate::state::State;

/// A message of a conversation.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    role: String,
    content: Content,
    #[serde(default)]
    name: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

/// Only texts have a type that is known here.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", deny_unknown_fields)]
enum Part {
    #[serde(rename = "text")]
    Text { text: String },
}

pub(crate) async fn complete(
    Shared(state): Shared<Arc<State>>,
    Extension(tenant): Extension<Arc<Tenant>>,
    mut fields: Fields,
) -> Result<Response, ApiError> {
    let served = state.served()?;
    let Common { request, delivery, return_token_ids, schema } = params::take(&mut fields, &state, &tenant)?;
    refuse_tools(&mut fields)?;
    let conversation = Conversation::take(&mut fields)?;
    let max_tokens = match (fields.take("max_completion_tokens")?, fields.take("max_tokens")?) {
        (Some(_), Some(_)) => return Err(ApiError::field("max_tokens", "max_completion_tokens is there, too")),
        (most, older) => most.or(older),
    };
    let with_logprobs = fields.take("logprobs")?.unwrap_or(false);
    let top: Option<usize> = fields.take("top_logprobs")?;
    fields.finish()?;

    let bounds = state.options.bounds;
    check_at_most("top_logprobs", top.unwrap_or(0), bounds.logprobs)?;
    let logprobs = match (with_logprobs, top) {
        (true, top) => Some(top.unwrap_or(0)),
        (false, None | Some(0)) => None,
        (false, Some(_)) => return Err(ApiError::field("top_logprobs", "logprobs is not true")),
    };
    let prompt = tokenize(&state, served, conversation.text(&state).await?, Marks::Keep).await?;
    let request = schema::constrain(&state, schema, request).await?;
    let n = request.n;
    let wanted = Wanted { kind: Kind::Chat, n, logprobs, echo: false, return_token_ids };
    let request = Request { prompt: prompt.clone(), max_tokens, logprobs, ..request };
    let answer = Answer::new(&state, served, wanted, vec![prompt]);
    super::respond(&state, served, &tenant, vec![request], answer, delivery).await
}

/// Tools are not called, and a model that is told of some would try.
fn refuse_tools(fields: &mut Fields) -> Result<(), ApiError> {
    for name in ["tools", "functions", "function_call", "tool_choice", "parallel_tool_calls"] {
        if fields.take::<Value>(name)?.is_some() {
            return Err(ApiError::field(name, "tools are not supported"));
        }
    }
    Ok(())
}

/// Messages, and what their template is told beside them.
#[derive(Debug)]
pub(crate) struct Conversation {
    messages: Value,
    options: ChatOptions,
}

impl Conversation {
    /// Takes the fields of a conversation.
    pub(crate) fn take(fields: &mut Fields) -> Result<Self, ApiError> {
        let messages: Vec<Value> = fields.need("messages")?;
        let add_generation_prompt = fields.take("add_generation_prompt")?.unwrap_or(true);
        let variables: Map<String, Value> = fields.take("chat_template_kwargs")?.unwrap_or_default();
        if messages.is_empty() {
            return Err(ApiError::field("messages", "the list is empty"));
        }
        let messages =
            messages.into_iter().enumerate().map(|(i, value)| message(i, value)).collect::<Result<Value, _>>()?;
        Ok(Self { messages, options: ChatOptions { add_generation_prompt, variables } })
    }

    /// The text of it by the model's template, which is written beside the threads that talk to
    /// clients: a template may take a while.
    pub(crate) async fn text(self, state: &Arc<State>) -> Result<String, ApiError> {
        if state.served()?.text.template.is_none() {
            return Err(ApiError::bad_request(NO_TEMPLATE));
        }
        let turn = state.tokenizing.acquire().await.map_err(|_| ApiError::internal("the server ends"))?;
        let shared = state.clone();
        let text = tokio::task::spawn_blocking(move || {
            let template = shared.served()?.text.template.as_ref().ok_or_else(|| ApiError::bad_request(NO_TEMPLATE))?;
            template.render(&self.messages, &self.options).map_err(|error| ApiError::from(&error))
        });
        let text = text.await.map_err(|_| ApiError::internal("the chat template has failed"))?;
        drop(turn);
        text
    }
}

const NO_TEMPLATE: &str = "the model has no chat template; the server takes one as --chat-template";

/// A message with its content as one text.
fn message(number: usize, mut value: Value) -> Result<Value, ApiError> {
    let field = format!("messages[{number}]");
    if let Some(object) = value.as_object_mut() {
        // Answers are sent back as they came.
        object.retain(|name, value| !(value.is_null() && name != "content"));
    }
    let of_content = value.get("content").and_then(Value::as_array).into_iter().flatten();
    if let Some(other) = of_content.filter_map(|part| part["type"].as_str()).find(|kind| *kind != "text") {
        return Err(ApiError::field(&format!("{field}.content"), format!("parts of type {other:?} are not supported")));
    }
    let Message { role, content, name } = serde_json::from_value(value).map_err(|error| match error.to_string() {
        reason if reason.contains("untagged") => {
            ApiError::field(&format!("{field}.content"), "it is not a text, or a list of texts")
        }
        reason => ApiError::field(&field, reason),
    })?;
    let content = match content {
        Content::Text(text) => text,
        Content::Parts(parts) => {
            let texts: Vec<String> = parts.into_iter().map(|Part::Text { text }| text).collect();
            texts.join("\n")
        }
    };
    let mut message = json!({"role": role, "content": content});
    if let Some(name) = name {
        message["name"] = name.into();
    }
    Ok(message)
}
