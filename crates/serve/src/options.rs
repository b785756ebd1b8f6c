//! What a server is told when it starts, and what bounds those who talk to it.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The form of a line of the access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// An object.
    Json,
}

/// Receiver of the lines of the access log, which have no ends. It is called on the threads that
/// talk to clients.
#[derive(Clone)]
pub struct LogSink(pub Arc<dyn Fn(&str) + Send + Sync>);

impl fmt::Debug for LogSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogSink")
    }
}

/// How to serve.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where to listen. Port 0 takes any that is free.
    pub address: SocketAddr,
    /// Names under which the model is served; the first one stands in answers.
    pub names: Vec<String>,
    /// Keys, one of which a request must present; without any, everybody is served. Requests of
    /// different keys share no prefix cache, and get equal shares of the engine.
    pub keys: Vec<String>,
    /// Origins whose pages may read answers; `*` is all of them.
    pub cors: Vec<String>,
    /// Adapters that the model has room for; those of
    /// [`Handle::load_adapter`](crate::Handle::load_adapter), and others that clients load.
    pub adapters: usize,
    /// Access log: a line for each request when its answer has gone.
    pub log: Option<(LogFormat, LogSink)>,
    /// Collector of OpenTelemetry that spans of requests are sent to: the URL before `/v1/traces`.
    pub traces: Option<String>,
    /// What bounds clients.
    pub bounds: Bounds,
}

/// What a client may take of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Connections at a time.
    pub connections: usize,
    /// Bytes of a request's line and headers.
    pub header_bytes: usize,
    /// Headers of a request.
    pub headers: usize,
    /// Bytes of a request's body.
    pub body_bytes: usize,
    /// How long headers may take to arrive; also how long a connection may be idle.
    pub header_time: Duration,
    /// How long a body may take to arrive.
    pub body_time: Duration,
    /// How long a client may take no byte of what is sent.
    pub write_time: Duration,
    /// Requests that wait for the engine.
    pub waiting: usize,
    /// Prompts of a request.
    pub prompts: usize,
    /// Answers of a request, over all its prompts.
    pub choices: usize,
    /// Stop strings of a request.
    pub stops: usize,
    /// Bytes of a stop string.
    pub stop_bytes: usize,
    /// Likely tokens that are reported with each.
    pub logprobs: usize,
    /// How long requests may go on when the server shuts down.
    pub drain_time: Duration,
}

impl Bounds {
    /// The bounds of a server that is told nothing else.
    pub const DEFAULT: Self = Self {
        connections: 1024,
        header_bytes: 32 << 10,
        headers: 64,
        body_bytes: 4 << 20,
        header_time: Duration::from_secs(30),
        body_time: Duration::from_secs(30),
        write_time: Duration::from_secs(30),
        waiting: 1024,
        prompts: 256,
        choices: 1024,
        stops: 16,
        stop_bytes: 1024,
        logprobs: 20,
        drain_time: Duration::from_secs(30),
    };
}

impl Default for Bounds {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Options {
    /// Serves a model of this name on a port of this machine, for everybody on it.
    #[must_use]
    pub fn new(name: impl Into<String>, port: u16) -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            names: vec![name.into()],
            keys: Vec::new(),
            cors: Vec::new(),
            adapters: 0,
            log: None,
            traces: None,
            bounds: Bounds::default(),
        }
    }
}
