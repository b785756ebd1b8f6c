//! Sums without rounding, on the host: every finite `f64`, and every product of two, is a multiple
//! of 2^-2148.

/// An integer in such multiples, in limbs of 32 bits that carry late (Kulisch's accumulator).
pub(crate) struct Exact {
    limbs: Vec<i64>,
}

impl Exact {
    pub(crate) fn new() -> Self {
        Self { limbs: vec![0; 140] }
    }

    /// Of a sum of `f64`.
    pub(crate) fn sum(terms: impl IntoIterator<Item = f64>) -> Self {
        let mut exact = Self::new();
        terms.into_iter().for_each(|term| exact.add(term, 1.0));
        exact
    }

    /// Adds a product of finite numbers.
    pub(crate) fn add(&mut self, x: f64, y: f64) {
        let ((a, a_exponent), (b, b_exponent)) = (parts(x), parts(y));
        let position = (a_exponent + b_exponent + 2148) as usize;
        let (first, shift) = (position / 32, position % 32);
        let product = i128::from(a) * i128::from(b);
        let (sign, mut rest) = (product.signum() as i64, product.unsigned_abs());
        let low = (rest << shift) as u32;
        rest >>= 32 - shift;
        self.limbs[first] += sign * i64::from(low);
        for limb in &mut self.limbs[first + 1..first + 5] {
            *limb += sign * i64::from(rest as u32);
            rest >>= 32;
        }
    }

    /// The sum, to a few units in the last place.
    pub(crate) fn value(&self) -> f64 {
        let mut limbs = self.limbs.clone();
        for i in 0..limbs.len() - 1 {
            limbs[i + 1] += limbs[i] >> 32;
            limbs[i] &= 0xffff_ffff;
        }
        if limbs[limbs.len() - 1] < 0 {
            return -Self { limbs: self.limbs.iter().map(|limb| -limb).collect() }.value();
        }
        let Some(top) = limbs.iter().rposition(|limb| *limb != 0) else { return 0.0 };
        let leading = (0..4).map(|i| top.checked_sub(i).map_or(0, |i| limbs[i] as u128));
        let leading = leading.fold(0_u128, |sum, limb| sum << 32 | limb);
        let exponent = 32 * (top as i32 - 3) - 2148;
        leading as f64 * f64::exp2(f64::from(exponent / 2)) * f64::exp2(f64::from(exponent - exponent / 2))
    }
}

fn parts(x: f64) -> (i64, i32) {
    let stored = (x.to_bits() >> 52 & 0x7ff) as i32;
    let fraction = (x.to_bits() & ((1 << 52) - 1)) as i64;
    let (integer, exponent) = if stored == 0 { (fraction, -1074) } else { (fraction | 1 << 52, stored - 1075) };
    (if x.is_sign_negative() { -integer } else { integer }, exponent)
}

#[test]
fn sums_that_cancel_keep_what_is_left() {
    // From CPython's tests of fsum.
    assert_eq!(Exact::sum([1e100, 1.0, -1e100, 1e-100, 1e50, -1.0, -1e50]).value(), 1e-100);
    assert_eq!(Exact::sum([9_007_199_254_740_992.0, -0.5, -f64::exp2(-54.0)]).value(), 9_007_199_254_740_991.0);
    assert_eq!(Exact::sum([f64::MAX, f64::from_bits(1), -f64::MAX]).value(), f64::from_bits(1));
    let mut squares = Exact::new();
    squares.add(1e-150, 1e-150);
    squares.add(3.0, 3.0);
    squares.add(-3.0, 3.0);
    assert!((squares.value() / 1e-300 - 1.0).abs() < 1e-15);
}
