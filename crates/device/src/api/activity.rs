//! Profiler tables: copies, fills and launches of a device, summed by activity, and the driver
//! calls behind them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::Error;
use crate::api::device::Device;
use crate::backend::{BackendEvent, Clock, Span};

/// A kind of work.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ActivityKind {
    /// Launches of the kernel of this name.
    Kernel(String),
    /// Copies from the host.
    HostToDevice,
    /// Copies to the host.
    DeviceToHost,
    /// Copies within the device.
    DeviceToDevice,
    /// Fills (memset).
    Fill,
}

impl std::fmt::Display for ActivityKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Kernel(name) => name,
            Self::HostToDevice => "[memcpy host to device]",
            Self::DeviceToHost => "[memcpy device to host]",
            Self::DeviceToDevice => "[memcpy device to device]",
            Self::Fill => "[memset]",
        })
    }
}

/// One row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// The kind of activity.
    pub kind: ActivityKind,
    /// Number of times.
    pub calls: u64,
    /// Bytes copied or set; 0 for kernels.
    pub bytes: u64,
    /// Device time; `None` on the virtual GPU, which has no clock.
    pub time: Option<ActivityTime>,
}

/// Device time of the calls of one activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActivityTime {
    /// All calls together.
    pub total: Duration,
    /// A call on average.
    pub average: Duration,
    /// The shortest call.
    pub min: Duration,
    /// The longest call.
    pub max: Duration,
}

/// Calls of one function of the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiCall {
    /// The function, without its version: `cuLaunchKernelEx`. On the virtual GPU, its equivalent.
    pub name: &'static str,
    /// Number of calls.
    pub calls: u64,
    /// Host time, with that of the events that device times come from; `None` on the virtual GPU.
    pub time: Option<ActivityTime>,
}

/// One piece of work in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interval {
    /// The activity, or the function of the driver.
    pub name: String,
    /// True if it ran on the host, false if on the device.
    pub is_call: bool,
    /// Start, relative to that of the recording.
    pub start: Duration,
    /// Time that it took.
    pub duration: Duration,
}

/// The result of a recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Totals per activity, the longest first; without times, kernels first.
    pub activities: Vec<Activity>,
    /// Totals per function of the driver, the longest first.
    pub calls: Vec<ApiCall>,
    /// Each piece of work and each call, in order; empty on the virtual GPU, which has no clock.
    pub timeline: Vec<Interval>,
}

/// Profiling.
impl Device {
    /// Starts to record every copy, fill and launch, with its device time if there is a clock.
    /// Earlier records are dropped.
    pub fn start_activity(&self) {
        // Without the event there are times, but no timeline.
        let base = self.default_stream().imp().record(Clock::On).ok();
        let began = (!self.is_virtual()).then(Instant::now);
        *self.activity().lock() = Some(Recording { entries: Vec::new(), calls: Vec::new(), base, began, pauses: 0 });
    }

    /// Runs `work` without recording it: for a benchmark's own work.
    pub fn unrecorded<R>(&self, work: impl FnOnce() -> R) -> R {
        self.activity().pause(1);
        let result = work();
        self.activity().pause(-1);
        result
    }

    /// Runs `work` with recording, even inside of [unrecorded](Self::unrecorded) work: for the
    /// measured part of a benchmark.
    pub fn recorded<R>(&self, work: impl FnOnce() -> R) -> R {
        self.activity().pause(-1);
        let result = work();
        self.activity().pause(1);
        result
    }

    /// Ends the recording that [`Device::start_activity`] began, waits for the work, and sums it
    /// up: the longest activities first; without times, kernels first. Empty if no recording was
    /// started.
    ///
    /// # Errors
    /// [`ErrorKind::LaunchFailed`](crate::ErrorKind::LaunchFailed) if a kernel failed.
    pub fn finish_activity(&self) -> Result<Vec<Activity>, Error> {
        Ok(self.finish_recording()?.activities)
    }

    /// Like [`Device::finish_activity`], with the driver's calls and each piece of work's interval.
    ///
    /// ```
    /// use warpfold_device::{Device, Profile};
    /// let device = Device::virtual_gpu(Profile::H200);
    /// device.start_activity();
    /// let buffer = device.upload(&[1.0_f32, 2.0])?;
    /// let recorded = device.finish_recording()?;
    /// assert_eq!((recorded.activities[0].calls, recorded.activities[0].bytes), (1, 8));
    /// assert!(recorded.calls.iter().any(|call| call.name == "cuMemcpyHtoDAsync"));
    /// # drop(buffer);
    /// # Ok::<(), warpfold_device::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::LaunchFailed`](crate::ErrorKind::LaunchFailed) if a kernel failed.
    pub fn finish_recording(&self) -> Result<Recorded, Error> {
        let Some(recording) = self.activity().lock().take() else { return Ok(Recorded::default()) };
        self.synchronize()?;
        let Recording { entries, calls, base, .. } = recording;
        let mut recorded = Recorded::default();
        let table = &mut recorded.activities;
        for Entry { kind, bytes, span } in entries {
            let time = match &span {
                Some(Span { start, end }) => end.elapsed_since(&**start)?,
                None => None,
            };
            if let (Some(duration), Some(span), Some(base)) = (time, &span, &base)
                && let Some(start) = span.start.elapsed_since(&**base)?
            {
                recorded.timeline.push(Interval { name: kind.to_string(), is_call: false, start, duration });
            }
            match table.iter_mut().find(|row| row.kind == kind) {
                Some(row) => row.add(bytes, time),
                None => table.push(Activity { kind, calls: 1, bytes, time: time.map(ActivityTime::of) }),
            }
        }
        table.sort_by(|a, b| {
            let total = |row: &Activity| row.time.map(|t| t.total);
            total(b).cmp(&total(a)).then_with(|| a.kind.cmp(&b.kind))
        });
        let has_clock = !self.is_virtual();
        for Call { name, start, duration } in calls {
            let time = has_clock.then_some(duration);
            match recorded.calls.iter_mut().find(|row| row.name == name) {
                Some(row) => (row.calls, row.time) = (row.calls + 1, added(row.time, time, row.calls + 1)),
                None => recorded.calls.push(ApiCall { name, calls: 1, time: time.map(ActivityTime::of) }),
            }
            if has_clock {
                recorded.timeline.push(Interval { name: name.to_owned(), is_call: true, start, duration });
            }
        }
        recorded.calls.sort_by_key(|row| (std::cmp::Reverse(row.time.map(|time| time.total)), row.name));
        recorded.timeline.sort_by_key(|interval| interval.start);
        Ok(recorded)
    }
}

impl ActivityTime {
    fn of(time: Duration) -> Self {
        Self { total: time, average: time, min: time, max: time }
    }
}

/// Adds a call's time to a sum; `None` if a time is missing, since a partial sum would be wrong.
fn added(sum: Option<ActivityTime>, time: Option<Duration>, calls: u64) -> Option<ActivityTime> {
    let (sum, time) = (sum?, time?);
    let total = sum.total + time;
    let average = Duration::from_secs_f64(total.as_secs_f64() / calls as f64);
    Some(ActivityTime { total, average, min: sum.min.min(time), max: sum.max.max(time) })
}

impl Activity {
    fn add(&mut self, bytes: u64, time: Option<Duration>) {
        self.calls += 1;
        self.bytes += bytes;
        self.time = added(self.time, time, self.calls);
    }
}

/// One operation.
#[derive(Debug)]
struct Entry {
    kind: ActivityKind,
    bytes: u64,
    span: Option<Span>,
}

/// One call of the driver.
#[derive(Debug)]
struct Call {
    name: &'static str,
    start: Duration,
    duration: Duration,
}

/// The recording of a device.
#[derive(Debug)]
struct Recording {
    entries: Vec<Entry>,
    calls: Vec<Call>,
    /// Event at the start of the recording.
    base: Option<Arc<dyn BackendEvent>>,
    /// Start; `None` on the virtual GPU, whose calls have no times.
    began: Option<Instant>,
    /// Number of nested requests to pause the recording.
    pauses: i32,
}

/// The recording of a device; `None` while it does not record.
#[derive(Debug, Default)]
pub(crate) struct Recorder(Mutex<Option<Recording>>);

impl Recorder {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Recording>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `then` on the recording, unless it is paused.
    fn with<R>(&self, then: impl FnOnce(&mut Recording) -> R) -> Option<R> {
        self.lock().as_mut().filter(|recording| recording.pauses <= 0).map(then)
    }

    fn pause(&self, by: i32) {
        if let Some(recording) = &mut *self.lock() {
            recording.pauses += by;
        }
    }

    pub(crate) fn clock(&self) -> Clock {
        if self.with(|_| ()).is_some() { Clock::On } else { Clock::Off }
    }

    pub(crate) fn add(&self, kind: ActivityKind, bytes: u64, span: Option<Span>) {
        self.with(|recording| recording.entries.push(Entry { kind, bytes, span }));
    }

    /// Runs `work` and records it as a call of a driver function.
    pub(crate) fn call<R>(&self, name: &'static str, work: impl FnOnce() -> R) -> R {
        let now = |recording: &mut Recording| recording.began.map_or(Duration::ZERO, |began| began.elapsed());
        let start = self.with(now);
        let result = work();
        if let Some(start) = start {
            self.with(|recording| {
                let duration = now(recording).saturating_sub(start);
                recording.calls.push(Call { name, start, duration });
            });
        }
        result
    }
}

impl ActivityKind {
    /// The driver function that performs the operation.
    pub(crate) const fn call(&self) -> &'static str {
        match self {
            Self::Kernel(_) => "cuLaunchKernelEx",
            Self::HostToDevice => "cuMemcpyHtoDAsync",
            Self::DeviceToHost => "cuMemcpyDtoHAsync",
            Self::DeviceToDevice => "cuMemcpyDtoDAsync",
            Self::Fill => "cuMemsetD8Async",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_activity_without_the_time_of_every_call_has_no_time() {
        let second = Duration::from_secs(1);
        let time = ActivityTime { total: second, average: second, min: second, max: second };
        let mut row = Activity { kind: ActivityKind::Fill, calls: 1, bytes: 8, time: Some(time) };
        row.add(8, Some(3 * second));
        let expected = ActivityTime { total: 4 * second, average: 2 * second, min: second, max: 3 * second };
        assert_eq!((row.calls, row.bytes, row.time), (2, 16, Some(expected)));
        row.add(8, None);
        assert_eq!((row.calls, row.time), (3, None));
    }
}
