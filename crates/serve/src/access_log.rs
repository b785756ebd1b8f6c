//! A line for each request when its answer has gone, as text or as JSON: what operators search. Its
//! span, where there is a collector, says the same.
//!
//! The engine's thread notes what a request was for it in a [`RequestRecord`], which handlers find
//! as a value of their task; the line is written when the body of the answer is dropped, sent or
//! not.

use std::fmt::Write;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::extract::{Request, State as Shared};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use serde_json::json;
use warpfold_engine::Update;

use crate::access::REQUEST_ID;
use crate::options::{LogFormat, LogSink};
use crate::state::State;
use crate::traces::{RequestSpan, SpanIds, Traces};

tokio::task_local! {
    static RECORD: Arc<RequestRecord>;
}

/// Work of the engine for one HTTP request.
#[derive(Debug, Default)]
pub(crate) struct RequestRecord {
    prompt_tokens: AtomicU64,
    cached_tokens: AtomicU64,
    tokens: AtomicU64,
    times: Mutex<RequestTimes>,
}

/// The longest of a request's prompts.
#[derive(Debug, Default, Clone, Copy)]
struct RequestTimes {
    queue: Option<Duration>,
    first_token: Option<Duration>,
}

impl RequestRecord {
    /// Returns the record of the request that this task answers.
    pub(crate) fn of_task() -> Option<Arc<Self>> {
        RECORD.try_with(Arc::clone).ok()
    }

    /// Notes an update; the first one of a prompt with its tokens, and when it came.
    pub(crate) fn see(&self, update: &Update, first: Option<(usize, Duration)>) {
        self.tokens.fetch_add(update.tokens.len() as u64, Relaxed);
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.queue = times.queue.max(Some(update.queued));
        if let Some((prompt, since)) = first {
            self.prompt_tokens.fetch_add(prompt as u64, Relaxed);
            self.cached_tokens.fetch_add(update.cached as u64, Relaxed);
            times.first_token = times.first_token.max(Some(since));
        }
    }
}

/// Answers a request, and writes its line and sends its span when the answer has gone.
pub(crate) async fn log(Shared(state): Shared<Arc<State>>, request: Request, next: Next) -> Response {
    let log = state.options.log.clone();
    let trace = state.traces.clone().and_then(|traces| Some((traces, SpanIds::of(request.headers())?)));
    if log.is_none() && trace.is_none() {
        return next.run(request).await;
    }
    let mut line = LogLine {
        log,
        trace,
        start: Instant::now(),
        method: request.method().to_string(),
        path: request.uri().path().to_owned(),
        status: 0,
        id: String::new(),
        record: Arc::default(),
        is_sent: false,
    };
    let response = RECORD.scope(line.record.clone(), next.run(request)).await;
    line.status = response.status().as_u16();
    let id = response.headers().get(&REQUEST_ID).and_then(|id| id.to_str().ok());
    line.id = id.unwrap_or_default().to_owned();
    response.map(|body| Body::new(LoggedBody { body, line }))
}

/// Values of a line.
struct LogLine {
    log: Option<(LogFormat, LogSink)>,
    trace: Option<(Traces, SpanIds)>,
    start: Instant,
    method: String,
    path: String,
    status: u16,
    id: String,
    record: Arc<RequestRecord>,
    /// All of the answer was taken.
    is_sent: bool,
}

impl LogLine {
    fn text(&self, format: LogFormat) -> String {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let milliseconds = |time: Duration| (time.as_secs_f64() * 1e6).round() / 1e3;
        let Self { method, path, status, id, record, .. } = self;
        let RequestTimes { queue, first_token } = *record.times.lock().unwrap_or_else(PoisonError::into_inner);
        let [prompt, cached, tokens] =
            [&record.prompt_tokens, &record.cached_tokens, &record.tokens].map(|count| count.load(Relaxed));
        let time = milliseconds(self.start.elapsed());
        match format {
            LogFormat::Json => {
                let mut line = json!({
                    "ts": since_1970.as_millis() as f64 / 1e3, "id": id, "method": method, "path": path,
                    "status": status, "ms": time, "sent": self.is_sent,
                });
                if let (Some(queue), Some(first_token)) = (queue, first_token) {
                    line["queue_ms"] = milliseconds(queue).into();
                    line["ttft_ms"] = milliseconds(first_token).into();
                    line["prompt_tokens"] = prompt.into();
                    line["cached_tokens"] = cached.into();
                    line["completion_tokens"] = tokens.into();
                }
                line.to_string()
            }
            LogFormat::Text => {
                // A path is a client's words, which begin no line.
                let path = path.escape_debug();
                let mut line = format!("{} {id} {method} {path} {status} {time} ms", since_1970.as_secs());
                if let (Some(queue), Some(first_token)) = (queue, first_token) {
                    let (queue, first_token) = (milliseconds(queue), milliseconds(first_token));
                    write!(line, ", queue {queue} ms, first token {first_token} ms").ok();
                    write!(line, ", {prompt} tokens ({cached} cached) + {tokens}").ok();
                }
                if !self.is_sent {
                    line += ", the client left";
                }
                line
            }
        }
    }
}

impl LogLine {
    fn span(&self, ids: SpanIds) -> RequestSpan {
        let Self { method, path, status, id, record, is_sent, .. } = self;
        let time = self.start.elapsed();
        let RequestTimes { queue, first_token } = *record.times.lock().unwrap_or_else(PoisonError::into_inner);
        let mut attributes = vec![
            ("http.request.method", json!(method)),
            ("url.path", json!(path)),
            ("http.response.status_code", json!(status)),
            ("http.request.id", json!(id)),
        ];
        let engine = queue.zip(first_token);
        if let Some((queue, first_token)) = engine {
            let [prompt, cached, tokens] =
                [&record.prompt_tokens, &record.cached_tokens, &record.tokens].map(|count| count.load(Relaxed));
            attributes.extend([
                ("gen_ai.usage.input_tokens", json!(prompt)),
                ("gen_ai.usage.cached_tokens", json!(cached)),
                ("gen_ai.usage.output_tokens", json!(tokens)),
                ("gen_ai.latency.time_in_queue", json!(queue.as_secs_f64())),
                ("gen_ai.latency.time_to_first_token", json!(first_token.as_secs_f64())),
            ]);
        }
        // The engine counts from when it was sent the request.
        let engine = engine.map(|(queue, first)| [queue.min(time), first.min(time)]);
        let start = SystemTime::now() - time;
        RequestSpan {
            ids,
            name: format!("{method} {path}"),
            start,
            time,
            status: *status,
            is_sent: *is_sent,
            attributes,
            engine,
        }
    }
}

/// A body that writes its line when it is dropped.
struct LoggedBody {
    body: Body,
    line: LogLine,
}

impl http_body::Body for LoggedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        self.line.is_sent |= matches!(frame, Poll::Ready(None));
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for LoggedBody {
    fn drop(&mut self) {
        self.line.is_sent |= self.body.is_end_stream();
        if let Some((format, sink)) = &self.line.log {
            (sink.0)(&self.line.text(*format));
        }
        if let Some((traces, ids)) = self.line.trace.take() {
            traces.send(self.line.span(ids));
        }
    }
}
