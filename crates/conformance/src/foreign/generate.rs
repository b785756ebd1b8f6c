//! Inputs as a function of their description alone.

use super::array::{Array, DType};
use super::case::{Buffer, Values};

/// Steele, Lea and Flood's SplitMix64: small, and the same on every machine.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1).
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 * 2f64.powi(-53)
    }
}

/// The buffer's contents.
///
/// # Panics
/// If the description asks for values that its type cannot hold.
#[must_use]
pub fn generate(buffer: &Buffer) -> Array {
    let len = buffer.shape.iter().product::<usize>();
    let dtype = buffer.dtype;
    match &buffer.values {
        Values::Bits { seed } => {
            let mut rng = SplitMix(*seed);
            let bytes = (0..len).flat_map(|_| rng.next().to_le_bytes()[8 - dtype.bytes()..].to_vec()).collect();
            Array { dtype, bytes }
        }
        Values::Random { seed, low, high } => {
            let mut rng = SplitMix(*seed);
            let span = high - low + if is_float(dtype) { 0.0 } else { 1.0 };
            numbers(dtype, (0..len).map(|_| low + in_type(dtype, span * rng.unit())))
        }
        Values::Exponents { seed, low, high } => {
            let mut rng = SplitMix(*seed);
            let spread = f64::from(high - low + 1);
            numbers(
                dtype,
                (0..len).map(|_| {
                    let exponent = low + (spread * rng.unit()) as i32;
                    let sign = if rng.next() & 1 == 0 { 1.0 } else { -1.0 };
                    sign * (1.0 + rng.unit()) * 2f64.powi(exponent)
                }),
            )
        }
        Values::Iota(start) => numbers(dtype, (0..len).map(|i| start + i as f64)),
        Values::Const(x) => numbers(dtype, (0..len).map(|_| *x)),
        Values::Cycle(list) => numbers(dtype, (0..len).map(|i| list[i % list.len()])),
    }
}

fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::Bf16 | DType::F32 | DType::F64)
}

fn in_type(dtype: DType, x: f64) -> f64 {
    if is_float(dtype) { x } else { x.floor() }
}

fn numbers(dtype: DType, values: impl Iterator<Item = f64>) -> Array {
    match dtype {
        DType::U8 => Array::of(dtype, values.map(|x| x as u8)),
        DType::U16 => Array::of(dtype, values.map(|x| x as u16)),
        DType::U32 => Array::of(dtype, values.map(|x| x as u32)),
        DType::U64 => Array::of(dtype, values.map(|x| x as u64)),
        DType::I32 => Array::of(dtype, values.map(|x| x as i32)),
        DType::I64 => Array::of(dtype, values.map(|x| x as i64)),
        DType::F32 => Array::of(dtype, values.map(|x| x as f32)),
        DType::F64 => Array::of(dtype, values),
        DType::F16 => Array::of(dtype, values.map(|x| half::f16::from_f64(x).to_bits())),
        DType::Bf16 => Array::of(dtype, values.map(|x| half::bf16::from_f64(x).to_bits())),
    }
}
