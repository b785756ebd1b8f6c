//! A server that is played with its clients, and judged.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};
use warpfold_engine::scripted::Scripted;
use warpfold_engine::service::{ServiceClock, WorkerTurn};
use warpfold_engine::simulation::{DeviceFaults, FaultyDevices, Identify, ScenarioSeen, SeedDraws, settings};
use warpfold_engine::{Allocator, Config};
use warpfold_models::{AdapterWeights, ChatTemplate, Tokenizer, WeightsDigest};
use warpfold_serve::{Bounds, OpenWeights, Options, OtherWeights, SimulatedServer, Text};

use super::clients::{Caller, CallerAsks, CallerEnds, CallerReads, NAMES, adapters, request};
use super::faults::{FaultyDevice, GroundFault, PlantedFault};
use super::http::{HttpReply, ReplyChoice, choices};
use super::pipe::ClientPipe;
use super::world::{VirtualTime, WokenTasks};

/// Tokens of the fixtures' tokenizer, and the longest sequence.
const VOCAB: usize = 288;
const MAX_LEN: usize = 128;

const BOUNDS: Bounds = Bounds {
    body_bytes: 4096,
    header_time: Duration::from_secs(2),
    body_time: Duration::from_secs(2),
    write_time: Duration::from_secs(1),
    drain_time: Duration::from_secs(20),
    ..Bounds::DEFAULT
};

type Site = SimulatedServer<FaultyDevices<FaultyDevice>>;

fn text() -> Text {
    static TOKENIZER: OnceLock<Arc<Tokenizer>> = OnceLock::new();
    let read = || {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models/llama");
        Arc::new(Tokenizer::of_folder(&folder).expect("the fixture has a tokenizer"))
    };
    let source = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}";
    let template = ChatTemplate::new(source, "", "").expect("it is a template");
    // Files of weights are numbers, and so are their digests.
    let open = |path: Option<&Path>| {
        let number = path.map_or(Ok(0), |path| path.to_string_lossy().parse::<u32>());
        let number = number.map_err(|error| error.to_string())?;
        let digest = Arc::new(OnceLock::from(WeightsDigest::of_number(number.into())));
        Ok::<OtherWeights, String>((Box::new(number), digest))
    };
    Text {
        tokenizer: Some(TOKENIZER.get_or_init(read).clone()),
        template: Some(template),
        weights_digest: Some(WeightsDigest::of_number(0)),
        open_weights: Some(OpenWeights(Arc::new(open))),
        ..Text::default()
    }
}

/// The number of the weights that an object of an answer names.
fn weights_of(object: &Value) -> u32 {
    let mark = object["system_fingerprint"].as_str().expect("an answer names its weights");
    let digest = mark.rsplit('-').next().unwrap_or_default();
    u32::from_str_radix(digest, 16).expect("a digest is a number")
}

/// A server, its time and its connections.
struct ServerWorld {
    site: Site,
    time: VirtualTime,
    tasks: WokenTasks,
    fault: Option<PlantedFault>,
    /// Hash of everything that was chosen.
    trace: u64,
}

impl ServerWorld {
    fn new(devices: (usize, bool, DeviceFaults), config: Config, bounds: Bounds, fault: Option<PlantedFault>) -> Self {
        let (ranks, overlaps, faults) = devices;
        let (ground, of_server) = (fault.and_then(PlantedFault::ground), fault.and_then(PlantedFault::server));
        let time = VirtualTime::new(ground != Some(GroundFault::TimerIsLost));
        let of_engine = time.clone();
        let identify: Identify = |weights| {
            let weights: &AdapterWeights = weights.downcast_ref().expect("they are weights");
            weights.rank() as u32
        };
        let model = Scripted::new(VOCAB, MAX_LEN);
        let model = FaultyDevice { inner: if overlaps { model.overlapping() } else { model }, fault: ground };
        let devices = FaultyDevices::new(vec![model; ranks], faults, identify);
        let options = Options { adapters: 2, bounds, ..Options::new("scripted", 0) };
        let clock = ServiceClock::new(move || of_engine.now());
        let site = SimulatedServer::new(options, devices, config, text(), clock, time.clone(), of_server);
        Self { site: site.expect("the settings are right"), time, tasks: WokenTasks::default(), fault, trace: 0 }
    }

    fn connect(&mut self, room: usize) -> Arc<ClientPipe> {
        let pipe = Arc::new(ClientPipe::new(room, self.fault != Some(PlantedFault::Ground(GroundFault::WakeIsLost))));
        self.tasks.spawn(self.site.serve(pipe.clone()));
        pipe
    }

    /// Lets a connection or the engine go on; returns whether one did. The engine's steps take
    /// time.
    fn go_on(&mut self, draws: &mut SeedDraws) -> bool {
        let woken = self.tasks.num_woken();
        self.trace = self.trace.wrapping_mul(31).wrapping_add(self.time.now().as_millis() as u64 * 64 + woken as u64);
        if woken > 0 && draws.percent(60) {
            self.tasks.run(draws.below(woken));
            return true;
        }
        match self.site.worker().turn() {
            WorkerTurn::Idle | WorkerTurn::Over if woken == 0 => return false,
            WorkerTurn::Idle | WorkerTurn::Over => self.tasks.run(draws.below(woken)),
            WorkerTurn::Worked => self.time.set(self.time.now() + Duration::from_millis(draws.below(3) as u64)),
            WorkerTurn::Waited => self.time.set(self.time.now() + Duration::from_millis(1)),
        }
        true
    }
}

/// A server that answers one request after the other.
pub(crate) struct AloneServer {
    world: ServerWorld,
    /// The number of its weights.
    weights: u32,
}

impl AloneServer {
    pub(crate) fn new() -> Self {
        let config = Config { allocator: Allocator::Naive, num_blocks: 64, ..Config::default() };
        let world = ServerWorld::new((1, false, DeviceFaults::default()), config, BOUNDS, None);
        let mut alone = Self { world, weights: 0 };
        for (name, folder) in NAMES.iter().zip(adapters()) {
            let body = json!({"lora_name": name, "lora_path": folder});
            assert_eq!(alone.ask("/v1/load_lora_adapter", &body).status, 200, "an adapter is loaded");
        }
        alone
    }

    fn ask(&mut self, path: &str, body: &Value) -> HttpReply {
        let world = &mut self.world;
        let pipe = world.connect(usize::MAX);
        pipe.send(&request("POST", path, body.to_string().as_bytes()));
        let mut draws = SeedDraws::new(0);
        loop {
            if let Some(reply) = HttpReply::read(&pipe.received()).filter(|reply| reply.is_whole) {
                pipe.reset();
                while world.go_on(&mut draws) {}
                return reply;
            }
            if !world.go_on(&mut draws) {
                world.time.set(world.time.next().expect("a request alone is answered"));
            }
        }
    }

    fn choices(&mut self, path: &str, body: &Value, weights: u32) -> BTreeMap<u64, ReplyChoice> {
        if std::mem::replace(&mut self.weights, weights) != weights {
            let loaded = self.ask("/v1/load_weights", &json!({"path": weights.to_string()}));
            assert_eq!(loaded.status, 200, "weights are loaded");
        }
        let reply = self.ask(path, body);
        assert_eq!(reply.status, 200, "alone: {}", reply.body);
        choices([&reply.json()])
    }
}

/// Act of a client at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CallerAct {
    Connect,
    Send(usize),
    Take,
    Leave,
    /// Its connection has long been closed.
    Forget,
    /// The server is told to end.
    Stop,
}

/// A scenario that is played.
struct ServerPlay {
    world: ServerWorld,
    callers: Vec<Caller>,
    pipes: Vec<Option<Arc<ClientPipe>>>,
    acts: BTreeMap<(Duration, u64), (usize, CallerAct)>,
    last: u64,
    stopped: Option<Duration>,
    /// Clients whose requests had not come when the server was told to end.
    late: BTreeSet<usize>,
    /// Connections that outlived the time to drain were cut.
    was_cut: bool,
}

/// How long a connection may outlive its client.
const SOON: Duration = Duration::from_millis(500);

/// More than all limits of time together.
const LONG: Duration = Duration::from_secs(600);

/// What goes on in a scenario at most.
const MOST_STEPS: usize = 200_000;

/// Plays the scenario of a seed; returns what was seen, and a number made of everything that
/// happened.
pub(crate) fn play(seed: u64, fault: Option<PlantedFault>, alone: &mut AloneServer) -> (ScenarioSeen, u64) {
    let mut draws = SeedDraws::new(seed);
    let draws = &mut draws;
    let mut config = settings(draws, MAX_LEN);
    // Room for any of the requests alone: two answers of some sixty tokens, and a watermark.
    config.num_blocks = config.num_blocks.max(150_usize.div_ceil(config.block_size) + 4);
    let faults = DeviceFaults::draw(draws);
    let (ranks, overlaps) = (draws.one_of(&[1, 1, 1, 1, 1, 1, 2, 3, 8]), draws.percent(60));
    let bounds = Bounds { waiting: draws.one_of(&[3, 1024, 1024]), ..BOUNDS };
    let world = ServerWorld::new((ranks, overlaps, faults), config, bounds, fault);
    let has_adapters = draws.percent(30);
    let mut callers: Vec<Caller> = (0..1 + draws.below(8)).map(|_| Caller::draw(draws, has_adapters)).collect();
    callers.extend((0..2).filter(|_| has_adapters).map(Caller::loader));
    if draws.percent(25) {
        callers.extend((0..1 + draws.below(4)).map(|_| Caller::trainer(draws)));
    }
    let pipes = callers.iter().map(|_| None).collect();
    let mut play = ServerPlay {
        world,
        callers,
        pipes,
        acts: BTreeMap::new(),
        last: 0,
        stopped: None,
        late: BTreeSet::new(),
        was_cut: false,
    };
    for i in 0..play.callers.len() {
        let at = play.callers[i].at;
        play.plan(at, i, CallerAct::Connect);
    }
    if draws.percent(15) {
        let at = Duration::from_millis(draws.below(150) as u64);
        play.plan(at, 0, CallerAct::Stop);
    }
    play.run(draws);
    play.judge(bounds, alone)
}

impl ServerPlay {
    fn plan(&mut self, at: Duration, caller: usize, act: CallerAct) {
        self.last += 1;
        self.acts.insert((at, self.last), (caller, act));
    }

    fn run(&mut self, draws: &mut SeedDraws) {
        for step in 0.. {
            assert!(step < MOST_STEPS, "the server makes no progress");
            let now = self.world.time.now();
            while let Some(entry) = self.acts.first_entry().filter(|entry| entry.key().0 <= now) {
                let (caller, act) = entry.remove();
                self.act(caller, act);
            }
            let went_on = self.world.go_on(draws);
            self.close_those_who_have_their_answer();
            if went_on {
                continue;
            }
            let next = [self.world.time.next(), self.acts.first_key_value().map(|((at, _), _)| *at)];
            let Some(next) = next.into_iter().flatten().min() else { break };
            assert!(next < LONG, "somebody waits for what no limit ends");
            self.world.time.set(next);
            if self.stopped.is_some_and(|at| next > at + BOUNDS.drain_time) {
                self.was_cut = self.world.tasks.len() > 0;
                self.world.tasks.clear();
            }
        }
    }

    fn act(&mut self, caller: usize, act: CallerAct) {
        let Caller { reads, ends, ref pieces, .. } = self.callers[caller];
        let now = self.world.time.now();
        let pipe = self.pipes[caller].clone();
        match (act, pipe) {
            // Nobody listens any more.
            (CallerAct::Connect, _) if self.stopped.is_some() => {}
            (CallerAct::Connect, _) => {
                let mut at = now;
                let times: Vec<Duration> = pieces
                    .iter()
                    .map(|(after, _)| {
                        at += *after;
                        at
                    })
                    .collect();
                times.into_iter().enumerate().for_each(|(i, at)| self.plan(at, caller, CallerAct::Send(i)));
                if let CallerEnds::Leaves(after) = ends {
                    self.plan(now + after, caller, CallerAct::Leave);
                }
                let room = if reads == CallerReads::All { usize::MAX } else { 256 };
                self.pipes[caller] = Some(self.world.connect(room));
                self.plan(now, caller, CallerAct::Take);
            }
            (CallerAct::Send(i), Some(pipe)) => {
                pipe.send(&pieces[i].1.0);
                // It still waits for its answer.
                if ends == CallerEnds::HalfClosed && i + 1 == pieces.len() {
                    pipe.end();
                }
            }
            (CallerAct::Take, Some(pipe)) => {
                let CallerReads::Slowly { bytes, every } = reads else { return };
                pipe.take(bytes);
                if Arc::strong_count(&pipe) > 2 {
                    self.plan(now + every.max(Duration::from_millis(1)), caller, CallerAct::Take);
                }
            }
            (CallerAct::Leave, Some(pipe)) => {
                pipe.reset();
                self.plan(now + SOON, caller, CallerAct::Forget);
            }
            // It is held here alone.
            (CallerAct::Forget, Some(pipe)) => {
                assert!(Arc::strong_count(&pipe) == 2, "the connection of client {caller}, who has ended, is open");
            }
            (CallerAct::Stop, _) => {
                self.stopped = Some(now);
                let has_come =
                    |i: &usize| self.pipes[*i].as_ref().is_some_and(|p| p.num_read() >= self.callers[*i].head_bytes());
                self.late = (0..self.callers.len()).filter(|i| !has_come(i)).collect();
                self.world.site.stop();
            }
            (CallerAct::Send(_) | CallerAct::Take | CallerAct::Leave | CallerAct::Forget, None) => {}
        }
    }

    /// Clients that have a whole answer close their connection.
    fn close_those_who_have_their_answer(&mut self) {
        for i in 0..self.pipes.len() {
            let Some(pipe) = self.pipes[i].clone().filter(|pipe| pipe.may_be_whole()) else { continue };
            if HttpReply::read(&pipe.received()).is_some_and(|reply| reply.is_whole) {
                pipe.end();
                self.plan(self.world.time.now() + SOON, i, CallerAct::Forget);
            }
        }
    }

    fn judge(mut self, bounds: Bounds, alone: &mut AloneServer) -> (ScenarioSeen, u64) {
        let mut seen = ScenarioSeen { scenarios: 1, ..ScenarioSeen::default() };
        assert_eq!(self.world.tasks.len(), 0, "connections that nobody wakes");
        for i in 0..self.callers.len() {
            let Some(pipe) = self.pipes[i].take() else { continue };
            assert_eq!(Arc::strong_count(&pipe), 1, "the server has closed the connection of client {i}");
            let caller = self.callers[i].clone();
            let reply = HttpReply::read(&pipe.received());
            match reply.filter(|reply| reply.is_whole) {
                Some(reply) => self.judge_reply(&caller, &reply, bounds, alone, &mut seen),
                None => {
                    // Who reads nothing is taken for one who has left.
                    let waits = matches!(caller.ends, CallerEnds::WithAnswer | CallerEnds::HalfClosed);
                    let patient = caller.reads != CallerReads::Nothing && waits;
                    let excused = self.was_cut || self.late.contains(&i);
                    assert!(!patient || excused, "client {i} has no answer and no error: {caller:?}");
                    seen.left += 1;
                }
            }
        }
        assert_eq!(self.world.site.num_waiting(), 0, "places in the queue that ended requests hold");
        let worker = self.world.site.worker();
        worker.drain();
        while worker.turn() != WorkerTurn::Over {}
        assert_eq!(worker.num_open(), 0, "requests that the service has not forgotten");
        let engine = worker.engine_mut();
        engine.check_invariants();
        engine.clear_prefix_cache();
        let metrics = engine.metrics();
        let now = &metrics.now;
        let held = [now.used_blocks, now.used_host_blocks, now.cached_blocks, now.running, now.waiting, now.swapped];
        assert_eq!(held, [0; 6], "something is left");
        seen.preempted = metrics.preempted_by_recompute + metrics.preempted_by_swap;
        (seen.hits, seen.copied) = (metrics.prefix_hits, metrics.copied_blocks);
        (seen, self.world.trace)
    }

    fn judge_reply(
        &mut self,
        caller: &Caller,
        reply: &HttpReply,
        bounds: Bounds,
        alone: &mut AloneServer,
        seen: &mut ScenarioSeen,
    ) {
        if reply.status == 200 {
            return self.judge_answer(caller, reply, alone, seen);
        }
        seen.refused += 1;
        if reply.status == 400 && reply.body.is_empty() {
            // hyper's own word to what is not HTTP.
            assert!(matches!(caller.asks, CallerAsks::Wrong(..)) || caller.ends == CallerEnds::Stalls, "{caller:?}");
            return;
        }
        let error = &reply.json()["error"];
        let text = error["message"].as_str().expect("an error says why");
        let may = match (&caller.asks, reply.status) {
            (CallerAsks::Wrong(_, expected), status) if *expected == status => true,
            (CallerAsks::Answer { names_adapter, .. }, 404) => *names_adapter,
            // It is there already, has no place, or is not there.
            (CallerAsks::Adapter { .. }, 400) => {
                text.contains("already") || text.contains("places") || self.has_failed()
            }
            (CallerAsks::Adapter { .. }, 404) => text.contains("no adapter"),
            (CallerAsks::Weights(_), 400) => self.has_failed() && text.contains("device"),
            (CallerAsks::Sleep(_), 400 | 500) => {
                self.has_failed() && text.contains("device") || text.contains("sleeps on")
            }
            (CallerAsks::Answer { .. }, 503) if text.contains("sleeps") => self.may_sleep(),
            (_, 500) => self.has_failed() && text.contains("device"),
            (_, 503) => self.stopped.is_some() || bounds.waiting < 100 && text.contains("wait"),
            (_, 408) => caller.ends == CallerEnds::Stalls,
            _ => false,
        };
        seen.failed += u64::from(reply.status == 500);
        assert!(may, "{} {text:?} to {caller:?}", reply.status);
    }

    fn judge_answer(&mut self, caller: &Caller, reply: &HttpReply, alone: &mut AloneServer, seen: &mut ScenarioSeen) {
        let CallerAsks::Answer { path, ref body, is_stream, names_adapter } = caller.asks else {
            assert!(!matches!(caller.asks, CallerAsks::Wrong(..)), "200 to {caller:?}");
            return;
        };
        let weights;
        let found = if is_stream {
            let mut events = reply.events();
            if events.pop() != Some("[DONE]") {
                let error: Value = serde_json::from_str(reply.events().last().expect("an event")).expect("JSON");
                let text = error["error"]["message"].as_str().expect("a stream ends, or says why it does not");
                assert!(self.has_failed() && text.contains("device"), "{text:?} to {caller:?}");
                seen.failed += 1;
                return;
            }
            let parse = |event: &str| serde_json::from_str::<Value>(event).expect("an event is JSON");
            let events: Vec<Value> = events.into_iter().map(parse).collect();
            weights = weights_of(events.first().expect("an event"));
            choices(&events)
        } else {
            weights = weights_of(&reply.json());
            choices([&reply.json()])
        };
        seen.answered += 1;
        seen.adapted += u64::from(names_adapter);
        seen.reweighted += u64::from(weights > 0);
        assert_eq!(found, alone.choices(path, body, weights), "among others, and alone: {caller:?}");
    }

    /// Returns whether somebody lets the model sleep.
    fn may_sleep(&self) -> bool {
        self.callers.iter().any(|caller| matches!(caller.asks, CallerAsks::Sleep(path) if path.starts_with("/sleep")))
    }

    fn has_failed(&mut self) -> bool {
        self.world.site.worker().engine().model().failures() > 0
    }
}
