//! Streams as server-sent events.
//!
//! What is ready goes out in one frame, each update as an event of its own. An error after the
//! first byte is an event with OpenAI's error object; then the stream ends without `[DONE]`.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use http_body::Frame;
use serde_json::Value;
use warpfold_engine::Update;

use super::Writer;
use crate::body::typed;
use crate::generation::Generation;
use crate::host::ServeFault;

/// The body of a streamed answer.
struct Events<W> {
    generation: Generation,
    writer: W,
    pending: Vec<u8>,
    is_over: bool,
}

/// Events that are waiting are put together up to about this many bytes.
const FRAME_BYTES: usize = 16 << 10;

/// A streamed answer, of which the first update is there.
pub(crate) fn response<W: Writer>(generation: Generation, writer: W, first: Option<(usize, Update)>) -> Response {
    let mut events = Events { generation, writer, pending: Vec::new(), is_over: false };
    first.iter().for_each(|(prompt, update)| events.writer.note(*prompt, update));
    events.writer.begin(&mut events.pending);
    first.into_iter().for_each(|(prompt, update)| events.add(prompt, &update));
    let mut response = typed(W::STREAM_TYPE, Body::new(events));
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Asks proxies not to collect it.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

impl<W: Writer> Events<W> {
    fn add(&mut self, prompt: usize, update: &Update) {
        self.writer.note(prompt, update);
        self.writer.update(prompt, update, &mut self.pending);
    }

    /// Collects what is there; returns whether there is something to send, or the end was reached.
    fn collect(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.is_over && self.pending.len() < FRAME_BYTES {
            match self.generation.poll_next(cx) {
                Poll::Pending => break,
                Poll::Ready(Some(Ok((prompt, update)))) => self.add(prompt, &update),
                Poll::Ready(Some(Err(error))) => {
                    if !self.generation.has(ServeFault::ErrorIsSwallowed) {
                        self.writer.error(&error, &mut self.pending);
                    }
                    self.is_over = true;
                }
                Poll::Ready(None) => {
                    self.writer.end(&mut self.pending);
                    self.is_over = true;
                }
            }
        }
        if self.pending.is_empty() && !self.is_over { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl<W: Writer> http_body::Body for Events<W> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let events = self.get_mut();
        std::task::ready!(events.collect(cx));
        let bytes = Bytes::from(std::mem::take(&mut events.pending));
        Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
    }
}

/// Appends an object as an event.
pub(crate) fn event(object: &Value, out: &mut Vec<u8>) {
    out.extend(b"data: ");
    // Writing to memory does not fail.
    serde_json::to_writer(&mut *out, object).ok();
    out.extend(b"\n\n");
}

/// Appends an object as an event of a name, which is its type.
pub(crate) fn named_event(object: &Value, out: &mut Vec<u8>) {
    out.extend(b"event: ");
    out.extend(object["type"].as_str().unwrap_or_default().bytes());
    out.push(b'\n');
    event(object, out);
}
