//! How tensor cores add products of floats: aligned to the largest, truncated, added as integers.
//!
//! One step takes several products and the accumulator. The exponent of a product is the sum of
//! the exponents of its factors, before it is normalised (a product is below 4 of its exponent); a
//! subnormal factor has the exponent of the least normal number, and zero has none. Each term is
//! truncated, toward zero, to [`Rule::fraction`] bits after the point of the largest exponent;
//! their sum is exact, and then it is rounded once: toward zero to an `.f32`, to the nearest
//! `.f16`.
//!
//! Where this comes from is in `CALIBRATION.md`, "Sums of tensor cores".

use super::element::Element;
use crate::Arch;
use crate::alu::float::finish::canonical;
use crate::exec::row::LANES;

/// The exponent of zero: the sum with any other is below [`NOTHING`].
const OF_ZERO: i16 = -1000;
/// What is below has no term other than zero.
const NOTHING: i16 = -700;
/// The exponent of infinity and NaN: the sum with any other is above [`QUICK`].
const OF_SPECIAL: i16 = 3000;
/// Largest exponents for which products and terms are normal numbers of `.f32`.
const QUICK: std::ops::RangeInclusive<i16> = -100..=120;

/// Products of a step at most.
const MOST: usize = 32;

/// How an instruction adds its products.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rule {
    /// Products of a step; steps follow each other in the order of K.
    products: u8,
    /// Bits of a term after the point of the largest exponent.
    fraction: i16,
    /// Low bits of an `.f32` result that are cleared.
    cleared: u8,
    /// The instruction is done by two of half its depth, on factors converted to `.f16`: the first
    /// takes the lower halves of registers. The accumulator is added to their sum at the end.
    in_halves: bool,
    /// The exponent of subnormal elements of A and B.
    least: [i16; 2],
}

/// What the accumulators of an instruction are, before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Precision {
    /// `.f32`.
    Single,
    /// `.f16`: sums are rounded to odd, so that rounding them to `.f16` is right.
    Half,
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
            // On sm_90 the assembler makes two instructions of this `wmma`.
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

    /// The exponent of subnormal elements of A (0) or B (1).
    pub(crate) fn least(&self, operand: usize) -> i16 {
        self.least[operand]
    }
}

/// The exponent that alignment counts of a number whose type's subnormal numbers have `least`.
#[inline(always)]
pub(crate) fn exponent(x: f32, least: i16) -> i16 {
    let magnitude = x.to_bits() & 0x7fff_ffff;
    let field = (magnitude >> 23) as i16 - 127;
    let finite = if field < least { least } else { field };
    let number = if magnitude == 0 { OF_ZERO } else { finite };
    if magnitude >= 0x7f80_0000 { OF_SPECIAL } else { number }
}

/// A matrix operand, by column of A (row of B): whole rows of lanes, so that loops over them
/// vectorise.
pub(super) trait Operand {
    /// The numbers that lanes multiply.
    fn numbers(&self, k: usize) -> [f32; LANES];
    /// Their exponents.
    fn exponents(&self, k: usize) -> [i16; LANES];
}

impl Rule {
    /// Adds the products of all columns to the accumulators of all lanes.
    #[inline(always)]
    pub(super) fn add(
        &self,
        a: &impl Operand,
        b: &impl Operand,
        depth: usize,
        precision: Precision,
        sums: &mut [f32; LANES],
    ) {
        if self.in_halves {
            // Columns 0, 1, 4, 5, … and then 2, 3, 6, 7, …: the halves of registers.
            let mut products = [0.0; LANES];
            for half in 0..2 {
                self.step(a, b, depth / 2, |i| i / 2 * 4 + i % 2 + 2 * half, precision, &mut products);
                if precision == Precision::Half {
                    products = products.map(nearest_half);
                }
            }
            for lane in 0..LANES {
                // The sum of two `.f16`s is exact, or rounded to odd bits far below their own.
                sums[lane] += products[lane];
            }
            return;
        }
        let products = usize::from(self.products);
        for first in (0..depth).step_by(products) {
            if first > 0 && precision == Precision::Half {
                *sums = sums.map(nearest_half);
            }
            self.step(a, b, products.min(depth - first), |i| first + i, precision, sums);
        }
    }

    /// Adds `len` products, of the columns that `k` gives, in one step.
    #[inline(always)]
    fn step(
        &self,
        a: &impl Operand,
        b: &impl Operand,
        len: usize,
        k: impl Fn(usize) -> usize,
        precision: Precision,
        sums: &mut [f32; LANES],
    ) {
        let least = if precision == Precision::Half { -14 } else { -126 };
        let mut top = sums.map(|c| exponent(c, least));
        for i in 0..len {
            let (a, b) = (a.exponents(k(i)), b.exponents(k(i)));
            for lane in 0..LANES {
                top[lane] = top[lane].max(a[lane] + b[lane]);
            }
        }
        let mut is_quick = true;
        for top in &mut top {
            is_quick &= *top <= *QUICK.end() && (*top >= *QUICK.start() || *top < NOTHING);
        }
        if !is_quick {
            let mut terms = [[0.0; MOST]; LANES];
            for i in 0..len {
                let (a, b) = (a.numbers(k(i)), b.numbers(k(i)));
                for lane in 0..LANES {
                    terms[lane][i] = f64::from(a[lane]) * f64::from(b[lane]);
                }
            }
            for lane in 0..LANES {
                sums[lane] = self.add_slowly(&terms[lane], sums[lane], top[lane], precision);
            }
            return;
        }
        let mut scale = [0.0; LANES];
        for lane in 0..LANES {
            let exponent = 127 + i32::from(self.fraction - top[lane].max(*QUICK.start()));
            scale[lane] = f32::from_bits((exponent as u32) << 23);
        }
        let mut total = [0; LANES];
        for i in 0..len {
            let (a, b) = (a.numbers(k(i)), b.numbers(k(i)));
            for lane in 0..LANES {
                let term = a[lane] * b[lane] * scale[lane];
                // SAFETY: the term is finite and below 2^27: its product is below 4 of the largest
                // exponent.
                total[lane] += unsafe { term.to_int_unchecked::<i32>() };
            }
        }
        for lane in 0..LANES {
            // SAFETY: as above, below 2^26.
            let c = unsafe { (sums[lane] * scale[lane]).to_int_unchecked::<i32>() };
            let exponent = 127 - i32::from(self.fraction - top[lane].max(*QUICK.start()));
            let unit = f32::from_bits((exponent as u32) << 23);
            let exact = (f64::from(total[lane]) + f64::from(c)) * f64::from(unit);
            sums[lane] = self.round(exact, precision);
        }
    }

    /// The same of one lane, for all numbers.
    #[cold]
    #[inline(never)]
    fn add_slowly(&self, products: &[f64; MOST], c: f32, top: i16, precision: Precision) -> f32 {
        // Of zeros alone: any scale will do.
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

    /// The `.f32` of an exact sum below 2^128.
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

/// The nearest `.f16`, as an `.f32`.
#[inline(always)]
fn nearest_half(x: f32) -> f32 {
    super::element::f16(super::product::round_to_f16(x))
}
