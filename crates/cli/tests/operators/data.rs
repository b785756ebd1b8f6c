//! What the arrays of the cases hold: numbers that are easy, wide, equal, special, and chosen to
//! hurt.

use warpfold_conformance::instructions::Random;
use warpfold_conformance::reference::array::{Array, Value};
use warpfold_conformance::reference::dtype::Dtype;

/// A kind of contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fill {
    /// Small whole numbers: many are equal, sums are exact in most types.
    Small,
    /// Between -1 and 1; integers of all sizes.
    Even,
    /// Magnitudes over many powers of two; integers of all sizes and the limits.
    Wide,
    /// Small numbers with NaN, infinities and both zeros among them.
    Special,
    /// Small numbers with infinities of one sign, chosen by the seed, and both zeros among them.
    Infinite,
    /// Large numbers that cancel, and tiny ones that are left.
    Cancelling,
    /// Alternating signs of nearly equal numbers.
    Alternating,
    /// Far from zero, close to one another.
    Offset,
    /// Below the normal numbers.
    Denormal,
    /// Around one: long products stay in range.
    NearOne,
    /// Above zero.
    Positive,
    /// All the same.
    Equal,
    /// All minus infinity; the lowest integer.
    Lowest,
    /// All NaN; the largest integer.
    NotANumber,
    /// Positive and negative zeros.
    Zeros,
}

use Fill::{
    Alternating, Cancelling, Denormal, Equal, Even, Infinite, Lowest, NearOne, NotANumber, Offset, Positive, Small,
    Special, Wide, Zeros,
};

impl Fill {
    /// For operators that take any number.
    pub(crate) const ALL: [Self; 15] = [
        Small,
        Special,
        Even,
        Cancelling,
        Wide,
        Infinite,
        Alternating,
        Denormal,
        Offset,
        Equal,
        Lowest,
        Positive,
        NotANumber,
        Zeros,
        NearOne,
    ];
    /// Finite and of moderate size.
    pub(crate) const TAME: [Self; 6] = [Even, Small, Offset, Positive, Equal, Alternating];
}

/// An array of a type and a shape.
pub(crate) fn array(dtype: Dtype, shape: &[usize], fill: Fill, seed: u64) -> Array {
    let mut random = Random::new(seed.wrapping_mul(0x1_0001).wrapping_add(fill as u64));
    let len = shape.iter().product();
    let value = |i: usize, random: &mut Random| {
        if dtype.is_float() {
            Value::Float(float(dtype, fill, i, seed, random))
        } else {
            Value::Int(int(dtype, fill, random))
        }
    };
    let values: Vec<_> = (0..len).map(|i| value(i, &mut random)).collect();
    if dtype.is_float() {
        Array::new(dtype, shape, values.iter().map(|v| finite(dtype, *v)))
    } else {
        Array::new(dtype, shape, values)
    }
}

/// What a narrow type rounds to infinity stays its largest number, as infinities are for the fills
/// that ask for them.
fn finite(dtype: Dtype, value: Value) -> Value {
    match value {
        Value::Float(x) if x.is_finite() => Value::Float(dtype.format().round_saturating(x)),
        other => other,
    }
}

/// Between -1 and 1.
fn unit(random: &mut Random) -> f64 {
    (random.bits() >> 11) as f64 / 2f64.powi(52) - 1.0
}

fn small(random: &mut Random) -> f64 {
    random.below(17) as f64 - 8.0
}

fn float(dtype: Dtype, fill: Fill, i: usize, seed: u64, random: &mut Random) -> f64 {
    let format = dtype.format();
    // The exponents that a square still has.
    let reach = (format.max().log2() / 2.0 - 2.0).floor();
    let sign = if random.bits() & 1 == 1 { 1.0 } else { -1.0 };
    let one_of = |list: &[f64], random: &mut Random| list[random.below(list.len())];
    match fill {
        Small => small(random),
        Even => unit(random),
        Wide => sign * (unit(random) * reach.min(20.0)).exp2(),
        Special if random.below(9) == 0 => one_of(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0], random),
        Infinite if random.below(9) == 0 => {
            one_of(&[if seed.is_multiple_of(2) { f64::INFINITY } else { f64::NEG_INFINITY }, -0.0, 0.0], random)
        }
        Special | Infinite => small(random),
        Cancelling => {
            let large = reach.min(66.0).exp2();
            [large, 1.0 / large, -large, 1.0][i % 4]
        }
        Alternating => (if i.is_multiple_of(2) { 1.0 } else { -1.0 }) * (1.0 + unit(random) / 64.0),
        Offset => (1000.0 + unit(random)).min(format.max() / 2.0),
        Denormal => sign * format.min_normal() * unit(random),
        NearOne => sign * (unit(random) / 64.0).exp2(),
        Positive => unit(random).abs() + 0.125,
        Equal => 2.5,
        Lowest => f64::NEG_INFINITY,
        NotANumber => f64::NAN,
        Zeros => sign * 0.0,
    }
}

fn int(dtype: Dtype, fill: Fill, random: &mut Random) -> i128 {
    let (low, high) = dtype.range();
    if dtype == Dtype::Bool {
        return match fill {
            Lowest | Zeros => 0,
            Equal | NotANumber | NearOne => 1,
            Offset | Alternating => i128::from(random.below(97) != 0),
            Special | Infinite | Denormal => i128::from(random.below(97) == 0),
            Small | Even | Wide | Cancelling | Positive => i128::from(random.bits() & 1 == 1),
        };
    }
    let any = i128::from(random.bits());
    match fill {
        Even | Cancelling | Denormal | Alternating => any,
        Wide if random.below(5) == 0 => [low, high, 0, -1][random.below(4)],
        Wide => any >> random.below(64),
        Small | Special | Infinite => random.below(17) as i128 - if low < 0 { 8 } else { 0 },
        Offset => high - random.below(5) as i128,
        NearOne => random.below(3) as i128 - if low < 0 { 1 } else { 0 },
        Positive => 1 + random.below(9) as i128,
        Equal => 3,
        Lowest => low,
        NotANumber => high,
        Zeros => 0,
    }
}
