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
use warpfold_engine::Update;

use super::answer::{Answer, event};
use crate::body::typed;
use crate::generation::Generation;

/// The body of a streamed answer.
struct Events {
    generation: Generation,
    answer: Answer,
    include_usage: bool,
    pending: Vec<u8>,
    is_over: bool,
}

/// Events that are waiting are put together up to about this many bytes.
const FRAME_BYTES: usize = 16 << 10;

/// A streamed answer, of which the first update is there.
pub(crate) fn response(
    generation: Generation,
    mut answer: Answer,
    first: Option<(usize, Update)>,
    include_usage: bool,
) -> Response {
    let mut pending = Vec::new();
    if let Some((prompt, update)) = first {
        answer.chunks(prompt, &update, include_usage, &mut pending);
    }
    let events = Events { generation, answer, include_usage, pending, is_over: false };
    let mut response = typed("text/event-stream; charset=utf-8", Body::new(events));
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Asks proxies not to collect it.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

impl Events {
    /// Collects what is there; returns whether there is something to send, or the end was reached.
    fn collect(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.is_over && self.pending.len() < FRAME_BYTES {
            match self.generation.poll_next(cx) {
                Poll::Pending => break,
                Poll::Ready(Some(Ok((prompt, update)))) => {
                    self.answer.chunks(prompt, &update, self.include_usage, &mut self.pending);
                }
                Poll::Ready(Some(Err(error))) => {
                    event(&error.body(), &mut self.pending);
                    self.is_over = true;
                }
                Poll::Ready(None) => {
                    self.answer.end(self.include_usage, &mut self.pending);
                    self.is_over = true;
                }
            }
        }
        if self.pending.is_empty() && !self.is_over { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl http_body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let events = self.get_mut();
        std::task::ready!(events.collect(cx));
        let bytes = Bytes::from(std::mem::take(&mut events.pending));
        Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
    }
}
