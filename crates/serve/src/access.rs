//! Who may ask: keys, and pages of other origins.

use std::sync::Arc;

use axum::extract::{Request, State as Shared};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::anthropic::Refusal;
use crate::credentials::{allow, key_of};
use crate::openai::answer::new_id;
use crate::state::State;

/// Lets a request pass whose key is right, and says whose it is: an `Arc<Tenant>` among its
/// extensions.
pub(crate) async fn keys(Shared(state): Shared<Arc<State>>, mut request: Request, next: Next) -> Response {
    match key_of(request.headers(), &state.options.keys) {
        Ok(key) => {
            request.extensions_mut().insert(state.tenants.get(key));
            next.run(request).await
        }
        Err(error) if request.uri().path().starts_with("/v1/messages") => Refusal::from(error).into_response(),
        Err(error) => error.into_response(),
    }
}

/// The header of a request's id.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Gives an answer the id of its request: the one that it came with, or a new one.
pub(crate) async fn ids(Shared(state): Shared<Arc<State>>, request: Request, next: Next) -> Response {
    let sent = request.headers().get(&REQUEST_ID).filter(|id| !id.is_empty() && id.len() <= LONGEST_ID).cloned();
    let id = sent.or_else(|| HeaderValue::try_from(format!("req-{}", new_id(&state))).ok());
    let mut response = next.run(request).await;
    if let Some(id) = id {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

// THRESHOLD: requests with a longer id get one of ours; tested by
// crates/serve/tests/http/access.rs::a_request_keeps_its_id_or_gets_one
/// Bytes of an id at most.
const LONGEST_ID: usize = 256;

/// Says to browsers which origins may read answers: none, unless the server was told.
pub(crate) async fn cors(Shared(state): Shared<Arc<State>>, request: Request, next: Next) -> Response {
    let allowed = request.headers().get(header::ORIGIN).and_then(|origin| allow(origin, &state.options.cors));
    let Some(origin) = allowed else { return next.run(request).await };
    let is_preflight =
        request.method() == Method::OPTIONS && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    // What a page of an allowed origin sends is its own affair: clients have headers of their own.
    let wanted = request.headers().get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let wanted = wanted.unwrap_or(HeaderValue::from_static("authorization, content-type"));
    let mut response = if is_preflight { StatusCode::NO_CONTENT.into_response() } else { next.run(request).await };
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::VARY, HeaderValue::from_static("origin"));
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("x-request-id"));
    if is_preflight {
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted);
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    }
    response
}
