//! Conversions of any number to any floating-point format, with any rounding and modifier: in
//! integers, lane by lane.

use warpfold_ptx::{Instruction, ScalarType as T};

use crate::alu::float::finish::QUIET64;
use crate::alu::float::soft::{Format, Number, Rounding, Value};
use crate::exec::machine::Machine;
use crate::exec::op::{Handler, Op, map1};

/// A conversion of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Conversion {
    to: T,
    from: T,
    rounding: Rounding,
    ftz: bool,
    sat: bool,
    relu: bool,
    satfinite: bool,
}

impl Conversion {
    /// The conversion that an instruction's modifiers describe, between these (unpacked) types.
    pub(super) fn new(inst: &Instruction, rounding: Rounding, to: T, from: T) -> Self {
        let [ftz, sat, relu, satfinite] = ["ftz", "sat", "relu", "satfinite"].map(|m| inst.has(m));
        Self { to, from, rounding, ftz, sat, relu, satfinite }
    }

    /// Encodes the conversion as a number for `Op::imm`.
    pub(super) fn code(self) -> i64 {
        let flags = [self.ftz, self.sat, self.relu, self.satfinite];
        let flags = flags.iter().enumerate().fold(0, |sum, (i, &flag)| sum | i64::from(flag) << i);
        (self.to as i64) << 16 | (self.from as i64) << 8 | flags << 4 | self.rounding.code()
    }

    /// The inverse of [`Conversion::code`].
    pub(super) fn from_code(code: i64) -> Self {
        let ty = |shift: u32| T::ALL[usize::try_from(code >> shift & 0xff).expect("a byte is an index")];
        let [ftz, sat, relu, satfinite] = [4, 5, 6, 7].map(|bit| code >> bit & 1 != 0);
        Self { to: ty(16), from: ty(8), rounding: Rounding::from_code(code), ftz, sat, relu, satfinite }
    }

    /// Handler that runs the conversion on whole registers.
    pub(super) fn handler(self) -> Handler {
        match (self.to.bits(), self.from.bits()) {
            (64, 64) => run::<u64, u64>,
            (64, _) => run::<u64, u32>,
            (_, 64) => run::<u32, u64>,
            _ => run::<u32, u32>,
        }
    }

    /// Converts the bits of a number; those above its width are ignored.
    pub(super) fn apply(self, bits: u64) -> u64 {
        let bits = bits & (u64::MAX >> (64 - self.from.bits()));
        let source = format(self.from);
        let value = match source {
            Some(format) => Value::unpack(bits, format),
            None => integer(bits, self.from),
        };
        let value = match value {
            Value::Finite(number)
                if self.ftz && self.from == T::F32 && Format::F32.is_subnormal(bits & 0x7fff_ffff) =>
            {
                Value::Zero(number.negative)
            }
            value => value,
        };
        let target = format(self.to).expect("the decoder gave a floating-point type");
        let result = self.finish(value, target);
        let magnitude = result & !target.sign();
        match self.to {
            T::Tf32 if magnitude == target.nan => Format::F32.nan,
            T::Tf32 => result << 13,
            T::F32 if self.ftz && target.is_subnormal(magnitude) => result & target.sign(),
            _ => result,
        }
    }

    /// Converts a number of at most 32 bits to one of at most 32 bits.
    #[allow(clippy::cast_possible_truncation, reason = "the decoder gave narrow types")]
    pub(super) fn apply32(self, bits: u32) -> u32 {
        self.apply(bits.into()) as u32
    }

    fn finish(self, value: Value, target: Format) -> u64 {
        let one = ((1 << (target.exponent - 1)) - 1) << target.mantissa;
        let signed = |negative: bool, bits: u64| if negative { bits | target.sign() } else { bits };
        let is_clamped = |negative: bool| negative && (self.sat || self.relu);
        match value {
            Value::Nan(..) if self.sat => 0,
            Value::Nan(negative, payload) if self.to == T::F64 => signed(negative, target.infinity | QUIET64 | payload),
            Value::Nan(..) => target.nan,
            Value::Zero(negative) | Value::Infinity(negative) | Value::Finite(Number { negative, .. })
                if is_clamped(negative) =>
            {
                0
            }
            Value::Zero(negative) => signed(negative, 0),
            Value::Infinity(_) if self.sat => one,
            Value::Infinity(negative) if self.satfinite => signed(negative, target.max),
            Value::Infinity(negative) => signed(negative, target.infinity),
            Value::Finite(number) if self.sat && number.is_one_or_more() => one,
            Value::Finite(number) => {
                let rounded = number.round(target, self.rounding);
                if self.satfinite && rounded & !target.sign() > target.max {
                    signed(number.negative, target.max)
                } else {
                    rounded
                }
            }
        }
    }
}

/// The format of a floating-point type.
fn format(ty: T) -> Option<Format> {
    Some(match ty {
        T::F16 => Format::F16,
        T::Bf16 => Format::BF16,
        T::F32 => Format::F32,
        T::F64 => Format::F64,
        T::Tf32 => Format::TF32,
        _ => return None,
    })
}

/// The value of an integer.
fn integer(bits: u64, ty: T) -> Value {
    let unused = 64 - ty.bits();
    let signed = (bits << unused).cast_signed() >> unused;
    let negative = ty.is_signed() && signed < 0;
    match if negative { signed.unsigned_abs() } else { bits } {
        0 => Value::Zero(false),
        magnitude => Value::Finite(Number { negative, significand: magnitude.into(), exponent: 0 }),
    }
}

/// Converts a whole register.
///
/// # Safety
/// As for [`Handler`]; `op.imm` is the code of a conversion between types of these widths.
unsafe fn run<D: Bits, A: Bits>(m: &mut Machine, op: &Op, mask: u32) {
    let conversion = Conversion::from_code(op.imm);
    // SAFETY: passed on.
    unsafe { map1::<A, D>(m, op, mask, |a| D::cut(conversion.apply(a.widened()))) }
}

/// The bits of a lane of 32 or 64.
trait Bits: crate::exec::row::Lane {
    fn widened(self) -> u64;
    fn cut(bits: u64) -> Self;
}

impl Bits for u32 {
    fn widened(self) -> u64 {
        self.into()
    }
    #[allow(clippy::cast_possible_truncation, reason = "the format has at most 32 bits")]
    fn cut(bits: u64) -> Self {
        bits as Self
    }
}

impl Bits for u64 {
    fn widened(self) -> u64 {
        self
    }
    fn cut(bits: u64) -> Self {
        bits
    }
}
