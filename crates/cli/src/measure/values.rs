//! Contents of buffers, each a function of its description alone.

use serde::Deserialize;

use super::case::Dtype;

/// Where elements come from.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Values {
    /// Uniform between the bounds; whole numbers include the upper one.
    Random { seed: u64, low: f64, high: f64 },
    /// Uniform over all bit patterns.
    Bits { seed: u64 },
    /// start, start + 1, …
    Iota(f64),
    /// The same everywhere.
    Const(f64),
    /// These, from the start again when they are used up.
    Cycle(Vec<f64>),
}

impl Values {
    /// `len` elements as bytes.
    pub(crate) fn bytes(&self, dtype: Dtype, len: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(len * dtype.bytes());
        let mut state = match self {
            Self::Random { seed, .. } | Self::Bits { seed } => *seed,
            Self::Iota(_) | Self::Const(_) | Self::Cycle(_) => 0,
        };
        for i in 0..len {
            match self {
                Self::Bits { .. } => out.extend_from_slice(&next(&mut state).to_le_bytes()[..dtype.bytes()]),
                Self::Random { low, high, .. } => {
                    let share = (next(&mut state) >> 11) as f64 / (1u64 << 53) as f64;
                    let value = low + share * (high - low);
                    let is_float = matches!(dtype, Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64);
                    push(&mut out, dtype, if is_float { value } else { (low + share * (high - low + 1.0)).floor() });
                }
                Self::Iota(start) => push(&mut out, dtype, start + i as f64),
                Self::Const(value) => push(&mut out, dtype, *value),
                Self::Cycle(all) => push(&mut out, dtype, all.get(i % all.len().max(1)).copied().unwrap_or(0.0)),
            }
        }
        out
    }
}

/// SplitMix64.
pub(crate) fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "contents need no exact rounding")]
fn push(out: &mut Vec<u8>, dtype: Dtype, value: f64) {
    match dtype {
        Dtype::F64 => out.extend_from_slice(&value.to_le_bytes()),
        Dtype::F32 => out.extend_from_slice(&(value as f32).to_le_bytes()),
        Dtype::Bf16 => out.extend_from_slice(&(value as f32).to_le_bytes()[2..]),
        Dtype::F16 => out.extend_from_slice(&f16_bits(value as f32).to_le_bytes()),
        _ => out.extend_from_slice(&(value as i64).to_le_bytes()[..dtype.bytes()]),
    }
}

/// The f16 toward zero; numbers below its normal ones are zero, those above infinite.
fn f16_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    let (sign, exponent) = ((bits >> 16 & 0x8000) as u16, (bits >> 23 & 0xff) as i32 - 112);
    match exponent {
        ..=0 => sign,
        31.. => sign | 0x7c00,
        _ => sign | (exponent as u16) << 10 | (bits >> 13 & 0x3ff) as u16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_the_bytes_of_their_type() {
        let cycle = Values::Cycle(vec![1.0, -2.0, 0.5]);
        assert_eq!(cycle.bytes(Dtype::F16, 3), [0x00, 0x3c, 0x00, 0xc0, 0x00, 0x38]);
        assert_eq!(cycle.bytes(Dtype::Bf16, 2), [0x80, 0x3f, 0x00, 0xc0]);
        assert_eq!(Values::Iota(254.0).bytes(Dtype::U8, 3), [254, 255, 0]);
    }
}
