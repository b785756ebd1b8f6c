//! Rounding to odd, which makes a second rounding correct.

/// Rounds a number to odd in f32, so that rounding the result to 16 bits or fewer is a single
/// rounding.
///
/// NOTE: `half`'s own conversions from f64 drop the low bits first, which turns "just above a tie"
/// into a tie.
#[allow(clippy::cast_possible_truncation, reason = "the rounding is put right below")]
pub(crate) fn to_odd_f32(value: f64) -> f32 {
    let nearest = value as f32;
    if f64::from(nearest) == value {
        return nearest;
    }
    let beyond = f64::from(nearest).abs() > value.abs();
    f32::from_bits((nearest.to_bits() - u32::from(beyond)) | 1)
}

#[cfg(test)]
mod tests {
    use super::to_odd_f32;
    use half::{bf16, f16};

    #[test]
    fn just_above_a_tie_rounds_up_and_a_tie_to_even() {
        let f16_of = |value| f16::from_f32(to_odd_f32(value)).to_f64();
        let bf16_of = |value| bf16::from_f32(to_odd_f32(value)).to_f64();
        assert_eq!((f16_of(2049.0), f16_of(2049.0 + 1e-10), f16_of(2051.0)), (2048.0, 2050.0, 2052.0));
        assert_eq!((bf16_of(257.0), bf16_of(257.0 + 1e-12), bf16_of(-257.0 - 1e-12)), (256.0, 258.0, -258.0));
        assert_eq!((f16_of(1e300), bf16_of(1e300), bf16_of(-1e300)), (f64::INFINITY, f64::INFINITY, f64::NEG_INFINITY));
        assert_eq!((f16_of(1e-300), bf16_of(0.0)), (0.0, 0.0));
    }
}
