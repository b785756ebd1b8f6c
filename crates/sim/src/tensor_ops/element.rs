//! Element types of matrices, and their conversion to `f32`, in which all their products are exact.

use warpfold_ptx::Instruction;

/// The type of an element of A or B, other than `.f64` and `.b1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant is the PTX type of the same name")]
pub(crate) enum Element {
    F16,
    Bf16,
    Tf32,
    E4m3,
    E5m2,
    S8,
    U8,
    S4,
    U4,
}

impl Element {
    /// The type of a modifier, if it is one.
    pub(crate) fn from_modifier(text: &str) -> Option<Self> {
        Some(match text {
            "f16" => Self::F16,
            "bf16" => Self::Bf16,
            "tf32" => Self::Tf32,
            "e4m3" => Self::E4m3,
            "e5m2" => Self::E5m2,
            "s8" => Self::S8,
            "u8" => Self::U8,
            "s4" => Self::S4,
            "u4" => Self::U4,
            _ => return None,
        })
    }

    /// Size in bits.
    pub(crate) const fn bits(self) -> u32 {
        match self {
            Self::Tf32 => 32,
            Self::F16 | Self::Bf16 => 16,
            Self::E4m3 | Self::E5m2 | Self::S8 | Self::U8 => 8,
            Self::S4 | Self::U4 => 4,
        }
    }

    /// Returns true for integer types.
    pub(crate) const fn is_integer(self) -> bool {
        matches!(self, Self::S8 | Self::U8 | Self::S4 | Self::U4)
    }

    /// Returns true for 8-bit floats.
    pub(crate) const fn is_fp8(self) -> bool {
        matches!(self, Self::E4m3 | Self::E5m2)
    }
}

/// The type modifiers of an instruction, as text: `.s4` and `.b1` are not PTX scalar types.
pub(crate) fn types(inst: &Instruction) -> Vec<&str> {
    const OTHERS: [&str; 4] = ["f32", "f64", "s32", "b1"];
    let is_type = |m: &&str| Element::from_modifier(m).is_some() || OTHERS.contains(m);
    inst.modifiers.iter().map(|m| m.as_str()).filter(is_type).collect()
}

/// Element types as Rust types, so that loops over elements are compiled for each.
pub(crate) trait Widen {
    /// Elements in 32 bits.
    const PER_WORD: usize;
    /// The number that an element's bits represent. Exact; written so that loops over it vectorise.
    fn widen(bits: u32) -> f32;
}

macro_rules! widen {
    ($($(#[$doc:meta])* $ty:ident, $per_word:literal = |$bits:ident| $body:expr;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $ty;
        impl Widen for $ty {
            const PER_WORD: usize = $per_word;
            #[inline(always)]
            fn widen($bits: u32) -> f32 { $body }
        }
    )*};
}

widen! {
    /// `.f16`
    F16, 2 = |bits| f16(bits);
    /// `.bf16`
    Bf16, 2 = |bits| f32::from_bits(bits << 16);
    /// `.tf32`: the low 13 bits do not count, so that a NaN without any other is an infinity
    /// (MMA-Sim, arXiv 2511.10909).
    Tf32, 1 = |bits| f32::from_bits(bits & 0xffff_e000);
    /// `.e4m3`, which has no infinities and one NaN of each sign.
    E4m3, 4 = |bits| {
        const SHIFT: f32 = f32::from_bits((127 + 120) << 23);
        let magnitude = bits & 0x7f;
        let scaled = (f32::from_bits(magnitude << 20) * SHIFT).to_bits();
        f32::from_bits(if magnitude == 0x7f { 0x7fff_ffff } else { scaled } | (bits & 0x80) << 24)
    };
    /// `.e5m2`: the upper half of an `.f16`.
    E5m2, 4 = |bits| f16(bits << 8);
    /// `.s8`
    S8, 4 = |bits| ((bits << 24) as i32 >> 24) as f32;
    /// `.u8`
    U8, 4 = |bits| bits as i32 as f32;
    /// `.s4`
    S4, 8 = |bits| ((bits << 28) as i32 >> 28) as f32;
    /// `.u4`
    U4, 8 = |bits| bits as i32 as f32;
}

/// The number that 16 bits represent as an `.f16`.
#[inline(always)]
pub(crate) fn f16(bits: u32) -> f32 {
    // The exponent moves by the difference of the biases; a multiplication does that for subnormal
    // numbers, too.
    const SHIFT: f32 = f32::from_bits((127 + 112) << 23);
    let magnitude = (bits & 0x7fff) << 13;
    let scaled = (f32::from_bits(magnitude) * SHIFT).to_bits();
    let special = if magnitude >= 0x7c00 << 13 { magnitude | 0x7f80_0000 } else { scaled };
    f32::from_bits(special | (bits & 0x8000) << 16)
}

/// Evaluates an expression with `$ty` standing for the type of a run-time [`Element`].
macro_rules! with_element {
    ($element:expr, $ty:ident => $body:expr) => {
        match $element {
            Element::F16 => {
                type $ty = element::F16;
                $body
            }
            Element::Bf16 => {
                type $ty = element::Bf16;
                $body
            }
            Element::Tf32 => {
                type $ty = element::Tf32;
                $body
            }
            Element::E4m3 => {
                type $ty = element::E4m3;
                $body
            }
            Element::E5m2 => {
                type $ty = element::E5m2;
                $body
            }
            Element::S8 => {
                type $ty = element::S8;
                $body
            }
            Element::U8 => {
                type $ty = element::U8;
                $body
            }
            Element::S4 => {
                type $ty = element::S4;
                $body
            }
            Element::U4 => {
                type $ty = element::U4;
                $body
            }
        }
    };
}
pub(crate) use with_element;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_f16_is_widened_as_the_half_crate_does() {
        for bits in 0..=u16::MAX {
            let (mine, reference) = (f16(u32::from(bits)), half::f16::from_bits(bits).to_f32());
            assert!(mine.to_bits() == reference.to_bits() || mine.is_nan() && reference.is_nan(), "{bits:#06x}");
        }
    }

    #[test]
    fn fp8_follows_the_definition_of_its_fields() {
        let value = |bits: u32, mantissa_bits: u32, bias: i32| {
            let (exponent, mantissa) = ((bits & 0x7f) >> mantissa_bits, bits & ((1 << mantissa_bits) - 1));
            let fraction = f64::from(mantissa) / f64::from(1 << mantissa_bits);
            let exponent = i32::try_from(exponent).expect("small");
            let magnitude = if exponent == 0 {
                fraction * 2f64.powi(1 - bias)
            } else {
                (1.0 + fraction) * 2f64.powi(exponent - bias)
            };
            if bits & 0x80 != 0 { -magnitude } else { magnitude }
        };
        for bits in 0..=255 {
            let found = E4m3::widen(bits);
            assert!(
                if bits & 0x7f == 0x7f { found.is_nan() } else { f64::from(found) == value(bits, 3, 7) },
                "{bits:#x}"
            );
            let found = E5m2::widen(bits);
            match bits & 0x7f {
                0..=0x7b => assert_eq!(f64::from(found), value(bits, 2, 15), "{bits:#x}"),
                0x7c => assert!(found.is_infinite() && (found < 0.0) == (bits == 0xfc)),
                _ => assert!(found.is_nan(), "{bits:#x}"),
            }
        }
    }
}
