//! OpenAI's interface: completions, chat completions, embeddings and the list of models.
//!
//! A handler takes the fields of a request (`params`, `prompt`, `dialogue`), refuses what is left
//! of them, submits the prompts, and hands the updates to a [`Writer`], which writes them as chunks
//! (`sse`) or, all together, as one object. So a stream and a whole answer cannot differ.

pub(crate) mod answer;
pub(crate) mod blocks;
pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod dialogue;
pub(crate) mod embeddings;
mod gbnf;
mod history;
pub(crate) mod logprobs;
pub(crate) mod message;
pub(crate) mod models;
mod neutral;
pub(crate) mod params;
pub(crate) mod prompt;
pub(crate) mod responses;
pub(crate) mod scores;
pub(crate) mod sse;
pub(crate) mod structured;
mod tags;
pub(crate) mod tools;

use std::sync::Arc;

use axum::response::Response;
use serde_json::Value;
use warpfold_engine::{Output, Request, Update};

use crate::body::json;
use crate::error::ApiError;
use crate::generation::Generation;
use crate::host::ServeFault;
use crate::share::Tenant;
use crate::state::{Served, State};

/// Writes what is generated in the form of one interface.
pub(crate) trait Writer: Send + Unpin + 'static {
    /// The type of a stream.
    const STREAM_TYPE: &'static str = "text/event-stream; charset=utf-8";

    /// Answers to each prompt.
    fn n(&self) -> usize;

    /// All answers as one object.
    fn whole(&mut self, outputs: Vec<Output>) -> Value;

    /// Appends what begins a stream.
    fn begin(&mut self, out: &mut Vec<u8>);

    /// Appends an update as events.
    fn update(&mut self, prompt: usize, update: &Update, out: &mut Vec<u8>);

    /// Appends what ends a stream.
    fn end(&mut self, out: &mut Vec<u8>);

    /// Appends an error that ends a stream.
    fn error(&mut self, error: &ApiError, out: &mut Vec<u8>);

    /// Notes what an update says of its prompt, before it is written.
    fn note(&mut self, prompt: usize, update: &Update);
}

/// Runs requests, and answers as they asked: at once or as a stream. Errors that come before
/// anything is generated have a status of their own.
pub(crate) async fn respond(
    state: &Arc<State>,
    served: &Served,
    tenant: &Arc<Tenant>,
    requests: Vec<Request>,
    mut writer: impl Writer,
    is_stream: bool,
) -> Result<Response, ApiError> {
    let num_answers = requests.len() * writer.n();
    let mut generation = Generation::submit(state, served, tenant, requests)?;
    if is_stream {
        let first = generation.next().await.transpose()?;
        return Ok(sse::response(generation, writer, first));
    }
    let mut outputs = vec![Output::default(); num_answers];
    while let Some((prompt, update)) = generation.next().await.transpose()? {
        writer.note(prompt, &update);
        let last = writer.n() - 1;
        let output = if generation.has(ServeFault::ChoicesAreSwapped) { last - update.output } else { update.output };
        outputs[prompt * writer.n() + output].extend(update);
    }
    Ok(json(&writer.whole(outputs)))
}
