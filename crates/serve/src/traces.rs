//! Spans of requests for a collector of OpenTelemetry: OTLP over HTTP, in JSON.
//!
//! A request that brings a `traceparent` (W3C Trace Context) becomes a span of that trace, unless
//! its sender does not record it; any other begins a trace. Where the engine worked for it there
//! are spans within: in the queue, up to the first token, and the tokens after it. Spans go to the
//! collector some at a time; those that it does not take are counted, and lost.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::{HeaderMap, Method};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::error::Error;
use crate::load::Site;

/// A request that has been answered.
#[derive(Debug)]
pub(crate) struct RequestSpan {
    pub(crate) ids: SpanIds,
    pub(crate) name: String,
    pub(crate) start: SystemTime,
    pub(crate) time: Duration,
    pub(crate) status: u16,
    pub(crate) is_sent: bool,
    /// Names and values beyond those of every request.
    pub(crate) attributes: Vec<(&'static str, Value)>,
    /// From the start until the engine began, and until the first token.
    pub(crate) engine: Option<[Duration; 2]>,
}

/// A span's place in a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SpanIds {
    trace: String,
    span: String,
    parent: Option<String>,
}

impl SpanIds {
    /// That of a request with these headers; nothing if it is not to be recorded.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let sent = headers.get("traceparent").and_then(|parent| parent.to_str().ok()).and_then(parse);
        match sent {
            Some((_, _, false)) => None,
            Some((trace, parent, true)) => Some(Self { trace, span: new_id(), parent: Some(parent) }),
            None => Some(Self { trace: new_id() + &new_id(), span: new_id(), parent: None }),
        }
    }
}

/// Trace, span and whether it is recorded. Versions to come may say more behind these.
fn parse(parent: &str) -> Option<(String, String, bool)> {
    let mut parts = parent.trim().split('-');
    let mut hex = |len: usize| {
        let part = parts.next().filter(|part| part.len() == len)?;
        part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).then_some(part)
    };
    let (version, trace, span, flags) = (hex(2)?, hex(32)?, hex(16)?, hex(2)?);
    let is_known = version != "ff" && (version != "00" || parts.next().is_none());
    let is_none = |id: &str| id.bytes().all(|byte| byte == b'0');
    let flags = u8::from_str_radix(flags, 16).ok()?;
    (is_known && !is_none(trace) && !is_none(span)).then(|| (trace.to_owned(), span.to_owned(), flags & 1 == 1))
}

/// Eight bytes that are not all zero.
fn new_id() -> String {
    format!("{:016x}", RandomState::new().hash_one(0_u8).max(1))
}

/// The way of spans to their collector.
#[derive(Debug, Clone)]
pub(crate) struct Traces {
    sender: mpsc::Sender<Message>,
    lost: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Message {
    Span(Box<RequestSpan>),
    /// Everything before it is to be sent.
    Flush(oneshot::Sender<()>),
}

/// Spans that wait for the collector; one more is lost.
const QUEUE_SPANS: usize = 2048;

/// How long spans wait for others, to go together.
const BATCH_TIME: Duration = Duration::from_millis(200);

/// How long a collector may take.
const PATIENCE: Duration = Duration::from_secs(10);

impl Traces {
    /// Sends spans to a collector, whose task is one of this runtime.
    ///
    /// # Errors
    /// If the URL is none of HTTP.
    pub(crate) fn start(runtime: &tokio::runtime::Runtime, url: &str, model: String) -> Result<Self, Error> {
        let site = Site::new(url, None)?;
        let (sender, receiver) = mpsc::channel(QUEUE_SPANS);
        let lost = Arc::new(AtomicU64::new(0));
        runtime.spawn(send_all(receiver, site, model, lost.clone()));
        Ok(Self { sender, lost })
    }

    pub(crate) fn send(&self, span: RequestSpan) {
        if self.sender.try_send(Message::Span(Box::new(span))).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
    }

    /// Spans that no collector has taken.
    pub(crate) fn num_lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// Waits until everything so far is with the collector, or lost.
    pub(crate) async fn flush(&self) {
        let (done, is_done) = oneshot::channel();
        if self.sender.send(Message::Flush(done)).await.is_ok() {
            is_done.await.ok();
        }
    }
}

async fn send_all(mut receiver: mpsc::Receiver<Message>, site: Site, model: String, lost: Arc<AtomicU64>) {
    while let Some(first) = receiver.recv().await {
        let mut messages = vec![first];
        if matches!(messages[0], Message::Span(_)) {
            tokio::time::sleep(BATCH_TIME).await;
        }
        while let Ok(next) = receiver.try_recv() {
            messages.push(next);
        }
        let spans: Vec<Value> = messages.iter().flat_map(Message::spans).collect();
        let num = messages.iter().filter(|message| matches!(message, Message::Span(_))).count();
        if num > 0 {
            let body = envelope(&spans, &model);
            let sent = tokio::time::timeout(PATIENCE, site.json(Method::POST, "/v1/traces", Some(&body))).await;
            if !matches!(sent, Ok(Ok(_))) {
                lost.fetch_add(num as u64, Relaxed);
            }
        }
        for message in messages {
            if let Message::Flush(done) = message {
                done.send(()).ok();
            }
        }
    }
}

impl Message {
    /// The spans of a request.
    fn spans(&self) -> Vec<Value> {
        let Self::Span(span) = self else { return Vec::new() };
        let RequestSpan { ids, name, start, time, status, is_sent, attributes, engine } = &**span;
        let at =
            |since: Duration| (*start + since).duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string();
        let object = |id: &str, parent: Option<&String>, name: &str, [from, to]: [Duration; 2]| {
            json!({
                "traceId": ids.trace, "spanId": id, "parentSpanId": parent, "flags": 1, "name": name,
                "startTimeUnixNano": at(from), "endTimeUnixNano": at(to),
            })
        };
        let mut request = object(&ids.span, ids.parent.as_ref(), name, [Duration::ZERO, *time]);
        // A server's.
        request["kind"] = 2.into();
        request["attributes"] = attributes.iter().map(|(name, value)| attribute(name, value)).collect();
        if *status >= 500 {
            request["status"] = json!({"code": 2});
        } else if !is_sent {
            request["status"] = json!({"code": 2, "message": "the client left"});
        }
        let mut spans = vec![request];
        if let Some([begun, first]) = *engine {
            let times = [("queue", [Duration::ZERO, begun]), ("prefill", [begun, first]), ("decode", [first, *time])];
            for (name, [from, to]) in times {
                let mut span = object(&new_id(), Some(&ids.span), name, [from, to.max(from)]);
                span["kind"] = 1.into();
                spans.push(span);
            }
        }
        spans
    }
}

fn attribute(name: &str, value: &Value) -> Value {
    let typed = match value {
        // Integers of 64 bits are strings in JSON.
        Value::Number(number) if number.is_u64() => json!({"intValue": number.to_string()}),
        Value::Number(_) => json!({"doubleValue": value}),
        Value::Bool(_) => json!({"boolValue": value}),
        _ => json!({"stringValue": value}),
    };
    json!({"key": name, "value": typed})
}

fn envelope(spans: &[Value], model: &str) -> Value {
    let resource = [("service.name", "warpfold"), ("service.version", VERSION), ("gen_ai.request.model", model)];
    let resource: Vec<Value> = resource.iter().map(|(name, value)| attribute(name, &json!(value))).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": resource},
        "scopeSpans": [{"scope": {"name": "warpfold-serve", "version": VERSION}, "spans": spans}],
    }]})
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
