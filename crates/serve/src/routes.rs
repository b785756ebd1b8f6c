//! Which path is answered by what.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State as Shared};
use axum::http::StatusCode;
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::json;

use crate::body::{json, typed};
use crate::error::ApiError;
use crate::openai::{chat, completions, embeddings, models, responses, scores};
use crate::state::State;
use crate::{access, access_log, adapters, anthropic, metrics, ollama, page, sleep, tokenize, weights};

/// Everything that the server answers. What a key protects comes first.
pub(crate) fn router(state: Arc<State>) -> Router {
    let protected = Router::new()
        .route("/v1/completions", post(completions::complete))
        .route("/v1/chat/completions", post(chat::complete))
        .route("/v1/responses", post(responses::create))
        .route("/v1/responses/{id}", get(responses::get).delete(responses::delete))
        .route("/v1/messages", post(anthropic::create))
        .route("/v1/messages/count_tokens", post(anthropic::count))
        .route("/v1/embeddings", post(embeddings::create))
        .route("/v1/score", post(scores::score))
        .route("/score", post(scores::score))
        .route("/v1/rerank", post(scores::rerank))
        .route("/v2/rerank", post(scores::rerank))
        .route("/rerank", post(scores::rerank))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{*name}", get(models::one))
        .route("/v1/load_weights", post(weights::load))
        .route("/sleep", post(sleep::sleep))
        .route("/wake_up", post(sleep::wake_up))
        .route("/is_sleeping", get(sleep::is_sleeping))
        .route("/v1/load_lora_adapter", post(adapters::load))
        .route("/v1/unload_lora_adapter", post(adapters::unload))
        .route("/api/chat", post(ollama::chat))
        .route("/api/generate", post(ollama::generate))
        .route("/api/embed", post(ollama::embed))
        .route("/api/show", post(ollama::show))
        .route("/api/tags", get(ollama::tags))
        .route("/tokenize", post(tokenize::encode))
        .route("/detokenize", post(tokenize::decode))
        .layer(from_fn_with_state(state.clone(), access::keys));
    Router::new()
        .route("/", get(page::page))
        .route("/health", get(health))
        .route("/metrics", get(prometheus))
        .route("/version", get(version))
        .route("/api/version", get(version))
        .merge(protected)
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(map_response(harden))
        .layer(from_fn_with_state(state.clone(), access::ids))
        .layer(from_fn_with_state(state.clone(), access_log::log))
        .layer(from_fn_with_state(state.clone(), access::cors))
        .with_state(state)
}

/// Ready or not: 200 or 503.
async fn health(Shared(state): Shared<Arc<State>>) -> Result<Response, ApiError> {
    state.served()?;
    Ok(json(&json!({"status": "ok"})))
}

async fn version() -> Response {
    json(&json!({"version": env!("CARGO_PKG_VERSION")}))
}

async fn prometheus(Shared(state): Shared<Arc<State>>) -> Result<Response, ApiError> {
    let engine = state.engine_metrics().await?;
    Ok(typed("text/plain; version=0.0.4; charset=utf-8", metrics::text(&state, &engine)))
}

async fn no_such_path(request: Request) -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, format!("there is no {}", request.uri().path()))
}

async fn no_such_method(request: Request) -> ApiError {
    let (method, path) = (request.method(), request.uri().path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, format!("{path} has no {method}"))
}

/// What is JSON is read as nothing else.
async fn harden(response: Response) -> Response {
    ([("x-content-type-options", "nosniff")], response).into_response()
}
