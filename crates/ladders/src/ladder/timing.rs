//! Device time: of a launch, and of the copy that bandwidths are compared with.

use std::time::Duration;

use warpfold_device::{Device, Stream};

use crate::Error;

/// Device time of some work; `None` on a device without a clock.
pub(super) fn timed(stream: &Stream, work: impl FnOnce() -> Result<(), Error>) -> Result<Option<Duration>, Error> {
    let record = || stream.device().unrecorded(|| stream.record());
    let start = record()?;
    work()?;
    let end = record()?;
    Ok(end.elapsed_since(&start)?)
}

/// The middle one of some times, in seconds.
pub(super) fn median(mut times: Vec<Duration>) -> Option<f64> {
    times.sort_unstable();
    times.get(times.len() / 2).map(Duration::as_secs_f64)
}

/// Measures the bandwidth of a copy within the device's memory, reads and writes counted; `None` on
/// a device without a clock.
///
/// The median of 20 copies of 512 MiB, or of an eighth of the free memory if that is less: far more
/// than a cache holds.
///
/// # Errors
/// What the device says.
pub fn copy_gigabytes_per_second(device: &Device) -> Result<Option<f64>, Error> {
    if device.is_virtual() {
        return Ok(None);
    }
    let bytes = (device.free_memory_bytes()? / 8).min(512 << 20) as usize;
    let from = device.alloc_zeroed::<u8>(bytes)?;
    let mut to = device.alloc_zeroed::<u8>(bytes)?;
    let stream = device.default_stream();
    let mut times = Vec::new();
    for _ in 0..20 {
        times.extend(timed(&stream, || Ok(stream.copy(to.as_view_mut(), &from)?))?);
    }
    Ok(median(times).map(|seconds| 2.0 * bytes as f64 / seconds / 1e9))
}
