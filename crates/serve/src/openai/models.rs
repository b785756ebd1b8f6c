//! `GET /v1/models`: what is served.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State as Shared};
use axum::response::Response;
use serde_json::{Value, json};

use super::params::check_model;
use crate::body::json;
use crate::error::ApiError;
use crate::state::{Served, State};

pub(crate) async fn list(Shared(state): Shared<Arc<State>>) -> Result<Response, ApiError> {
    let served = state.served()?;
    let names = state.options.names.iter().cloned().chain(state.adapters.names());
    let models: Vec<Value> = names.map(|name| model(&name, &state, served)).collect();
    Ok(json(&json!({"object": "list", "data": models})))
}

/// Names may have slashes in them.
pub(crate) async fn one(
    Shared(state): Shared<Arc<State>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let served = state.served()?;
    let Path(name) = name.map_err(|error| ApiError::field("model", error))?;
    check_model(Some(name.clone()), &state)?;
    Ok(json(&model(&name, &state, served)))
}

fn model(name: &str, state: &State, served: &Served) -> Value {
    let mut model = json!({
        "id": name,
        "object": "model",
        "created": state.created,
        "owned_by": "warpfold",
        "root": state.name(),
        "parent": state.adapters.find(name).map(|_| state.name()),
        "max_model_len": served.longest,
    });
    if let Some(digest) = served.digests.last() {
        model["weights_digest"] = digest.to_string().into();
    }
    model
}
