//! The types of `cvt`, and what the ISA asks of a conversion between two of them.
//!
//! Every number passes through 113 bits of significand, which hold all of them exactly.

use rustc_apfloat::ieee::{BFloat, Double, Float8E4M3FN, Float8E5M2, Half, IeeeFloat, Quad, Semantics, Single};
use rustc_apfloat::{Float, FloatConvert, Round};
use warpfold_conformance::instructions::{Kind, combinations};

use crate::instructions::convert::reference::{Modifiers, all_16, bits, flushed, random, value};

/// `.tf32` without the 13 bits that are zero.
pub(crate) struct Tf32Semantics;
impl Semantics for Tf32Semantics {
    const BITS: usize = 19;
    const EXP_BITS: usize = 8;
}
type Tf32 = IeeeFloat<Tf32Semantics>;

/// A type of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Unsigned(u32),
    Signed(u32),
    F16,
    Bf16,
    F32,
    F64,
    Tf32,
    E4m3,
    E5m2,
}
use Type::{Signed, Unsigned};

pub(crate) const INTEGERS: [Type; 8] =
    [Unsigned(8), Unsigned(16), Unsigned(32), Unsigned(64), Signed(8), Signed(16), Signed(32), Signed(64)];

pub(crate) const FLOATS: [Type; 4] = [Type::F16, Type::Bf16, Type::F32, Type::F64];

/// Does the same with the soft-float type of a format.
macro_rules! with_format {
    ($ty:expr, $name:ident => $body:expr) => {
        match $ty {
            Type::F16 => {
                type $name = Half;
                $body
            }
            Type::Bf16 => {
                type $name = BFloat;
                $body
            }
            Type::F32 => {
                type $name = Single;
                $body
            }
            Type::F64 => {
                type $name = Double;
                $body
            }
            Type::Tf32 => {
                type $name = Tf32;
                $body
            }
            Type::E4m3 => {
                type $name = Float8E4M3FN;
                $body
            }
            Type::E5m2 => {
                type $name = Float8E5M2;
                $body
            }
            Unsigned(_) | Signed(_) => unreachable!("not a format"),
        }
    };
}

impl Type {
    pub(crate) fn name(self) -> String {
        match self {
            Unsigned(bits) => format!("u{bits}"),
            Signed(bits) => format!("s{bits}"),
            other => format!("{other:?}").to_lowercase(),
        }
    }

    pub(crate) fn kind(self) -> Kind {
        match self {
            Unsigned(bits) | Signed(bits) => Kind::Int(bits.max(16)),
            Self::F16 => Kind::F16,
            Self::Bf16 => Kind::Bf16,
            Self::F32 => Kind::F32,
            Self::F64 => Kind::F64,
            Self::Tf32 => Kind::Int(32),
            Self::E4m3 | Self::E5m2 => Kind::Int(16),
        }
    }

    pub(crate) fn bits(self) -> u32 {
        match self {
            Unsigned(bits) | Signed(bits) => bits,
            Self::E4m3 | Self::E5m2 => 8,
            other => other.kind().bits(),
        }
    }

    pub(crate) fn is_integer(self) -> bool {
        matches!(self, Unsigned(_) | Signed(_))
    }

    /// The value of an integer.
    pub(crate) fn integer(self, bits: u64) -> i128 {
        let wide = u128::from(bits) << (128 - self.bits());
        match self {
            Signed(width) => wide.cast_signed() >> (128 - width),
            _ => (wide >> (128 - self.bits())).cast_signed(),
        }
    }

    /// The smallest and largest integer.
    pub(crate) fn range(self) -> (i128, i128) {
        match self {
            Signed(bits) => (-1 << (bits - 1), (1 << (bits - 1)) - 1),
            _ => (0, (1 << self.bits()) - 1),
        }
    }

    /// The NaN of a result.
    fn nan(self) -> u64 {
        match self {
            Self::E4m3 | Self::E5m2 => 0x7f,
            Self::F16 | Self::Bf16 => 0x7fff,
            _ => 0x7fff_ffff,
        }
    }

    fn read(self, bits: u64) -> Quad {
        if self.is_integer() {
            return Quad::from_i128(self.integer(bits)).value;
        }
        with_format!(self, F => value::<F>(bits).convert(&mut false).value)
    }

    /// Values at which a conversion from this type may go wrong.
    pub(crate) fn samples(self) -> Vec<[u64; 1]> {
        let mut samples = if self.kind().bits() == 16 { all_16() } else { combinations([self.kind()]) };
        samples.extend(random([self.kind()], 4000));
        match self {
            Self::F32 => samples.extend(boundaries()),
            Self::F64 => samples.extend(boundaries().into_iter().flat_map(|[bits]| {
                let wide: Double = value::<Single>(bits).convert(&mut false).value;
                let bits = crate::instructions::convert::reference::bits(wide);
                [[bits], [bits.wrapping_add(1)], [bits.wrapping_sub(1)]]
            })),
            _ => {}
        }
        samples
    }
}

/// Numbers of `.f32` on, between and beside those of the shorter formats.
fn boundaries() -> Vec<[u64; 1]> {
    let mut all = Vec::new();
    for top in (0..0x1_0000).step_by(7) {
        for low in [0, 0x0fff, 0x1000, 0x1001, 0x3000, 0x7fff, 0x8000, 0x8001] {
            all.push([top << 16 | low]);
        }
    }
    // Halves of the smallest f16, and of the smallest e4m3 and e5m2.
    for unit in [2f32.powi(-25), 2f32.powi(-10), 2f32.powi(-17)] {
        for n in 0..520u16 {
            let bits = u64::from((f32::from(n) * unit).to_bits());
            all.extend([[bits], [bits + 1], [bits.saturating_sub(1) | 1 << 31]]);
        }
    }
    // Halves of integers, and the ends of the ranges of integers.
    for n in 0..600u16 {
        let bits = u64::from((f32::from(n) / 2.0).to_bits());
        all.extend([[bits], [bits | 1 << 31], [bits + 1]]);
    }
    for power in [7, 8, 15, 16, 31, 32, 63, 64] {
        let bits = u64::from(2f32.powi(power).to_bits());
        all.extend([-2, -1, 0, 1, 2].map(|n| [bits.wrapping_add_signed(n)]));
        all.extend([-2, -1, 0, 1, 2].map(|n| [bits.wrapping_add_signed(n) | 1 << 31]));
    }
    all
}

/// A conversion.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Conversion {
    pub(crate) to: Type,
    pub(crate) from: Type,
    pub(crate) modifiers: Modifiers,
    pub(crate) satfinite: bool,
}

impl Conversion {
    pub(crate) fn new(to: Type, from: Type, modifiers: Modifiers) -> Self {
        Self { to, from, modifiers, satfinite: false }
    }

    /// The modifiers as they are written.
    pub(crate) fn text(self) -> String {
        format!("{}{}", self.modifiers.text(), if self.satfinite { ".satfinite" } else { "" })
    }

    /// The whole instruction.
    pub(crate) fn line(self) -> String {
        format!("cvt{}.{}.{} x, a;", self.text(), self.to.name(), self.from.name())
    }

    /// The bits of the result, of the width of the destination type.
    pub(crate) fn result(self, a: u64) -> u64 {
        let x = match self.from {
            Type::F32 => self.modifiers.operand::<Single>(a).convert(&mut false).value,
            from => from.read(a),
        };
        match (self.to.is_integer(), self.from.is_integer()) {
            (true, true) => self.between_integers(a),
            (true, false) => self.to_integer(x),
            _ => self.to_float(x),
        }
    }

    fn between_integers(self, a: u64) -> u64 {
        let (min, max) = self.to.range();
        let value = self.from.integer(a);
        let value = if self.modifiers.sat { value.clamp(min, max) } else { value };
        (value as u64) & (u64::MAX >> (64 - self.to.bits()))
    }

    /// "Zero if source is not `.f64` and destination is not `.s64`, `.u64`; otherwise `1 <<
    /// (BitWidth(dst) - 1)`."
    fn to_integer(self, x: Quad) -> u64 {
        let (min, max) = self.to.range();
        let bits = self.to.bits();
        if x.is_nan() {
            return if self.from == Type::F64 || bits == 64 { 1 << (bits - 1) } else { 0 };
        }
        let rounded = x.round_to_integral(integral(self.modifiers.rounding).expect("an integer rounding")).value;
        let bound = |n: i128| Quad::from_i128(n).value;
        let value = if rounded >= bound(max) {
            max
        } else if rounded <= bound(min) {
            min
        } else {
            rounded.to_i128(100).value
        };
        (value as u64) & (u64::MAX >> (64 - bits))
    }

    fn to_float(self, x: Quad) -> u64 {
        let m = self.modifiers;
        let (x, round) = match integral(m.rounding) {
            Some(round) => (x.round_to_integral(round).value, Round::NearestTiesToEven),
            None => (x, m.round()),
        };
        with_format!(self.to, F => {
            let largest: Quad = F::largest().convert(&mut false).value;
            let result: F = x.convert_r(round, &mut false).value;
            let result = if self.satfinite && !x.is_nan() && (x.abs() > largest || !result.is_finite()) {
                F::largest().copy_sign(if x.is_negative() { -F::largest() } else { F::largest() })
            } else {
                result
            };
            let result = if m.ftz && self.to == Type::F32 { flushed(result) } else { result };
            // A NaN of .f64 keeps the payload, quieted, as the soft-float crate does.
            let nan = if self.to == Type::F64 { bits(result) } else { self.to.nan() };
            let result_bits = m.clamp(result, nan);
            if self.to == Type::Tf32 && !result.is_nan() { result_bits << 13 } else { result_bits }
        })
    }
}

/// How the soft-float crate calls an integer rounding.
fn integral(rounding: &str) -> Option<Round> {
    Some(match rounding {
        ".rni" => Round::NearestTiesToEven,
        ".rzi" => Round::TowardZero,
        ".rmi" => Round::TowardNegative,
        ".rpi" => Round::TowardPositive,
        _ => return None,
    })
}
