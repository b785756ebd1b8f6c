//! Anthropic's interface: `POST /v1/messages` and `/v1/messages/count_tokens`.
//!
//! `history` makes the messages of a template of theirs, `writer` writes answers as they do.

mod history;
mod writer;

use std::sync::Arc;

use axum::Extension;
use axum::extract::State as Shared;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use warpfold_engine::{Request, Sampling};
use warpfold_models::{ChatOptions, Grammar};

use crate::body::json;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::openai::dialogue::{Dialogue, Prepared, Reasoning, take_effort};
use crate::openai::params::{check_model, sampling, stops};
use crate::openai::prompt::{Marks, tokenize};
use crate::openai::structured::Form;
use crate::openai::tools::{Function, Tools};
use crate::share::Tenant;
use crate::state::{Served, State};
use writer::Messages;

/// An error in the shape that Anthropic's clients read.
pub(crate) struct Refusal(ApiError);

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        Self(error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = writer::error(&self.0);
        let mut response = self.0.into_response();
        *response.body_mut() = body.to_string().into();
        response
    }
}

/// A tool as Anthropic has it. Those that a server runs have other types.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnthropicTool {
    name: String,
    description: Option<String>,
    input_schema: Option<Value>,
    #[serde(rename = "type")]
    kind: Option<String>,
    strict: Option<bool>,
    /// Asks for a prefix to be kept, as all are.
    #[serde(rename = "cache_control")]
    _cache_control: Option<Value>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Choice {
    Auto { disable_parallel_tool_use: Option<bool> },
    Any { disable_parallel_tool_use: Option<bool> },
    Tool { name: String, disable_parallel_tool_use: Option<bool> },
    None {},
}

/// How much the model thinks.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Thinking {
    Enabled {},
    Adaptive {},
    Disabled {},
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct OutputConfig {
    effort: Option<String>,
    format: Option<OutputFormat>,
}

/// Form of the content.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum OutputFormat {
    JsonSchema { schema: Value },
}

/// An answer to a conversation.
pub(crate) async fn create(
    Shared(state): Shared<Arc<State>>,
    Extension(tenant): Extension<Arc<Tenant>>,
    fields: Result<Fields, ApiError>,
) -> Result<Response, Refusal> {
    let served = state.served()?;
    let mut fields = fields?;
    let adapter = check_model(fields.take("model")?, &state)?;
    let dialogue = dialogue(&mut fields, &state)?;
    let max_tokens: usize = fields.need("max_tokens")?;
    let stop = stops(&mut fields, &state, "stop_sequences")?;
    let is_stream = fields.take("stream")?.unwrap_or(false);
    let request = Request {
        sampling: draw(&mut fields, served)?,
        stop: stop.clone(),
        salt: tenant.salt.clone(),
        adapter,
        ..Request::new(Vec::new())
    };
    allow_what_changes_nothing(&mut fields);
    fields.finish()?;

    let Prepared { request, reader } = dialogue.prepare(&state, served, request).await?;
    // An answer cannot be longer than there is room; clients ask for more than small models have.
    let room = served.longest.saturating_sub(request.prompt.len()).max(1);
    let request = Request { max_tokens: Some(max_tokens.min(room)), ..request };
    let writer = Messages::new(&state, served, &reader, &request, stop);
    Ok(crate::openai::respond(&state, served, &tenant, vec![request], writer, is_stream).await?)
}

/// Tokens of the prompt that a conversation would make.
pub(crate) async fn count(
    Shared(state): Shared<Arc<State>>,
    fields: Result<Fields, ApiError>,
) -> Result<Response, Refusal> {
    let served = state.served()?;
    let mut fields = fields?;
    let dialogue = dialogue(&mut fields, &state)?;
    allow_what_changes_nothing(&mut fields);
    fields.finish()?;
    let text = dialogue.text(&state).await?;
    let tokens = tokenize(&state, served, text, Marks::Keep).await?;
    Ok(json(&json!({"input_tokens": tokens.len()})))
}

fn draw(fields: &mut Fields, served: &Served) -> Result<Sampling, ApiError> {
    sampling(fields, served.text.sampling.sampling())
}

fn allow_what_changes_nothing(fields: &mut Fields) {
    fields.allow("metadata", Value::is_object);
    fields.allow("service_tier", |value| *value == "auto" || *value == "standard_only");
    // What is kept of a conversation is what a client sends.
    let keeps_all = |edit: &Value| edit["keep"] == "all";
    fields.allow("context_management", |value| value["edits"].as_array().is_none_or(|all| all.iter().all(keeps_all)));
}

fn dialogue(fields: &mut Fields, state: &State) -> Result<Dialogue, ApiError> {
    check_model(fields.take("model")?, state)?;
    let messages = history::messages(fields.take("system")?, fields.need("messages")?)?;
    let mut variables = Map::new();
    let mut reasoning = Reasoning::Hidden;
    match fields.take("thinking")? {
        None => {}
        Some(Thinking::Enabled {} | Thinking::Adaptive {}) => {
            variables.insert("enable_thinking".to_owned(), true.into());
            reasoning = Reasoning::Apart;
        }
        Some(Thinking::Disabled {}) => {
            variables.insert("enable_thinking".to_owned(), false.into());
        }
    }
    let OutputConfig { effort, format } = fields.take("output_config")?.unwrap_or_default();
    if let Some(effort) = effort {
        take_effort(&mut variables, "output_config", effort)?;
    }
    // Clients of the interface's trial send it by itself.
    let form = format
        .or(fields.take("output_format")?)
        .map(|OutputFormat::JsonSchema { schema }| Form { grammar: Grammar::Json(schema), field: "output_config" });
    // A last message of the assistant is the beginning of the answer.
    let is_begun = |last: &Value| last["role"] == "assistant" && last["content"] != "" && last["tool_calls"].is_null();
    let goes_on = messages.last().is_some_and(is_begun);
    let options = ChatOptions { add_generation_prompt: !goes_on, variables, ..ChatOptions::default() };
    Ok(Dialogue { messages, tools: tools(fields)?, options, goes_on, reasoning, form })
}

fn tools(fields: &mut Fields) -> Result<Tools, ApiError> {
    let tools: Vec<AnthropicTool> = fields.take("tools")?.unwrap_or_default();
    let function = |(i, tool): (usize, AnthropicTool)| match tool.kind.as_deref() {
        None | Some("custom") => Ok(Function {
            name: tool.name,
            description: tool.description,
            parameters: tool.input_schema,
            strict: tool.strict,
        }),
        Some(kind) => Err(ApiError::field(&format!("tools[{i}]"), format!("tools of type {kind:?} are not supported"))),
    };
    let functions = tools.into_iter().enumerate().map(function).collect::<Result<_, _>>()?;
    let (choice, is_single) = match fields.take("tool_choice")? {
        None => (None, None),
        Some(Choice::Auto { disable_parallel_tool_use }) => (Some(json!("auto")), disable_parallel_tool_use),
        Some(Choice::Any { disable_parallel_tool_use }) => (Some(json!("required")), disable_parallel_tool_use),
        Some(Choice::Tool { name, disable_parallel_tool_use }) => {
            (Some(json!({"name": name})), disable_parallel_tool_use)
        }
        Some(Choice::None {}) => (Some(json!("none")), None),
    };
    Tools::of(functions, choice, is_single.map(|is_single| !is_single))
}
