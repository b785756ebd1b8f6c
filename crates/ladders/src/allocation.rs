//! Scratch memory of many calls: allocated by each call, from a pool, from one workspace.
//!
//! Each call needs some bytes for itself, sets them and reads one back. What differs is where the
//! bytes come from; what is counted are the driver's allocations and frees, the most bytes held at
//! a time, and on a GPU the host time of both.

use std::collections::BTreeMap;
use std::time::Duration;

use warpfold_device::{Buffer, Device};

use crate::Error;

/// One way to find scratch memory, tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// `malloc`, `pool` or `workspace`.
    pub name: &'static str,
    /// The idea in a sentence.
    pub changed: &'static str,
    /// Every call read back the bytes that it had set.
    pub ok: bool,
    /// Allocations of the driver.
    pub allocations: u64,
    /// Its frees.
    pub frees: u64,
    /// The most bytes held at a time, beyond what was held before.
    pub peak_bytes: u64,
    /// Host time of allocations and frees; `None` on the virtual GPU.
    pub time: Option<Duration>,
}

/// Bytes that each of some calls needs, in an order that a serving program might have: many small
/// ones and some large.
#[must_use]
pub fn requests(calls: usize) -> Vec<usize> {
    (0..calls).map(|i| (1 << (8 + i * 7 % 13)) + 256 * (i % 3)).collect()
}

/// Source of a call's bytes.
trait Scratch {
    /// Some memory of at least so many bytes.
    fn take(&mut self, device: &Device, bytes: usize) -> Result<Buffer<u8>, Error>;
    /// The call is over.
    fn give(&mut self, buffer: Buffer<u8>);
}

/// Each call allocates and frees.
struct Malloc;

impl Scratch for Malloc {
    fn take(&mut self, device: &Device, bytes: usize) -> Result<Buffer<u8>, Error> {
        Ok(device.alloc(bytes)?)
    }

    fn give(&mut self, buffer: Buffer<u8>) {
        drop(buffer);
    }
}

/// Blocks of powers of two that were given back, by their size.
#[derive(Default)]
struct Pool(BTreeMap<usize, Vec<Buffer<u8>>>);

impl Scratch for Pool {
    fn take(&mut self, device: &Device, bytes: usize) -> Result<Buffer<u8>, Error> {
        let size = bytes.next_power_of_two();
        let free = self.0.get_mut(&size).and_then(Vec::pop);
        free.map_or_else(|| Ok(device.alloc(size)?), Ok)
    }

    fn give(&mut self, buffer: Buffer<u8>) {
        self.0.entry(buffer.len()).or_default().push(buffer);
    }
}

/// One block that is as large as the largest call so far has needed.
#[derive(Default)]
struct Workspace {
    most: usize,
    block: Option<Buffer<u8>>,
}

impl Scratch for Workspace {
    fn take(&mut self, device: &Device, bytes: usize) -> Result<Buffer<u8>, Error> {
        match self.block.take().filter(|block| block.len() >= bytes) {
            Some(block) => Ok(block),
            None => Ok(device.alloc(bytes.max(self.most))?),
        }
    }

    fn give(&mut self, buffer: Buffer<u8>) {
        self.block = Some(buffer);
    }
}

/// Runs the calls in each of the three ways.
///
/// ```
/// use warpfold_device::{Device, Profile};
/// use warpfold_ladders::allocation::{compare, requests};
/// let [malloc, pool, workspace] = compare(&Device::virtual_gpu(Profile::H200), &requests(100))?;
/// assert_eq!((malloc.allocations, workspace.allocations), (100, 1));
/// assert!(pool.allocations < 20 && pool.peak_bytes > workspace.peak_bytes);
/// # Ok::<(), warpfold_ladders::Error>(())
/// ```
///
/// # Errors
/// What the device says.
pub fn compare(device: &Device, requests: &[usize]) -> Result<[Outcome; 3], Error> {
    let most = requests.iter().copied().max().unwrap_or(0);
    let malloc = "Each call allocates what it needs and frees it";
    let pool = "Blocks of powers of two are kept and handed out again: as many allocations as sizes, all kept";
    let workspace = "The largest call is known before the first: one block serves them all";
    Ok([
        tried(device, requests, ("malloc", malloc), Malloc)?,
        tried(device, requests, ("pool", pool), Pool::default())?,
        tried(device, requests, ("workspace", workspace), Workspace { most, block: None })?,
    ])
}

fn tried(
    device: &Device,
    requests: &[usize],
    (name, changed): (&'static str, &'static str),
    mut scratch: impl Scratch,
) -> Result<Outcome, Error> {
    device.synchronize()?;
    device.restart_peak();
    let before = device.allocated_bytes();
    device.start_activity();
    let mut ok = true;
    for (i, &bytes) in requests.iter().enumerate() {
        let mut buffer = scratch.take(device, bytes)?;
        let byte = (i % 251) as u8;
        let stream = device.default_stream();
        stream.fill_bytes(buffer.view_mut(..bytes)?, byte)?;
        let mut last = [!byte];
        stream.copy_to_host(buffer.view(bytes.saturating_sub(1)..bytes)?, &mut last[..bytes.min(1)])?;
        ok &= bytes == 0 || last == [byte];
        scratch.give(buffer);
    }
    drop(scratch);
    let peak_bytes = device.peak_allocated_bytes() - before;
    let calls = device.finish_recording()?.calls;
    let of = |name| calls.iter().find(|call| call.name == name);
    let (allocations, frees) = (of("cuMemAlloc"), of("cuMemFree"));
    let num = |call: Option<&warpfold_device::ApiCall>| call.map_or(0, |call| call.calls);
    let time = (!device.is_virtual())
        .then(|| [allocations, frees].into_iter().flatten().filter_map(|call| call.time).map(|time| time.total).sum());
    Ok(Outcome { name, changed, ok, allocations: num(allocations), frees: num(frees), peak_bytes, time })
}
