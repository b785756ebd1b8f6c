//! The table of a profiler: copies, fills and launches of a device, summed by activity.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::Error;
use crate::api::device::Device;
use crate::backend::{Clock, Span};

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
    /// What was done.
    pub kind: ActivityKind,
    /// How often.
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

/// Profiling.
impl Device {
    /// Starts to record every copy, fill and launch, with its device time where there is a clock.
    /// Earlier records are dropped.
    pub fn start_activity(&self) {
        *self.activity().lock() = Some(Vec::new());
    }

    /// Ends the recording that [`Device::start_activity`] began, waits for the work, and sums it
    /// up: the longest first, and without times kernels first. Empty if nothing was started.
    ///
    /// # Errors
    /// [`ErrorKind::LaunchFailed`](crate::ErrorKind::LaunchFailed) if a kernel failed.
    pub fn finish_activity(&self) -> Result<Vec<Activity>, Error> {
        let entries = self.activity().lock().take().unwrap_or_default();
        self.synchronize()?;
        let mut table: Vec<Activity> = Vec::new();
        for Entry { kind, bytes, span } in entries {
            let time = match span {
                Some(Span { start, end }) => end.elapsed_since(&*start)?,
                None => None,
            };
            match table.iter_mut().find(|row| row.kind == kind) {
                Some(row) => row.add(bytes, time),
                None => {
                    let time = time.map(|t| ActivityTime { total: t, average: t, min: t, max: t });
                    table.push(Activity { kind, calls: 1, bytes, time });
                }
            }
        }
        table.sort_by(|a, b| {
            let total = |row: &Activity| row.time.map(|t| t.total);
            total(b).cmp(&total(a)).then_with(|| a.kind.cmp(&b.kind))
        });
        Ok(table)
    }
}

impl Activity {
    fn add(&mut self, bytes: u64, time: Option<Duration>) {
        self.calls += 1;
        self.bytes += bytes;
        self.time = match (self.time, time) {
            (Some(sum), Some(t)) => {
                let total = sum.total + t;
                let average = Duration::from_secs_f64(total.as_secs_f64() / self.calls as f64);
                Some(ActivityTime { total, average, min: sum.min.min(t), max: sum.max.max(t) })
            }
            // A sum over some of the calls would be a made-up time.
            _ => None,
        };
    }
}

/// One operation.
#[derive(Debug)]
struct Entry {
    kind: ActivityKind,
    bytes: u64,
    span: Option<Span>,
}

/// What a device has recorded; `None` while it does not record.
#[derive(Debug, Default)]
pub(crate) struct Recorder(Mutex<Option<Vec<Entry>>>);

impl Recorder {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Vec<Entry>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn clock(&self) -> Clock {
        if self.lock().is_some() { Clock::On } else { Clock::Off }
    }

    pub(crate) fn add(&self, kind: ActivityKind, bytes: u64, span: Option<Span>) {
        if let Some(entries) = &mut *self.lock() {
            entries.push(Entry { kind, bytes, span });
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
