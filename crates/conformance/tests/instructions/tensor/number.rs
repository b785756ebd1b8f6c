//! Numbers of the element types, from their definitions.

use half::{bf16, f16};

/// An element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in PTX")]
pub(crate) enum Ty {
    F16,
    Bf16,
    Tf32,
    F32,
    F64,
    E4m3,
    E5m2,
    S8,
    U8,
    S4,
    U4,
    B1,
    S32,
}

impl Ty {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Tf32 => "tf32",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::E4m3 => "e4m3",
            Self::E5m2 => "e5m2",
            Self::S8 => "s8",
            Self::U8 => "u8",
            Self::S4 => "s4",
            Self::U4 => "u4",
            Self::B1 => "b1",
            Self::S32 => "s32",
        }
    }

    pub(crate) const fn bits(self) -> u32 {
        match self {
            Self::F64 => 64,
            Self::Tf32 | Self::F32 | Self::S32 => 32,
            Self::F16 | Self::Bf16 => 16,
            Self::E4m3 | Self::E5m2 | Self::S8 | Self::U8 => 8,
            Self::S4 | Self::U4 => 4,
            Self::B1 => 1,
        }
    }

    /// The number that bits mean.
    pub(crate) fn decode(self, bits: u64) -> f64 {
        let signed = |width: u32| ((bits << (64 - width)).cast_signed() >> (64 - width)) as f64;
        match self {
            Self::F16 => f16::from_bits(bits as u16).to_f64(),
            Self::Bf16 => bf16::from_bits(bits as u16).to_f64(),
            Self::Tf32 => f64::from(f32::from_bits(bits as u32 & 0xffff_e000)),
            Self::F32 => f64::from(f32::from_bits(bits as u32)),
            Self::F64 => f64::from_bits(bits),
            Self::E4m3 => small_float(bits, 3, 7, bits & 0x7f == 0x7f),
            Self::E5m2 if bits & 0x7f == 0x7c => {
                if bits & 0x80 == 0 {
                    f64::INFINITY
                } else {
                    f64::NEG_INFINITY
                }
            }
            Self::E5m2 => small_float(bits, 2, 15, bits & 0x7f > 0x7c),
            Self::S8 => signed(8),
            Self::S4 => signed(4),
            Self::S32 => signed(32),
            Self::U8 => (bits & 0xff) as f64,
            Self::U4 => (bits & 0xf) as f64,
            Self::B1 => (bits & 1) as f64,
        }
    }

    /// The bits of a number that the type has.
    pub(crate) fn encode(self, x: f64) -> u64 {
        let bits = match self {
            Self::F16 => u64::from(f16::from_f64(x).to_bits()),
            Self::Bf16 => u64::from(bf16::from_f64(x).to_bits()),
            Self::Tf32 | Self::F32 => u64::from((x as f32).to_bits()),
            Self::F64 => x.to_bits(),
            Self::E4m3 | Self::E5m2 => {
                let same = |bits: &u64| {
                    self.decode(*bits).to_bits() == x.to_bits() || self.decode(*bits).is_nan() && x.is_nan()
                };
                (0..256).find(same).unwrap_or_else(|| panic!("{} has no {x}", self.name()))
            }
            Self::S8 | Self::U8 | Self::S4 | Self::U4 | Self::B1 | Self::S32 => {
                (x as i64).cast_unsigned() & (u64::MAX >> (64 - self.bits()))
            }
        };
        assert!(self.decode(bits) == x || x.is_nan(), "{} has no {x}", self.name());
        bits
    }

    /// The nearest number that the type has, or for integers one of its numbers.
    pub(crate) fn round(self, x: f64) -> f64 {
        match self {
            Self::F16 => f16::from_f64(x).to_f64(),
            Self::Bf16 => bf16::from_f64(x).to_f64(),
            Self::Tf32 => self.decode(u64::from((x as f32).to_bits())),
            Self::F32 => f64::from(x as f32),
            Self::F64 => x,
            Self::E4m3 | Self::E5m2 => {
                let all = (0..256).map(|bits| self.decode(bits)).filter(|y| y.is_finite());
                all.min_by(|a, b| (a - x).abs().total_cmp(&(b - x).abs())).expect("some number is nearest")
            }
            Self::S8 | Self::U8 | Self::S4 | Self::U4 | Self::B1 | Self::S32 => x.round(),
        }
    }

    /// The least and greatest small integer to test with, so that sums stay exact.
    pub(crate) const fn small(self) -> (i32, i32) {
        match self {
            Self::S4 => (-8, 7),
            Self::U4 => (0, 15),
            Self::B1 => (0, 1),
            Self::S8 => (-128, 127),
            Self::U8 => (0, 255),
            Self::F16 | Self::Bf16 | Self::Tf32 | Self::F32 | Self::F64 | Self::E4m3 | Self::E5m2 | Self::S32 => {
                (-8, 8)
            }
        }
    }

    pub(crate) const fn is_integer(self) -> bool {
        matches!(self, Self::S8 | Self::U8 | Self::S4 | Self::U4 | Self::B1 | Self::S32)
    }
}

/// A float of 8 bits, by its fields.
fn small_float(bits: u64, mantissa_bits: u32, bias: i32, is_nan: bool) -> f64 {
    if is_nan {
        return f64::NAN;
    }
    let exponent = ((bits & 0x7f) >> mantissa_bits) as i32;
    let fraction = (bits & ((1 << mantissa_bits) - 1)) as f64 / f64::from(1 << mantissa_bits);
    let magnitude = match exponent {
        0 => fraction * 2f64.powi(1 - bias),
        _ => (1.0 + fraction) * 2f64.powi(exponent - bias),
    };
    if bits & 0x80 == 0 { magnitude } else { -magnitude }
}
