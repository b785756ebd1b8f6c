//! Eight-bit floats on old and new architectures, and on the host, against integers: numbers are
//! counted in units of 2^-60, of which all that matters here is a whole number.

use half::{bf16, f16};
use warpfold_lang::{EightBitFloat, F8E4M3, F8E5M2, Val};

use crate::language::harness::check_old_and_new;

/// What a byte stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    Units(i128),
    Infinity { negative: bool },
    Nan,
}

/// A format as its standard states it.
#[derive(Clone, Copy)]
struct Standard {
    mantissa_bits: u32,
    bias: i32,
    /// Whether the largest exponent is left to infinities and NaNs; else its last number alone is
    /// NaN.
    has_infinities: bool,
}

const E4M3: Standard = Standard { mantissa_bits: 3, bias: 7, has_infinities: false };
const E5M2: Standard = Standard { mantissa_bits: 2, bias: 15, has_infinities: true };

impl Standard {
    fn magnitude(self, magnitude: u8) -> Number {
        let exponent = i32::from(magnitude >> self.mantissa_bits);
        let mantissa = i128::from(magnitude) & ((1 << self.mantissa_bits) - 1);
        if self.has_infinities && exponent == 31 {
            return if mantissa == 0 { Number::Infinity { negative: false } } else { Number::Nan };
        }
        if !self.has_infinities && magnitude == 0x7f {
            return Number::Nan;
        }
        let significand = if exponent == 0 { mantissa } else { mantissa + (1 << self.mantissa_bits) };
        Number::Units(significand << (60 + exponent.max(1) - self.bias - self.mantissa_bits as i32))
    }

    fn decode(self, byte: u8) -> Number {
        match self.magnitude(byte & 0x7f) {
            Number::Units(units) if byte > 0x7f => Number::Units(-units),
            Number::Infinity { .. } => Number::Infinity { negative: byte > 0x7f },
            number => number,
        }
    }

    /// The byte whose value is nearest, the even one of two; beyond the last one, that or what
    /// `saturate` forbids.
    fn encode(self, value: f64, saturate: bool) -> u8 {
        if value.is_nan() {
            return 0x7f;
        }
        let sign = u8::from(value.is_sign_negative()) << 7;
        let finite: Vec<i128> = (0..0x7f)
            .map_while(|byte| if let Number::Units(units) = self.magnitude(byte) { Some(units) } else { None })
            .collect();
        let last = finite.len() - 1;
        // The first number that is not there continues the spacing of the last ones.
        let next = 2 * finite[last] - finite[last - 1];
        // Twice the value in units, all that lies between two units as the odd number between them.
        let twice = doubled_units(value.abs());
        let beyond = twice > finite[last] + next || twice == finite[last] + next && last % 2 == 1;
        if beyond {
            let overflow = if self.has_infinities { sign | 0x7c } else { 0x7f };
            return if saturate { sign | last as u8 } else { overflow };
        }
        let below = finite.iter().rposition(|number| 2 * number <= twice).expect("zero is the least");
        let up = finite.get(below + 1).is_some_and(|above| {
            let middle = finite[below] + above;
            twice > middle || twice == middle && below % 2 == 1
        });
        sign | (below + usize::from(up)) as u8
    }
}

/// Twice a magnitude in units of 2^-60, rounded to odd, and limited to what is far beyond every
/// format.
fn doubled_units(magnitude: f64) -> i128 {
    let scaled = magnitude.min(1e6) * 61.0_f64.exp2();
    let whole = scaled.floor();
    whole as i128 | i128::from(whole != scaled)
}

/// All bytes.
fn bytes() -> Vec<u8> {
    (0..=255).collect()
}

/// Every f16, every tie between neighbours of the format with what is next to it, and what is far
/// away.
fn singles(standard: Standard) -> Vec<f32> {
    let halves = (0..=u16::MAX).map(|bits| f16::from_bits(bits).to_f32());
    let number = |byte| match standard.decode(byte) {
        Number::Units(units) => Some(units as f64 * (-60.0_f64).exp2()),
        Number::Infinity { .. } | Number::Nan => None,
    };
    let mut ties: Vec<f64> = (0..0x7f).filter_map(|byte| Some((number(byte)? + number(byte + 1)?) / 2.0)).collect();
    ties.extend([464.0, 480.0, 61440.0, 65536.0, 1e-38, 1e-45, 3e38]);
    let near = ties.into_iter().flat_map(|tie| {
        let tie = tie as f32;
        [tie.next_down(), tie, tie.next_up()].into_iter().flat_map(|x| [x, -x])
    });
    halves.chain(near).chain([f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN]).collect()
}

fn check_format<F: EightBitFloat>(standard: Standard, host: HostFormat) {
    check_old_and_new(
        "decode",
        &bytes(),
        |a: Val<u8>| a.bitcast::<F>().cast::<f32>(),
        |byte| {
            let expected = match standard.decode(byte) {
                Number::Units(0) => 0.0_f32.copysign(if byte > 0x7f { -1.0 } else { 1.0 }),
                Number::Units(units) => (units as f64 * (-60.0_f64).exp2()) as f32,
                Number::Infinity { negative } => {
                    if negative {
                        f32::NEG_INFINITY
                    } else {
                        f32::INFINITY
                    }
                }
                Number::Nan => f32::NAN,
            };
            let same = (host.decode)(byte).to_bits() == expected.to_bits()
                || (host.decode)(byte).is_nan() && expected.is_nan();
            assert!(same, "the host decodes {byte:#x} to {}", (host.decode)(byte));
            Some(expected)
        },
    );
    let singles = singles(standard);
    check_old_and_new(
        "encode",
        &singles,
        |a: Val<f32>| a.cast::<F>().bitcast::<u8>(),
        |value| {
            let expected = standard.encode(value.into(), true);
            assert_eq!((host.saturating)(value), expected, "the host on {value:e}");
            Some(expected)
        },
    );
    check_old_and_new(
        "unsaturated",
        &singles,
        |a: Val<f32>| a.cast_unsaturated::<F>().bitcast::<u8>(),
        |value| {
            let expected = standard.encode(value.into(), false);
            assert_eq!((host.unsaturated)(value), expected, "the host on {value:e}");
            Some(expected)
        },
    );
    // Four at a time, each as the casts of one do it.
    check_old_and_new(
        "unpack",
        &bytes(),
        |a: Val<u8>| {
            let word = (a.cast::<u32>() * 0x0101_0101) ^ 0x8001_7f00;
            let all = word.unpack_eight_bits::<F>();
            let differs = (0..4_u32).map(|i| {
                let single = (word >> (8 * i)).cast::<u8>().bitcast::<F>().cast::<f32>();
                let value = all[i as usize];
                !(value.bitcast::<u32>().eq(single.bitcast::<u32>()) | value.is_nan() & single.is_nan())
            });
            differs.reduce(|a, b| a | b).expect("there are four").cast::<u32>()
        },
        |_| Some(0),
    );
    check_old_and_new(
        "pack",
        &singles,
        |a: Val<f32>| {
            let values = [a, a * 1.5, -a, a + 1.0];
            let word = Val::pack_eight_bits::<F>(values);
            let single = |i: usize| values[i].cast::<F>().bitcast::<u8>().cast::<u32>() << (8 * i as u32);
            word ^ (single(0) | single(1) | single(2) | single(3))
        },
        |_| Some(0),
    );
    let halves: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
    check_old_and_new(
        "from_f16",
        &halves,
        |a: Val<f16>| a.cast::<F>().bitcast::<u8>(),
        |value| Some(standard.encode(value.into(), true)),
    );
    let brains: Vec<bf16> = (0..=u16::MAX).map(bf16::from_bits).collect();
    check_old_and_new(
        "from_bf16",
        &brains,
        |a: Val<bf16>| a.cast::<F>().bitcast::<u8>(),
        |value| Some(standard.encode(value.into(), true)),
    );
    // Just beside a tie, by less than f32 can tell.
    let doubles: Vec<f64> = singles.iter().flat_map(|x| [f64::from(*x).next_down(), f64::from(*x).next_up()]).collect();
    check_old_and_new(
        "from_f64",
        &doubles,
        |a: Val<f64>| a.cast::<F>().bitcast::<u8>(),
        |value| Some(standard.encode(value, true)),
    );
    let integers = [0, 1, -1, 17, 19, -21, 447, 465, 61439, -61441, i32::MAX, i32::MIN];
    check_old_and_new(
        "from_i32",
        &integers,
        |a: Val<i32>| a.cast::<F>().bitcast::<u8>(),
        |value| Some(standard.encode(value.into(), true)),
    );
    check_old_and_new(
        "to_i32",
        &bytes(),
        |a: Val<u8>| a.bitcast::<F>().cast::<i32>(),
        |byte| {
            let Number::Units(units) = standard.decode(byte) else { return None };
            Some((units / (1 << 60)) as i32)
        },
    );
    check_old_and_new(
        "to_bool",
        &bytes(),
        |a: Val<u8>| a.bitcast::<F>().cast::<bool>().cast::<u8>(),
        |byte| Some(u8::from(standard.decode(byte) != Number::Units(0))),
    );
}

/// The host's own conversions, as bytes.
struct HostFormat {
    decode: fn(u8) -> f32,
    saturating: fn(f32) -> u8,
    unsaturated: fn(f32) -> u8,
}

#[test]
fn e4m3_decodes_exactly_and_encodes_to_the_nearest() {
    check_format::<F8E4M3>(
        E4M3,
        HostFormat {
            decode: |byte| F8E4M3::from_bits(byte).to_f32(),
            saturating: |value| F8E4M3::from_f32(value).to_bits(),
            unsaturated: |value| F8E4M3::from_f32_unsaturated(value).to_bits(),
        },
    );
}

#[test]
fn e5m2_decodes_exactly_and_encodes_to_the_nearest() {
    check_format::<F8E5M2>(
        E5M2,
        HostFormat {
            decode: |byte| F8E5M2::from_bits(byte).to_f32(),
            saturating: |value| F8E5M2::from_f32(value).to_bits(),
            unsaturated: |value| F8E5M2::from_f32_unsaturated(value).to_bits(),
        },
    );
}
