//! Ollama's interface: `/api/chat`, `/api/generate`, `/api/embed` and what says which models there
//! are.
//!
//! A request is put into the fields of chat completions and read as those are; `writer` writes
//! answers as lines of JSON.

mod writer;

use std::sync::Arc;

use axum::Extension;
use axum::extract::State as Shared;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use warpfold_engine::Request;

use crate::body::json;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::openai::dialogue::{Dialogue, Prepared};
use crate::openai::embeddings;
use crate::openai::params::{self, Common};
use crate::openai::prompt::{Marks, tokenize};
use crate::openai::respond;
use crate::share::Tenant;
use crate::state::State;
use writer::{OllamaAnswer, Shape};

/// An error in the shape that Ollama's clients read.
pub(crate) struct OllamaError(ApiError);

impl From<ApiError> for OllamaError {
    fn from(error: ApiError) -> Self {
        Self(error)
    }
}

impl IntoResponse for OllamaError {
    fn into_response(self) -> Response {
        let body = json!({"error": self.0.message});
        let mut response = self.0.into_response();
        *response.body_mut() = body.to_string().into();
        response
    }
}

/// Options under the names of chat completions.
const OPTIONS: [(&str, &str); 9] = [
    ("temperature", "temperature"),
    ("top_k", "top_k"),
    ("top_p", "top_p"),
    ("min_p", "min_p"),
    ("seed", "seed"),
    ("stop", "stop"),
    ("repeat_penalty", "repetition_penalty"),
    ("presence_penalty", "presence_penalty"),
    ("frequency_penalty", "frequency_penalty"),
];

/// Options about how Ollama runs a model, which change no answer here.
const HINTS: [&str; 9] =
    ["num_ctx", "num_keep", "num_batch", "num_gpu", "main_gpu", "num_thread", "use_mmap", "use_mlock", "low_vram"];

/// A turn of a conversation.
pub(crate) async fn chat(
    state: Shared<Arc<State>>,
    tenant: Extension<Arc<Tenant>>,
    fields: Result<Fields, ApiError>,
) -> Result<Response, OllamaError> {
    let mut fields = fields?;
    let mut chat = common(&mut fields)?;
    let mut messages: Vec<Value> = fields.need("messages")?;
    messages.iter_mut().for_each(as_openai);
    chat.insert("messages".to_owned(), messages.into());
    for name in ["tools", "tool_choice"] {
        fields.take(name)?.map(|value: Value| chat.insert(name.to_owned(), value));
    }
    fields.finish()?;
    answer(&state, &tenant, chat, Shape::Chat).await
}

/// A prompt, as what a user says, or `raw`.
pub(crate) async fn generate(
    state: Shared<Arc<State>>,
    tenant: Extension<Arc<Tenant>>,
    fields: Result<Fields, ApiError>,
) -> Result<Response, OllamaError> {
    let mut fields = fields?;
    let mut chat = common(&mut fields)?;
    let prompt: String = fields.need("prompt")?;
    let (system, is_raw): (Option<String>, Option<bool>) = (fields.take("system")?, fields.take("raw")?);
    for name in ["suffix", "template", "images", "context"] {
        fields.allow(name, |value| *value == "" || *value == json!([]));
    }
    fields.finish()?;
    if is_raw == Some(true) || state.served()?.text.template.is_none() {
        chat.insert("prompt".to_owned(), prompt.into());
    } else {
        let system = system.filter(|text| !text.is_empty()).map(|text| json!({"role": "system", "content": text}));
        let messages = system.into_iter().chain([json!({"role": "user", "content": prompt})]).collect();
        chat.insert("messages".to_owned(), messages);
    }
    answer(&state, &tenant, chat, Shape::Generate).await
}

/// Takes what both kinds of requests have, and gives it the names of chat completions.
fn common(fields: &mut Fields) -> Result<Map<String, Value>, ApiError> {
    let mut chat = Map::new();
    let mut set = |name: &str, value: Value| drop(chat.insert(name.to_owned(), value));
    if let Some(model) = fields.take::<String>("model")? {
        set("model", untagged(&model).into());
    }
    set("stream", fields.take::<bool>("stream")?.unwrap_or(true).into());
    match fields.take::<Value>("format")? {
        None => {}
        Some(format) if format == "" => {}
        Some(format) if format == "json" => set("response_format", json!({"type": "json_object"})),
        Some(schema) if schema.is_object() => set("guided_json", schema),
        Some(other) => return Err(ApiError::field("format", format!("{other} is neither \"json\" nor a schema"))),
    }
    match fields.take::<Value>("think")? {
        None => {}
        Some(Value::Bool(is_on)) => set("enable_thinking", is_on.into()),
        Some(effort) => set("reasoning_effort", effort),
    }
    // A model stays as long as its server.
    fields.allow("keep_alive", |_| true);
    let mut options: Map<String, Value> = fields.take("options")?.unwrap_or_default();
    HINTS.iter().for_each(|name| drop(options.remove(*name)));
    for (from, to) in OPTIONS {
        if let Some(value) = options.remove(from) {
            set(to, value);
        }
    }
    match options.remove("num_predict").and_then(|num| num.as_i64()) {
        // As much as there is room for.
        None | Some(..=-1) => {}
        Some(num) => set("max_tokens", num.into()),
    }
    match options.into_iter().find(|(_, value)| !value.is_null()) {
        None => Ok(chat),
        Some((name, _)) => Err(ApiError::field(&format!("options.{name}"), "the option is unknown or not supported")),
    }
}

/// A model's name without the tag that Ollama's clients add.
fn untagged(name: &str) -> &str {
    name.strip_suffix(":latest").unwrap_or(name)
}

/// A message under the names of chat completions.
fn as_openai(message: &mut Value) {
    let Some(message) = message.as_object_mut() else { return };
    message.retain(|name, value| !(value.is_null() || name == "images" && *value == json!([])));
    for (from, to) in [("thinking", "reasoning_content"), ("tool_name", "name")] {
        message.remove(from).map(|value| message.insert(to.to_owned(), value));
    }
    let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten();
    for function in calls.filter_map(|call| call.get_mut("function")?.as_object_mut()) {
        function.remove("index");
    }
}

/// The answer to what is a chat completion, or a completion.
async fn answer(
    state: &Arc<State>,
    tenant: &Arc<Tenant>,
    chat: Map<String, Value>,
    shape: Shape,
) -> Result<Response, OllamaError> {
    let served = state.served()?;
    let mut fields = Fields::of(chat);
    let is_stream = fields.get("stream") == Some(&Value::Bool(true));
    let Common { request, form, .. } = params::take(&mut fields, state, served, tenant)?;
    let request = Request { max_tokens: fields.take("max_tokens")?, ..request };
    let (mut request, reader) = match fields.take::<String>("prompt")? {
        Some(prompt) => {
            fields.finish()?;
            let prompt = tokenize(state, served, prompt, Marks::Add).await?;
            let request = crate::openai::structured::constrain(state, form, request).await?;
            (Request { prompt, ..request }, None)
        }
        None => {
            let dialogue = Dialogue::take(&mut fields, form)?;
            fields.finish()?;
            let Prepared { request, reader } = dialogue.prepare(state, served, request).await?;
            (request, Some(reader))
        }
    };
    request.max_tokens = request.max_tokens.or(served.max_new_tokens(request.prompt.len()));
    let name = state.name_of(request.adapter.as_deref());
    let writer = OllamaAnswer::new(shape, name, request.prompt.len(), reader, served);
    Ok(respond(state, served, tenant, vec![request], writer, is_stream).await?)
}

/// Embeddings of texts.
pub(crate) async fn embed(
    Shared(state): Shared<Arc<State>>,
    Extension(tenant): Extension<Arc<Tenant>>,
    fields: Result<Fields, ApiError>,
) -> Result<Response, OllamaError> {
    let mut fields = fields?;
    ["keep_alive", "truncate", "options"].iter().for_each(|name| fields.allow(name, |_| true));
    let made = embeddings::make(&state, &tenant, fields).await?;
    let count = made.usage.prompt_tokens;
    Ok(json(&json!({"model": made.model, "embeddings": made.all, "prompt_eval_count": count})))
}

/// The models.
pub(crate) async fn tags(Shared(state): Shared<Arc<State>>) -> Result<Response, OllamaError> {
    let served = state.served()?;
    let digest = served.digests.last().map(|digest| digest.to_string()).unwrap_or_default();
    let names = state.options.names.iter().cloned().chain(state.adapters.names());
    let model = |name| json!({"name": name, "model": name, "digest": digest, "size": 0, "details": {}});
    Ok(json(&json!({"models": names.map(model).collect::<Vec<_>>()})))
}

/// A model.
pub(crate) async fn show(
    Shared(state): Shared<Arc<State>>,
    fields: Result<Fields, ApiError>,
) -> Result<Response, OllamaError> {
    let (served, mut fields) = (state.served()?, fields?);
    let name: Option<String> = fields.take("model")?.or(fields.take("name")?);
    params::check_model(name.map(|name| untagged(&name).to_owned()), &state)?;
    let template = served.text.template.as_ref().map_or("", |template| template.source());
    let info = json!({"general.context_length": served.longest});
    let capabilities = ["completion", "tools", "embedding"];
    Ok(json(&json!({"template": template, "details": {}, "model_info": info, "capabilities": capabilities})))
}
