//! What all requests share: the options, the model once it is there, and whether it is time to end.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::{Semaphore, oneshot, watch};
use warpfold_engine::service::{Client, Service};
use warpfold_engine::{Adapter, Limits, Metrics};
use warpfold_models::{
    ChatTemplate, Dialect, Grammars, PoolingDefaults, SamplingDefaults, Tokenizer, ToolFormat, WeightsDigest,
};

use crate::adapters::Adapters;
use crate::error::ApiError;
use crate::host::Host;
use crate::metrics::Observed;
use crate::openai::responses::store::Stored;
use crate::options::Options;
use crate::share::Tenants;
use crate::sleep::Restorable;
use crate::traces::Traces;
use crate::weights::{OpenWeights, WeightsDigests};

/// Where the server is in its life; it only moves forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// There is no model yet.
    Loading,
    /// Requests are served.
    Ready,
    /// Those that are there may end; no more are taken.
    Draining,
    /// Nothing is waited for.
    Ending,
}

/// How a model reads and writes, and which it is.
#[derive(Debug, Default)]
pub struct Text {
    /// Without it, prompts are tokens, and so are answers.
    pub tokenizer: Option<Arc<Tokenizer>>,
    /// Without it there is no chat.
    pub template: Option<ChatTemplate>,
    /// What clients see of the weights, where they were compared with their files.
    pub weights_digest: Option<WeightsDigest>,
    /// The format of calls of tools, unless it is that of the template.
    pub tool_format: Option<&'static ToolFormat>,
    /// How to draw where a request does not say it.
    pub sampling: SamplingDefaults,
    /// How prompts become embeddings.
    pub pooling: PoolingDefaults,
    /// Without it the model keeps its weights.
    pub open_weights: Option<OpenWeights>,
}

/// A model that is served.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) client: Client,
    /// The model's, with the engine's longest sequence.
    pub(crate) limits: Limits,
    /// What a sequence can have in the cache.
    pub(crate) longest: usize,
    pub(crate) block_size: usize,
    /// Bytes of the tokenizer's longest token.
    pub(crate) longest_token: usize,
    pub(crate) text: Text,
    pub(crate) digests: Arc<WeightsDigests>,
    /// The right to change what the model has of weights and cache.
    pub(crate) restorable: Restorable,
    /// How the model writes calls and reasoning.
    pub(crate) dialect: Dialect,
    /// Made for the first request that asks for a grammar.
    pub(crate) grammars: OnceLock<Result<Grammars, String>>,
}

impl Served {
    /// Tokens of an answer that the model's publisher names, as far as there is room after a
    /// prompt.
    pub(crate) fn max_new_tokens(&self, prompt: usize) -> Option<usize> {
        self.text.sampling.max_new_tokens.map(|most| most.min(self.longest.saturating_sub(prompt)).max(1))
    }
}

/// What all requests share.
pub(crate) struct State {
    pub(crate) options: Options,
    pub(crate) host: Host,
    pub(crate) tenants: Tenants,
    pub(crate) adapters: Adapters,
    pub(crate) observed: Arc<Observed>,
    pub(crate) traces: Option<Traces>,
    /// Answers that may be continued.
    pub(crate) stored: Stored,
    /// Texts that are tokenized at a time.
    pub(crate) tokenizing: Semaphore,
    /// Seconds since 1970 when the server started.
    pub(crate) created: u64,
    /// Part of every id, so that those of different runs differ.
    pub(crate) run_id: u64,
    phase: watch::Sender<Phase>,
    has_failed: AtomicBool,
    served: OnceLock<Served>,
    service: Mutex<Option<Service>>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("phase", &self.phase()).finish_non_exhaustive()
    }
}

impl State {
    pub(crate) fn new(options: Options, host: Host, traces: Option<Traces>) -> Self {
        use std::hash::{BuildHasher, RandomState};
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            adapters: Adapters::new(options.adapters, &host),
            tenants: Tenants::new(options.keys.len(), options.bounds.waiting),
            observed: Arc::default(),
            traces,
            stored: Stored::default(),
            tokenizing: Semaphore::new(cores),
            created: now.as_secs(),
            run_id: RandomState::new().hash_one(now),
            phase: watch::Sender::new(Phase::Loading),
            has_failed: AtomicBool::new(false),
            served: OnceLock::new(),
            service: Mutex::new(None),
            host,
            options,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Moves to a later phase.
    pub(crate) fn advance(&self, to: Phase) {
        self.phase.send_if_modified(|phase| {
            let is_later = to > *phase;
            *phase = to.max(*phase);
            is_later
        });
    }

    pub(crate) fn phases(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Puts the model in its place, with the thread that it has. A server serves one.
    pub(crate) fn set_served(&self, served: Served, service: Option<Service>) {
        if self.served.set(served).is_ok() {
            *self.service.lock().unwrap_or_else(PoisonError::into_inner) = service;
            self.advance(Phase::Ready);
        }
    }

    pub(crate) fn take_service(&self) -> Option<Service> {
        self.service.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Ends the server because its engine has ended.
    pub(crate) fn fail(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
        self.advance(Phase::Draining);
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// The model, if requests are served.
    pub(crate) fn served(&self) -> Result<&Served, ApiError> {
        match (self.phase(), self.served.get()) {
            (Phase::Ready, Some(served)) => Ok(served),
            (Phase::Loading, _) | (Phase::Ready, None) => Err(ApiError::unavailable("the model is being loaded")),
            (Phase::Draining | Phase::Ending, _) => Err(ApiError::unavailable("the server is shutting down")),
        }
    }

    /// The model, as long as there is one: counters go on while requests end.
    pub(crate) fn served_so_far(&self) -> Option<&Served> {
        self.served.get()
    }

    /// What the engine counts; it answers between two steps.
    pub(crate) async fn engine_metrics(&self) -> Result<Metrics, ApiError> {
        let Some(served) = self.served_so_far() else { return Ok(Metrics::default()) };
        let (answer, metrics) = oneshot::channel();
        served.client.metrics_to(move |metrics| drop(answer.send(metrics)));
        match metrics.await {
            Ok(metrics) => Ok(metrics),
            _ if self.phase() == Phase::Ready => {
                self.fail();
                Err(ApiError::internal("the engine has failed"))
            }
            _ => Err(ApiError::unavailable("the server is shutting down")),
        }
    }

    /// The name under which answers come: that of their adapter, or the model's.
    pub(crate) fn name_of(&self, adapter: Option<&Adapter>) -> String {
        adapter.and_then(|adapter| self.adapters.name_of(adapter)).unwrap_or_else(|| self.name().to_owned())
    }

    /// The first name of the model.
    pub(crate) fn name(&self) -> &str {
        self.options.names.first().map_or("model", String::as_str)
    }
}
