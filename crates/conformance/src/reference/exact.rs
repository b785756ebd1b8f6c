//! A sum without rounding: every finite `f64`, and every product of two, is a multiple of 2^-2148.
//!
//! The sum is one long integer in such multiples (Kulisch's accumulator), in limbs of 32 bits that
//! are wide enough to carry late. Infinities and NaN are kept aside.

use super::format::exp2;

/// The exponent of the lowest bit.
const LOWEST: i32 = -2148;
/// Enough for 2^2048, many times.
const LIMBS: usize = 136;

/// An exact sum.
#[derive(Debug, Clone)]
pub struct Exact {
    limbs: [i64; LIMBS],
    /// The sum of what is not finite; zero if there is none.
    special: f64,
}

impl Default for Exact {
    fn default() -> Self {
        Self { limbs: [0; LIMBS], special: 0.0 }
    }
}

/// A finite number as `integer * 2^exponent`.
fn parts(x: f64) -> (i128, i32) {
    let bits = x.to_bits();
    let stored = ((bits >> 52) & 0x7ff) as i32;
    let fraction = i128::from(bits & ((1 << 52) - 1));
    let (integer, exponent) = if stored == 0 { (fraction, -1074) } else { (fraction | 1 << 52, stored - 1075) };
    (if x.is_sign_negative() { -integer } else { integer }, exponent)
}

impl Exact {
    /// Adds a number.
    pub fn add(&mut self, x: f64) {
        self.add_product(x, 1.0);
    }

    /// Adds a product.
    pub fn add_product(&mut self, x: f64, y: f64) {
        if !x.is_finite() || !y.is_finite() {
            self.special += x * y;
            return;
        }
        let ((a, a_exponent), (b, b_exponent)) = (parts(x), parts(y));
        let product = a * b;
        let position = (a_exponent + b_exponent - LOWEST) as usize;
        let (limb, shift) = (position / 32, position % 32);
        let mut magnitude = product.unsigned_abs();
        let sign = if product < 0 { -1 } else { 1 };
        // The first limb takes what is left of its 32 bits.
        let first = (magnitude & ((1 << (32 - shift)) - 1)) << shift;
        self.limbs[limb] += sign * first as i64;
        magnitude >>= 32 - shift;
        for limb in &mut self.limbs[limb + 1..] {
            if magnitude == 0 {
                break;
            }
            *limb += sign * (magnitude & 0xffff_ffff) as i64;
            magnitude >>= 32;
        }
    }

    /// The sum, rounded once. Below 2^-1022 it may be rounded twice.
    #[must_use]
    pub fn value(&self) -> f64 {
        if self.special != 0.0 || self.special.is_nan() {
            return self.special;
        }
        let (is_negative, limbs) = self.magnitude();
        let Some(top) = limbs.iter().rposition(|&limb| limb != 0) else { return 0.0 };
        let limb = |i: usize| top.checked_sub(i).map_or(0, |i| u128::from(limbs[i]));
        let mut leading = limb(0) << 64 | limb(1) << 32 | limb(2);
        let has_more = limbs[..top.saturating_sub(2)].iter().any(|&limb| limb != 0);
        leading = leading << 1 | u128::from(has_more);
        // An integer to float conversion rounds once; the last bit stands for all that is below it.
        let value = leading as f64;
        let exponent = 32 * (top as i32 - 2) - 1 + LOWEST;
        // In three steps, as the scale itself may be below what an f64 has.
        let third = exponent / 3;
        let value = value * exp2(third) * exp2(third) * exp2(exponent - 2 * third);
        if is_negative { -value } else { value }
    }

    /// The sign, and the limbs without it and with every carry done.
    fn magnitude(&self) -> (bool, [u32; LIMBS]) {
        let carried = |sign: i64| {
            let mut carry = 0;
            let limbs = self.limbs.map(|limb| {
                let sum = sign * limb + carry;
                carry = sum >> 32;
                sum as u32
            });
            (carry, limbs)
        };
        let (carry, limbs) = carried(1);
        if carry < 0 { (true, carried(-1).1) } else { (false, limbs) }
    }
}

impl FromIterator<f64> for Exact {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut sum = Self::default();
        values.into_iter().for_each(|x| sum.add(x));
        sum
    }
}

/// The sum of numbers, rounded once.
pub fn sum(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().collect::<Exact>().value()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases of CPython's `test_math.py`, `testFsum`, that are given as numbers.
    #[test]
    fn sums_are_those_of_fsum() {
        let p = |e: i32| 2f64.powi(e);
        let cases: [(&[f64], f64); 12] = [
            (&[], 0.0),
            (&[0.0], 0.0),
            (&[1e100, 1.0, -1e100, 1e-100, 1e50, -1.0, -1e50], 1e-100),
            (&[p(53), -0.5, -p(-54)], p(53) - 1.0),
            (&[p(53), 1.0, p(-100)], p(53) + 2.0),
            (&[p(53) + 10.0, 1.0, p(-100)], p(53) + 12.0),
            (&[p(53) - 4.0, 0.5, p(-54)], p(53) - 3.0),
            (&[1e16, 1.0, 1e-16], 10_000_000_000_000_002.0),
            (&[1e16 - 2.0, 1.0 - p(-53), -(1e16 - 2.0), -(1.0 - p(-53))], 0.0),
            (&[1e20, -1e20, 1e-20], 1e-20),
            (&[f64::from_bits(1), f64::from_bits(1)], f64::from_bits(2)),
            (&[f64::MAX, f64::MAX, -f64::MAX], f64::MAX),
        ];
        for (values, expected) in cases {
            assert_eq!(sum(values.iter().copied()), expected, "{values:?}");
        }
        let harmonic = (1..1001).map(|n| 1.0 / f64::from(n));
        assert_eq!(sum(harmonic), 7.485470860550345);
        let alternating = (1..1001).map(|n| if n % 2 == 0 { 1.0 } else { -1.0 } / f64::from(n));
        assert_eq!(sum(alternating), -0.6926474305598203);
    }

    #[test]
    fn special_values_go_through() {
        assert_eq!(sum([1.0, f64::INFINITY]), f64::INFINITY);
        assert!(sum([f64::INFINITY, f64::NEG_INFINITY]).is_nan());
        assert!(sum([f64::NAN, 1.0]).is_nan());
    }

    #[test]
    fn products_are_exact() {
        let mut exact = Exact::default();
        let x = 1.0 + f64::EPSILON;
        exact.add_product(x, x);
        exact.add(-1.0);
        exact.add(-2.0 * f64::EPSILON);
        assert_eq!(exact.value(), f64::EPSILON * f64::EPSILON);
        let mut exact = Exact::default();
        exact.add_product(1e200, 1e200);
        assert_eq!(exact.value(), f64::INFINITY);
        exact.add_product(-1e200, 1e200);
        exact.add_product(3.0, 7.0);
        assert_eq!(exact.value(), 21.0);
    }

    #[test]
    fn order_does_not_matter() {
        let mut random = crate::instructions::Random::new(3);
        let values: Vec<f64> =
            (0..500).map(|_| f64::from_bits(random.bits() & !(1 << 62))).filter(|x| x.is_finite()).collect();
        let forwards = sum(values.iter().copied());
        assert_eq!(forwards, sum(values.iter().rev().copied()));
        let negated = sum(values.iter().map(|x| -x));
        assert_eq!(forwards, -negated);
    }
}
