//! `--profile`: what a device was given to do, by activity, and the calls of the driver behind it,
//! as the two tables of a profiler. Without a clock they have calls and bytes alone.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use warpfold_device::{Activity, ActivityTime, ApiCall, Device, Recorded};

use crate::failure::Failure;
use crate::host;
use crate::output;
use crate::table::{Table, grouped, time};

/// Profiling options of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Profile")]
pub(crate) struct Options {
    /// Add what the device was given to do, by activity, and the calls of the driver. Timing each
    /// launch by itself slows a run on a GPU.
    #[arg(long)]
    profile: bool,
    /// Write the profile to a file, as JSON.
    #[arg(long, value_name = "FILE")]
    profile_json: Option<PathBuf>,
    /// Write each copy, fill, launch and call in time to a file, as a Chrome trace
    /// (chrome://tracing, Perfetto); of a GPU, as the virtual one has no clock.
    #[arg(long, value_name = "FILE")]
    profile_trace: Option<PathBuf>,
}

impl Options {
    /// Returns whether any profiling option is set.
    pub(crate) fn is_any(&self) -> bool {
        *self != Self::default()
    }

    /// Begins to record, if anything is asked for.
    pub(crate) fn start(&self, device: &Device) -> Result<(), Failure> {
        if device.is_virtual() {
            self.refuse_trace()?;
        }
        if self.is_any() {
            device.start_activity();
        }
        Ok(())
    }

    /// Refuses what only a GPU can tell.
    pub(crate) fn refuse_trace(&self) -> Result<(), Failure> {
        match self.profile_trace {
            Some(_) => Err(Failure::usage("--profile-trace needs a GPU: the virtual one has no clock")),
            None => Ok(()),
        }
    }

    /// Ends the recording and writes the files; what is to be printed, if it is asked for.
    pub(crate) fn finish(&self, device: &Device) -> Result<Option<Recorded>, Failure> {
        if !self.is_any() {
            return Ok(None);
        }
        let recorded = device.finish_recording()?;
        self.write(&recorded)?;
        Ok(Some(recorded).filter(|_| self.profile))
    }

    /// Does the same as [`Self::finish`], and prints the tables.
    pub(crate) fn finish_and_print(&self, device: &Device) -> Result<(), Failure> {
        self.finish(device)?.map_or(Ok(()), |recorded| output::print(&format!("\n{}", tables(&recorded))))
    }

    /// Writes the files that are asked for.
    pub(crate) fn write(&self, recorded: &Recorded) -> Result<(), Failure> {
        let files = [(&self.profile_json, json as fn(&Recorded) -> Value), (&self.profile_trace, trace)];
        for (path, value) in files {
            let Some(path) = path else { continue };
            host::write(path, format!("{:#}\n", value(recorded)))
                .map_err(|error| Failure::usage(format!("cannot write {}: {error}", path.display())))?;
        }
        Ok(())
    }

    /// Returns whether the tables are printed.
    pub(crate) fn is_printed(&self) -> bool {
        self.profile
    }
}

/// Both tables.
pub(crate) fn tables(recorded: &Recorded) -> String {
    format!("{}\n{}", table(&recorded.activities).render(), call_table(&recorded.calls).render())
}

/// Formats a recording as JSON.
pub(crate) fn json(recorded: &Recorded) -> Value {
    let activities: Vec<_> = recorded.activities.iter().map(Json::from).collect();
    let calls = recorded.calls.iter().map(|call| {
        let seconds = |of: fn(&ActivityTime) -> Duration| call.time.as_ref().map(|time| of(time).as_secs_f64());
        json!({
            "function": call.name,
            "calls": call.calls,
            "total_seconds": seconds(|time| time.total),
            "average_seconds": seconds(|time| time.average),
            "min_seconds": seconds(|time| time.min),
            "max_seconds": seconds(|time| time.max),
        })
    });
    json!({ "activities": activities, "calls": calls.collect::<Vec<_>>() })
}

/// Formats a recording as a Chrome trace: host and device as two threads, times in microseconds
/// ("Trace Event Format", complete events).
fn trace(recorded: &Recorded) -> Value {
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let name = |thread: u32, name: &str| json!({ "name": "thread_name", "ph": "M", "pid": 1, "tid": thread, "args": { "name": name } });
    let mut events = vec![name(1, "driver API"), name(2, "device")];
    events.extend(recorded.timeline.iter().map(|interval| {
        json!({
            "name": interval.name,
            "ph": "X",
            "pid": 1,
            "tid": if interval.is_call { 1 } else { 2 },
            "ts": micros(interval.start),
            "dur": micros(interval.duration),
        })
    }));
    json!({ "traceEvents": events, "displayTimeUnit": "ns" })
}

/// The table of the driver's calls.
fn call_table(calls: &[ApiCall]) -> Table {
    if calls.iter().all(|call| call.time.is_none()) {
        let mut table = Table::new(["driver API call", "calls"]);
        for call in calls {
            table.row([call.name.to_owned(), grouped(call.calls)]);
        }
        return table;
    }
    let all: Duration = calls.iter().filter_map(|call| call.time).map(|time| time.total).sum();
    let mut table = Table::new(["driver API call", "time %", "total", "calls", "average", "min", "max"]);
    for call in calls {
        let [share, total, average, min, max] = times(call.time, all);
        table.row([call.name.to_owned(), share, total, grouped(call.calls), average, min, max]);
    }
    table
}

/// The table of the activities.
fn table(activities: &[Activity]) -> Table {
    if activities.iter().all(|activity| activity.time.is_none()) {
        let mut table = Table::new(["activity", "calls", "bytes"]);
        for activity in activities {
            table.row([activity.kind.to_string(), grouped(activity.calls), bytes(activity)]);
        }
        return table;
    }
    let all: Duration = activities.iter().filter_map(|activity| activity.time).map(|time| time.total).sum();
    let mut table = Table::new(["activity", "time %", "total", "calls", "average", "min", "max", "bytes"]);
    for activity in activities {
        let [share, total, average, min, max] = times(activity.time, all);
        let (name, calls) = (activity.kind.to_string(), grouped(activity.calls));
        table.row([name, share, total, calls, average, min, max, bytes(activity)]);
    }
    table
}

fn times(measured: Option<ActivityTime>, all: Duration) -> [String; 5] {
    let Some(measured) = measured else { return std::array::from_fn(|_| "-".to_owned()) };
    let share = 100.0 * measured.total.as_secs_f64() / all.as_secs_f64().max(f64::MIN_POSITIVE);
    let [total, average, min, max] =
        [measured.total, measured.average, measured.min, measured.max].map(|t| time(t.as_secs_f64()));
    [format!("{share:.2} %"), total, average, min, max]
}

/// Kernels move bytes as well, but only copies and fills are told how many.
fn bytes(activity: &Activity) -> String {
    if activity.bytes == 0 { String::new() } else { grouped(activity.bytes) }
}

/// An activity as JSON.
#[derive(Debug, Serialize)]
struct Json {
    activity: String,
    calls: u64,
    bytes: u64,
    total_seconds: Option<f64>,
    average_seconds: Option<f64>,
    min_seconds: Option<f64>,
    max_seconds: Option<f64>,
}

impl From<&Activity> for Json {
    fn from(activity: &Activity) -> Self {
        let seconds = |of: fn(&ActivityTime) -> Duration| activity.time.as_ref().map(|time| of(time).as_secs_f64());
        Self {
            activity: activity.kind.to_string(),
            calls: activity.calls,
            bytes: activity.bytes,
            total_seconds: seconds(|time| time.total),
            average_seconds: seconds(|time| time.average),
            min_seconds: seconds(|time| time.min),
            max_seconds: seconds(|time| time.max),
        }
    }
}

#[cfg(test)]
mod tests {
    use warpfold_device::ActivityKind;

    use super::*;

    #[test]
    fn times_have_four_digits_and_a_unit() {
        assert_eq!([3.1184e-3, 153e-6, 7.25e-6, 1.5].map(time), ["3.118 ms", "153.0 us", "7.250 us", "1.500 s"]);
    }

    #[test]
    fn without_a_clock_there_are_no_columns_of_times() {
        let fill = Activity { kind: ActivityKind::Fill, calls: 2, bytes: 4096, time: None };
        assert_eq!(table(&[fill]).render(), "activity  calls  bytes\n[memset]      2  4,096\n");
    }

    #[test]
    fn each_activity_has_its_share_of_all_time() {
        let row = |kind, milliseconds, calls, bytes| {
            let total = Duration::from_millis(milliseconds);
            let time = ActivityTime { total, average: total / calls, min: total / calls, max: total / calls };
            Activity { kind, calls: calls.into(), bytes, time: Some(time) }
        };
        let all = [row(ActivityKind::Kernel("k".to_owned()), 30, 3, 0), row(ActivityKind::HostToDevice, 10, 1, 64)];
        let expected = "\
activity                  time %     total  calls   average       min       max  bytes
k                        75.00 %  30.00 ms      3  10.00 ms  10.00 ms  10.00 ms
[memcpy host to device]  25.00 %  10.00 ms      1  10.00 ms  10.00 ms  10.00 ms     64
";
        assert_eq!(table(&all).render(), expected);
    }
}
