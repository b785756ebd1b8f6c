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

/// The same elements on the host.
pub(super) struct Elements {
    /// They repeat.
    pattern: Vec<f64>,
    /// Sums of what is before each of them, and of its magnitudes.
    sums: Vec<[f64; 2]>,
    len: u64,
}

impl Elements {
    pub(super) fn new(dtype: Dtype, len: u64) -> Self {
        let bytes = ((len * dtype.bytes()) as usize).min(PATTERN);
        let pattern: Vec<f64> =
            pattern(dtype, bytes).chunks_exact(dtype.bytes() as usize).map(|bytes| decode(dtype, bytes)).collect();
        let mut sums = vec![[0.0; 2]];
        for value in &pattern {
            let [sum, magnitudes] = sums[sums.len() - 1];
            sums.push([sum + value, magnitudes + value.abs()]);
        }
        Self { pattern, sums, len }
    }

    pub(super) fn at(&self, i: u64) -> f64 {
        self.pattern[(i % self.pattern.len() as u64) as usize]
    }

    /// The sum of those before `end`, and of their magnitudes.
    pub(super) fn sums(&self, end: u64) -> [f64; 2] {
        let period = self.pattern.len() as u64;
        let (times, rest) = ((end / period) as f64, self.sums[(end % period) as usize]);
        let whole = self.sums[period as usize];
        [0, 1].map(|i| times * whole[i] + rest[i])
    }

    /// Each element of the pattern, with how often it comes.
    pub(super) fn counted(&self) -> impl Iterator<Item = (f64, f64)> {
        let period = self.pattern.len() as u64;
        let (times, rest) = (self.len / period, self.len % period);
        self.pattern.iter().zip(0..).map(move |(value, i)| (*value, (times + u64::from(i < rest)) as f64))
    }
}

/// The number that the bytes of an element stand for.
pub(super) fn decode(dtype: Dtype, bytes: &[u8]) -> f64 {
    fn of<const N: usize>(bytes: &[u8]) -> [u8; N] {
        bytes.try_into().expect("the bytes of an element")
    }
    match dtype {
        Dtype::F64 => f64::from_le_bytes(of(bytes)),
        Dtype::F32 => f32::from_le_bytes(of(bytes)).into(),
        Dtype::F16 => half::f16::from_le_bytes(of(bytes)).into(),
        Dtype::Bf16 => half::bf16::from_le_bytes(of(bytes)).into(),
        Dtype::F8E4M3 => F8E4M3::from_bits(bytes[0]).to_f32().into(),
        Dtype::F8E5M2 => F8E5M2::from_bits(bytes[0]).to_f32().into(),
        Dtype::I64 => i64::from_le_bytes(of(bytes)) as f64,
        Dtype::U64 => u64::from_le_bytes(of(bytes)) as f64,
        Dtype::I32 => i32::from_le_bytes(of(bytes)).into(),
        Dtype::U32 => u32::from_le_bytes(of(bytes)).into(),
        Dtype::I16 => i16::from_le_bytes(of(bytes)).into(),
        Dtype::U16 => u16::from_le_bytes(of(bytes)).into(),
        Dtype::I8 => f64::from(bytes[0].cast_signed()),
        Dtype::U8 | Dtype::Bool => bytes[0].into(),
    }
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
