//! `/v1/responses`: OpenAI's newer interface, with answers that can be referred to.
//!
//! `input` makes the messages of a template of items, `writer` writes answers as items and events,
//! `store` keeps conversations for `previous_response_id`, within bounds.

mod input;
pub(crate) mod store;
mod writer;

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State as Shared};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use warpfold_engine::Request;
use warpfold_models::{ChatOptions, Grammar};

use super::dialogue::{Dialogue, Prepared, take_effort};
use super::params::{check_model, sampling};
use super::structured::{Form, any_object};
use super::tools::{Function, Tools};
use crate::body::json;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::share::Tenant;
use crate::state::State;
use writer::{Items, Said};

/// A tool as this interface has it. Those that a server runs have other types.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FlatTool {
    #[serde(rename = "type")]
    kind: String,
    name: Option<String>,
    description: Option<String>,
    parameters: Option<Value>,
    strict: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TextOptions {
    format: Option<Format>,
    /// How much it says, which no template takes.
    verbosity: Option<String>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Format {
    Text {},
    JsonObject {},
    JsonSchema {
        schema: Value,
        #[serde(rename = "name")]
        _name: Option<String>,
        #[serde(rename = "description")]
        _description: Option<String>,
        #[serde(rename = "strict")]
        _strict: Option<bool>,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReasoningOptions {
    effort: Option<String>,
    /// Reasoning comes whole, and nobody sums it up.
    #[serde(rename = "summary")]
    _summary: Option<String>,
    #[serde(rename = "generate_summary")]
    _generate_summary: Option<String>,
}

/// An answer to some input.
pub(crate) async fn create(
    Shared(state): Shared<Arc<State>>,
    Extension(tenant): Extension<Arc<Tenant>>,
    mut fields: Fields,
) -> Result<Response, ApiError> {
    let served = state.served()?;
    let adapter = check_model(fields.take("model")?, &state)?;
    let said = Said::of(&fields);
    let previous: Option<String> = fields.take("previous_response_id")?;
    let instructions: Option<String> = fields.take("instructions")?;
    let mut messages = match &previous {
        None => Vec::new(),
        Some(id) => state.stored.messages(&tenant.salt, id).ok_or_else(|| not_stored(id))?,
    };
    messages.extend(input::messages(fields.need("input")?)?);
    let is_stored = fields.take("store")?.unwrap_or(true);
    let kept = messages.clone();
    if let Some(instructions) = instructions {
        // They hold for this answer alone.
        messages.insert(0, json!({"role": "system", "content": instructions}));
    }
    let dialogue = dialogue(&mut fields, messages)?;
    let max_tokens: Option<usize> = fields.take("max_output_tokens")?;
    let is_stream = fields.take("stream")?.unwrap_or(false);
    let request = Request {
        sampling: sampling(&mut fields, served.text.sampling.sampling())?,
        salt: tenant.salt.clone(),
        adapter,
        ..Request::new(Vec::new())
    };
    allow_what_changes_nothing(&mut fields);
    fields.finish()?;

    let Prepared { request, reader } = dialogue.prepare(&state, served, request).await?;
    let max_tokens = max_tokens.or(served.max_new_tokens(request.prompt.len()));
    let request = Request { max_tokens, ..request };
    let keeper = is_stored.then(|| (tenant.clone(), kept));
    let writer = Items::new(&state, served, &reader, &request, said, keeper);
    super::respond(&state, served, &tenant, vec![request], writer, is_stream).await
}

/// An answer that is stored.
pub(crate) async fn get(
    Shared(state): Shared<Arc<State>>,
    Extension(tenant): Extension<Arc<Tenant>>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    state.stored.object(&tenant.salt, &id).map(|object| json(&object)).ok_or_else(|| not_stored(&id))
}

/// Forgets an answer.
pub(crate) async fn delete(
    Shared(state): Shared<Arc<State>>,
    Extension(tenant): Extension<Arc<Tenant>>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let is_deleted = state.stored.delete(&tenant.salt, &id);
    let object = json!({"id": id, "object": "response", "deleted": true});
    if is_deleted { Ok(json(&object)) } else { Err(not_stored(&id)) }
}

fn not_stored(id: &str) -> ApiError {
    let error = ApiError::new(StatusCode::NOT_FOUND, format!("there is no response {id:?}, or it is no longer kept"));
    ApiError { param: Some("previous_response_id".to_owned()), ..error }
}

fn allow_what_changes_nothing(fields: &mut Fields) {
    for label in ["user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"] {
        fields.allow(label, Value::is_string);
    }
    fields.allow("metadata", Value::is_object);
    fields.allow("service_tier", |value| *value == "auto" || *value == "default");
    fields.allow("background", |value| *value == false);
    fields.allow("truncation", |value| *value == "disabled");
    fields.allow("top_logprobs", |value| *value == 0);
    fields.allow("stream_options", |value| value["include_obfuscation"] != true);
    // What reasoning there is comes as it is, and is not encrypted.
    fields.allow("include", |value| {
        value.as_array().is_some_and(|all| all.iter().all(|one| one == "reasoning.encrypted_content"))
    });
}

fn dialogue(fields: &mut Fields, messages: Vec<Value>) -> Result<Dialogue, ApiError> {
    let mut variables: Map<String, Value> = fields.take("chat_template_kwargs")?.unwrap_or_default();
    if let Some(ReasoningOptions { effort: Some(effort), .. }) = fields.take("reasoning")? {
        take_effort(&mut variables, "reasoning", effort)?;
    }
    let text: Option<TextOptions> = fields.take("text")?;
    let grammar = match text {
        Some(TextOptions { verbosity: Some(verbosity), .. }) if verbosity != "medium" => {
            return Err(ApiError::field("text", "verbosity is not supported"));
        }
        Some(TextOptions { format: Some(Format::JsonObject {}), .. }) => Some(any_object()),
        Some(TextOptions { format: Some(Format::JsonSchema { schema, .. }), .. }) => Some(Grammar::Json(schema)),
        Some(TextOptions { format: None | Some(Format::Text {}), .. }) | None => None,
    };
    let form = grammar.map(|grammar| Form { grammar, field: "text" });
    let options = ChatOptions { add_generation_prompt: true, variables, ..ChatOptions::default() };
    Ok(Dialogue { messages, tools: tools(fields)?, options, form, ..Dialogue::default() })
}

fn tools(fields: &mut Fields) -> Result<Tools, ApiError> {
    let tools: Vec<FlatTool> = fields.take("tools")?.unwrap_or_default();
    let function = |(i, tool): (usize, FlatTool)| match tool {
        FlatTool { kind, name: Some(name), description, parameters, strict } if kind == "function" => {
            Ok(Function { name, description, parameters, strict })
        }
        FlatTool { kind, .. } => {
            Err(ApiError::field(&format!("tools[{i}]"), format!("tools of type {kind:?} are not supported")))
        }
    };
    let functions = tools.into_iter().enumerate().map(function).collect::<Result<_, _>>()?;
    Tools::of(functions, fields.take("tool_choice")?, fields.take("parallel_tool_calls")?)
}
