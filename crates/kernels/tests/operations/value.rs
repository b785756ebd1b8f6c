//! Elements on the host: exact values of every type, and their bytes.

use half::{bf16, f16};
use warpfold_kernels::Dtype;
use warpfold_lang::{F8E4M3, F8E5M2};

/// An element: integers and `bool` exactly, floats as `f64`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value {
    Int(i128),
    Float(f64),
}

impl Value {
    pub(crate) fn int(self) -> i128 {
        match self {
            Self::Int(i) => i,
            Self::Float(x) => panic!("{x} is no integer"),
        }
    }

    pub(crate) fn float(self) -> f64 {
        match self {
            Self::Int(i) => i as f64,
            Self::Float(x) => x,
        }
    }

    pub(crate) fn truth(truth: bool) -> Self {
        Self::Int(truth.into())
    }

    /// Whether both are the same number; NaN is NaN, and zeros have signs.
    pub(crate) fn is(self, other: Self) -> bool {
        match (self, other) {
            (Self::Float(a), Self::Float(b)) => a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()),
            (a, b) => a == b,
        }
    }
}

/// The nearest number of a float type, ties to even; 8-bit floats saturate.
pub(crate) fn round(dtype: Dtype, x: f64) -> f64 {
    match dtype {
        Dtype::F16 => f16::from_f32(to_odd(x)).to_f64(),
        Dtype::Bf16 => bf16::from_f32(to_odd(x)).to_f64(),
        Dtype::F8E4M3 => F8E4M3::from_f32(to_odd(x)).to_f32().into(),
        Dtype::F8E5M2 => F8E5M2::from_f32(to_odd(x)).to_f32().into(),
        Dtype::F32 => f64::from(x as f32),
        _ => x,
    }
}

/// A float that rounds to few bits as the number does.
fn to_odd(x: f64) -> f32 {
    let near = x as f32;
    if f64::from(near) == x || x.is_nan() || near.is_infinite() {
        return near;
    }
    let truncated = if f64::from(near).abs() > x.abs() { f32::from_bits(near.to_bits() - 1) } else { near };
    f32::from_bits(truncated.to_bits() | 1)
}

/// An integer modulo the type's range; a `bool` is whether it is not zero.
pub(crate) fn wrap(dtype: Dtype, i: i128) -> i128 {
    match dtype {
        Dtype::Bool => i128::from(i != 0),
        Dtype::U8 => (i as u8).into(),
        Dtype::U16 => (i as u16).into(),
        Dtype::U32 => (i as u32).into(),
        Dtype::U64 => (i as u64).into(),
        Dtype::I8 => (i as i8).into(),
        Dtype::I16 => (i as i16).into(),
        Dtype::I32 => (i as i32).into(),
        _ => (i as i64).into(),
    }
}

/// The smallest and the largest integer.
pub(crate) fn range(dtype: Dtype) -> (i128, i128) {
    let bits = 8 * dtype.bytes() as u32;
    match dtype {
        Dtype::Bool => (0, 1),
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        _ => (0, (1 << bits) - 1),
    }
}

pub(crate) fn encode(dtype: Dtype, value: Value) -> Vec<u8> {
    let x = || value.float();
    match dtype {
        Dtype::F64 => x().to_le_bytes().to_vec(),
        Dtype::F32 => (x() as f32).to_le_bytes().to_vec(),
        Dtype::F16 => f16::from_f64(x()).to_le_bytes().to_vec(),
        Dtype::Bf16 => bf16::from_f64(x()).to_le_bytes().to_vec(),
        // By bits: infinities are no saturated numbers.
        Dtype::F8E4M3 => vec![eight_bits(x(), |bits| F8E4M3::from_bits(bits).to_f32())],
        Dtype::F8E5M2 => vec![eight_bits(x(), |bits| F8E5M2::from_bits(bits).to_f32())],
        _ => value.int().to_le_bytes()[..dtype.bytes() as usize].to_vec(),
    }
}

fn eight_bits(x: f64, decode: impl Fn(u8) -> f32) -> u8 {
    let is = |bits: &u8| Value::Float(decode(*bits).into()).is(Value::Float(x));
    (0..=255).find(is).unwrap_or_else(|| panic!("{x} has no eight bits"))
}

pub(crate) fn decode(dtype: Dtype, bytes: &[u8]) -> Value {
    let mut all = [0; 16];
    all[..bytes.len()].copy_from_slice(bytes);
    let bits = u128::from_le_bytes(all);
    Value::Float(match dtype {
        Dtype::F64 => f64::from_bits(bits as u64),
        Dtype::F32 => f32::from_bits(bits as u32).into(),
        Dtype::F16 => f16::from_bits(bits as u16).to_f64(),
        Dtype::Bf16 => bf16::from_bits(bits as u16).to_f64(),
        Dtype::F8E4M3 => F8E4M3::from_bits(bits as u8).to_f32().into(),
        Dtype::F8E5M2 => F8E5M2::from_bits(bits as u8).to_f32().into(),
        Dtype::Bool => return Value::Int(bits as i128),
        _ => return Value::Int(wrap(dtype, bits as i128)),
    })
}

/// The types that floats compute in.
pub(crate) fn computed(dtype: Dtype) -> Dtype {
    if dtype == Dtype::F64 { Dtype::F64 } else { Dtype::F32 }
}

/// 64 bits that look random, the same for the same seed.
pub(crate) fn random(seed: u64) -> u64 {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x1234_5678_9abc_def1);
    for shift in [30, 27, 31] {
        x = (x ^ (x >> shift)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    x
}

/// A number in -1 to 1.
pub(crate) fn fraction(seed: u64) -> f64 {
    (random(seed) >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}

/// Elements of a type: what is special about it, then numbers of ordinary size.
pub(crate) fn elements(dtype: Dtype, count: usize, seed: u64) -> Vec<Value> {
    let mut all = special(dtype);
    for i in all.len()..count {
        let seed = seed.wrapping_mul(1009).wrapping_add(i as u64);
        all.push(match dtype {
            Dtype::Bool => Value::Int(i128::from(random(seed) & 1)),
            _ if dtype.is_float() => {
                let scale = [1.0, 8.0, 60.0, 2.0_f64.powi((random(seed + 7) % 40) as i32 - 20)][i % 4];
                Value::Float(round(dtype, fraction(seed) * scale))
            }
            _ if i % 3 == 0 => Value::Int(wrap(dtype, random(seed).into())),
            _ => Value::Int(wrap(dtype, i128::from(random(seed) % 41) - 20)),
        });
    }
    let turn = random(seed) as usize % all.len();
    all.rotate_left(turn);
    all.truncate(count);
    all
}

fn special(dtype: Dtype) -> Vec<Value> {
    if dtype == Dtype::Bool {
        return vec![Value::Int(0), Value::Int(1)];
    }
    if dtype.is_float() {
        let huge = match dtype {
            Dtype::F64 => f64::MAX,
            Dtype::F32 => f32::MAX.into(),
            Dtype::F16 => f16::MAX.to_f64(),
            Dtype::Bf16 => bf16::MAX.to_f64(),
            Dtype::F8E4M3 => 448.0,
            _ => 57344.0,
        };
        let tiny = match dtype {
            Dtype::F64 => f64::from_bits(1),
            Dtype::F32 => f32::from_bits(1).into(),
            Dtype::F16 => f16::from_bits(1).to_f64(),
            Dtype::Bf16 => bf16::from_bits(1).to_f64(),
            Dtype::F8E4M3 => F8E4M3::from_bits(1).to_f32().into(),
            _ => F8E5M2::from_bits(1).to_f32().into(),
        };
        let numbers = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.5, 1e-3, 0.1, 20.0, huge, tiny, 64.0 * tiny];
        let mut all: Vec<f64> = numbers.into_iter().flat_map(|x| [x, -x]).map(|x| round(dtype, x)).collect();
        all.push(f64::NAN);
        if dtype != Dtype::F8E4M3 {
            all.extend([f64::INFINITY, f64::NEG_INFINITY]);
        }
        return all.into_iter().map(Value::Float).collect();
    }
    let (low, high) = range(dtype);
    let all = [0, 1, -1, 2, 3, 7, -2, low, low + 1, high, high - 1, high / 2];
    all.into_iter().map(|i| Value::Int(wrap(dtype, i))).collect()
}
