//! An engine on a thread of its own: requests go in over a channel, updates come out as they are
//! made.
//!
//! One thread owns model and scheduler, so that nothing is locked on the way of a token. A client
//! that drops its [`Stream`] gives the request up, and what it held is free at the next step. No
//! queue grows without bound: a request's updates are at most its tokens, and requests beyond
//! [`Options::max_waiting`] are refused.
//!
//! A [`Worker`] is what that thread runs. Who wants to say when it takes a turn, and what time it
//! is, owns one instead of a [`Service`]: so a simulation of a whole server repeats.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::engine::Engine;
use crate::error::{Error, ErrorKind, ModelError};
use crate::metrics::Metrics;
use crate::model::Model;
use crate::planted::{EngineFault, planted};
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
    clock: ServiceClock,
}

/// The time since some beginning.
#[derive(Clone)]
pub struct ServiceClock(Arc<dyn Fn() -> Duration + Send + Sync>);

impl ServiceClock {
    /// A clock that shows what a function returns, which never goes back.
    #[must_use]
    pub fn new(now: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The system's clock, from 0 on.
    #[must_use]
    pub fn system() -> Self {
        let start = Instant::now();
        Self::new(move || start.elapsed())
    }

    fn now(&self) -> Duration {
        (self.0)()
    }
}

impl std::fmt::Debug for ServiceClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ServiceClock").field(&self.now()).finish()
    }
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
    Add(u64, Box<Request>, Sink, Duration),
    Abort(u64),
    LoadAdapter(Arc<Adapter>, Box<dyn Any + Send + Sync>, Answer<Result<(), ModelError>>),
    /// What comes after it waits until all that came before has ended.
    Idle(IdleCommand, Answer<Result<(), ModelError>>),
    Wake(Answer<Result<(), ModelError>>),
    Metrics(Answer<Metrics>),
    Drain,
    Stop,
}

/// Command that is obeyed when nothing runs.
enum IdleCommand {
    LoadWeights(Box<dyn Any + Send + Sync>),
    Sleep,
}

/// Receiver of one answer, called on the engine's thread. It is dropped if the service has ended.
type Answer<T> = Box<dyn FnOnce(T) + Send>;

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Add(..) => "Add",
            Self::Abort(_) => "Abort",
            Self::LoadAdapter(..) => "LoadAdapter",
            Self::Idle(IdleCommand::LoadWeights(_), _) => "LoadWeights",
            Self::Idle(IdleCommand::Sleep, _) => "Sleep",
            Self::Wake(_) => "Wake",
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
        let (client, worker) = Worker::new(engine, options, ServiceClock::system());
        let thread = std::thread::Builder::new().name("warpfold-engine".to_owned()).spawn(move || worker.run());
        let thread = thread.expect("the system gives a thread");
        Self { client, thread: Some(thread) }
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
        if let Err(refused) = self.commands.send(Command::Add(ticket, Box::new(request), sink, self.clock.now()))
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
        self.load_adapter_to(adapter, weights, move |loaded| drop(sender.send(loaded)));
        answer.recv().map_err(|_| Error::from(ErrorKind::Stopped))?
    }

    /// The same without waiting: `answer` is called on the engine's thread, or dropped if the
    /// service has ended.
    pub fn load_adapter_to(
        &self,
        adapter: Arc<Adapter>,
        weights: Box<dyn Any + Send + Sync>,
        answer: impl FnOnce(Result<(), ModelError>) + Send + 'static,
    ) {
        self.commands.send(Command::LoadAdapter(adapter, weights, Box::new(answer))).ok();
    }

    /// Gives the model other weights, once all requests that were sent before have ended; those
    /// that come meanwhile wait.
    ///
    /// # Errors
    /// What the model says, or that the service has ended.
    pub fn load_weights(&self, weights: Box<dyn Any + Send + Sync>) -> Result<(), ModelError> {
        let (sender, answer) = channel();
        self.load_weights_to(weights, move |loaded| drop(sender.send(loaded)));
        answer.recv().map_err(|_| Error::from(ErrorKind::Stopped))?
    }

    /// The same without waiting: `answer` is called on the engine's thread, or dropped if the
    /// service has ended.
    pub fn load_weights_to(
        &self,
        weights: Box<dyn Any + Send + Sync>,
        answer: impl FnOnce(Result<(), ModelError>) + Send + 'static,
    ) {
        self.commands.send(Command::Idle(IdleCommand::LoadWeights(weights), Box::new(answer))).ok();
    }

    /// Frees the memory of weights and cache, once all requests that were sent before have ended;
    /// those that come later are refused ([`Engine::sleep`]). `answer` is called on the engine's
    /// thread, or dropped if the service has ended.
    pub fn sleep_to(&self, answer: impl FnOnce(Result<(), ModelError>) + Send + 'static) {
        self.commands.send(Command::Idle(IdleCommand::Sleep, Box::new(answer))).ok();
    }

    /// Takes requests again ([`Engine::wake`]). `answer` is called on the engine's thread, or
    /// dropped if the service has ended.
    pub fn wake_to(&self, answer: impl FnOnce(Result<(), ModelError>) + Send + 'static) {
        self.commands.send(Command::Wake(Box::new(answer))).ok();
    }

    /// Counters since the start, and what is there now.
    ///
    /// # Errors
    /// [`ErrorKind::Stopped`] if the service has ended.
    pub fn metrics(&self) -> Result<Metrics, Error> {
        let (sender, answer) = channel();
        self.metrics_to(move |metrics| drop(sender.send(metrics)));
        Ok(answer.recv().map_err(|_| ErrorKind::Stopped)?)
    }

    /// The same without waiting: `answer` is called on the engine's thread, or dropped if the
    /// service has ended.
    pub fn metrics_to(&self, answer: impl FnOnce(Metrics) + Send + 'static) {
        self.commands.send(Command::Metrics(Box::new(answer))).ok();
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

/// An engine that obeys clients: what the thread of a [`Service`] runs.
///
/// ```
/// use std::time::Duration;
/// use warpfold_engine::scripted::Scripted;
/// use warpfold_engine::service::{Options, ServiceClock, Worker, WorkerTurn};
/// use warpfold_engine::{Config, Engine, Request};
///
/// let engine = Engine::new(Scripted::new(100, 128), Config { num_blocks: 64, ..Config::default() })?;
/// let (client, mut worker) = Worker::new(engine, Options::default(), ServiceClock::new(|| Duration::ZERO));
/// let answer = client.submit(Request::greedy(vec![1, 2, 3], 5));
/// while worker.turn() == WorkerTurn::Worked {}
/// assert!(answer.take(1).all(|event| event.is_ok()));
/// # Ok::<(), warpfold_engine::Error>(())
/// ```
pub struct Worker<M> {
    engine: Engine<M>,
    options: Options,
    clock: ServiceClock,
    inbox: Receiver<Command>,
    open: HashMap<u64, Open>,
    tickets: HashMap<RequestId, u64>,
    is_draining: bool,
    is_stopped: bool,
    /// Commands that came while one was pending.
    later: VecDeque<Command>,
    /// Obeyed as soon as nothing runs, and who is told so.
    pending: Option<(IdleCommand, Answer<Result<(), ModelError>>)>,
}

impl<M> std::fmt::Debug for Worker<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("open", &self.open.len()).finish_non_exhaustive()
    }
}

/// The outcome of a [`Worker`]'s turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerTurn {
    /// It obeyed a command or ran a step.
    Worked,
    /// Its step ran nothing: a static batch waits for a time to pass.
    Waited,
    /// There is nothing to do before a command comes.
    Idle,
    /// It was stopped, or drained and every request has ended.
    Over,
}

/// Pause after a step that ran nothing.
const PAUSE: Duration = Duration::from_millis(1);

impl<M: Model> Worker<M> {
    /// Takes an engine; the client sends it requests.
    #[must_use]
    pub fn new(engine: Engine<M>, options: Options, clock: ServiceClock) -> (Client, Self) {
        let (commands, inbox) = channel();
        let client = Client { commands, last_ticket: Arc::default(), clock: clock.clone() };
        let (open, tickets) = (HashMap::new(), HashMap::new());
        (
            client,
            Self {
                engine,
                options,
                clock,
                inbox,
                open,
                tickets,
                is_draining: false,
                is_stopped: false,
                later: VecDeque::new(),
                pending: None,
            },
        )
    }

    /// Obeys a command, or runs a step if there is none. Never waits.
    pub fn turn(&mut self) -> WorkerTurn {
        let is_idle = self.engine.is_idle();
        self.engine.set_time(self.clock.now());
        if let Some((command, answer)) = self.pending.take_if(|_| is_idle || planted(EngineFault::WeightsDoNotWait)) {
            answer(match command {
                IdleCommand::LoadWeights(weights) => self.engine.load_weights(&*weights),
                IdleCommand::Sleep => self.engine.sleep(),
            });
            return WorkerTurn::Worked;
        }
        if self.pending.is_some() {
            // Who leaves is not waited for.
            self.later.extend(self.inbox.try_iter());
            let left = |command: &Command| match command {
                Command::Abort(ticket) => Some(*ticket),
                _ => None,
            };
            self.later.iter().filter_map(left).collect::<Vec<_>>().into_iter().for_each(|ticket| self.abort(ticket));
            return if self.step() { WorkerTurn::Worked } else { WorkerTurn::Waited };
        }
        match self.later.pop_front().map_or_else(|| self.inbox.try_recv(), Ok) {
            // Those that come too late are told so.
            Ok(command) => self.obey(command),
            Err(_) if self.is_stopped || is_idle && self.is_draining => return WorkerTurn::Over,
            Err(TryRecvError::Disconnected) if is_idle => return WorkerTurn::Over,
            Err(_) if is_idle => return WorkerTurn::Idle,
            Err(_) if !self.step() => return WorkerTurn::Waited,
            Err(_) => {}
        }
        WorkerTurn::Worked
    }

    /// Refuses new requests; those that are there may end.
    pub fn drain(&mut self) {
        self.is_draining = true;
        self.engine.set_draining();
    }

    /// Requests that have not ended.
    #[must_use]
    pub fn num_open(&self) -> usize {
        self.open.len().max(self.tickets.len())
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &Engine<M> {
        &self.engine
    }

    /// The engine, for what no command says.
    pub fn engine_mut(&mut self) -> &mut Engine<M> {
        &mut self.engine
    }

    fn run(mut self) -> Metrics {
        loop {
            let command = match self.turn() {
                WorkerTurn::Worked => continue,
                WorkerTurn::Over => break,
                // Who comes meanwhile has the new weights.
                WorkerTurn::Waited if self.pending.is_some() => {
                    std::thread::sleep(PAUSE);
                    continue;
                }
                WorkerTurn::Waited => self.inbox.recv_timeout(PAUSE),
                WorkerTurn::Idle => self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match command {
                Ok(command) => self.obey(command),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.engine.metrics()
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Add(ticket, request, sink, sent) => {
                // What it waited in the channel is part of its time in the queue.
                self.engine.set_time(sent);
                self.add(ticket, *request, sink);
            }
            Command::Abort(ticket) => self.abort(ticket),
            Command::LoadAdapter(adapter, weights, answer) => answer(self.engine.load_adapter(&adapter, &*weights)),
            Command::Idle(command, answer) => self.pending = Some((command, answer)),
            Command::Wake(answer) => answer(self.engine.wake()),
            Command::Metrics(answer) => answer(self.engine.metrics()),
            Command::Drain => self.drain(),
            Command::Stop => self.is_stopped = true,
        }
    }

    fn add(&mut self, ticket: u64, request: Request, mut sink: Sink) {
        let (waiting, limit) = (self.engine.num_waiting(), self.options.max_waiting);
        let num_left = request.n;
        let is_ending = (self.is_draining || self.is_stopped) && !planted(EngineFault::DrainTakesMore);
        let added = match (is_ending, waiting >= limit) {
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
            if !planted(EngineFault::TicketIsKept) {
                self.tickets.remove(&open.id);
            }
            self.engine.abort(open.id);
        }
    }

    /// Runs a step and passes on what is new; returns whether it ran anything.
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
        let is_lost = is_over && planted(EngineFault::LastUpdateIsLost);
        let is_wanted = is_lost || (open.sink)(Ok(update));
        if is_over || !(is_wanted || planted(EngineFault::RefusalIsIgnored)) {
            self.abort(ticket);
        }
    }

    fn fail(&mut self, error: &Error) {
        let ErrorKind::Model { step, failed, source } = error.kind() else { return };
        for id in failed.iter().skip(usize::from(planted(EngineFault::FailureIsNotTold))) {
            let Some(ticket) = self.tickets.remove(id) else { continue };
            let mut open = self.open.remove(&ticket).expect("a request with a ticket is open");
            let source = source.to_string().into();
            (open.sink)(Err(ErrorKind::Model { step: *step, failed: vec![*id], source }.into()));
        }
    }
}
