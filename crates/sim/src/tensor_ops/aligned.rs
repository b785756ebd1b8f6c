//! Tensor-core sums of floats: products aligned to the largest, truncated, added as integers.
//!
//! One step takes several products and the accumulator. The exponent of a product is the sum of
//! the exponents of its factors, before it is normalised (a product is below 4 of its exponent); a
//! subnormal factor has the exponent of the least normal number, and zero has none. Each term is
//! truncated, toward zero, to [`Rule::fraction`] bits after the point of the largest exponent;
//! their sum is exact, and then it is rounded once: toward zero to an `.f32`, to the nearest
//! `.f16`.
//!
//! Where this comes from is in `CALIBRATION.md`, "Sums of tensor cores".
//!
//! Eight rows and eight columns go together: with AVX2 in [`avx2`], elsewhere, and where exponents
//! are extreme, row by row here.

use std::ops::Range;

use super::element::Element;
use super::product::{DEPTH, Square};
use crate::Arch;
use crate::alu::float::finish::canonical;

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2;
#[cfg(test)]
mod tests;

/// The exponent of zero: the sum with any other is below [`NOTHING`].
const OF_ZERO: i16 = -1000;
/// Exponent below which every term is zero.
const NOTHING: i16 = -700;
/// The exponent of infinity and NaN: the sum with any other is above [`QUICK`].
const OF_SPECIAL: i16 = 3000;
/// Largest exponents for which products and terms are normal numbers of `.f32`.
const QUICK: std::ops::RangeInclusive<i16> = -100..=120;

/// Maximum number of products in a step.
pub(super) const MOST: usize = 32;

/// Summation rule of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rule {
    /// Products per step; steps follow each other in the order of K.
    products: u8,
    /// Fraction bits of a term, relative to the largest exponent.
    fraction: i16,
    /// Low bits of an `.f32` result that are cleared.
    cleared: u8,
    /// True if the instruction is executed as two of half its depth, on operands converted to
    /// `.f16`: the first takes the lower halves of registers. The accumulator is added to their sum
    /// at the end.
    in_halves: bool,
    /// The exponent of subnormal elements of A and B.
    least: [i16; 2],
}

/// Precision of an instruction's accumulators, before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Precision {
    /// `.f32`.
    Single,
    /// `.f16`: sums are rounded to odd, so that rounding them to `.f16` is correct.
    Half,
}

impl Precision {
    /// The exponent of subnormal accumulators.
    #[inline(always)]
    const fn least(self) -> i16 {
        if matches!(self, Self::Half) { -14 } else { -126 }
    }
}

/// The instruction that multiplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// `mma.sync`.
    Mma,
    /// `wmma.mma`.
    Wmma,
    /// `wgmma.mma_async`.
    Wgmma,
}

/// The exponent of subnormal elements.
const fn least(element: Element) -> i16 {
    match element {
        Element::F16 | Element::E5m2 => -14,
        Element::E4m3 => -6,
        _ => -126,
    }
}

impl Rule {
    /// The rule of an architecture for `depth` columns of A. sm_90 as measured; sm_80 to sm_89 as
    /// in the literature.
    pub(crate) fn of(arch: Arch, by: By, types: [Element; 2], depth: u32) -> Self {
        let is_fp8 = types[0].is_fp8();
        let is_hopper = arch.number >= 90;
        let products = match types[0] {
            // On sm_90 the assembler splits this `wmma` into two instructions.
            Element::Tf32 if by == By::Wmma || !is_hopper => 4,
            _ if is_hopper => depth,
            _ if is_fp8 => 16,
            _ => 8,
        };
        let in_halves = is_fp8 && is_hopper && by != By::Wgmma;
        let is_coarse = is_fp8 && !in_halves;
        let fraction = match (is_coarse, is_hopper) {
            (true, _) => 13,
            (false, true) => 25,
            (false, false) => 24,
        };
        Self {
            products: u8::try_from(products.min(depth)).expect("a small count"),
            fraction,
            cleared: if is_coarse { 10 } else { 0 },
            in_halves,
            least: if in_halves { [-14; 2] } else { types.map(least) },
        }
    }

    /// Returns true if an instruction is done by two of half its depth: then the columns that the
    /// first one takes precede the others.
    #[inline(always)]
    pub(super) fn is_in_halves(&self) -> bool {
        self.in_halves
    }

    /// The exponent of subnormal elements of A (0) or B (1).
    #[inline(always)]
    pub(crate) fn least(&self, operand: usize) -> i16 {
        self.least[operand]
    }
}

/// The exponent of a number for alignment; `least` is that of the type's subnormal numbers.
#[inline(always)]
pub(crate) fn exponent(x: f32, least: i16) -> i16 {
    let magnitude = x.to_bits() & 0x7fff_ffff;
    let field = (magnitude >> 23) as i16 - 127;
    let finite = if field < least { least } else { field };
    let number = if magnitude == 0 { OF_ZERO } else { finite };
    if magnitude >= 0x7f80_0000 { OF_SPECIAL } else { number }
}

/// Eight rows of A and eight columns of B, as numbers with their exponents.
#[derive(Debug, Clone, Copy)]
pub(super) struct Factors<'a> {
    /// A by row.
    pub a: &'a [[f32; DEPTH]; 8],
    /// Exponents of A by eight columns, then by row.
    pub a_exponents: &'a [[[i16; 8]; 8]; MOST / 8],
    /// B by row.
    pub b: &'a [[f32; 8]; DEPTH],
    /// Exponents of B.
    pub b_exponents: &'a [[i16; 8]; MOST],
}

impl Rule {
    /// Adds the products of all columns of A to the accumulators.
    #[inline(always)]
    pub(super) fn add(&self, factors: &Factors<'_>, depth: usize, precision: Precision, sums: &mut Square) {
        if self.in_halves {
            let mut products = [[0.0; 8]; 8];
            for half in 0..2 {
                let first = half * depth / 2;
                self.step(factors, first..first + depth / 2, precision, &mut products);
                if precision == Precision::Half {
                    round_to_halves(&mut products);
                }
            }
            for row in 0..8 {
                for column in 0..8 {
                    // The sum of two `.f16`s is exact, or rounded to odd bits far below their own.
                    sums[row][column] += products[row][column];
                }
            }
            return;
        }
        let products = usize::from(self.products);
        let mut first = 0;
        while first < depth {
            if first > 0 && precision == Precision::Half {
                round_to_halves(sums);
            }
            let next = depth.min(first + products);
            self.step(factors, first..next, precision, sums);
            first = next;
        }
    }

    /// Adds the products of some columns in one step.
    #[inline(always)]
    fn step(&self, factors: &Factors<'_>, columns: Range<usize>, precision: Precision, sums: &mut Square) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the host has the instructions.
            if unsafe { avx2::step(self, factors, columns.clone(), precision, sums) } {
                return;
            }
        }
        self.plain_step(factors, columns, precision, sums);
    }

    /// Adds the products on any host, for all numbers.
    #[inline(never)]
    fn plain_step(&self, factors: &Factors<'_>, columns: Range<usize>, precision: Precision, sums: &mut Square) {
        for (row, sums) in sums.iter_mut().enumerate() {
            self.row(factors, row, columns.clone(), precision, sums);
        }
    }

    /// Adds to one row of accumulators.
    #[inline(always)]
    fn row(&self, f: &Factors<'_>, row: usize, columns: Range<usize>, precision: Precision, sums: &mut [f32; 8]) {
        let mut top = sums.map(|c| exponent(c, precision.least()));
        for k in columns.clone() {
            let a = f.a_exponents[k / 8][row][k % 8];
            for (top, b) in top.iter_mut().zip(&f.b_exponents[k]) {
                *top = (*top).max(a + b);
            }
        }
        let is_quick = |top: i16| top <= *QUICK.end() && (top >= *QUICK.start() || top < NOTHING);
        if !top.into_iter().all(is_quick) {
            for (column, sum) in sums.iter_mut().enumerate() {
                let mut terms = [0.0; MOST];
                for (term, k) in terms.iter_mut().zip(columns.clone()) {
                    *term = f64::from(f.a[row][k]) * f64::from(f.b[k][column]);
                }
                *sum = self.add_slowly(&terms, *sum, top[column], precision);
            }
            return;
        }
        let mut scale = [0.0; 8];
        for (scale, top) in scale.iter_mut().zip(top) {
            let exponent = 127 + i32::from(self.fraction - top.max(*QUICK.start()));
            *scale = f32::from_bits((exponent as u32) << 23);
        }
        let mut total = [0; 8];
        for k in columns {
            for ((total, b), scale) in total.iter_mut().zip(&f.b[k]).zip(&scale) {
                let term = f.a[row][k] * b * scale;
                // SAFETY: the term is finite and below 2^27: its product is below 4 of the largest
                // exponent.
                *total += unsafe { term.to_int_unchecked::<i32>() };
            }
        }
        for (column, sum) in sums.iter_mut().enumerate() {
            // SAFETY: as above, below 2^26.
            let c = unsafe { (*sum * scale[column]).to_int_unchecked::<i32>() };
            let exponent = 127 - i32::from(self.fraction - top[column].max(*QUICK.start()));
            let unit = f32::from_bits((exponent as u32) << 23);
            let exact = (f64::from(total[column]) + f64::from(c)) * f64::from(unit);
            *sum = self.round(exact, precision);
        }
    }

    /// Adds to one accumulator, for all numbers.
    #[cold]
    #[inline(never)]
    fn add_slowly(&self, products: &[f64; MOST], c: f32, top: i16, precision: Precision) -> f32 {
        // If all terms are zero, any scale will do.
        let scale = 2f64.powi(i32::from(self.fraction - top.max(-300)));
        let (mut total, mut plain) = (0, f64::from(c));
        let c_term = f64::from(c) * scale;
        for &product in products {
            plain += product;
            total += (product * scale) as i64;
        }
        if !plain.is_finite() {
            return f32::from_bits(canonical(plain as f32));
        }
        total += c_term as i64;
        let exact = total as f64 / scale;
        if exact.abs() >= 2f64.powi(128) {
            return f32::INFINITY.copysign(exact as f32);
        }
        self.round(exact, precision)
    }

    /// Rounds an exact sum below 2^128 to `.f32`.
    #[inline(always)]
    fn round(&self, exact: f64, precision: Precision) -> f32 {
        let near = exact as f32;
        let beyond = f64::from(near).abs() > exact.abs();
        let toward_zero = near.to_bits() - u32::from(beyond);
        f32::from_bits(match precision {
            Precision::Single => toward_zero & (u32::MAX << self.cleared),
            Precision::Half => toward_zero | u32::from(f64::from(near) != exact),
        })
    }
}

/// Rounds to the nearest `.f16`, kept as `.f32`.
#[inline(always)]
fn round_to_halves(sums: &mut Square) {
    for row in 0..8 {
        for column in 0..8 {
            sums[row][column] = super::element::f16(super::product::round_to_f16(sums[row][column]));
        }
    }
}
