//! What goes wrong: for those who start a server, and for those who ask it.

use std::net::SocketAddr;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use warpfold_engine as engine;
use warpfold_models as models;

/// An error of this crate, one pointer wide.
#[derive(Debug, thiserror::Error)]
#[error("{kind}")]
pub struct Error {
    kind: Box<ErrorKind>,
}

impl Error {
    /// Which error it is.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self { kind: Box::new(kind) }
    }
}

/// The kinds of [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The address cannot be listened at.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// The system gives no threads, or no signals.
    #[error("cannot start: {0}")]
    Start(std::io::Error),
    /// An option that the server cannot run with.
    #[error("{option}: {reason}")]
    Option {
        /// The option of the program that sets it.
        option: &'static str,
        /// What was expected against what was found.
        reason: String,
    },
    /// The engine's thread ended by itself.
    #[error("the engine has failed: its thread ended")]
    EngineEnded,
    /// A server that is measured does not answer as it should.
    #[error("{url}: {reason}")]
    Target {
        /// What was asked.
        url: String,
        /// What was expected against what was found.
        reason: String,
    },
    /// A workload that cannot be run.
    #[error("the workload {name}: {reason}")]
    Workload {
        /// Its name, or its file.
        name: String,
        /// What was expected against what was found.
        reason: String,
    },
}

/// An answer that says what is wrong with a request, as OpenAI writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
    /// The field that is wrong.
    pub(crate) param: Option<String>,
    pub(crate) code: Option<&'static str>,
}

/// How long those who are sent away should wait before they come again.
const RETRY_SECONDS: &str = "1";

impl ApiError {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), param: None, code: None }
    }

    /// A field that is wrong, unknown or not supported.
    pub(crate) fn field(name: &str, reason: impl std::fmt::Display) -> Self {
        let error = Self::new(StatusCode::BAD_REQUEST, format!("{name}: {reason}"));
        Self { param: Some(name.to_owned()), ..error }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// The server is not ready, full, or about to end.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self { code: Some("service_unavailable"), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, message) }
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// The error object.
    pub(crate) fn body(&self) -> Value {
        let kind = match self.status.as_u16() {
            401 => "authentication_error",
            404 => "not_found_error",
            503 => "overloaded_error",
            500..=599 => "server_error",
            _ => "invalid_request_error",
        };
        json!({"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}})
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.body().to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        match self.status {
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_SECONDS));
            }
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            // What is left of the body would have to be read before the next request.
            StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        response
    }
}

impl From<&engine::Error> for ApiError {
    fn from(error: &engine::Error) -> Self {
        use engine::ErrorKind as E;
        match error.kind() {
            E::Request { field, reason } => Self::field(field, reason),
            E::TooLong { prompt, new, max_len } => {
                let message = format!(
                    "this model's maximum context length is {max_len} tokens, but the prompt has {prompt} tokens and at \
                     least {new} are to be generated"
                );
                Self {
                    param: Some("prompt".to_owned()),
                    code: Some("context_length_exceeded"),
                    ..Self::bad_request(message)
                }
            }
            E::TooLarge { .. } => {
                Self { code: Some("context_length_exceeded"), ..Self::bad_request(error.to_string()) }
            }
            E::Overloaded { .. } | E::Stopped | E::Asleep => Self::unavailable(error.to_string()),
            // A setting that a request needs, and the engine was started without.
            E::Config { .. } => Self::bad_request(error.to_string()),
            _ => Self::internal(error.to_string()),
        }
    }
}

impl From<&models::Error> for ApiError {
    fn from(error: &models::Error) -> Self {
        use models::ErrorKind as E;
        match error.kind() {
            E::Template(_) => Self { param: Some("messages".to_owned()), ..Self::bad_request(error.to_string()) },
            E::Tokenize(_) => Self::bad_request(error.to_string()),
            _ => Self::internal(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_pointer_wide() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }

    #[test]
    fn overload_says_when_to_come_again() {
        let response = ApiError::unavailable("full").into_response();
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()[header::RETRY_AFTER], RETRY_SECONDS);
    }
}
