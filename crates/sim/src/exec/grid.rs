//! Execution of a launch: blocks on host threads, in increasing order, until all are done.
//!
//! Each worker takes the next block when it is free. A block that only waits for others gives way:
//! another block becomes resident beside it, as on hardware, up to what a device holds. The blocks
//! of a cooperative launch are all resident from the start, and so are those of a launch over
//! several devices, which is a grid with the device in z. Blocks of a cluster come and go together.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::block::{Block, BlockCounts, Context, Turn};
use super::checking::Checking;
use super::cluster::{Cluster, Resident};
use super::code::{Code, Placed};
use super::described::describe;
use super::geometry::Geometry;
use super::harvest::{self, Harvest};
use super::l1::{L1, L1Model};
use super::machine::{Fault, GlobalView, Machine};
use super::recording::Recording;
use super::sizes::geometry;
use super::stepping::StepRecorder;
use super::touched::Touched;
use crate::asynchronous::Asynchronous;
use crate::asynchronous::luck::Luck;
use crate::check::{BlockCheck, Findings, LaunchCheck};
use crate::counters::AccessCounters;
use crate::heap::{Asked, Heap};
use crate::limited::Limited;
use crate::memory::Memory;
use crate::report::Residency;
use crate::report::{FindingKind, Severity};
use crate::tensor_ops::rules::Warpgroups;
use crate::{Arch, Error, KernelInfo, Launch, Options, Report};

// THRESHOLD: what more blocks wait for one another for never comes; tested by
// crates/sim/tests/first_kernel/limits.rs::blocks_may_wait_for_as_many_as_one_worker_keeps_resident
/// Maximum number of blocks that one worker keeps resident when they wait for each other.
const MAX_RESIDENT: usize = 256;

/// Bytes of zeros that a cooperative launch passes to the grid barrier.
const GRID_WORKSPACE_BYTES: u64 = 32;

/// Clusters among which any may begin first.
const NEIGHBOURS: u64 = 32;

/// Turns of each of a worker's clusters that end with a wait while other workers make progress,
/// before another cluster becomes resident nevertheless: the others may not be doing what it waits
/// for.
const WAITS_BESIDE_OTHERS: usize = 16;

/// A worker that has not stalled.
const NEVER: u64 = u64::MAX;
/// A worker that has no block left.
const HAS_ENDED: u64 = u64::MAX - 1;

/// Interval at which a stalled worker looks at the others again.
const LOOK_AGAIN: Duration = Duration::from_micros(100);

/// State shared by the workers of a launch.
struct Shared<'a> {
    code: &'a Code,
    geometry: &'a Geometry,
    options: &'a Options,
    blocks: u64,
    /// Number of clusters, the unit in which blocks are handed out.
    clusters: u64,
    cooperative: bool,
    workers: u64,
    next: AtomicU64,
    done: AtomicU64,
    stop: AtomicBool,
    /// Counter of events that a waiting thread could observe.
    progress: AtomicU64,
    /// Per worker: the progress since which it has run for the whole patience without any more.
    stalled_at: Vec<AtomicU64>,
    output: Mutex<Output>,
    /// Checker state shared by all blocks.
    check: Option<Arc<LaunchCheck>>,
    /// Variables in shared memory and their places.
    shared_map: Arc<[Placed]>,
    /// Heap of `malloc`, if the program uses it.
    heap: Option<Arc<Heap>>,
    /// Limits on the launch's memory accesses.
    limited: Option<Arc<Limited>>,
    /// The L1 model, if enabled.
    l1: Option<L1Model>,
    /// What a device keeps resident, if the launch asks for what a prediction needs.
    residency: Option<Residency>,
}

/// Text printed by blocks, forwarded in block order.
#[derive(Default)]
struct Output {
    next: u64,
    waiting: BTreeMap<u64, String>,
}

/// Runs a launch.
pub(crate) fn launch(
    code: &Code,
    kernel: &KernelInfo,
    arch: Arch,
    memory: &Memory,
    launch: &Launch,
    options: &Options,
    devices: Option<&[Vec<u8>]>,
) -> Result<Report, Error> {
    let mut geometry = geometry(code, kernel, arch, launch, options)?;
    if let Some(devices) = devices {
        geometry.spread_over(devices).map_err(|reason| Error::InvalidLaunch { kernel: kernel.name.clone(), reason })?;
    }
    let workspace =
        launch.cooperative.then(|| memory.allocate_owned(GRID_WORKSPACE_BYTES, "grid barrier")).transpose()?;
    if let Some(workspace) = &workspace {
        geometry.grid_workspace = workspace.address;
        memory.fill(workspace.address, 0, GRID_WORKSPACE_BYTES)?;
    }
    let heap = code.allocates.then(|| memory.heap()).transpose()?;
    let (live, freed) = memory.snapshot();
    let is_limited = geometry.checked && devices.is_none() && !options.granted.is_empty();
    let limited = is_limited.then(|| Arc::new(Limited::new(&options.granted, &launch.params, &live)));
    let blocks = geometry.grid.iter().map(|&n| u64::from(n)).product::<u64>();
    let wanted = options.steps.as_ref().map(|_| 1).or(options.workers);
    let workers = wanted.unwrap_or_else(|| default_workers(blocks * u64::from(geometry.threads)));
    let clusters = blocks / geometry.cluster_blocks();
    let workers = workers.clamp(1, usize::try_from(clusters).unwrap_or(usize::MAX));
    let mut device_check = geometry.checked.then(|| memory.device_check.lock().unwrap_or_else(PoisonError::into_inner));
    let check = device_check.as_mut().map(|d| {
        let mut check = d.begin(code.orders_blocks, || live.iter().for_each(|a| a.forget_accesses()));
        check.tell_of(code.has_fence_sc, code.has_cluster_scope);
        if let Some(stream) = options.stream.as_ref().filter(|_| launch.programmatic) {
            check.overlap(stream.open());
        }
        Arc::new(check)
    });
    let mut shared = Shared {
        code,
        geometry: &geometry,
        options,
        blocks,
        clusters,
        cooperative: launch.cooperative || devices.is_some(),
        workers: workers as u64,
        next: AtomicU64::new(0),
        done: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        progress: AtomicU64::new(0),
        stalled_at: (0..workers).map(|_| AtomicU64::new(NEVER)).collect(),
        output: Mutex::default(),
        check,
        shared_map: shared_map(code, &geometry),
        heap,
        limited,
        l1: (options.l1 || options.timing).then(|| L1Model::new(arch, geometry.threads, geometry.user_shared, blocks)),
        residency: options.timing.then(|| Residency::new(arch, kernel, &geometry)),
    };
    let params: Arc<[u8]> = launch.params.clone().into();
    let view = || GlobalView::new(live.clone(), Arc::clone(&freed));
    let mut harvests: Vec<Harvest> = std::thread::scope(|scope| {
        let handles: Vec<_> = (1..workers)
            .map(|w| {
                let (shared, params, view) = (&shared, Arc::clone(&params), &view);
                scope.spawn(move || work(shared, w as u64, view(), params))
            })
            .collect();
        let mut all = vec![work(&shared, 0, view(), Arc::clone(&params))];
        all.extend(handles.into_iter().map(|h| h.join().unwrap_or_else(|p| std::panic::resume_unwind(p))));
        all
    });
    shared.flush_output();
    match (&mut device_check, &shared.check) {
        (Some(device), Some(check)) => device.end(check, &mut harvests[0].found),
        // The writes of an unchecked launch are unknown.
        _ => live.iter().for_each(|a| a.mark_unknown()),
    }
    if let Some(stream) = &options.stream {
        let check = shared.check.take().and_then(Arc::into_inner);
        stream.leave_open(check.map(|check| check.into_past(blocks)).unwrap_or_default());
    }
    let view = view();
    let describe = |address| describe(address, &shared.shared_map, &view);
    let aborted = shared.stop.load(Ordering::Relaxed);
    if geometry.checked && !aborted {
        harvests[0].faults.extend(shared.leaks());
    }
    let (report, copied, sectors) = harvest::report((code, kernel, &geometry), options, harvests, describe, aborted)?;
    memory.note_copied(copied);
    Ok(Report { l1: shared.l1, timing: shared.residency.map(|residency| residency.with(sectors)), ..report })
}

/// Default number of workers: one per core; one for launches so small that another would cost more
/// than it saves.
fn default_workers(threads: u64) -> usize {
    // THRESHOLD: larger launches have a worker a core; tested by
    // crates/sim/tests/first_kernel/limits.rs::small_launches_and_large_ones_have_the_same_reports
    const SMALL: u64 = 4096;
    if threads <= SMALL { 1 } else { std::thread::available_parallelism().map_or(1, std::num::NonZero::get) }
}

impl Shared<'_> {
    /// Creates a worker's machine, without a frame.
    fn machine(&self, global: GlobalView, params: Arc<[u8]>) -> Machine {
        let code = self.code;
        Machine {
            frame: std::ptr::null_mut(),
            frame_base: 0,
            predicates: std::ptr::null_mut(),
            local: std::ptr::null_mut(),
            in_flight: std::ptr::null_mut(),
            undefined: std::ptr::null_mut(),
            is_followed: false,
            local_base: 0,
            local_end: 0,
            shared: std::ptr::null_mut(),
            shared_bytes: 0,
            cluster: Cluster::default(),
            params,
            global,
            heap: self.heap.clone(),
            limited: self.limited.clone(),
            launch: self.geometry.grid_id,
            warp: 0,
            block: 0,
            counters: vec![AccessCounters::default(); code.instructions.len()],
            recording: (self.options.record > 0 || self.l1.is_some() || self.options.steps.is_some()).then(|| {
                let texts = || code.instructions.iter().map(|info| info.text.as_str());
                let l1 = self.l1.map(|model| L1::new(model, texts()));
                let touched = self.residency.map(|residency| Touched::new(residency.wave_blocks(), texts()));
                let steps = self.options.steps.as_ref().map(|asked| StepRecorder::new(asked, code));
                Box::new(Recording {
                    touched,
                    steps,
                    ..Recording::new(self.options.record, code.instructions.len(), l1)
                })
            }),
            progress: false,
            waiting: false,
            stop: false,
            faults: Vec::new(),
            clock: 0,
            checked: self.geometry.checked,
            checking: self.check.as_ref().map(|launch| {
                let block = BlockCheck::new(0, 0);
                let tells_all = self.options.report_same_value;
                let findings = if tells_all { Findings::default() } else { Findings::but_same_values() };
                Box::new(Checking { launch: Arc::clone(launch), block, findings })
            }),
            shared_map: Arc::clone(&self.shared_map),
            tensor: Arc::clone(&code.tensor),
            scratch: Box::default(),
            function: 0,
            locals: code.functions.iter().map(|f| f.locals.clone()).collect(),
            reductions: code.reductions.clone().into(),
            asynchronous: Asynchronous::default(),
            warpgroups: Warpgroups::default(),
        }
    }

    /// Takes the next cluster for a worker, if one is left.
    fn take(&self) -> Option<u64> {
        let place = self.next.fetch_add(1, Ordering::Relaxed);
        (place < self.clusters).then(|| self.cluster_at(place))
    }

    /// The cluster at a place in the order of a launch. A seed shuffles neighbours: hardware also
    /// begins with low numbers, but the order among neighbours is unspecified.
    fn cluster_at(&self, place: u64) -> u64 {
        if self.options.seed == 0 {
            return place;
        }
        let first = place - place % NEIGHBOURS;
        let count = NEIGHBOURS.min(self.clusters - first);
        let mut luck = Luck::new(self.options.seed, u64::MAX - first);
        let mut order: [u64; NEIGHBOURS as usize] = std::array::from_fn(|i| i as u64);
        luck.shuffle(&mut order[..count as usize]);
        first + order[(place - first) as usize]
    }

    /// Returns true for a deadlock, to one worker: nothing has moved in this worker's blocks since
    /// `progress` for the whole patience, and every worker has come as far, however the host
    /// schedules their threads. Otherwise waits for progress elsewhere.
    fn is_deadlock(&self, worker: u64, progress: u64) -> bool {
        self.stalled_at[worker as usize].store(progress, Ordering::SeqCst);
        loop {
            if self.stop.load(Ordering::Relaxed) || self.progress.load(Ordering::SeqCst) != progress {
                self.stalled_at[worker as usize].store(NEVER, Ordering::SeqCst);
                return false;
            }
            if self.stalled_at.iter().all(|at| [progress, HAS_ENDED].contains(&at.load(Ordering::SeqCst))) {
                return !self.stop.swap(true, Ordering::SeqCst);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Adds to a deadlock the blocks that were not resident to end it: hardware keeps as many
    /// resident as fit.
    fn tell_of_blocks_to_come(&self, m: &mut Machine) {
        let begun = self.next.load(Ordering::Relaxed).min(self.clusters);
        let rest = (self.clusters - begun) * self.geometry.cluster_blocks();
        if let Some((fault, _)) = m.faults.last_mut().filter(|_| rest > 0) {
            let of_grid = format!("of the grid {rest} have not begun");
            fault.rule += &format!("; {of_grid}, as a host thread keeps no more than {MAX_RESIDENT} resident");
        }
    }

    fn finish_block(&self, block: &mut Block) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        self.progress.fetch_add(1, Ordering::Relaxed);
        if let Some(progress) = &self.options.progress
            && (done.is_multiple_of(256) || done == self.blocks)
        {
            progress(done, self.blocks);
        }
        let text = std::mem::take(&mut block.output);
        if !self.code.prints {
            return;
        }
        self.print(block.index, text);
    }

    /// Aborts all workers, and forwards the text that the cluster has printed.
    fn abort(&self, cluster: &mut Resident) {
        self.stop.store(true, Ordering::Relaxed);
        for block in &mut cluster.blocks {
            self.print(block.index, std::mem::take(&mut block.output));
        }
    }

    /// Leaks: memory that the launch got from `malloc` and nothing freed, by calls.
    fn leaks(&self) -> Vec<(Fault, u64)> {
        let mut leaks: Vec<(Fault, u64)> = Vec::new();
        for (address, piece) in self.heap.iter().flat_map(|heap| heap.left_by(self.geometry.grid_id)) {
            let Asked { instruction, block, thread, .. } = piece.asked;
            let fault = Fault {
                kind: FindingKind::Leak,
                severity: Severity::Warning,
                instruction,
                block,
                thread,
                address: Some((address, "device heap".to_owned())),
                other: None,
                rule: "asks malloc for memory that is not freed when the launch ends: it stays taken until a later \
                       launch frees it"
                    .to_owned(),
            };
            match leaks.iter_mut().find(|(old, _)| old.same_pair(&fault)) {
                Some((_, count)) => *count += 1,
                None => leaks.push((fault, 1)),
            }
        }
        leaks
    }

    /// Returns true if the host has ended the run.
    fn is_told_to_stop(&self) -> bool {
        self.options.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// Records that a worker has exceeded the instruction limit of a launch, or that the host has
    /// aborted the run.
    fn endless(&self, cluster: &mut Resident, m: &mut Machine) {
        let at = cluster.blocks.iter_mut().find_map(|block| Some((block.index, block.runs_at(self.code)?)));
        let nowhere = || (cluster.blocks[0].index, (0, 0, String::new()));
        let (block, (instruction, thread, place)) = at.unwrap_or_else(nowhere);
        let rule = if self.is_told_to_stop() {
            let done = self.done.load(Ordering::Relaxed);
            let all = self.blocks;
            format!("the launch's time is over: {done} of {all} blocks are done, and instructions were executed{place}")
        } else {
            let limit = self.options.limit;
            format!("more than {limit} warp instructions, the limit of a launch, were executed{place}")
        };
        let (kind, severity) = (FindingKind::Deadlock, Severity::Error);
        m.fault(Fault { kind, severity, instruction, block, thread, address: None, other: None, rule }, true);
        self.abort(cluster);
    }

    fn print(&self, index: u64, text: String) {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        output.waiting.insert(index, text);
        while let Some(text) = {
            let next = output.next;
            output.waiting.remove(&next)
        } {
            self.emit(&text);
            output.next += 1;
        }
    }

    /// Forwards the text of blocks that never ended.
    fn flush_output(&self) {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        for text in std::mem::take(&mut output.waiting).into_values() {
            self.emit(&text);
        }
    }

    fn emit(&self, text: &str) {
        if text.is_empty() {
            return;
        }
        match &self.options.output {
            Some(sink) => sink(text),
            None => {
                use std::io::Write as _;
                // A closed standard output is no reason to abort a run.
                let _ = std::io::stdout().write_all(text.as_bytes());
            }
        }
    }
}

/// The resident clusters of a worker, in the order of their turns.
struct Residents<'a> {
    shared: &'a Shared<'a>,
    line: VecDeque<Resident>,
    /// Storage of finished clusters.
    idle: Vec<Resident>,
    /// Progress elsewhere at the time of the latest wait.
    seen_elsewhere: u64,
    /// Turns that ended with a wait since another cluster became resident.
    waits: usize,
}

impl<'a> Residents<'a> {
    /// Makes an empty list, or one of all of this worker's clusters for a cooperative launch.
    fn new(shared: &'a Shared<'a>, worker: u64, cx: &Context<'_>) -> Self {
        let mut all = Self { shared, line: VecDeque::new(), idle: Vec::new(), seen_elsewhere: NEVER, waits: 0 };
        if shared.cooperative {
            let mut index = worker;
            while index < shared.clusters {
                all.admit(shared.cluster_at(index), cx);
                index += shared.workers;
            }
            all.line.make_contiguous().reverse();
        }
        all
    }

    fn admit(&mut self, index: u64, cx: &Context<'_>) {
        let mut cluster = self.idle.pop().unwrap_or_else(|| Resident::new(self.shared.geometry));
        cluster.start(index, self.shared.check.as_deref(), cx);
        self.line.push_front(cluster);
    }

    /// The cluster with the next turn, if any is left.
    fn next(&mut self, cx: &Context<'_>) -> Option<Resident> {
        if self.line.is_empty() && !self.shared.cooperative {
            self.admit(self.shared.take()?, cx);
        }
        self.line.pop_front()
    }

    /// Makes another cluster resident because one waits, unless other workers make progress that
    /// may end the wait. (Otherwise the blocks of a chain would all become resident, and poll.)
    /// `elsewhere` is the progress of the other workers.
    fn make_way(&mut self, elsewhere: u64, cx: &Context<'_>) {
        self.waits += 1;
        let goes_on = std::mem::replace(&mut self.seen_elsewhere, elsewhere) != elsewhere;
        let most = MAX_RESIDENT / usize::try_from(self.shared.geometry.cluster_blocks()).expect("small clusters");
        if !self.shared.cooperative
            && self.line.len() < most
            && (!goes_on || self.waits > WAITS_BESIDE_OTHERS * self.line.len())
            && let Some(index) = self.shared.take()
        {
            self.waits = 0;
            self.admit(index, cx);
        }
        if self.line.len() == 1 {
            // It waits for something on another worker.
            std::thread::yield_now();
        }
    }
}

/// Runs one worker.
fn work(shared: &Shared<'_>, worker: u64, global: GlobalView, params: Arc<[u8]>) -> Harvest {
    let code = shared.code;
    let mut m = shared.machine(global, params);
    let mut counts: BlockCounts = vec![(0, 0); code.blocks.len()];
    let mut trap = None;
    let mut cx = Context { code, geometry: shared.geometry, counts: &mut counts, trap: &mut trap };
    let mut residents = Residents::new(shared, worker, &cx);
    let (mut seen_progress, mut idle_since, mut executed, mut own_progress) = (0, 0u64, 0u64, 0u64);
    while !shared.stop.load(Ordering::Relaxed)
        && let Some(mut cluster) = residents.next(&cx)
    {
        let before = cluster.clock();
        m.progress = false;
        let turn = cluster.turn(&mut m, &mut cx);
        executed += cluster.clock().wrapping_sub(before);
        if m.progress {
            shared.progress.fetch_add(1, Ordering::Relaxed);
            own_progress += 1;
        }
        match turn {
            Turn::Done => {
                cluster.blocks.iter_mut().for_each(|block| shared.finish_block(block));
                own_progress += cluster.blocks.len() as u64;
                cluster.blocks.iter().for_each(|block| m.leave_l1(block.index));
                if shared.is_told_to_stop() && shared.done.load(Ordering::Relaxed) < shared.blocks {
                    shared.endless(&mut cluster, &mut m);
                    break;
                }
                residents.idle.push(cluster);
            }
            Turn::Yield => {
                let progress = shared.progress.load(Ordering::Relaxed);
                if progress != seen_progress {
                    (seen_progress, idle_since) = (progress, executed);
                }
                if executed > shared.options.limit || shared.is_told_to_stop() {
                    shared.endless(&mut cluster, &mut m);
                    break;
                }
                if executed - idle_since > shared.options.patience {
                    if shared.is_deadlock(worker, progress) {
                        stuck(&mut cluster, &mut m, code, FindingKind::Deadlock);
                        shared.tell_of_blocks_to_come(&mut m);
                        shared.abort(&mut cluster);
                        break;
                    }
                    idle_since = executed;
                }
                residents.line.push_back(cluster);
                if m.waiting {
                    residents.make_way(progress.wrapping_sub(own_progress), &cx);
                }
            }
            Turn::Stuck => {
                cluster.blocks.iter_mut().for_each(|block| block.stuck_barriers(&mut m));
                stuck(&mut cluster, &mut m, code, FindingKind::Deadlock);
                shared.abort(&mut cluster);
            }
            Turn::Stopped => shared.abort(&mut cluster),
        }
    }
    shared.stalled_at[worker as usize].store(HAS_ENDED, Ordering::SeqCst);
    let found = m.checking.map(|c| c.findings).unwrap_or_default();
    let recording = m.recording.map(|recording| *recording).unwrap_or_default();
    Harvest { counts, counters: m.counters, recording, faults: m.faults, found, trap }
}

/// Records that a cluster is deadlocked.
fn stuck(cluster: &mut Resident, m: &mut Machine, code: &Code, kind: FindingKind) {
    let at = cluster.blocks.iter_mut().find_map(|block| Some((block.index, block.stuck_at(code)?)));
    let nowhere = || (cluster.blocks[0].index, (0, 0, "nothing can run".to_owned()));
    let (block, (instruction, thread, rule)) = at.unwrap_or_else(nowhere);
    let fault = Fault { kind, severity: Severity::Error, instruction, block, thread, address: None, other: None, rule };
    m.fault(fault, true);
}

/// The variables of shared memory, including dynamic shared memory.
fn shared_map(code: &Code, geometry: &Geometry) -> Arc<[Placed]> {
    let mut map = code.shared.clone();
    if geometry.dynamic_shared != 0 {
        map.push(Placed {
            name: match &code.dynamic_shared {
                Some(name) => format!("dynamic shared memory ({name})"),
                None => "dynamic shared memory".to_owned(),
            },
            offset: geometry.shared_bytes - geometry.dynamic_shared,
            bytes: geometry.dynamic_shared,
        });
    }
    map.into()
}
