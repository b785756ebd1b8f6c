//! What the engine generates for one HTTP request: the updates of its prompts, in one stream.
//!
//! Dropping it gives the requests up, so a client that leaves frees what it held. Updates queue
//! here when the client is slow: as many as the request's tokens, until the connection is closed
//! for it.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use warpfold_engine::service::{Client, Event, Sink};
use warpfold_engine::{ErrorKind, Request, Update};

use crate::error::ApiError;
use crate::host::ServeFault;
use crate::metrics::Watch;
use crate::share::{Tenant, Turn};
use crate::state::{Phase, Served, State};

/// The updates of some prompts, each with the number of its prompt.
pub(crate) struct Generation {
    events: UnboundedReceiver<(usize, Event)>,
    client: Client,
    tickets: Vec<u64>,
    /// Answers that have not ended.
    num_left: usize,
    state: Arc<State>,
    /// Ready when nobody waits for answers any more.
    ending: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl fmt::Debug for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generation").field("tickets", &self.tickets).finish_non_exhaustive()
    }
}

impl Generation {
    /// Sends requests to the engine, in the order of their prompts.
    pub(crate) fn submit(
        state: &Arc<State>,
        served: &Served,
        tenant: &Arc<Tenant>,
        requests: Vec<Request>,
    ) -> Result<Self, ApiError> {
        for request in &requests {
            request.validate(&served.limits).map_err(|error| ApiError::from(&error))?;
        }
        let turns = state.tenants.queue(tenant, requests.len()).inspect_err(|_| state.observed.count_rejection())?;
        let (sender, events) = unbounded_channel();
        let num_left = requests.iter().map(|request| request.n).sum();
        let mut tickets = Vec::with_capacity(requests.len());
        for (prompt, (mut request, turn)) in requests.into_iter().zip(turns).enumerate() {
            // Among equals of one priority, the turns of the keys.
            request.priority = (request.priority << 32) + i64::from(turn.tag);
            let sender = sender.clone();
            let keeps_turn = state.host.has(ServeFault::TurnIsKept);
            let mut seen = seen(Watch::new(&state.observed, &request), turn, keeps_turn);
            let sink: Sink = Box::new(move |event| {
                seen(&event);
                sender.send((prompt, event)).is_ok()
            });
            tickets.push(served.client.submit_to(request, sink));
        }
        let mut phases = state.phases();
        let ending = Box::pin(async move { drop(phases.wait_for(|phase| *phase == Phase::Ending).await) });
        Ok(Self { events, client: served.client.clone(), tickets, num_left, state: state.clone(), ending })
    }

    /// The next update, or nothing when all answers have ended.
    pub(crate) async fn next(&mut self) -> Option<Result<(usize, Update), ApiError>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The same, for those who poll. After an error nothing comes.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<(usize, Update), ApiError>>> {
        if self.num_left == 0 {
            return Poll::Ready(None);
        }
        if self.ending.as_mut().poll(cx).is_ready() {
            self.give_up();
            return Poll::Ready(Some(Err(ApiError::unavailable("the server has ended before the answer had"))));
        }
        let error = match ready!(self.events.poll_recv(cx)) {
            Some((prompt, Ok(update))) => {
                self.num_left -= usize::from(update.finish.is_some());
                if update.finish.is_none() && !update.text.is_empty() && self.has(ServeFault::UpdateIsLost) {
                    return self.poll_next(cx);
                }
                return Poll::Ready(Some(Ok((prompt, update))));
            }
            Some((_, Err(error))) => {
                match error.kind() {
                    ErrorKind::Stopped => self.engine_ended(),
                    ErrorKind::Overloaded { .. } => self.state.observed.count_rejection(),
                    _ => {}
                }
                ApiError::from(&error)
            }
            None => {
                self.engine_ended();
                ApiError::internal("the engine has failed")
            }
        };
        self.give_up();
        Poll::Ready(Some(Err(error)))
    }

    /// Returns whether a fault is planted.
    pub(crate) fn has(&self, fault: ServeFault) -> bool {
        self.state.host.has(fault)
    }

    /// An engine that ends by itself takes the server with it, so that somebody starts it again.
    fn engine_ended(&self) {
        if self.state.phase() == Phase::Ready {
            self.state.fail();
        }
    }

    fn give_up(&mut self) {
        self.num_left = 0;
        self.tickets.drain(..).for_each(|ticket| self.client.abort(ticket));
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        if self.num_left > 0 {
            self.give_up();
        }
    }
}

/// Tells what comes to the metrics, and the queue that the request has started.
fn seen(mut watch: Watch, turn: Turn, keeps_turn: bool) -> impl FnMut(&Event) + Send {
    let mut turn = Some(turn);
    move |event| {
        if let Ok(update) = event {
            watch.see(update);
            match turn.take() {
                Some(turn) if keeps_turn => std::mem::forget(turn),
                Some(turn) => turn.start(),
                None => {}
            }
        }
    }
}
