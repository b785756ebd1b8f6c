//! What a device was given to do, by activity: the table of a profiler. Without a clock it has
//! calls and bytes alone.

use std::time::Duration;

use serde::Serialize;
use warpfold_device::{Activity, ActivityTime};

use crate::table::{Table, grouped, time};

/// The table of the activities.
pub(super) fn table(activities: &[Activity]) -> Table {
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
pub(super) struct Json {
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
