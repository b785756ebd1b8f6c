//! Elements on the host: any number of any type without rounding, as bytes and back.

use half::{bf16, f16};
use warpfold_kernels::Dtype;
use warpfold_lang::{F8E4M3, F8E5M2};

/// One element.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value {
    /// An integer, or a bool as 0 or 1.
    Int(i128),
    /// A float, widened.
    Float(f64),
}

/// NaN equals NaN; otherwise bits count, so that zeros differ by their signs.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (*self, *other) {
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
            _ => false,
        }
    }
}

impl Value {
    pub(crate) fn float(self) -> f64 {
        match self {
            Self::Int(i) => i as f64,
            Self::Float(x) => x,
        }
    }

    pub(crate) fn int(self) -> i128 {
        match self {
            Self::Int(i) => i,
            Self::Float(x) => panic!("{x} is no integer"),
        }
    }
}

/// Values of a type from small numbers.
pub(crate) fn values(dtype: Dtype, numbers: &[f64]) -> Vec<Value> {
    let value = |x: &f64| if dtype.is_float() { Value::Float(*x) } else { Value::Int(*x as i128) };
    numbers.iter().map(value).collect()
}

/// The limits of an integer type.
pub(crate) fn limits(dtype: Dtype) -> (i128, i128) {
    let bits = 8 * dtype.bytes();
    match dtype {
        Dtype::Bool => (0, 1),
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        _ => (0, (1 << bits) - 1),
    }
}

/// An integer as the type has it.
pub(crate) fn wrapped(dtype: Dtype, value: i128) -> i128 {
    let (low, high) = limits(dtype);
    (value - low).rem_euclid(high - low + 1) + low
}

/// As the device has it.
pub(crate) fn encode(dtype: Dtype, values: &[Value]) -> Vec<u8> {
    let bits = |value: &Value| -> u64 {
        match dtype {
            Dtype::F64 => value.float().to_bits(),
            Dtype::F32 => u64::from((value.float() as f32).to_bits()),
            Dtype::F16 => u64::from(f16::from_f64(value.float()).to_bits()),
            Dtype::Bf16 => u64::from(bf16::from_f64(value.float()).to_bits()),
            Dtype::F8E4M3 => u64::from(F8E4M3::from_f32(value.float() as f32).to_bits()),
            Dtype::F8E5M2 => u64::from(F8E5M2::from_f32(value.float() as f32).to_bits()),
            _ => value.int() as u64,
        }
    };
    values.iter().flat_map(|value| bits(value).to_le_bytes()[..dtype.bytes() as usize].to_vec()).collect()
}

/// As the host has it.
pub(crate) fn decode(dtype: Dtype, bytes: &[u8]) -> Vec<Value> {
    let value = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let bits = u64::from_le_bytes(word);
        match dtype {
            Dtype::F64 => Value::Float(f64::from_bits(bits)),
            Dtype::F32 => Value::Float(f32::from_bits(bits as u32).into()),
            Dtype::F16 => Value::Float(f16::from_bits(bits as u16).into()),
            Dtype::Bf16 => Value::Float(bf16::from_bits(bits as u16).into()),
            Dtype::F8E4M3 => Value::Float(F8E4M3::from_bits(bits as u8).to_f32().into()),
            Dtype::F8E5M2 => Value::Float(F8E5M2::from_bits(bits as u8).to_f32().into()),
            Dtype::Bool => Value::Int(bits.into()),
            _ => Value::Int(wrapped(dtype, bits.into())),
        }
    };
    bytes.chunks(dtype.bytes() as usize).map(value).collect()
}
/// Scattered bits.
pub(crate) fn scattered(i: usize) -> u64 {
    let mut x = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^= x >> 29;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ (x >> 32)
}

/// Scattered between -1 and 1.
pub(crate) fn uniform(i: usize) -> f64 {
    (scattered(i) >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}
