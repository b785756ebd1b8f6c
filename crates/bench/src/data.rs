//! Elements to measure with: a few million numbers between -1 and 1 (any, for integers), over and
//! over.

use warpfold_device::Buffer;
use warpfold_kernels::Dtype;
use warpfold_lang::{F8E4M3, F8E5M2};

use warpfold::{Error, Queue};

/// Bytes that are made on the host.
const PATTERN: usize = 4 << 20;

/// A buffer of this many elements.
pub(super) fn filled(queue: &Queue, dtype: Dtype, len: u64) -> Result<Buffer<u8>, Error> {
    queue.device().unrecorded(|| filled_buffer(queue, dtype, len))
}

fn filled_buffer(queue: &Queue, dtype: Dtype, len: u64) -> Result<Buffer<u8>, Error> {
    let bytes = (len * dtype.bytes()) as usize;
    let mut buffer = queue.device().alloc::<u8>(bytes)?;
    let pattern = pattern(dtype, bytes.min(PATTERN));
    let mut done = pattern.len();
    queue.stream().copy_from_host(buffer.view_mut(..done)?, &pattern)?;
    // Twice as much each time.
    while done < bytes {
        let (head, tail) = buffer.split_at_mut(done)?;
        let more = done.min(bytes - done);
        queue.stream().copy(tail.slice(..more)?, head.as_view().slice(..more)?)?;
        done += more;
    }
    Ok(buffer)
}

fn pattern(dtype: Dtype, bytes: usize) -> Vec<u8> {
    let random = |i: usize| (i as u32).wrapping_mul(2_654_435_761) ^ (i as u32 >> 7);
    let float = |i: usize| (random(i) >> 8) as f32 / 8_388_608.0 - 1.0;
    let len = bytes / dtype.bytes() as usize;
    match dtype {
        Dtype::F32 => (0..len).flat_map(|i| float(i).to_le_bytes()).collect(),
        Dtype::F64 => (0..len).flat_map(|i| f64::from(float(i)).to_le_bytes()).collect(),
        Dtype::F16 => (0..len).flat_map(|i| half::f16::from_f32(float(i)).to_le_bytes()).collect(),
        Dtype::Bf16 => (0..len).flat_map(|i| half::bf16::from_f32(float(i)).to_le_bytes()).collect(),
        Dtype::F8E4M3 => (0..len).map(|i| F8E4M3::from_f32(float(i)).to_bits()).collect(),
        Dtype::F8E5M2 => (0..len).map(|i| F8E5M2::from_f32(float(i)).to_bits()).collect(),
        Dtype::I64 | Dtype::U64 => (0..len).flat_map(|i| u64::from(random(i)).to_le_bytes()).collect(),
        _ => (0..bytes).map(|i| random(i) as u8).collect(),
    }
}
