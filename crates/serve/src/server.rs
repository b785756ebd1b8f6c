//! A server's life: it listens at once, serves when there is a model, drains, and ends.

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::{JoinHandle, JoinSet};
use warpfold_engine::service::{self, Client, Service};
use warpfold_engine::{Config, Engine, Limits, Metrics, Model, ModelError};
use warpfold_models::{AdapterWeights, Dialect};

use crate::connection::accept;
use crate::error::{Error, ErrorKind};
use crate::host::Host;
use crate::options::Options;
use crate::routes::router;
use crate::sleep::Restorable;
use crate::state::{Phase, Served, State, Text};
use crate::traces::Traces;
use crate::weights::WeightsDigests;

/// Time for clients that are given up to read that they are.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    runtime: Runtime,
    state: Arc<State>,
    address: SocketAddr,
    accepting: JoinHandle<JoinSet<()>>,
}

/// Gives a server its model, and ends it; from any thread.
#[derive(Debug, Clone)]
pub struct Handle {
    state: Arc<State>,
}

impl Server {
    /// Listens. Until [`Handle::serve`] has given it a model, requests are told to come again.
    ///
    /// # Errors
    /// If an option is wrong, the address is taken, or the system gives no threads.
    pub fn start(options: Options) -> Result<Self, Error> {
        let empty = |option, reason: &str| ErrorKind::Option { option, reason: reason.to_owned() };
        if options.names.iter().any(String::is_empty) || options.names.is_empty() {
            return Err(empty("--served-model-name", "the name is empty").into());
        }
        if options.keys.iter().any(String::is_empty) {
            return Err(empty("--api-key", "the key is empty").into());
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_name("warpfold-serve")
            .enable_all()
            .build()
            .map_err(ErrorKind::Start)?;
        let address = options.address;
        let failed = |source| ErrorKind::Listen { address, source };
        let listener = runtime.block_on(TcpListener::bind(address)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let name = options.names[0].clone();
        let traces = options.traces.as_deref().map(|url| Traces::start(&runtime, url, name)).transpose()?;
        let state = Arc::new(State::new(options, Host::tokio(), traces));
        let router = router(state.clone());
        let accepting = runtime.spawn(accept(listener, state.clone(), router));
        Ok(Self { runtime, state, address, accepting })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What gives it its model, and ends it.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle { state: self.state.clone() }
    }

    /// Drains when the process is asked to end (SIGTERM, or SIGINT as Ctrl-C sends it), and ends at
    /// once when it is asked again.
    ///
    /// # Errors
    /// If the system gives no signals.
    pub fn stop_on_signals(&self) -> Result<(), Error> {
        let _guard = self.runtime.enter();
        let mut signals = Signals::new().map_err(ErrorKind::Start)?;
        let state = self.state.clone();
        self.runtime.spawn(async move {
            signals.next().await;
            state.advance(Phase::Draining);
            signals.next().await;
            state.advance(Phase::Ending);
        });
        Ok(())
    }

    /// Serves until it is stopped; then lets requests end, for a time, and returns what the engine
    /// counted, if there was one.
    ///
    /// # Errors
    /// [`ErrorKind::EngineEnded`] if the engine ended by itself.
    pub fn wait(self) -> Result<Option<Metrics>, Error> {
        let Self { runtime, state, accepting, .. } = self;
        runtime.block_on(async {
            let mut phases = state.phases();
            phases.wait_for(|phase| *phase >= Phase::Draining).await.ok();
            let mut connections = accepting.await.unwrap_or_default();
            tokio::select! {
                () = all_end(&mut connections) => {}
                () = tokio::time::sleep(state.options.bounds.drain_time) => {}
                _ = phases.wait_for(|phase| *phase == Phase::Ending) => {}
            }
            // Answers that have not ended end with an error, which clients have a moment to take.
            state.advance(Phase::Ending);
            tokio::time::timeout(LAST_WORDS, all_end(&mut connections)).await.ok();
            connections.shutdown().await;
            if let Some(traces) = &state.traces {
                tokio::time::timeout(LAST_WORDS, traces.flush()).await.ok();
            }
        });
        let service = state.take_service();
        // A tokenizer may be at work, and nobody waits for it.
        runtime.shutdown_background();
        let metrics = service.map(end).transpose()?;
        if state.has_failed() { Err(ErrorKind::EngineEnded.into()) } else { Ok(metrics) }
    }
}

async fn all_end(connections: &mut JoinSet<()>) {
    while connections.join_next().await.is_some() {}
}

/// Ends an engine without requests.
fn end(service: Service) -> Result<Metrics, Error> {
    catch_unwind(AssertUnwindSafe(|| service.drain())).map_err(|_| ErrorKind::EngineEnded.into())
}

impl Handle {
    /// Puts a model on a thread of its own, and serves it. A server takes one model; others are
    /// dropped.
    ///
    /// # Errors
    /// If the engine cannot run with the settings, or has no room for its cache.
    pub fn serve<M: Model + Send + 'static>(
        &self,
        model: M,
        config: Config,
        text: Text,
    ) -> Result<(), warpfold_engine::Error> {
        let PreparedEngine { engine, options, served } = PreparedEngine::new(&self.state, model, config, text)?;
        let service = Service::spawn(engine, options);
        self.state.set_served(served(service.client()), Some(service));
        Ok(())
    }

    /// Brings an adapter to the model that is served, under a name that requests have as `model`.
    ///
    /// # Errors
    /// If there is no model or no room for it, or it does not fit the model.
    pub fn load_adapter(&self, name: &str, weights: AdapterWeights) -> Result<(), ModelError> {
        let served = self.state.served_so_far().ok_or("there is no model")?;
        self.state.adapters.load(&served.client, name, weights)
    }

    /// Lets requests end, and takes no more.
    pub fn stop(&self) {
        self.state.advance(Phase::Draining);
    }
}

/// An engine, and what is served of it once it has a client.
pub(crate) struct PreparedEngine<M> {
    pub(crate) engine: Engine<M>,
    pub(crate) options: service::Options,
    pub(crate) served: Box<dyn FnOnce(Client) -> Served>,
}

impl<M: Model> PreparedEngine<M> {
    pub(crate) fn new(state: &State, model: M, config: Config, text: Text) -> Result<Self, warpfold_engine::Error> {
        let mut engine = Engine::new(model, config.clone())?;
        let limits = engine.model().limits();
        let max_len = config.max_len.unwrap_or(usize::MAX).min(limits.max_len);
        let template = text.template.as_ref().map_or("", |template| template.source());
        let dialect = Dialect::new(template, text.tokenizer.as_deref(), text.tool_format);
        if let Some(tokenizer) = &text.tokenizer {
            engine = engine.with_decode(dialect.shown(tokenizer.clone()));
        }
        // Who comes while one key has the whole queue has its share beyond it.
        let shares = if state.options.keys.len() > 1 { 2 } else { 1 };
        let options = service::Options { max_waiting: state.options.bounds.waiting.saturating_mul(shares) };
        let digests = WeightsDigests::new(text.weights_digest, &state.host);
        let served = move |client| Served {
            client,
            longest: config.longest(&limits),
            limits: Limits { max_len, ..limits },
            block_size: config.block_size,
            longest_token: text.tokenizer.as_ref().map_or(0, |tokenizer| tokenizer.longest_bytes()),
            restorable: Restorable::default(),
            digests: Arc::new(digests),
            text,
            dialect,
            grammars: std::sync::OnceLock::new(),
        };
        Ok(Self { engine, options, served: Box::new(served) })
    }
}

/// Requests that the process end.
#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Requests that the process end: Ctrl-C alone.
#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    #[allow(clippy::unnecessary_wraps, reason = "other systems can fail here")]
    fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        tokio::signal::ctrl_c().await.ok();
    }
}
