//! A server without sockets, threads and clock, for deterministic simulations.

use std::fmt;
use std::sync::Arc;

use axum::Router;
use hyper::rt::Timer;
use warpfold_engine::service::{ServiceClock, Worker};
use warpfold_engine::{Config, Model};

use crate::connection::{Socket, serve};
use crate::host::{Host, ServeFault};
use crate::options::Options;
use crate::routes::router;
use crate::server::PreparedEngine;
use crate::state::{Phase, State, Text};

/// A server whose owner gives it connections, turns and time. It answers as a
/// [`Server`](crate::Server) does, and everything that happens follows from what its owner does:
/// `crates/conformance` plays it under a seed.
pub struct SimulatedServer<M> {
    state: Arc<State>,
    router: Router,
    worker: Worker<M>,
}

impl<M> fmt::Debug for SimulatedServer<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedServer")
            .field("state", &self.state)
            .field("worker", &self.worker)
            .finish_non_exhaustive()
    }
}

impl<M: Model> SimulatedServer<M> {
    /// A server with a model, and perhaps a fault. `clock` is the engine's time, and `timer` that
    /// of connections.
    ///
    /// # Errors
    /// If the engine cannot run with the settings, or has no room for its cache.
    pub fn new(
        options: Options,
        model: M,
        config: Config,
        text: Text,
        clock: ServiceClock,
        timer: impl Timer + Send + Sync + 'static,
        fault: Option<ServeFault>,
    ) -> Result<Self, warpfold_engine::Error> {
        let state = Arc::new(State::new(options, Host::simulated(timer, fault), None));
        let PreparedEngine { engine, options, served } = PreparedEngine::new(&state, model, config, text)?;
        let (client, worker) = Worker::new(engine, options, clock);
        state.set_served(served(client), None);
        Ok(Self { router: router(state.clone()), state, worker })
    }

    /// Serves a connection, to its end.
    pub fn serve<S: Socket>(&self, socket: Arc<S>) -> impl Future<Output = ()> + Send + 'static {
        let (state, router) = (self.state.clone(), self.router.clone());
        async move { serve(socket, &state, router).await }
    }

    /// The worker, which takes the engine's turns.
    pub fn worker(&mut self) -> &mut Worker<M> {
        &mut self.worker
    }

    /// Lets requests end, and takes no more.
    pub fn stop(&self) {
        self.state.advance(Phase::Draining);
    }

    /// Places in the queue that requests hold: none once all have ended.
    #[must_use]
    pub fn num_waiting(&self) -> usize {
        self.state.tenants.num_waiting()
    }
}
