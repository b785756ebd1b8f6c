//! What the ISA asks for, on top of the soft-float crate: flushing, saturation, NaNs.

#![allow(dead_code, reason = "each test binary uses a part")]

use rustc_apfloat::ieee::{BFloat, Double, Half, Single};
use rustc_apfloat::{Float, Round, StatusAnd};
use warpfold_conformance::instructions::{Kind, Random};

/// A format of a PTX register.
pub(crate) trait Format: Float {
    /// Its name in a modifier.
    const NAME: &str;
    /// Registers that hold it.
    const KIND: Kind;
    /// The NaN of a result, given the operands' bits.
    fn nan(operands: &[u64]) -> u64;
}

impl Format for Half {
    const NAME: &str = "f16";
    const KIND: Kind = Kind::F16;
    fn nan(_: &[u64]) -> u64 {
        0x7fff
    }
}

impl Format for BFloat {
    const NAME: &str = "bf16";
    const KIND: Kind = Kind::Bf16;
    fn nan(_: &[u64]) -> u64 {
        0x7fff
    }
}

impl Format for Single {
    const NAME: &str = "f32";
    const KIND: Kind = Kind::F32;
    fn nan(_: &[u64]) -> u64 {
        0x7fff_ffff
    }
}

impl Format for Double {
    const NAME: &str = "f64";
    const KIND: Kind = Kind::F64;
    /// The first NaN, quieted.
    fn nan(operands: &[u64]) -> u64 {
        let first = operands.iter().find(|&&bits| value::<Self>(bits).is_nan());
        first.map_or(0xfff8_0000_0000_0000, |bits| bits | 1 << 51)
    }
}

/// A number from its bits.
pub(crate) fn value<F: Float>(bits: u64) -> F {
    F::from_bits(bits.into())
}

/// The bits of a number.
pub(crate) fn bits<F: Float>(value: F) -> u64 {
    u64::try_from(value.to_bits()).expect("formats of at most 64 bits are used")
}

/// The modifiers of an instruction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Modifiers {
    /// As text: `.rz`, or nothing.
    pub(crate) rounding: &'static str,
    pub(crate) ftz: bool,
    pub(crate) sat: bool,
    pub(crate) relu: bool,
}

/// No modifiers but a rounding.
pub(crate) const fn rounded(rounding: &'static str) -> Modifiers {
    Modifiers { rounding, ftz: false, sat: false, relu: false }
}

impl Modifiers {
    /// Each rounding with each combination of `.ftz` and `.sat`.
    pub(crate) fn all(roundings: &[&'static str]) -> Vec<Self> {
        let flags = [(false, false), (false, true), (true, false), (true, true)];
        let with = |&rounding| flags.map(|(ftz, sat)| Self { rounding, ftz, sat, relu: false });
        roundings.iter().flat_map(with).collect()
    }

    /// As they are written.
    pub(crate) fn text(self) -> String {
        let flag = |name, written| if written { name } else { "" };
        [self.rounding, flag(".ftz", self.ftz), flag(".sat", self.sat), flag(".relu", self.relu)].concat()
    }

    /// How the soft-float crate calls the rounding.
    pub(crate) fn round(self) -> Round {
        match self.rounding {
            "" | ".rn" => Round::NearestTiesToEven,
            ".rna" => Round::NearestTiesToAway,
            ".rz" => Round::TowardZero,
            ".rm" => Round::TowardNegative,
            ".rp" => Round::TowardPositive,
            other => panic!("no rounding {other}"),
        }
    }

    /// An operand as the operation sees it.
    pub(crate) fn operand<F: Float>(self, bits: u64) -> F {
        if self.ftz { flushed(value(bits)) } else { value(bits) }
    }

    /// The bits of a result.
    pub(crate) fn finish<F: Format>(self, result: StatusAnd<F>, operands: &[u64]) -> u64 {
        let result = if self.ftz { flushed(result.value) } else { result.value };
        self.clamp(result, F::nan(operands))
    }

    /// `.sat` and `.relu`, and the NaN if there is one.
    pub(crate) fn clamp<F: Float>(self, result: F, nan: u64) -> u64 {
        let one = F::from_u128(1).value;
        match () {
            () if result.is_nan() && self.sat => 0,
            () if result.is_nan() => nan,
            () if result.is_negative() && (self.sat || self.relu) => 0,
            () if self.sat && result > one => bits(one),
            () => bits(result),
        }
    }
}

/// A subnormal number as zero with its sign.
pub(crate) fn flushed<F: Float>(value: F) -> F {
    if value.is_denormal() { F::ZERO.copy_sign(value) } else { value }
}

/// Every value of 16 bits.
pub(crate) fn all_16() -> Vec<[u64; 1]> {
    (0..0x1_0000).map(|bits| [bits]).collect()
}

/// `n` random elements.
pub(crate) fn random<const I: usize>(kinds: [Kind; I], n: usize) -> Vec<[u64; I]> {
    let mut random = Random::new(0xf10a7);
    (0..n).map(|_| kinds.map(|kind| kind.random(&mut random))).collect()
}
