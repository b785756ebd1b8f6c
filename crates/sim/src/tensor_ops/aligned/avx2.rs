//! Eight rows and eight columns of products at once, with AVX2.
//!
//! A row of accumulators is one vector. First comes the largest exponent of each: those of a row
//! of A are spread by byte shuffles, two rows a vector. Then each product is scaled so that
//! its integer part is what the tensor core keeps of it.
//!
//! NOTE: loops count and nothing is mapped, so that nothing but vectors is left of the functions of
//! the library, which are compiled without AVX2.

use std::arch::x86_64::*;
use std::ops::Range;

use super::{Factors, NOTHING, OF_SPECIAL, OF_ZERO, Precision, QUICK, Rule};
use crate::tensor_ops::product::Square;

/// Rows of accumulators summed together, so that they and their scales stay in registers.
const TOGETHER: usize = 4;

/// Largest sum of products that leaves room for the accumulator in 32 bits.
const ROOM: i32 = i32::MAX - (1 << 27);

/// For each of eight columns, the positions of the two bytes of its exponent, eight times.
const SPREAD: [[i16; 8]; 8] = {
    let mut spread = [[0; 8]; 8];
    let mut column = 0;
    while column < 8 {
        spread[column] = [(2 * column + 256 * (2 * column + 1)) as i16; 8];
        column += 1;
    }
    spread
};

/// Adds the products of some columns. Returns false, with nothing done, if exponents or sums are
/// too large or too small for this method.
///
/// # Safety
/// The host has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn step(
    rule: &Rule,
    factors: &Factors<'_>,
    columns: Range<usize>,
    precision: Precision,
    sums: &mut Square,
) -> bool {
    let top = exponents_of_products(factors, columns.clone());
    let (start, end) = (all(i32::from(*QUICK.start())), all(i32::from(*QUICK.end())));
    let (nothing, least) = (all(i32::from(NOTHING)), all(i32::from(precision.least())));
    let (bias, fraction) = (all(127), all(i32::from(rule.fraction)));
    let mut scales = [_mm256_setzero_ps(); 8];
    let mut units = [_mm256_setzero_ps(); 8];
    let mut is_slow = _mm256_setzero_si256();
    for row in 0..8 {
        let half = if row % 2 == 0 {
            _mm256_castsi256_si128(top[row / 2])
        } else {
            _mm256_extracti128_si256::<1>(top[row / 2])
        };
        // The exponents of infinity and NaN are above those that are quick.
        let top = _mm256_max_epi32(_mm256_cvtepi16_epi32(half), exponents(load(&sums[row]), least));
        let above = _mm256_cmpgt_epi32(top, end);
        let below = _mm256_andnot_si256(_mm256_cmpgt_epi32(nothing, top), _mm256_cmpgt_epi32(start, top));
        is_slow = _mm256_or_si256(is_slow, _mm256_or_si256(above, below));
        let shift = _mm256_sub_epi32(fraction, _mm256_max_epi32(top, start));
        scales[row] = _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(bias, shift)));
        units[row] = _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_sub_epi32(bias, shift)));
    }
    if _mm256_testz_si256(is_slow, is_slow) == 0 {
        return false;
    }
    let mut results = [_mm256_setzero_ps(); 8];
    let mut is_large = _mm256_setzero_si256();
    for first in [0, TOGETHER] {
        let mut totals = [_mm256_setzero_si256(); TOGETHER];
        for k in columns.start..columns.end {
            let b = load(&factors.b[k]);
            for i in 0..TOGETHER {
                let product = _mm256_mul_ps(_mm256_set1_ps(factors.a[first + i][k]), b);
                let term = _mm256_mul_ps(product, scales[first + i]);
                totals[i] = _mm256_add_epi32(totals[i], _mm256_cvttps_epi32(term));
            }
        }
        for i in 0..TOGETHER {
            let row = first + i;
            is_large = _mm256_or_si256(is_large, _mm256_cmpgt_epi32(_mm256_abs_epi32(totals[i]), all(ROOM)));
            let c = _mm256_cvttps_epi32(_mm256_mul_ps(load(&sums[row]), scales[row]));
            let exact = _mm256_add_epi32(totals[i], c);
            results[row] = _mm256_mul_ps(rounded(rule, exact, precision), units[row]);
        }
    }
    if _mm256_testz_si256(is_large, is_large) == 0 {
        return false;
    }
    for row in 0..8 {
        // SAFETY: a row has eight numbers.
        unsafe { _mm256_storeu_ps(sums[row].as_mut_ptr(), results[row]) };
    }
    true
}

/// The exponents of two rows of eight numbers, whose subnormal numbers have `least`.
#[target_feature(enable = "avx2")]
#[inline]
pub(in crate::tensor_ops) fn exponents_of_rows(first: &[f32; 8], second: &[f32; 8], least: i16) -> [[i16; 8]; 2] {
    let least = all(i32::from(least));
    let (first, second) = (special_exponents(load(first), least), special_exponents(load(second), least));
    // Packing goes by halves of the vectors.
    let packed = _mm256_permute4x64_epi64::<0b1101_1000>(_mm256_packs_epi32(first, second));
    let mut out = [[0; 8]; 2];
    // SAFETY: sixteen exponents are a vector.
    unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), packed) };
    out
}

#[target_feature(enable = "avx2")]
#[inline]
fn all(n: i32) -> __m256i {
    _mm256_set1_epi32(n)
}

#[target_feature(enable = "avx2")]
#[inline]
fn load(row: &[f32; 8]) -> __m256 {
    // SAFETY: a row has eight numbers.
    unsafe { _mm256_loadu_ps(row.as_ptr()) }
}

/// Eight exponents, twice.
#[target_feature(enable = "avx2")]
#[inline]
fn twice(eight: &[i16; 8]) -> __m256i {
    // SAFETY: eight exponents are 16 bytes.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(eight.as_ptr().cast()) })
}

/// The largest exponents of the products: of rows 0 and 1, 2 and 3, and so on.
#[target_feature(enable = "avx2")]
#[inline]
fn exponents_of_products(factors: &Factors<'_>, columns: Range<usize>) -> [__m256i; 4] {
    let mut top = [_mm256_set1_epi16(2 * OF_ZERO); 4];
    let mut k = columns.start;
    while k < columns.end {
        let rows = &factors.a_exponents[k / 8];
        let mut a = [_mm256_setzero_si256(); 4];
        for pair in 0..4 {
            // SAFETY: two rows of eight exponents are a vector.
            a[pair] = unsafe { _mm256_loadu_si256(rows[2 * pair..].as_ptr().cast()) };
        }
        let end = columns.end.min(k / 8 * 8 + 8);
        while k < end {
            let (spread, b) = (twice(&SPREAD[k % 8]), twice(&factors.b_exponents[k]));
            for pair in 0..4 {
                let sum = _mm256_add_epi16(_mm256_shuffle_epi8(a[pair], spread), b);
                top[pair] = _mm256_max_epi16(top[pair], sum);
            }
            k += 1;
        }
    }
    top
}

/// The exponents of finite numbers.
#[target_feature(enable = "avx2")]
#[inline]
fn exponents(numbers: __m256, least: __m256i) -> __m256i {
    let magnitude = _mm256_and_si256(_mm256_castps_si256(numbers), all(0x7fff_ffff));
    let field = _mm256_sub_epi32(_mm256_srli_epi32::<23>(magnitude), all(127));
    let is_zero = _mm256_cmpeq_epi32(magnitude, _mm256_setzero_si256());
    _mm256_blendv_epi8(_mm256_max_epi32(field, least), all(i32::from(OF_ZERO)), is_zero)
}

/// The exponents of any numbers.
#[target_feature(enable = "avx2")]
#[inline]
fn special_exponents(numbers: __m256, least: __m256i) -> __m256i {
    let magnitude = _mm256_and_si256(_mm256_castps_si256(numbers), all(0x7fff_ffff));
    let is_special = _mm256_cmpgt_epi32(magnitude, all(0x7f7f_ffff));
    _mm256_blendv_epi8(exponents(numbers, least), all(i32::from(OF_SPECIAL)), is_special)
}

/// Rounds integers by the rule.
#[target_feature(enable = "avx2")]
#[inline]
fn rounded(rule: &Rule, exact: __m256i, precision: Precision) -> __m256 {
    let near = _mm256_cvtepi32_ps(exact);
    let back = _mm256_cvttps_epi32(near);
    // All bits, which is -1, where the nearest number is the next one.
    let beyond = _mm256_cmpgt_epi32(_mm256_abs_epi32(back), _mm256_abs_epi32(exact));
    let toward_zero = _mm256_add_epi32(_mm256_castps_si256(near), beyond);
    _mm256_castsi256_ps(match precision {
        Precision::Single => _mm256_and_si256(toward_zero, all(-1 << rule.cleared)),
        Precision::Half => {
            let is_exact = _mm256_cmpeq_epi32(back, exact);
            _mm256_or_si256(toward_zero, _mm256_andnot_si256(is_exact, all(1)))
        }
    })
}
