//! Servers for tests, and what they are asked.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::{Value, json};
use warpfold_engine::scripted::Scripted;
use warpfold_engine::{Batch, CacheShape, Config, Limits, Metrics, Model, ModelError, Moves, Sampled};
use warpfold_models::{ChatTemplate, Tokenizer};
use warpfold_serve::{Bounds, Handle, Options, Server, Text};

use crate::client::{Connection, Reply};

/// Tokens of the tokenizer of the fixtures.
pub(crate) const VOCAB: usize = 288;
pub(crate) const MAX_LEN: usize = 256;

/// A server in this process.
#[derive(Debug)]
pub(crate) struct Site {
    server: Server,
}

pub(crate) fn tokenizer() -> Tokenizer {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models/llama");
    Tokenizer::of_folder(&folder).expect("the fixture has a tokenizer")
}

pub(crate) fn text() -> Text {
    let source = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}\
                  {% if add_generation_prompt %}assistant:{% endif %}";
    let template = ChatTemplate::new(source, "", "").expect("it is a template");
    Text { tokenizer: Some(Arc::new(tokenizer())), template: Some(template), ..Text::default() }
}

pub(crate) fn options() -> Options {
    Options::new("scripted", 0)
}

pub(crate) fn bounded(bounds: Bounds) -> Options {
    Options { bounds, ..options() }
}

pub(crate) fn config() -> Config {
    Config { num_blocks: 512, check: true, seed: 5, ..Config::default() }
}

impl Site {
    /// A server without a model.
    pub(crate) fn empty(options: Options) -> Self {
        Self { server: Server::start(options).expect("it starts") }
    }

    pub(crate) fn with<M: Model + Send + 'static>(options: Options, model: M, config: Config) -> Self {
        let site = Self::empty(options);
        site.handle().serve(model, config, text()).expect("the settings are right");
        site
    }

    pub(crate) fn new(options: Options) -> Self {
        Self::with(options, Scripted::new(VOCAB, MAX_LEN).overlapping(), config())
    }

    /// The server of most tests.
    pub(crate) fn plain() -> Self {
        Self::new(options())
    }

    /// One with room for what a model is told of tools.
    pub(crate) fn roomy(options: Options) -> Self {
        Self::with(options, Scripted::new(VOCAB, 16 * MAX_LEN).overlapping(), config())
    }

    pub(crate) fn handle(&self) -> Handle {
        self.server.handle()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    pub(crate) fn open(&self) -> Connection {
        Connection::open(self.address())
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        self.open().post(path, body).reply()
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.open().request("GET", path, &[], "").reply()
    }

    pub(crate) fn complete(&self, body: &Value) -> Reply {
        self.post("/v1/completions", body)
    }

    pub(crate) fn chat(&self, body: &Value) -> Reply {
        self.post("/v1/chat/completions", body)
    }

    /// A metric's value, whatever its labels.
    #[track_caller]
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").body;
        let line = text.lines().find(|line| line.split(['{', ' ']).next() == Some(name));
        let line = line.unwrap_or_else(|| panic!("no {name} in {text}"));
        line.rsplit(' ').next().expect("a value").parse().expect("a number")
    }

    /// Waits until a condition holds.
    #[track_caller]
    pub(crate) fn wait_for(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        for _ in 0..2000 {
            if holds(self) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("{what} within ten seconds");
    }

    /// Lets a gated model take a step every 20 ms until no request runs. The metrics are answered
    /// between two steps, so asking for them needs steps as well.
    #[track_caller]
    pub(crate) fn step_until_idle(&self, word: &Sender<()>) {
        std::thread::scope(|scope| {
            let idle = scope.spawn(|| {
                self.wait_for("the requests are given up", |site| site.metric("vllm:num_requests_running") == 0.0);
            });
            while !idle.is_finished() {
                word.send(()).expect("the model waits");
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        });
    }

    /// Ends it; whatever was asked, nothing may be held.
    #[track_caller]
    pub(crate) fn end(self) -> Metrics {
        self.handle().stop();
        let metrics = self.server.wait().expect("the engine lives").expect("there is one");
        let now = &metrics.now;
        let held = [now.used_blocks, now.used_host_blocks, now.running, now.waiting, now.swapped];
        assert_eq!(held, [0; 5], "{metrics:?}");
        metrics
    }

    pub(crate) fn into_server(self) -> Server {
        self.server
    }
}

/// A model whose steps wait for a word.
#[derive(Debug)]
pub(crate) struct Gated {
    inner: Scripted,
    gate: Receiver<()>,
}

impl Gated {
    /// The model, and what gives the word; without it, all steps run.
    pub(crate) fn new() -> (Self, Sender<()>) {
        let (word, gate) = channel();
        (Self { inner: Scripted::new(VOCAB, MAX_LEN), gate }, word)
    }
}

impl Model for Gated {
    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn allocate(&mut self, cache: CacheShape) -> Result<(), ModelError> {
        self.inner.allocate(cache)
    }

    fn copy(&mut self, moves: &Moves) -> Result<(), ModelError> {
        self.inner.copy(moves)
    }

    fn step(&mut self, batch: &Batch) -> Result<Vec<Sampled>, ModelError> {
        // An end of the words lets everything run.
        self.gate.recv().ok();
        self.inner.step(batch)
    }
}

/// A completion of a few tokens that do not end early.
pub(crate) fn fixed(prompt: Value, max_tokens: usize) -> Value {
    json!({"prompt": prompt, "max_tokens": max_tokens, "seed": 7, "ignore_eos": true})
}

/// A usage without what the cache had, which depends on who asked before.
pub(crate) fn counts(usage: &Value) -> Value {
    json!([usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]])
}

/// An object with some fields more.
pub(crate) fn and(mut base: Value, more: Value) -> Value {
    let more = more.as_object().expect("fields").clone();
    base.as_object_mut().expect("fields").extend(more);
    base
}
