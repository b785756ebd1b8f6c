//! The bodies of requests, bounded in bytes and time, and those of answers.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::Value;

use crate::error::ApiError;
use crate::fields::Fields;
use crate::host::{FOREVER, ServeFault};
use crate::state::State;

impl FromRequest<Arc<State>> for Fields {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &Arc<State>) -> Result<Self, ApiError> {
        check_type(request.headers())?;
        let bounds = state.options.bounds;
        let too_large = || {
            let most = bounds.body_bytes;
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body has more than {most} bytes"))
        };
        let most = if state.host.has(ServeFault::BodyBoundIsIgnored) { usize::MAX } else { bounds.body_bytes };
        if request.body().size_hint().lower() > most as u64 {
            // It says so itself, and nobody waits for it.
            return Err(too_large());
        }
        let time = if state.host.has(ServeFault::BodyTimeIsIgnored) { FOREVER } else { bounds.body_time };
        let body = Limited::new(request.into_body(), most).collect();
        match state.host.within(time, body).await {
            Some(Ok(body)) => Self::parse(&body.to_bytes()),
            Some(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
            Some(Err(error)) => Err(ApiError::bad_request(format!("the body cannot be read: {error}"))),
            None => {
                let seconds = bounds.body_time.as_secs_f32();
                let message = format!("the body did not arrive within {seconds} seconds");
                Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, message))
            }
        }
    }
}

/// Checks that what a browser sends is declared as JSON: a page of another origin cannot do that
/// without a preflight request. Other clients, such as `curl -d`, may declare anything.
pub(crate) fn check_type(headers: &HeaderMap) -> Result<(), ApiError> {
    if !headers.contains_key(header::ORIGIN) && !headers.contains_key("sec-fetch-site") {
        return Ok(());
    }
    let value = headers.get(header::CONTENT_TYPE).map_or("none", |value| value.to_str().unwrap_or("none"));
    let essence = value.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let message = format!("the content type is {value}, not application/json");
    Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message))
}

/// An answer in JSON.
pub(crate) fn json(value: &Value) -> Response {
    typed("application/json", value.to_string())
}

/// An answer of some type.
pub(crate) fn typed(content_type: &'static str, body: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static(content_type))], body.into()).into_response()
}
