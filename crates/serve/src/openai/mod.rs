//! OpenAI's interface: completions, chat completions and the list of models.
//!
//! A handler takes the fields of a request (`params`, `prompt`), refuses what is left of them,
//! submits the prompts, and hands the updates to an [`answer::Answer`], which writes them as chunks
//! (`sse`) or, all together, as one object. So a stream and a whole answer cannot differ.

pub(crate) mod answer;
pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod logprobs;
pub(crate) mod models;
pub(crate) mod params;
pub(crate) mod prompt;
mod schema;
pub(crate) mod sse;

use std::sync::Arc;

use axum::response::Response;
use warpfold_engine::{Output, Request};

use crate::body::json;
use crate::error::ApiError;
use crate::generation::Generation;
use crate::share::Tenant;
use crate::state::{Served, State};
use answer::Answer;
use params::Delivery;

/// Runs requests, and answers as they asked: at once or as a stream. Errors that come before
/// anything is generated have a status of their own.
async fn respond(
    state: &Arc<State>,
    served: &Served,
    tenant: &Arc<Tenant>,
    requests: Vec<Request>,
    answer: Answer,
    delivery: Delivery,
) -> Result<Response, ApiError> {
    let mut generation = Generation::submit(state, served, tenant, requests)?;
    if let Delivery::Stream { include_usage } = delivery {
        let first = generation.next().await.transpose()?;
        return Ok(sse::response(generation, answer, first, include_usage));
    }
    let mut outputs = vec![Output::default(); answer.num_choices()];
    while let Some((prompt, update)) = generation.next().await.transpose()? {
        outputs[answer.choice(prompt, update.output)].extend(update);
    }
    Ok(json(&answer.whole(outputs)))
}
