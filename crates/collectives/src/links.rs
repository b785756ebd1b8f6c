//! Measured speed of a link between two GPUs: copies by the driver, reads by kernels, and the
//! latency of one read.

use std::time::Duration;

use warpfold_device::{Arguments, Buffer, Device, Function, LaunchConfig, PeerGroup, Stream};
use warpfold_lang::{Global, Kernel, Val, block_dim, block_idx, grid_dim, kernel, range, thread_idx, var, when};

use crate::Error;

/// Bytes that are copied and read.
const BYTES: usize = 256 << 20;
/// Reads of a chain, each of which depends on the one before.
const HOPS: u32 = 1024;
/// Words of the chain: more than fit in L1.
const WORDS: usize = 1 << 20;
/// Number of runs, the fastest of which counts.
const RUNS: usize = 4;

/// The speed of a link in one direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkSpeed {
    /// Bytes per second of driver copies.
    pub copy: f64,
    /// Bytes per second of kernel reads from the other device's memory.
    pub read: f64,
    /// Latency of one dependent read.
    pub latency: Duration,
}

/// Measures the link from a device to the memory of another one. `None` for virtual GPUs, which
/// have no clock.
///
/// # Errors
/// [`NoPeerAccess`](warpfold_device::ErrorKind::NoPeerAccess); too little memory.
pub fn link_speed(to: &Device, from: &Device) -> Result<Option<LinkSpeed>, Error> {
    if to.is_virtual() || from.is_virtual() {
        return Ok(None);
    }
    PeerGroup::new(vec![to.clone(), from.clone()], Duration::from_secs(60))?;
    let stream = to.new_stream()?;
    let (mut here, there) = (to.alloc::<u8>(BYTES)?, from.alloc_zeroed::<u8>(BYTES)?);
    from.synchronize()?;
    let copy = fastest(&stream, || Ok(stream.copy_from_peer(&mut here, &there)?))?;
    let (read, config) = (to.prepare(&read())?, LaunchConfig::new(to.limits().num_sms, 512));
    let words = (BYTES / 16) as u64;
    let read = fastest(&stream, || launch(&stream, &read, config, &there, &mut here, words))?;
    // A full cycle through the words: the multiplier is odd times four plus one, the increment odd.
    let chain: Vec<u64> = (0..WORDS as u64).map(|i| (i * 1_664_525 + 1_013_904_223) % WORDS as u64).collect();
    let chain = from.upload(&chain)?;
    from.synchronize()?;
    let follow = to.prepare(&follow())?;
    let latency =
        fastest(&stream, || launch(&stream, &follow, LaunchConfig::new(1, 1), &chain, &mut here, u64::from(HOPS)))?;
    let per_second = |time: Duration| BYTES as f64 / time.as_secs_f64();
    Ok(Some(LinkSpeed { copy: per_second(copy), read: per_second(read), latency: latency / HOPS }))
}

fn fastest(stream: &Stream, mut work: impl FnMut() -> Result<(), Error>) -> Result<Duration, Error> {
    let mut least = Duration::MAX;
    for _ in 0..RUNS {
        let start = stream.record()?;
        work()?;
        let end = stream.record()?;
        end.synchronize()?;
        least = least.min(end.elapsed_since(&start)?.unwrap_or(Duration::MAX));
    }
    Ok(least)
}

fn launch<T: warpfold_device::Element>(
    stream: &Stream,
    function: &Function,
    config: LaunchConfig,
    there: &Buffer<T>,
    here: &mut Buffer<u8>,
    count: u64,
) -> Result<(), Error> {
    let arguments = Arguments::new().raw(&there.address().to_le_bytes(), 8).output(here.as_view_mut()).value(count);
    Ok(stream.launch_raw(function, config, &arguments)?)
}

/// Reads 16 bytes per thread at a time, and writes them to the device's own memory.
fn read() -> Kernel<(Global<u8>, Global<u8>, u64)> {
    kernel("read_of_peer", |there: Global<u8>, here: Global<u8>, count: Val<u64>| {
        let first = (block_idx().x * block_dim().x + thread_idx().x).cast::<u64>();
        range(first, count, (grid_dim().x * block_dim().x).cast::<u64>(), |i| {
            crate::kernels::copy_units([there.at(i * 16)].into_iter(), [vec![here.at(i * 16)]].into_iter(), 16);
        });
    })
}

/// Follows a chain of indices.
fn follow() -> Kernel<(Global<u64>, Global<u64>, u64)> {
    kernel("follow_chain_of_peer", |there: Global<u64>, here: Global<u64>, hops: Val<u64>| {
        when(thread_idx().x.eq(0), || {
            let at = var(0_u64);
            range(0_u64, hops, 1_u64, |_| at.set(there.at(at.get()).get()));
            here.at(0).set(at.get());
        });
    })
}
