//! An engine on a thread of its own: requests go in over a channel, updates come out as they are
//! made.
//!
//! One thread owns model and scheduler, so that nothing is locked on the way of a token. A client
//! that drops its [`Stream`] gives the request up, and what it held is free at the next step. No
//! queue grows without bound: a request's updates are at most its tokens, and requests beyond
//! [`Options::max_waiting`] are refused.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::engine::Engine;
use crate::error::{Error, ErrorKind, ModelError};
use crate::metrics::Metrics;
use crate::model::Model;
use crate::request::{Adapter, Request, RequestId, Update};

/// Options of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Requests that may wait; one more is refused.
    pub max_waiting: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { max_waiting: 1024 }
    }
}

/// Events of a request, in this order: updates until all its answers have ended, or an error.
pub type Event = Result<Update, Error>;

/// Receiver of events. It is called on the engine's thread and must not wait; `false` gives the
/// request up.
pub type Sink = Box<dyn FnMut(Event) -> bool + Send>;

/// The engine's thread. Dropping it ends the thread after its current step; [`Service::drain`] lets
/// requests end first.
#[derive(Debug)]
pub struct Service {
    client: Client,
    thread: Option<JoinHandle<Metrics>>,
}

/// Sends requests to a service, from any thread.
#[derive(Debug, Clone)]
pub struct Client {
    commands: Sender<Command>,
    last_ticket: Arc<AtomicU64>,
}

/// The updates of one request.
#[derive(Debug)]
pub struct Stream {
    events: Receiver<Event>,
    commands: Sender<Command>,
    ticket: u64,
}

enum Command {
    /// A request, and when it was sent.
    Add(u64, Box<Request>, Sink, Instant),
    Abort(u64),
    LoadAdapter(Arc<Adapter>, Box<dyn Any + Send + Sync>, Sender<Result<(), ModelError>>),
    LoadWeights(Box<dyn Any + Send + Sync>, Sender<Result<(), ModelError>>),
    Metrics(Sender<Metrics>),
    Drain,
    Stop,
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Add(..) => "Add",
            Self::Abort(_) => "Abort",
            Self::LoadAdapter(..) => "LoadAdapter",
            Self::LoadWeights(..) => "LoadWeights",
            Self::Metrics(_) => "Metrics",
            Self::Drain => "Drain",
            Self::Stop => "Stop",
        })
    }
}

impl Service {
    /// Moves an engine to a thread of its own.
    ///
    /// # Panics
    /// If the system gives no thread.
    #[must_use]
    pub fn spawn<M: Model + Send + 'static>(engine: Engine<M>, options: Options) -> Self {
        let (commands, inbox) = channel();
        let worker =
            Worker { engine, options, inbox, open: HashMap::new(), tickets: HashMap::new(), is_draining: false };
        let thread = std::thread::Builder::new().name("warpfold-engine".to_owned()).spawn(move || worker.run());
        let thread = thread.expect("the system gives a thread");
        Self { client: Client { commands, last_ticket: Arc::default() }, thread: Some(thread) }
    }

    /// Returns a handle that sends requests to this service.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Refuses new requests, waits until all others have ended, and returns the counters.
    ///
    /// # Panics
    /// If the engine's thread has panicked.
    #[must_use]
    pub fn drain(mut self) -> Metrics {
        self.end(Command::Drain).expect("the thread is there until here")
    }

    fn end(&mut self, how: Command) -> Option<Metrics> {
        let thread = self.thread.take()?;
        // A thread that has ended takes no commands.
        self.client.commands.send(how).ok();
        Some(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.end(Command::Stop);
        }
    }
}

impl Client {
    /// Sends a request; what is wrong with it comes as the stream's first event.
    #[must_use]
    pub fn submit(&self, request: Request) -> Stream {
        let (sender, events) = channel();
        let ticket = self.submit_to(request, Box::new(move |event| sender.send(event).is_ok()));
        Stream { events, commands: self.commands.clone(), ticket }
    }

    /// Sends a request whose events go to `sink`, and returns the ticket by which it can be given
    /// up.
    pub fn submit_to(&self, request: Request, sink: Sink) -> u64 {
        let ticket = self.last_ticket.fetch_add(1, Ordering::Relaxed);
        if let Err(refused) = self.commands.send(Command::Add(ticket, Box::new(request), sink, Instant::now()))
            && let Command::Add(_, _, mut sink, _) = refused.0
        {
            sink(Err(ErrorKind::Stopped.into()));
        }
        ticket
    }

    /// Gives a request up. Nothing happens if it has ended.
    pub fn abort(&self, ticket: u64) {
        self.commands.send(Command::Abort(ticket)).ok();
    }

    /// Brings an adapter to the model, between two steps.
    ///
    /// # Errors
    /// What the model says, or that the service has ended.
    pub fn load_adapter(&self, adapter: Arc<Adapter>, weights: Box<dyn Any + Send + Sync>) -> Result<(), ModelError> {
        let (sender, answer) = channel();
        self.commands
            .send(Command::LoadAdapter(adapter, weights, sender))
            .map_err(|_| Error::from(ErrorKind::Stopped))?;
        answer.recv().map_err(|_| Error::from(ErrorKind::Stopped))?
    }

    /// Gives the model other weights, once all requests that were sent before have ended; those
    /// that come meanwhile wait.
    ///
    /// # Errors
    /// What the model says, or that the service has ended.
    pub fn load_weights(&self, weights: Box<dyn Any + Send + Sync>) -> Result<(), ModelError> {
        let (sender, answer) = channel();
        let sent = self.commands.send(Command::LoadWeights(weights, sender));
        sent.map_err(|_| Error::from(ErrorKind::Stopped))?;
        answer.recv().map_err(|_| Error::from(ErrorKind::Stopped))?
    }

    /// Counters since the start, and what is there now.
    ///
    /// # Errors
    /// [`ErrorKind::Stopped`] if the service has ended.
    pub fn metrics(&self) -> Result<Metrics, Error> {
        let (sender, answer) = channel();
        self.commands.send(Command::Metrics(sender)).map_err(|_| ErrorKind::Stopped)?;
        Ok(answer.recv().map_err(|_| ErrorKind::Stopped)?)
    }
}

impl Iterator for Stream {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.events.recv().ok()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.commands.send(Command::Abort(self.ticket)).ok();
    }
}

/// A request that has not ended.
struct Open {
    id: RequestId,
    sink: Sink,
    /// Answers that have not ended.
    num_left: usize,
}

struct Worker<M> {
    engine: Engine<M>,
    options: Options,
    inbox: Receiver<Command>,
    open: HashMap<u64, Open>,
    tickets: HashMap<RequestId, u64>,
    is_draining: bool,
}

/// Pause after a step that ran nothing: a static batch waits for a time to pass.
const PAUSE: Duration = Duration::from_millis(1);

impl<M: Model> Worker<M> {
    fn run(mut self) -> Metrics {
        let start = Instant::now();
        let mut has_run = true;
        loop {
            let is_idle = self.engine.is_idle();
            if is_idle && self.is_draining {
                break;
            }
            // Without work it waits for a command; otherwise it takes those that are there.
            let command = match (is_idle, has_run) {
                (true, _) => self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
                (false, true) => self.inbox.try_recv().map_err(|_| RecvTimeoutError::Timeout),
                (false, false) => self.inbox.recv_timeout(PAUSE),
            };
            self.engine.set_time(start.elapsed());
            match command {
                Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(command) => {
                    self.obey(command, start);
                    has_run = true;
                }
                Err(RecvTimeoutError::Timeout) => has_run = self.step(),
            }
        }
        self.engine.metrics()
    }

    fn obey(&mut self, command: Command, start: Instant) {
        match command {
            Command::Add(ticket, request, sink, sent) => {
                // What it waited in the channel is part of its time in the queue.
                self.engine.set_time(sent.saturating_duration_since(start));
                self.add(ticket, *request, sink);
            }
            Command::Abort(ticket) => self.abort(ticket),
            Command::LoadAdapter(adapter, weights, answer) => {
                drop(answer.send(self.engine.load_adapter(&adapter, &*weights)));
            }
            Command::LoadWeights(weights, answer) => {
                while !self.engine.is_idle() {
                    self.engine.set_time(start.elapsed());
                    self.step();
                }
                drop(answer.send(self.engine.load_weights(&*weights)));
            }
            // Nobody may wait for it any more.
            Command::Metrics(answer) => drop(answer.send(self.engine.metrics())),
            Command::Drain => {
                self.is_draining = true;
                self.engine.set_draining();
            }
            Command::Stop => {}
        }
    }

    fn add(&mut self, ticket: u64, request: Request, mut sink: Sink) {
        let (waiting, limit) = (self.engine.num_waiting(), self.options.max_waiting);
        let num_left = request.n;
        let added = match (self.is_draining, waiting >= limit) {
            (true, _) => Err(ErrorKind::Stopped.into()),
            (_, true) => Err(ErrorKind::Overloaded { waiting, limit }.into()),
            _ => self.engine.add(request),
        };
        match added {
            Ok(id) => {
                self.tickets.insert(id, ticket);
                self.open.insert(ticket, Open { id, sink, num_left });
            }
            Err(e) => {
                sink(Err(e));
            }
        }
    }

    fn abort(&mut self, ticket: u64) {
        if let Some(open) = self.open.remove(&ticket) {
            self.tickets.remove(&open.id);
            self.engine.abort(open.id);
        }
    }

    /// Runs a step and passes on what is new; returns whether there was anything.
    fn step(&mut self) -> bool {
        let before = self.engine.num_steps();
        match self.engine.step() {
            Ok(updates) => updates.into_iter().for_each(|update| self.pass_on(update)),
            Err(e) => self.fail(&e),
        }
        self.engine.num_steps() > before
    }

    fn pass_on(&mut self, update: Update) {
        let Some(&ticket) = self.tickets.get(&update.request) else { return };
        let open = self.open.get_mut(&ticket).expect("a request with a ticket is open");
        open.num_left -= usize::from(update.finish.is_some());
        let is_over = open.num_left == 0;
        let is_wanted = (open.sink)(Ok(update));
        if is_over || !is_wanted {
            self.abort(ticket);
        }
    }

    fn fail(&mut self, error: &Error) {
        let ErrorKind::Model { step, failed, source } = error.kind() else { return };
        for id in failed {
            let Some(ticket) = self.tickets.remove(id) else { continue };
            let mut open = self.open.remove(&ticket).expect("a request with a ticket is open");
            let source = source.to_string().into();
            (open.sink)(Err(ErrorKind::Model { step: *step, failed: vec![*id], source }.into()));
        }
    }
}
