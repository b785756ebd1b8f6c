//! A client of a server with OpenAI's completions: HTTP without TLS, streams of server-sent events.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::summary::Timeline;
use super::workload::{Job, Room};
use crate::error::{Error, ErrorKind};

/// A server, and connections to it that are free.
#[derive(Debug)]
pub(crate) struct Site {
    /// `host:port`.
    authority: String,
    /// What comes before `/v1`.
    path: String,
    key: Option<String>,
    free: Mutex<Vec<SendRequest<Full<Bytes>>>>,
}

/// Something that every vocabulary has tokens for.
const WORDS: &str = "The quick brown fox jumps over the lazy dog, and then it asks whether anybody has seen how the \
    river bends behind the old mill where seven small boats wait for the evening wind.";

/// Tokens that servers know if they do not say which: neither the first ones, which are marks, nor
/// many.
const USUAL: std::ops::Range<u32> = 100..1000;

/// The longest sequence of a server that does not say.
const USUAL_LEN: usize = 2048;

impl Site {
    pub(crate) fn new(url: &str, key: Option<String>) -> Result<Self, Error> {
        let wrong = |reason: &str| ErrorKind::Target { url: url.to_owned(), reason: reason.to_owned() };
        let Some(rest) = url.strip_prefix("http://") else {
            return Err(wrong("it does not begin with http:// (there is no TLS here)").into());
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.is_empty() {
            return Err(wrong("it has no host").into());
        }
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let authority = if has_port { authority.to_owned() } else { format!("{authority}:80") };
        let path = path.trim_end_matches('/').trim_end_matches("v1").trim_end_matches('/');
        let path = if path.is_empty() { String::new() } else { format!("/{path}") };
        Ok(Self { authority, path, key, free: Mutex::default() })
    }

    /// The name of the served model, and what it takes.
    pub(crate) async fn model(&self) -> Result<(String, Room), Error> {
        let models = self.json(Method::GET, "/v1/models", None).await?;
        let model = &models["data"][0];
        let name = model["id"].as_str().ok_or_else(|| self.wrong("/v1/models", "it lists no model"))?.to_owned();
        let max_len = model["max_model_len"].as_u64().and_then(|len| usize::try_from(len).ok()).unwrap_or(USUAL_LEN);
        let body = json!({"model": name, "prompt": WORDS, "add_special_tokens": false});
        let tokens = self.json(Method::POST, "/tokenize", Some(&body)).await.ok();
        let ids = |tokens: &Value| -> Option<Vec<u32>> { serde_json::from_value(tokens["tokens"].clone()).ok() };
        let alphabet = tokens.as_ref().and_then(ids).filter(|ids| !ids.is_empty());
        Ok((name, Room { alphabet: alphabet.unwrap_or_else(|| USUAL.collect()), max_len }))
    }

    /// Asks for a completion and reads its stream.
    pub(crate) async fn complete(&self, model: &str, job: &Job, seed: u64) -> Timeline {
        let start = Instant::now();
        let mut timeline = Timeline { input: job.prompt.len(), ..Timeline::default() };
        let body = json!({
            "model": model, "prompt": job.prompt, "max_tokens": job.output, "ignore_eos": true, "seed": seed,
            "stream": true, "stream_options": {"include_usage": true},
        });
        if let Err(error) = self.stream(&body, start, &mut timeline).await {
            timeline.error = Some(error.to_string());
        }
        // A cut answer may end inside of a character.
        while timeline.answer.ends_with("\u{fffd}".as_bytes()) {
            timeline.answer.truncate(timeline.answer.len() - '\u{fffd}'.len_utf8());
        }
        timeline.end = start.elapsed();
        timeline
    }

    async fn stream(&self, body: &Value, start: Instant, timeline: &mut Timeline) -> Result<(), Error> {
        const PATH: &str = "/v1/completions";
        let (mut response, sender) = self.send(Method::POST, PATH, Some(body)).await?;
        if response.status() != StatusCode::OK {
            return Err(self.refused(PATH, response).await);
        }
        let mut lines = Vec::new();
        let mut is_done = false;
        while let Some(frame) = response.body_mut().frame().await {
            let frame = frame.map_err(|error| self.wrong(PATH, error))?;
            lines.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
            while let Some(end) = lines.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = lines.drain(..=end).collect();
                let Some(data) = line.strip_prefix(b"data:") else { continue };
                let data = data.trim_ascii();
                is_done |= data == b"[DONE]";
                if !is_done {
                    let event = serde_json::from_slice(data).map_err(|error| self.wrong(PATH, error))?;
                    self.see(&event, start.elapsed(), timeline)?;
                }
            }
        }
        if !is_done {
            return Err(self.wrong(PATH, "the stream ended without [DONE]"));
        }
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        Ok(())
    }

    fn see(&self, event: &Value, now: Duration, timeline: &mut Timeline) -> Result<(), Error> {
        if let Some(message) = event["error"]["message"].as_str() {
            return Err(self.wrong("/v1/completions", message));
        }
        if event["choices"].as_array().is_some_and(|choices| !choices.is_empty()) {
            timeline.arrivals.push(now);
            timeline.output = timeline.output.max(timeline.arrivals.len());
            timeline.answer.extend(event["choices"][0]["text"].as_str().unwrap_or_default().as_bytes());
        }
        if let Some(tokens) = event["usage"]["completion_tokens"].as_u64() {
            timeline.output = usize::try_from(tokens).unwrap_or(usize::MAX);
        }
        Ok(())
    }

    /// Asks for JSON.
    pub(crate) async fn json(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Error> {
        let (response, _) = self.send(method, path, body).await?;
        if response.status() != StatusCode::OK {
            return Err(self.refused(path, response).await);
        }
        let body = response.into_body().collect().await.map_err(|error| self.wrong(path, error))?;
        serde_json::from_slice(&body.to_bytes()).map_err(|error| self.wrong(path, error))
    }

    /// Sends a request on a connection that is free, or on a new one.
    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(Response<Incoming>, SendRequest<Full<Bytes>>), Error> {
        let mut sender = self.sender(path).await?;
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.path))
            .header(header::HOST, &self.authority)
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(key) = &self.key {
            request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
        }
        let body = Full::new(body.map(Value::to_string).unwrap_or_default().into());
        let request = request.body(body).map_err(|error| self.wrong(path, error))?;
        let response = sender.send_request(request).await.map_err(|error| self.wrong(path, error))?;
        Ok((response, sender))
    }

    async fn sender(&self, path: &str) -> Result<SendRequest<Full<Bytes>>, Error> {
        loop {
            let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(mut sender) = free else { break };
            if sender.ready().await.is_ok() {
                return Ok(sender);
            }
        }
        let stream = TcpStream::connect(&self.authority).await.map_err(|error| self.wrong(path, error))?;
        stream.set_nodelay(true).ok();
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| self.wrong(path, error))?;
        // It ends when the sender is dropped; what goes wrong, the sender says.
        tokio::spawn(connection);
        Ok(sender)
    }

    async fn refused(&self, path: &str, response: Response<Incoming>) -> Error {
        let status = response.status();
        let body = response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let value: Value = serde_json::from_slice(&body).unwrap_or_default();
        let message = value["error"]["message"].as_str().unwrap_or_default();
        self.wrong(path, format!("{status} {message}").trim_end())
    }

    fn wrong(&self, path: &str, reason: impl std::fmt::Display) -> Error {
        let url = format!("http://{}{}{path}", self.authority, self.path);
        ErrorKind::Target { url, reason: reason.to_string() }.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_with_and_without_what_clients_append() {
        for (url, authority, path) in [
            ("http://localhost:8000", "localhost:8000", ""),
            ("http://localhost:8000/v1/", "localhost:8000", ""),
            ("http://a/b/v1", "a:80", "/b"),
        ] {
            let site = Site::new(url, None).expect("a URL");
            assert_eq!((site.authority.as_str(), site.path.as_str()), (authority, path));
        }
        for url in ["https://a", "localhost:8000", "http://"] {
            let error = Site::new(url, None).expect_err("no URL").to_string();
            assert!(error.starts_with(&format!("{url}: ")), "{error}");
        }
    }
}
