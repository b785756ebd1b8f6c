//! The routine behind all matrix products: eight rows of A and eight columns of B at a time.
//!
//! A [`Block`] is eight rows of A, or eight columns of B, as a register of all lanes holds them. A
//! pair of registers holds the accumulators of eight rows and eight columns: lane `4g + t` has
//! columns `2t` and `2t + 1` of row `g`. So in a [`Square`] of them, and wherever there are eight
//! columns, the even ones stand before the odd ones: a row is four lanes of one register and four
//! of the other. Operands are widened to `f32` once, into a [`Scratch`] that stays in the
//! first-level cache; of floats it has their exponents, too.

#[cfg(target_arch = "x86_64")]
use super::aligned::avx2;
use super::aligned::{Factors, MOST, Precision, Rule, exponent};
use super::element::{self, Element, Widen, with_element};
use crate::alu::float::finish::{NAN16, canonical};
use crate::exec::machine::Machine;
use crate::exec::row::LANES;

/// Maximum words in a row of A: 32 bytes.
pub(crate) const WORDS: usize = 8;
/// Maximum columns of A.
pub(super) const DEPTH: usize = 64;

/// Eight rows of A (or columns of B): by four words, then by row.
pub(crate) type Block = [[u32; LANES]; 2];

/// Eight columns of B, by word.
pub(crate) type Columns = [[u32; 8]; WORDS];

/// Accumulators of eight rows, eight columns each.
pub(super) type Square = [[f32; 8]; 8];

/// Operands as numbers.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// A by block of eight rows, then by row.
    a: [[[f32; DEPTH]; 8]; 2],
    /// Eight columns of B, by row.
    b: [[f32; 8]; DEPTH],
    /// Exponents of floats in A, by block, by eight columns, then by row.
    a_exponents: [[[[i16; 8]; 8]; MOST / 8]; 2],
    /// Exponents of floats in B.
    b_exponents: [[i16; 8]; MOST],
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            a: [[[0.0; DEPTH]; 8]; 2],
            b: [[0.0; 8]; DEPTH],
            a_exponents: [[[[0; 8]; 8]; MOST / 8]; 2],
            b_exponents: [[0; 8]; MOST],
        }
    }
}

/// Reads a block from registers: one for each four words of a row, from `first` on at a distance.
///
/// # Safety
/// They are 32-bit registers of the current frame.
#[inline(always)]
pub(crate) unsafe fn from_registers(m: &Machine, rows: &[u32], (first, step): (usize, usize), chunks: usize) -> Block {
    let mut block = [[0; LANES]; 2];
    for chunk in 0..chunks.min(2) {
        // SAFETY: passed on.
        block[chunk] = unsafe { m.read::<u32>(rows[first + chunk * step]) };
    }
    block
}

/// The columns of a block, by word.
#[inline(always)]
pub(super) fn columns_of(block: &Block) -> Columns {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the host has the instructions.
        return unsafe { transposed(block) };
    }
    let mut columns = [[0; 8]; WORDS];
    for (w, words) in columns.iter_mut().enumerate() {
        for (at, word) in words.iter_mut().enumerate() {
            *word = block[w / 4][(at % 4 * 2 + at / 4) * 4 + w % 4];
        }
    }
    columns
}

/// The block with these columns.
#[inline(always)]
pub(super) fn rows_of(columns: &Columns) -> Block {
    let mut block = [[0; LANES]; 2];
    for (w, words) in columns.iter().enumerate() {
        for (at, word) in words.iter().enumerate() {
            block[w / 4][(at % 4 * 2 + at / 4) * 4 + w % 4] = *word;
        }
    }
    block
}

/// [`columns_of`] with AVX2.
///
/// # Safety
/// The host has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn transposed(block: &Block) -> Columns {
    use std::arch::x86_64::*;
    let mut columns = [[0; 8]; WORDS];
    for chunk in 0..2 {
        let (from, to) = (block[chunk].as_ptr(), columns[4 * chunk].as_mut_ptr().cast::<f64>());
        // SAFETY: a chunk is four vectors, and so are four words of eight columns.
        unsafe {
            // Each vector has four words of two columns, an even and an odd one.
            let (a, b) = (_mm256_loadu_ps(from.cast()), _mm256_loadu_ps(from.add(8).cast()));
            let (c, d) = (_mm256_loadu_ps(from.add(16).cast()), _mm256_loadu_ps(from.add(24).cast()));
            let low = (_mm256_castps_pd(_mm256_unpacklo_ps(a, b)), _mm256_castps_pd(_mm256_unpacklo_ps(c, d)));
            let high = (_mm256_castps_pd(_mm256_unpackhi_ps(a, b)), _mm256_castps_pd(_mm256_unpackhi_ps(c, d)));
            _mm256_storeu_pd(to, _mm256_unpacklo_pd(low.0, low.1));
            _mm256_storeu_pd(to.add(4), _mm256_unpackhi_pd(low.0, low.1));
            _mm256_storeu_pd(to.add(8), _mm256_unpacklo_pd(high.0, high.1));
            _mm256_storeu_pd(to.add(12), _mm256_unpackhi_pd(high.0, high.1));
        }
    }
    columns
}

/// The element at position `p` of a word.
#[inline(always)]
fn number<W: Widen>(word: u32, p: usize) -> f32 {
    let bits = 32 / W::PER_WORD as u32;
    W::widen(word >> (p as u32 * bits) & (u32::MAX >> (32 - bits)))
}

/// Widens eight rows of A.
#[inline(always)]
fn rows<W: Widen>(a: &mut [[f32; DEPTH]; 8], block: &Block, words: usize, sign: u32) {
    for chunk in 0..words / 4 {
        for row in 0..8 {
            for w in 0..4 {
                for p in 0..W::PER_WORD {
                    let number = number::<W>(block[chunk][4 * row + w], p);
                    a[row][(4 * chunk + w) * W::PER_WORD + p] = f32::from_bits(number.to_bits() ^ sign);
                }
            }
        }
    }
}

/// Widens eight columns of B.
#[inline(always)]
fn columns<W: Widen>(b: &mut [[f32; 8]; DEPTH], columns: &Columns, words: usize) {
    for w in 0..words {
        for p in 0..W::PER_WORD {
            for column in 0..8 {
                b[w * W::PER_WORD + p][column] = number::<W>(columns[w][column], p);
            }
        }
    }
}

/// The exponents of two rows of eight numbers, whose subnormal numbers have `least`.
#[inline(always)]
fn exponents(first: &[f32; 8], second: &[f32; 8], least: i16) -> [[i16; 8]; 2] {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the host has the instructions.
        return unsafe { avx2::exponents_of_rows(first, second, least) };
    }
    let mut out = [[0; 8]; 2];
    for i in 0..8 {
        out[0][i] = exponent(first[i], least);
        out[1][i] = exponent(second[i], least);
    }
    out
}

/// Eight numbers of a row.
#[inline(always)]
fn eight(row: &[f32; DEPTH], n: usize) -> &[f32; 8] {
    row.as_chunks::<8>().0.get(n).expect("the row has so many")
}

/// Moves columns 0, 1, 4, 5, …, the lower halves of registers, before the others.
fn halves_first<T: Copy + Default>(columns: &mut [T]) {
    let mut before = [T::default(); DEPTH];
    before[..columns.len()].copy_from_slice(columns);
    let half = columns.len() / 2;
    for (k, column) in before.into_iter().enumerate().take(columns.len()) {
        columns[k / 4 * 2 + k % 2 + k / 2 % 2 * half] = column;
    }
}

impl Scratch {
    /// Sets a block of eight rows of A, whose rows have `words` words.
    #[inline(always)]
    pub(crate) fn set_a(
        &mut self,
        ty: Element,
        half: usize,
        block: &Block,
        words: usize,
        negates: bool,
        rule: Option<&Rule>,
    ) {
        let sign = if negates { 0x8000_0000 } else { 0 };
        let a = &mut self.a[half];
        with_element!(ty, W => rows::<W>(a, block, words, sign));
        let Some(rule) = rule else { return };
        let columns = words * (32 / ty.bits()) as usize;
        if rule.is_in_halves() {
            a.iter_mut().for_each(|row| halves_first(&mut row[..columns]));
        }
        let to = &mut self.a_exponents[half];
        for n in 0..columns.div_ceil(8) {
            for row in [0, 2, 4, 6] {
                [to[n][row], to[n][row + 1]] = exponents(eight(&a[row], n), eight(&a[row + 1], n), rule.least(0));
            }
        }
    }

    /// Sets eight columns of B.
    #[inline(always)]
    pub(crate) fn set_b(&mut self, ty: Element, columns_of_b: &Columns, words: usize, rule: Option<&Rule>) {
        with_element!(ty, W => columns::<W>(&mut self.b, columns_of_b, words));
        let Some(rule) = rule else { return };
        let rows = words * (32 / ty.bits()) as usize;
        if rule.is_in_halves() {
            halves_first(&mut self.b[..rows]);
        }
        let to = &mut self.b_exponents;
        for pair in 0..rows / 2 {
            let k = 2 * pair;
            [to[k], to[k + 1]] = exponents(&self.b[k], &self.b[k + 1], rule.least(1));
        }
    }

    /// Adds the product of eight rows and eight columns to accumulators: by the rule for floats,
    /// exactly for integers.
    #[inline(always)]
    pub(super) fn add_product(
        &self,
        half: usize,
        depth: usize,
        rule: Option<&Rule>,
        precision: Precision,
        sums: &mut Square,
    ) {
        let Some(rule) = rule else { return self.add_integers(half, depth, sums) };
        rule.add(&self.factors(half), depth, precision, sums);
    }

    /// Operands of half `half` of the product.
    #[inline(always)]
    pub(super) fn factors(&self, half: usize) -> Factors<'_> {
        let (a, a_exponents) = (&self.a[half], &self.a_exponents[half]);
        Factors { a, a_exponents, b: &self.b, b_exponents: &self.b_exponents }
    }

    #[inline(always)]
    fn add_integers(&self, half: usize, depth: usize, sums: &mut Square) {
        // Four rows at a time stay in registers.
        for first in [0, 4] {
            let mut together = [[0.0f32; 8]; 4];
            for k in 0..depth {
                for i in 0..4 {
                    let a = self.a[half][first + i][k];
                    for column in 0..8 {
                        together[i][column] = a.mul_add(self.b[k][column], together[i][column]);
                    }
                }
            }
            sums[first..first + 4].copy_from_slice(&together);
        }
    }
}

/// Accumulator type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sums {
    /// `.f32`
    F32,
    /// `.f16`, two in a register.
    F16,
    /// `.s32`. The sum of an instruction's products is below 2^24, and so exact in `f32`.
    Integer {
        /// `.satfinite`.
        saturates: bool,
    },
}

impl Sums {
    /// Registers that hold the accumulators of eight rows and eight columns.
    #[inline(always)]
    pub(crate) const fn registers(self) -> usize {
        if matches!(self, Self::F16) { 1 } else { 2 }
    }

    /// Precision in which products are added.
    pub(crate) const fn precision(self) -> Precision {
        if matches!(self, Self::F16) { Precision::Half } else { Precision::Single }
    }

    /// Initial sums, from the contents of the accumulator registers.
    #[inline(always)]
    pub(super) fn start(self, words: &[[u32; LANES]; 2]) -> Square {
        let mut sums = [[0.0; 8]; 8];
        for row in 0..8 {
            for t in 0..4 {
                let lane = 4 * row + t;
                (sums[row][t], sums[row][4 + t]) = match self {
                    Self::F32 => (f32::from_bits(words[0][lane]), f32::from_bits(words[1][lane])),
                    Self::F16 => (element::f16(words[0][lane] & 0xffff), element::f16(words[0][lane] >> 16)),
                    Self::Integer { .. } => (0.0, 0.0),
                };
            }
        }
        sums
    }

    /// New contents of the accumulator registers, from the old ones and the sums.
    #[inline(always)]
    pub(super) fn finish(self, old: &[[u32; LANES]; 2], sums: &Square) -> [[u32; LANES]; 2] {
        let mut words = [[0; LANES]; 2];
        for row in 0..8 {
            for t in 0..4 {
                let (lane, even, odd) = (4 * row + t, sums[row][t], sums[row][4 + t]);
                match self {
                    Self::F32 => {
                        words[0][lane] = canonical(even);
                        words[1][lane] = canonical(odd);
                    }
                    Self::F16 => words[0][lane] = round_to_f16(even) | round_to_f16(odd) << 16,
                    Self::Integer { saturates } => {
                        words[0][lane] = total(old[0][lane], even, saturates);
                        words[1][lane] = total(old[1][lane], odd, saturates);
                    }
                }
            }
        }
        words
    }
}

/// Adds the sum of an instruction's products to an accumulator of `.s32`.
#[inline(always)]
fn total(old: u32, product: f32, saturates: bool) -> u32 {
    let (old, product) = (old as i32, product as i32);
    (if saturates { old.saturating_add(product) } else { old.wrapping_add(product) }) as u32
}

/// Bits of the nearest `.f16`, ties to even; written so that loops over it vectorise.
#[inline(always)]
pub(crate) fn round_to_f16(x: f32) -> u32 {
    // Below the normal numbers, the sum with a large number rounds to multiples of the smallest
    // one; above, the bits are rounded.
    const MAGIC: f32 = f32::from_bits((127 - 14 + 13) << 23);
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let sign = bits >> 16 & 0x8000;
    let small = (f32::from_bits(magnitude) + MAGIC).to_bits() - MAGIC.to_bits();
    let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + (magnitude >> 13 & 1)) >> 13;
    let rounded = if magnitude < 113 << 23 { small } else { normal };
    let finite = if magnitude >= 0x477f_f000 { 0x7c00 } else { rounded };
    if magnitude > 0x7f80_0000 { NAN16.into() } else { finite | sign }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_to_f16_is_that_of_the_half_crate() {
        let mut bits = 0u32;
        loop {
            let x = f32::from_bits(bits);
            let (mine, reference) = (round_to_f16(x), half::f16::from_f32(x));
            let is_nan = mine == u32::from(NAN16) && reference.is_nan();
            assert!(is_nan || mine == u32::from(reference.to_bits()), "{bits:#x}");
            let Some(next) = bits.checked_add(0x3fb) else { break };
            bits = next;
        }
        for half in 0..=0x7c00u32 {
            let (low, high) = (element::f16(half), element::f16(half + 1));
            for x in [low, (low + high) / 2.0, f32::midpoint(low, high).next_up(), f32::midpoint(low, high).next_down()]
            {
                let expected = if x.is_nan() { NAN16 } else { half::f16::from_f32(x).to_bits() };
                assert_eq!(round_to_f16(x), u32::from(expected), "{x:e}");
            }
        }
    }
}
