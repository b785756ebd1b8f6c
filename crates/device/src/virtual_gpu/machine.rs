//! The virtual GPU's device: simulated memory and programs, launched one after the other.

use std::any::Any;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpfold_sim as sim;

use super::reports::LaunchReport;
use super::stream::VirtualStream;
use super::together::{Part, Together};
use crate::backend::{
    Backend, BackendFunction, BackendHostMemory, BackendModule, BackendStream, Begin, DeviceKind, FunctionInfo,
    LaunchConfig, LaunchSite, Limits, Link, Param, Places, Profile, Properties,
};
use crate::{Error, ErrorKind};

/// The `.version` of kernels for the virtual GPU: that of the first CUDA 13 toolkit.
const PTX_VERSION: (u32, u32) = (9, 0);

/// Kernel name in reports of copies to the host.
pub(super) const HOST_READ: &str = "copy to the host";

// THRESHOLD: the oldest report without findings makes room, and then the oldest with findings,
// which is said when the device goes away; tested by
// crates/device/src/api/reports.rs::reports_with_findings_outlive_those_without
/// Reports kept until they are taken.
const KEPT_REPORTS: usize = 1024;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A virtual GPU.
#[derive(Debug)]
pub(crate) struct VirtualGpu {
    machine: Arc<Machine>,
    stream: Arc<VirtualStream>,
}

impl VirtualGpu {
    pub(crate) fn new(profile: Profile, memory_bytes: u64) -> Self {
        Self::with(profile, memory_bytes, sim::Memory::new(memory_bytes))
    }

    /// Creates a device with peer access in both directions.
    pub(crate) fn peer(&self) -> Self {
        let DeviceKind::Virtual(profile) = self.machine.properties.kind else {
            unreachable!("a virtual GPU is of the virtual kind");
        };
        let bytes = self.machine.properties.limits.memory_bytes;
        Self::with(profile, bytes, self.machine.memory.peer(bytes))
    }

    fn with(profile: Profile, memory_bytes: u64, memory: sim::Memory) -> Self {
        static IDENTITIES: AtomicU64 = AtomicU64::new(0);
        let properties = Properties {
            kind: DeviceKind::Virtual(profile),
            name: format!("virtual GPU as {}", profile.name().to_uppercase()),
            arch: profile.arch(),
            limits: Limits { memory_bytes, ..profile.limits() },
            driver: None,
            ptx_version: PTX_VERSION,
            identity: IDENTITIES.fetch_add(1, Ordering::Relaxed),
        };
        let machine = Arc::new(Machine {
            properties,
            memory,
            options: Mutex::new(sim::Options::default()),
            reports: Mutex::new(Reports::default()),
            running: Mutex::new(()),
            waits: AtomicU64::new(0),
            pending: Mutex::default(),
            driver: Mutex::default(),
        });
        Self { stream: Arc::new(VirtualStream::new(&machine)), machine }
    }

    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }
}

/// State shared by the streams and programs of a virtual GPU.
pub(crate) struct Machine {
    pub(super) properties: Properties,
    pub(super) memory: sim::Memory,
    options: Mutex<sim::Options>,
    reports: Mutex<Reports>,
    /// Lock held during a launch, so that launches of several threads run one after the other.
    running: Mutex<()>,
    /// Number of host waits; each counts as a wait for everything.
    pub(super) waits: AtomicU64,
    /// Launches over several devices whose peers have not come yet.
    pending: Mutex<Vec<Pending>>,
    /// The driver's lock, if launches over several devices are late.
    driver: Mutex<Option<Arc<Mutex<()>>>>,
}

/// A launch to which a rank has contributed: the meeting point, the rank, the round.
type Pending = (Arc<Together>, usize, u64);

/// Reports of launches, the latest last.
#[derive(Debug)]
pub(crate) struct Reports {
    kept: VecDeque<LaunchReport>,
    /// Maximum number of reports kept.
    pub(crate) room: usize,
    /// Number of dropped reports with errors, and the first one's kernel and finding.
    pub(crate) lost: Option<(u64, String)>,
    launches: u64,
    /// Number of launches that returned `Ok` with unread findings of severity error, and the first
    /// one's kernel and finding.
    unread: Option<(u64, String)>,
}

impl Reports {
    /// The latest report; the caller reads its findings.
    pub(crate) fn last(&mut self) -> Option<LaunchReport> {
        self.unread = None;
        self.kept.back().cloned()
    }

    /// Takes all reports.
    pub(crate) fn take(&mut self) -> Vec<LaunchReport> {
        self.unread = None;
        self.kept.drain(..).collect()
    }

    /// Keeps a report. Drops the oldest one without findings, or else the oldest one, if there is
    /// no room.
    fn keep(&mut self, report: LaunchReport) {
        if self.kept.len() >= self.room {
            let clean = self.kept.iter().position(|kept| kept.report.findings.is_empty());
            let dropped = self.kept.remove(clean.unwrap_or(0));
            dropped.iter().for_each(|dropped| count_errors(&mut self.lost, dropped));
        }
        self.kept.push_back(report);
    }

    /// Notes the report of a launch that returned `Ok`, if it has errors.
    fn note_unread(&mut self, report: &LaunchReport) {
        count_errors(&mut self.unread, report);
    }

    /// Warning about unread errors when the device is dropped.
    pub(crate) fn last_words(&self) -> Option<String> {
        let (count, first) = self.unread.as_ref().or(self.lost.as_ref())?;
        let launches = if *count == 1 { "a launch".to_owned() } else { format!("{count} launches") };
        Some(format!(
            "warning: {launches} on a virtual GPU found errors, and nobody has read the reports; the first: {first} \
             (Device::last_report and take_reports have them, Checks::Deny makes them errors)"
        ))
    }
}

impl Default for Reports {
    fn default() -> Self {
        Self { kept: VecDeque::new(), room: KEPT_REPORTS, lost: None, launches: 0, unread: None }
    }
}

/// Adds a report to a count of those with errors, if it has any.
fn count_errors(counted: &mut Option<(u64, String)>, report: &LaunchReport) {
    let mut errors = report.report.findings.iter().filter(|finding| finding.severity == sim::Severity::Error);
    let Some(first) = errors.next() else { return };
    let (count, _) = counted.get_or_insert_with(|| (0, format!("{}: {}", report.kernel, first.rule)));
    *count += 1;
}

impl Drop for Machine {
    fn drop(&mut self) {
        let reports = self.reports.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(words) = reports.last_words().filter(|_| !std::thread::panicking()) {
            use std::io::Write as _;
            // A closed standard error cannot be reported anywhere.
            let _ = writeln!(std::io::stderr(), "{words}");
        }
    }
}

impl Machine {
    pub(crate) fn options(&self) -> MutexGuard<'_, sim::Options> {
        self.options.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn reports(&self) -> MutexGuard<'_, Reports> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Contributes a rank's part to a launch over several devices. It has run on return, or is
    /// pending if launches are late.
    pub(super) fn give(&self, meeting: &Arc<Together>, rank: usize, part: Part) -> Result<(), Error> {
        match (meeting.give(rank, part)?, meeting.driver()) {
            (None, _) => Ok(()),
            (Some(round), None) => meeting.end(rank, round),
            (Some(round), Some(driver)) => {
                *lock(&self.driver) = Some(driver.clone());
                lock(&self.pending).push((meeting.clone(), rank, round));
                Ok(())
            }
        }
    }

    /// Waits for launches that peers have not joined yet: they keep the device busy.
    pub(super) fn end_pending(&self) -> Result<(), Error> {
        let pending = std::mem::take(&mut *lock(&self.pending));
        pending.into_iter().try_for_each(|(meeting, rank, round)| meeting.end(rank, round))
    }

    /// Like [`Self::end_pending`], under the driver's lock, if there is one.
    fn end_pending_as_driver(&self) -> Result<(), Error> {
        let driver = lock(&self.driver).clone();
        let _held = driver.as_deref().map(lock);
        self.end_pending()
    }

    /// Counts a wait of the host.
    pub(super) fn wait(&self) {
        self.waits.fetch_add(1, Ordering::Relaxed);
    }

    /// Runs one launch over several devices, and stores its report in each of them.
    pub(super) fn launch_together(
        machines: &[&Self],
        function: &VirtualFunction,
        config: &LaunchConfig,
        params: &[Vec<u8>],
    ) -> Result<(), Error> {
        let site = LaunchSite::new(&function.info.name, config);
        let (first, launch) = (machines[0], launch_of(&site, config, &params[0]));
        let options = first.options().clone();
        let report = function.program.launch_on_devices(&first.memory, &launch, &options, params);
        let (report, failure) = outcome(report, &site)?;
        let is_ok = failure.is_none();
        machines.iter().for_each(|machine| machine.keep(site.clone(), *config, report.clone(), is_ok));
        failure.map_or(Ok(()), |reason| Err(ErrorKind::LaunchFailed { launches: vec![site], reason }.into()))
    }

    pub(super) fn launch(
        &self,
        function: &VirtualFunction,
        config: &LaunchConfig,
        (stream, begin): (&sim::Stream, Begin),
        (params, granted): (&[u8], &[sim::Granted]),
    ) -> Result<(), Error> {
        let site = LaunchSite::new(&function.info.name, config);
        self.check_residence(&function.info, config)?;
        let launch = sim::Launch { programmatic: begin == Begin::Early, ..launch_of(&site, config, params) };
        let options =
            sim::Options { stream: Some(stream.clone()), granted: granted.to_vec(), ..self.options().clone() };
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let report = function.program.launch(&self.memory, &launch, &options);
        drop(running);
        let (report, failure) = outcome(report, &site)?;
        self.keep(site.clone(), *config, report, failure.is_none());
        match failure {
            None => Ok(()),
            Some(reason) => Err(ErrorKind::LaunchFailed { launches: vec![site], reason }.into()),
        }
    }

    /// Refuses a cooperative launch whose blocks cannot all be resident, as the driver does.
    fn check_residence(&self, info: &FunctionInfo, config: &LaunchConfig) -> Result<(), Error> {
        if !config.cooperative {
            return Ok(());
        }
        let usage = sim::occupancy::Usage {
            threads: config.block.iter().product(),
            registers_per_thread: info.registers,
            static_shared: info.static_shared,
            dynamic_shared: config.dynamic_shared,
        };
        let occupancy = sim::occupancy::occupancy(self.properties.arch, &usage);
        let most = u64::from(occupancy.blocks_per_sm) * u64::from(self.properties.limits.num_sms);
        let blocks: u64 = config.grid.iter().map(|&n| u64::from(n)).product();
        if blocks <= most {
            return Ok(());
        }
        let reason = format!("{blocks} blocks are too many for a cooperative launch: {most} are resident at once");
        Err(ErrorKind::InvalidLaunch { site: LaunchSite::new(&info.name, config), reason }.into())
    }

    /// Checks a copy to the host, if launches are checked: all of its bytes must have been written.
    pub(super) fn check_host_read(&self, address: u64, bytes: u64) -> Result<(), Error> {
        let checks = self.options().checks;
        if checks == sim::Checks::None || bytes == 0 {
            return Ok(());
        }
        let Some(finding) = self.memory.host_read(address, bytes).map_err(host_access)? else { return Ok(()) };
        if checks == sim::Checks::Deny {
            return Err(host_access(sim::Error::HostRead(Box::new(finding))));
        }
        let mut reports = self.reports();
        let (number, kernel) = (reports.launches, HOST_READ.to_owned());
        let report = sim::Report { findings: vec![finding], ..sim::Report::default() };
        let report = LaunchReport { number, kernel, config: LaunchConfig::new(0, 0), report };
        reports.note_unread(&report);
        reports.keep(report);
        Ok(())
    }

    fn keep(&self, site: LaunchSite, config: LaunchConfig, report: sim::Report, is_ok: bool) {
        let mut reports = self.reports();
        let number = reports.launches;
        reports.launches += 1;
        let report = LaunchReport { number, kernel: site.kernel, config, report };
        if is_ok {
            reports.note_unread(&report);
        }
        reports.keep(report);
    }
}

fn launch_of(site: &LaunchSite, config: &LaunchConfig, params: &[u8]) -> sim::Launch {
    sim::Launch {
        kernel: site.kernel.clone(),
        grid: config.grid,
        block: config.block,
        cluster: config.cluster.unwrap_or([1, 1, 1]),
        dynamic_shared: config.dynamic_shared,
        params: params.to_vec(),
        cooperative: config.cooperative,
        programmatic: false,
    }
}

/// The report of a launch, and the reason of its failure.
fn outcome(report: Result<sim::Report, sim::Error>, site: &LaunchSite) -> Result<(sim::Report, Option<String>), Error> {
    let (report, denied) = match report {
        Err(sim::Error::Findings { report, .. }) => {
            let all: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
            (*report, Some(all.join("\n")))
        }
        report => (report.map_err(|e| launch_error(site.clone(), e))?, None),
    };
    let failure = denied.or_else(|| report.aborted.then(|| failure(&report)));
    Ok((report, failure))
}

/// The reason why a run was aborted: its last error.
fn failure(report: &sim::Report) -> String {
    let error = report.findings.iter().rfind(|finding| finding.severity == sim::Severity::Error);
    error.map_or_else(|| "the run was ended early".to_owned(), ToString::to_string)
}

fn launch_error(site: LaunchSite, e: sim::Error) -> Error {
    match e {
        sim::Error::InvalidLaunch { reason, .. } => ErrorKind::InvalidLaunch { site, reason },
        e @ sim::Error::Trap { .. } => ErrorKind::LaunchFailed { launches: vec![site], reason: e.to_string() },
        e => ErrorKind::InvalidLaunch { site, reason: e.to_string() },
    }
    .into()
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine").field("properties", &self.properties).finish_non_exhaustive()
    }
}

impl Backend for VirtualGpu {
    fn properties(&self) -> &Properties {
        &self.machine.properties
    }

    fn default_stream(&self) -> Arc<dyn BackendStream> {
        self.stream.clone()
    }

    fn new_stream(&self) -> Result<Arc<dyn BackendStream>, Error> {
        Ok(Arc::new(VirtualStream::new(&self.machine)))
    }

    fn allocate(&self, bytes: u64, name: &str) -> Result<u64, Error> {
        self.machine.end_pending_as_driver()?;
        self.machine.memory.allocate(bytes, name).map_err(|e| match e {
            sim::Error::OutOfMemory { requested, free, capacity: total } => {
                let device = self.machine.properties.name.clone();
                ErrorKind::OutOfMemory { device, requested, free, total }.into()
            }
            e => host_access(e),
        })
    }

    fn free(&self, address: u64, _last: &dyn BackendStream) {
        // The error of a launch, which every later call of its rank returns, too.
        let _ = self.machine.end_pending();
        let freed = self.machine.memory.free(address);
        debug_assert!(freed.is_ok(), "an allocation is freed once, by its owner: {freed:?}");
    }

    fn host_address(&self, address: u64, bytes: u64) -> Option<*const u8> {
        self.machine.memory.host_address(address, bytes).ok()
    }

    fn memory(&self) -> Result<(u64, u64), Error> {
        let memory = &self.machine.memory;
        Ok((memory.capacity() - memory.used(), memory.capacity()))
    }

    fn host_memory(&self, bytes: usize) -> Result<Box<dyn BackendHostMemory>, Error> {
        Ok(Box::new(PlainMemory { words: vec![0; bytes.div_ceil(8)], bytes }))
    }

    fn encode_tensor_map(&self, map: &sim::TensorMap) -> Result<[u8; 128], Error> {
        Ok(map.encode().map_err(ErrorKind::TensorMap)?)
    }

    fn link(&self, other: &dyn Backend) -> Result<Link, Error> {
        let any: &dyn Any = other;
        let other: Option<&Self> = any.downcast_ref();
        Ok(match other {
            Some(other) if Arc::ptr_eq(&self.machine, &other.machine) => Link::Same,
            Some(other) if self.machine.memory.is_peer_of(&other.machine.memory) => Link::Virtual,
            _ => Link::Host,
        })
    }

    fn enable_peer(&self, _other: &dyn Backend) -> Result<(), Error> {
        Ok(())
    }

    fn load(&self, ptx: &str) -> Result<Arc<dyn BackendModule>, Error> {
        let machine = &self.machine;
        machine.end_pending_as_driver()?;
        let program = sim::Program::load(&machine.memory, ptx, machine.properties.arch).map_err(ErrorKind::Load)?;
        Ok(Arc::new(VirtualModule { program: Arc::new(program) }))
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.machine.end_pending()?;
        self.machine.wait();
        Ok(())
    }
}

pub(super) fn host_access(e: sim::Error) -> Error {
    ErrorKind::HostAccess(e).into()
}

/// A loaded program of the simulator.
struct VirtualModule {
    program: Arc<sim::Program>,
}

impl BackendModule for VirtualModule {
    fn function(self: Arc<Self>, name: &str) -> Result<Arc<dyn BackendFunction>, Error> {
        let known = || self.program.kernels().iter().map(|kernel| kernel.name.clone()).collect();
        let kernel = self
            .program
            .kernel(name)
            .map_err(|_| ErrorKind::UnknownKernel { name: name.to_owned(), known: known() })?;
        let info = FunctionInfo {
            name: kernel.name.clone(),
            places: Places::Packed,
            params: Some(kernel.params.iter().map(|p| Param { offset: p.offset, bytes: p.bytes }).collect()),
            static_shared: kernel.static_shared,
            max_threads: kernel.max_threads,
            required_block: kernel.required_block,
            required_cluster: kernel.required_cluster,
            registers: kernel.registers,
            programmatic: false,
        };
        Ok(Arc::new(VirtualFunction { program: self.program.clone(), info }))
    }

    fn global(&self, name: &str) -> Option<(u64, u64)> {
        self.program.global(name)
    }
}

impl std::fmt::Debug for VirtualModule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VirtualModule").finish_non_exhaustive()
    }
}

/// A kernel of a program.
#[derive(Clone)]
pub(super) struct VirtualFunction {
    program: Arc<sim::Program>,
    info: FunctionInfo,
}

impl VirtualFunction {
    pub(super) fn name(&self) -> &str {
        &self.info.name
    }
}

impl BackendFunction for VirtualFunction {
    fn info(&self) -> &FunctionInfo {
        &self.info
    }

    fn max_active_clusters(&self, config: &LaunchConfig) -> Result<u32, Error> {
        let usage = sim::occupancy::Usage {
            threads: config.block.iter().product(),
            registers_per_thread: self.info.registers,
            static_shared: self.info.static_shared,
            dynamic_shared: config.dynamic_shared,
        };
        let blocks = config.cluster.map_or(1, |cluster| cluster.iter().product());
        Ok(sim::occupancy::active_clusters(self.program.arch(), &usage, blocks))
    }
}

impl std::fmt::Debug for VirtualFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("VirtualFunction").field(&self.info.name).finish()
    }
}

/// Host memory as words, so that every element type is aligned.
#[derive(Debug)]
struct PlainMemory {
    words: Vec<u64>,
    bytes: usize,
}

impl BackendHostMemory for PlainMemory {
    fn bytes(&self, range: Range<usize>) -> Result<&[u8], Error> {
        Ok(&bytemuck::cast_slice(&self.words)[..self.bytes][range])
    }

    fn bytes_mut(&mut self, range: Range<usize>) -> Result<&mut [u8], Error> {
        Ok(&mut bytemuck::cast_slice_mut(&mut self.words)[..self.bytes][range])
    }

    fn word(&self, _index: usize) -> Option<&AtomicU32> {
        None
    }

    fn device_address(&self) -> Option<u64> {
        None
    }
}
