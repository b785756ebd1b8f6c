//! `GET /`: a page to talk to the model, in one file, which fetches nothing from elsewhere.

use axum::http::{HeaderValue, header};
use axum::response::Response;

use crate::body::typed;

const PAGE: &str = include_str!("index.html");

/// The page runs its own script, and talks to this server only.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(crate) async fn page() -> Response {
    let mut response = typed("text/html; charset=utf-8", PAGE);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}
