//! One case on a device: by events on a GPU, by counters on the virtual one.

use std::sync::LazyLock;
use std::time::Duration;

use warpfold_device::{Counters, Device, LaunchConfig};
use warpfold_kernels::{Error, Workspace};
use warpfold_lang::{Kernel, clock, kernel, loop_until_left};

use super::cases::{Case, Prepared};
use super::check::{Checked, compare};
use super::references::samples;
use super::{Record, Time};
use warpfold::Queue;

/// Rounds whose median counts.
const ROUNDS: usize = 11;
/// Total size of a case's copies, at least: more than any L2.
const ROTATED_BYTES: u64 = 512 << 20;

pub(super) fn measure(device: &Device, case: &Case) -> Result<Record, Error> {
    let queue = Queue::new(device.default_stream());
    let mut workspace = Workspace::new();
    let bytes = case.bytes();
    let copies = if device.is_virtual() { 1 } else { ROTATED_BYTES.div_ceil(bytes).clamp(1, 64) };
    let mut prepared = (0..copies).map(|_| case.prepare(&queue)).collect::<Result<Vec<_>, _>>()?;
    let (family, name) = (case.family, case.name());
    drop(device.take_reports());
    prepared[0].run(&queue, &mut workspace)?;
    if device.is_virtual() {
        let (counters, launches) = counted(device);
        let checked = Some(checked(&queue, case, &prepared)?);
        let record = Record::new(family, name, [bytes, launches], None);
        return Ok(Record { checked, counters: Some(counters), ..record });
    }
    let time = Some(timed(&queue, &mut workspace, &mut prepared, bytes)?);
    let checked = Some(checked(&queue, case, &prepared)?);
    Ok(Record { checked, time, ..Record::new(family, name, [bytes, prepared[0].launches()], None) })
}

/// Checks the results that the timed runs left in memory.
fn checked(queue: &Queue, case: &Case, prepared: &[Prepared]) -> Result<Checked, Error> {
    queue.device().unrecorded(|| compare(queue, prepared.iter().map(Prepared::outputs), &samples(case)?))
}

/// Returns the counters since reports were last taken, as records show them, and the launches.
pub(super) fn counted(device: &Device) -> (Counters, u64) {
    let reports = device.take_reports();
    let counters = reports.iter().fold(Counters::default(), |sum, launch| added(sum, &launch.report.counters));
    (counters, reports.len() as u64)
}

/// The counters that records show, of several launches.
fn added(mut sum: Counters, more: &Counters) -> Counters {
    sum.global_load_sectors += more.global_load_sectors;
    sum.global_store_sectors += more.global_store_sectors;
    sum.global_load_requests += more.global_load_requests;
    sum.global_store_requests += more.global_store_requests;
    sum.shared_load_bank_conflicts += more.shared_load_bank_conflicts;
    sum.shared_store_bank_conflicts += more.shared_store_bank_conflicts;
    sum.warp_instructions += more.warp_instructions;
    sum.thread_instructions += more.thread_instructions;
    sum
}

fn timed(queue: &Queue, workspace: &mut Workspace, prepared: &mut [Prepared], bytes: u64) -> Result<Time, Error> {
    // About a millisecond a round at the speed of memory, so that the clock's grain does not show.
    let runs = (2_000_000_000 / bytes.max(1)).clamp(4, 64) as u32;
    let mut next = 0;
    let mut times = Vec::new();
    for round in 0..=ROUNDS {
        wait_for(queue, 4_000_000)?;
        let start = queue.stream().record()?;
        for _ in 0..runs {
            prepared[next].run(queue, workspace)?;
            next = (next + 1) % prepared.len();
        }
        let end = queue.stream().record()?;
        let elapsed = end.elapsed_since(&start)?.unwrap_or_default();
        // The first round warms up.
        if round > 0 {
            times.push(elapsed / runs);
        }
    }
    times.sort_unstable();
    let (least, most) = (times[0], times[times.len() - 1]);
    Ok(Time { median: times[times.len() / 2].max(Duration::from_nanos(1)), least, most })
}

/// Lets the device wait for so many clock cycles, so that what is enqueued behind stands in line.
pub(super) fn wait_for(queue: &Queue, cycles: u64) -> Result<(), Error> {
    static WAIT: LazyLock<Kernel<(u64,)>> = LazyLock::new(wait);
    Ok(queue.stream().launch(&WAIT, LaunchConfig::new(1, 1), (cycles,))?)
}

/// A kernel that waits for so many clock cycles.
fn wait() -> Kernel<(u64,)> {
    kernel("wait", |cycles: warpfold_lang::Val<u64>| {
        let start = clock();
        loop_until_left(|waiting| waiting.leave_if((clock() - start).ge(cycles)));
    })
}
