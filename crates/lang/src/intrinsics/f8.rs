//! Conversions of 8-bit floats: by `cvt` where the architecture has it, by integer arithmetic
//! elsewhere (PTX ISA, `cvt`: `.e4m3x2` and `.e5m2x2` need sm_89).

use warpfold_ptx::{Opcode, ScalarType};

use super::compare::{self, Comparison};
use super::convert;
use super::{Binary, arithmetic, logic};
use crate::recorder::{Raw, Recorder};
use crate::types::{F8E4M3, Format, Type};

/// Result of rounding a magnitude above the largest number of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overflow {
    /// The largest number.
    Saturate,
    /// Infinity, or NaN where the format has none.
    Leave,
}

/// Returns true if `cvt` has the formats; the kernel then requires their PTX version.
fn has_cvt(r: &mut Recorder) -> bool {
    let (arch, ptx_version) = if r.target.arch.number >= 90 { (90, (7, 8)) } else { (89, (8, 1)) };
    let has = r.target.has(arch, ptx_version);
    if has {
        r.require("conversions of 8-bit floats", arch, ptx_version);
    }
    has
}

fn name(format: Format) -> &'static str {
    if format == Format::E4M3 { "e4m3x2" } else { "e5m2x2" }
}

/// The number in f32, exactly.
pub(crate) fn decode(r: &mut Recorder, format: Format, a: Raw) -> Raw {
    if format == Format::E5M2 {
        // The upper half of an f16.
        let half = logic::shift(r, true, Type::U16, a, Raw::Const(8));
        return convert::convert(r, Type::F16, Type::F32, half, None);
    }
    if has_cvt(r) {
        let operand = r.in_register(Type::F8E4M3, a);
        let pair = r.define(ScalarType::B32, Opcode::Cvt, &["rn", "f16x2", name(format)], vec![operand]);
        let [low, _] = convert::unpack(r, Type::F16x2, Type::F16, pair);
        return convert::convert(r, Type::F16, Type::F32, low, None);
    }
    // Exponent and mantissa at their places in an f16. The sign is extended into both bits above.
    let byte = r.in_register(Type::F8E4M3, a);
    let extended = r.define(ScalarType::B16, Opcode::Cvt, &["s16", "s8"], vec![byte]);
    let shifted = logic::shift(r, true, Type::U16, extended, Raw::Const(7));
    let half = arithmetic::binary(r, Binary::And, Type::U16, shifted, Raw::Const(0xbf80));
    from_rebased_half(r, half)
}

/// The e4m3 number whose exponent stands in that of an f16, where the bias is 8 more; its NaNs
/// would be ±480.
fn from_rebased_half(r: &mut Recorder, half: Raw) -> Raw {
    let small = convert::convert(r, Type::F16, Type::F32, half, None);
    let number = arithmetic::binary(r, Binary::Mul, Type::F32, small, constant(256.0));
    let magnitude = arithmetic::abs(r, Type::F32, number);
    let is_nan = compare::compare(r, Comparison::Eq, Type::F32, magnitude, constant(480.0));
    compare::select(r, Type::F32, is_nan, constant(f32::NAN), number)
}

/// The numbers in the four bytes of a word, the lowest first.
pub(crate) fn decode_word(r: &mut Recorder, format: Format, word: Raw) -> [Raw; 4] {
    let halves = |r: &mut Recorder, pairs: [Raw; 2]| pairs.map(|pair| convert::unpack(r, Type::F16x2, Type::F16, pair));
    if format == Format::E4M3 && has_cvt(r) {
        let bytes = convert::unpack(r, Type::U32, Type::U16, word);
        let pairs = bytes.map(|bytes| {
            let operand = r.in_register(Type::U16, bytes);
            r.define(ScalarType::B32, Opcode::Cvt, &["rn", "f16x2", name(format)], vec![operand])
        });
        let [[a, b], [c, d]] = halves(r, pairs);
        return [a, b, c, d].map(|half| convert::convert(r, Type::F16, Type::F32, half, None));
    }
    // Each byte in the upper half of 16 bits.
    let spread = [0x1404, 0x3424].map(|order| super::bits::permute(r, word, Raw::Const(0), Raw::Const(order)));
    if format == Format::E5M2 {
        let [[a, b], [c, d]] = halves(r, spread);
        return [a, b, c, d].map(|half| convert::convert(r, Type::F16, Type::F32, half, None));
    }
    let rebased = spread.map(|pair| {
        let shifted = logic::shift(r, false, Type::U32, pair, Raw::Const(1));
        let magnitude = arithmetic::binary(r, Binary::And, Type::U32, shifted, Raw::Const(0x3f80_3f80));
        let sign = arithmetic::binary(r, Binary::And, Type::U32, pair, Raw::Const(0x8000_8000));
        arithmetic::binary(r, Binary::Or, Type::U32, magnitude, sign)
    });
    let [[a, b], [c, d]] = halves(r, rebased);
    [a, b, c, d].map(|half| from_rebased_half(r, half))
}

/// The bytes of the numbers nearest to four f32, the first one lowest; saturating.
pub(crate) fn encode_word(r: &mut Recorder, format: Format, values: [Raw; 4]) -> Raw {
    let [a, b, c, d] = values;
    let pairs = [[a, b], [c, d]].map(|[low, high]| {
        if has_cvt(r) {
            let operands = vec![r.operand(Type::F32, high), r.operand(Type::F32, low)];
            return r.define(ScalarType::B16, Opcode::Cvt, &["rn", "satfinite", name(format), "f32"], operands);
        }
        let [low, high] = [low, high].map(|value| encode_by_integers(r, format, value));
        let high = logic::shift(r, true, Type::U16, high, Raw::Const(8));
        arithmetic::binary(r, Binary::Or, Type::U16, low, high)
    });
    convert::pack(r, Type::U16, Type::U32, pairs)
}

/// The number nearest to an f32, ties to even.
pub(crate) fn encode(r: &mut Recorder, format: Format, a: Raw, overflow: Overflow) -> Raw {
    let byte = if has_cvt(r) {
        let operands = vec![r.operand(Type::F32, Raw::Const(0)), r.operand(Type::F32, a)];
        r.define(ScalarType::B16, Opcode::Cvt, &["rn", "satfinite", name(format), "f32"], operands)
    } else {
        encode_by_integers(r, format, a)
    };
    if overflow == Overflow::Saturate { byte } else { restore_overflow(r, format, a, byte) }
}

/// Saturating.
fn encode_by_integers(r: &mut Recorder, format: Format, a: Raw) -> Raw {
    let u32 = Type::U32;
    let bits = convert::bitcast(r, Type::F32, u32, a);
    let sign = sign_of(r, bits);
    let magnitude = arithmetic::binary(r, Binary::And, u32, bits, Raw::Const(0x7fff_ffff));
    let largest = Raw::Const(format.widen_normal(format.max).into());
    let limited = arithmetic::binary(r, Binary::Min, u32, magnitude, largest);
    // Half of the last place, less one unless the number below is odd; its carry may grow the
    // exponent.
    let shift = Raw::Const(format.shift().into());
    let odd = super::bits::extract(r, u32, limited, shift, Raw::Const(1));
    let bias = Raw::Const((1 << (format.shift() - 1)) - 1);
    let rounding = arithmetic::binary(r, Binary::Add, u32, odd, bias);
    let rounded = arithmetic::binary(r, Binary::Add, u32, limited, rounding);
    let shifted = logic::shift(r, false, u32, rounded, shift);
    let normal = arithmetic::binary(r, Binary::Sub, u32, shifted, Raw::Const(format.rebias().into()));
    // A sum whose last place is the smallest number rounds by itself.
    let unit = Raw::Const(format.subnormal_unit().into());
    let float = convert::bitcast(r, u32, Type::F32, limited);
    let sum = arithmetic::binary(r, Binary::Add, Type::F32, float, unit);
    let sum = convert::bitcast(r, Type::F32, u32, sum);
    let subnormal = arithmetic::binary(r, Binary::Sub, u32, sum, unit);
    let is_subnormal = compare::compare(r, Comparison::Lt, u32, limited, Raw::Const(format.min_normal().into()));
    let number = compare::select(r, u32, is_subnormal, subnormal, normal);
    let signed = arithmetic::binary(r, Binary::Or, u32, number, sign);
    let is_nan = compare::unordered(r, Type::F32, a, a);
    let nan = Raw::Const(F8E4M3::NAN.to_bits().into());
    let byte = compare::select(r, u32, is_nan, nan, signed);
    convert::convert(r, u32, Type::U16, byte, None)
}

/// Replaces what was saturated.
fn restore_overflow(r: &mut Recorder, format: Format, a: Raw, byte: Raw) -> Raw {
    let magnitude = arithmetic::abs(r, Type::F32, a);
    let last = Raw::Const(format.last_finite().into());
    let beyond = compare::compare(r, Comparison::Gt, Type::F32, magnitude, last);
    let nan = Raw::Const(F8E4M3::NAN.to_bits().into());
    let special = if format == Format::E4M3 {
        nan
    } else {
        let bits = convert::bitcast(r, Type::F32, Type::U32, a);
        let sign = sign_of(r, bits);
        let infinity = arithmetic::binary(r, Binary::Or, Type::U32, sign, Raw::Const(format.overflow.into()));
        convert::convert(r, Type::U32, Type::U16, infinity, None)
    };
    compare::select(r, Type::U16, beyond, special, byte)
}

/// The sign of an f32, at its place in a byte.
fn sign_of(r: &mut Recorder, bits: Raw) -> Raw {
    let shifted = logic::shift(r, false, Type::U32, bits, Raw::Const(24));
    arithmetic::binary(r, Binary::And, Type::U32, shifted, Raw::Const(0x80))
}

fn constant(value: f32) -> Raw {
    Raw::Const(value.to_bits().into())
}
