//! The routine behind all products: eight columns at a time, on accumulators as they lie in
//! registers.
//!
//! A [`Block`] is eight rows of A, or eight columns of B, in words of 32 bits. A pair of registers
//! holds the accumulators of eight rows and eight columns: lane `4g + t` has columns `2t` and `2t +
//! 1` of row `g`. So A is *spread*: each row is repeated in its four lanes; of B there are four
//! even and four odd columns, repeated for eight rows; and all lanes of a register are added to at
//! once. What is widened to `f32` of B stays in the first-level cache.

use super::aligned::{Operand, Precision, Rule, exponent};
use super::element::{self, Element, Widen, with_element};
use crate::alu::float::finish::{NAN16, canonical};
use crate::exec::machine::Machine;
use crate::exec::row::LANES;

/// Words in a row of A at most: 32 bytes.
pub(crate) const WORDS: usize = 8;
/// Columns of A at most.
const DEPTH: usize = 64;

/// Eight rows of A (or columns of B): by word, then by row.
pub(crate) type Block = [[u32; 8]; WORDS];

/// Operands as numbers.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// A by column and block of eight rows, each row in its four lanes.
    a: [[[f32; LANES]; 2]; DEPTH],
    /// Eight columns of B by row: the even columns, then the odd ones.
    b: [[f32; 8]; DEPTH],
    /// Exponents of floats in A.
    a_exponents: [[[i16; LANES]; 2]; DEPTH],
    /// Exponents of floats in B.
    b_exponents: [[i16; 8]; DEPTH],
}

/// Eight rows of A.
struct Rows<'a> {
    scratch: &'a Scratch,
    half: usize,
}

impl Operand for Rows<'_> {
    #[inline(always)]
    fn numbers(&self, k: usize) -> [f32; LANES] {
        self.scratch.a[k][self.half]
    }
    #[inline(always)]
    fn exponents(&self, k: usize) -> [i16; LANES] {
        self.scratch.a_exponents[k][self.half]
    }
}

/// The even or the odd columns of B.
struct Columns<'a> {
    scratch: &'a Scratch,
    first: usize,
}

/// Four columns, for each of eight rows.
#[inline(always)]
fn repeated<T: Copy + Default>(columns: &[T; 8], first: usize) -> [T; LANES] {
    let mut lanes = [T::default(); LANES];
    for row in lanes.chunks_exact_mut(4) {
        row.copy_from_slice(&columns[first..first + 4]);
    }
    lanes
}

impl Operand for Columns<'_> {
    #[inline(always)]
    fn numbers(&self, k: usize) -> [f32; LANES] {
        repeated(&self.scratch.b[k], self.first)
    }
    #[inline(always)]
    fn exponents(&self, k: usize) -> [i16; LANES] {
        repeated(&self.scratch.b_exponents[k], self.first)
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            a: [[[0.0; LANES]; 2]; DEPTH],
            b: [[0.0; 8]; DEPTH],
            a_exponents: [[[0; LANES]; 2]; DEPTH],
            b_exponents: [[0; 8]; DEPTH],
        }
    }
}

/// The block that registers hold: one for each four words of a row.
///
/// # Safety
/// `rows` yields 32-bit registers of the current frame, at most two.
#[inline(always)]
pub(crate) unsafe fn from_registers(m: &Machine, rows: impl Iterator<Item = u32>) -> Block {
    let mut block = [[0; 8]; WORDS];
    for (chunk, row) in rows.enumerate() {
        // SAFETY: passed on.
        let words = unsafe { &*m.lanes::<u32>(row) };
        for t in 0..4 {
            for g in 0..8 {
                block[chunk * 4 + t][g] = words[4 * g + t];
            }
        }
    }
    block
}

/// The elements at position `p` of their words.
#[inline(always)]
fn numbers<W: Widen>(words: &[u32; 8], p: usize) -> [f32; 8] {
    let bits = 32 / W::PER_WORD as u32;
    let mut out = [0.0; 8];
    for i in 0..8 {
        out[i] = W::widen(words[i] >> (p as u32 * bits) & (u32::MAX >> (32 - bits)));
    }
    out
}

#[inline(always)]
fn spread<W: Widen>(a: &mut [[[f32; LANES]; 2]; DEPTH], half: usize, block: &Block, words: usize, sign: u32) {
    for (w, rows) in block.iter().enumerate().take(words) {
        for p in 0..W::PER_WORD {
            let numbers = numbers::<W>(rows, p).map(|x| f32::from_bits(x.to_bits() ^ sign));
            let lanes = &mut a[w * W::PER_WORD + p][half];
            for lane in 0..LANES {
                lanes[lane] = numbers[lane / 4];
            }
        }
    }
}

#[inline(always)]
fn columns<W: Widen>(b: &mut [[f32; 8]; DEPTH], block: &Block, words: usize) {
    for (w, c) in block.iter().enumerate().take(words) {
        let c = [c[0], c[2], c[4], c[6], c[1], c[3], c[5], c[7]];
        for p in 0..W::PER_WORD {
            b[w * W::PER_WORD + p] = numbers::<W>(&c, p);
        }
    }
}

impl Scratch {
    /// Takes a block of eight rows of A, whose rows have `words` words.
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
        with_element!(ty, W => spread::<W>(&mut self.a, half, block, words, sign));
        let Some(rule) = rule else { return };
        let columns = words * (32 / ty.bits()) as usize;
        for (numbers, exponents) in self.a.iter().zip(&mut self.a_exponents).take(columns) {
            exponents[half] = numbers[half].map(|x| exponent(x, rule.least(0)));
        }
    }

    /// Takes eight columns of B.
    #[inline(always)]
    pub(crate) fn set_b(&mut self, ty: Element, block: &Block, words: usize, rule: Option<&Rule>) {
        with_element!(ty, W => columns::<W>(&mut self.b, block, words));
        let Some(rule) = rule else { return };
        let rows = words * (32 / ty.bits()) as usize;
        for (numbers, exponents) in self.b.iter().zip(&mut self.b_exponents).take(rows) {
            *exponents = numbers.map(|x| exponent(x, rule.least(1)));
        }
    }

    /// Adds the product of eight rows and eight columns to the even and the odd columns: of floats
    /// by the rule, of integers exactly.
    #[inline(always)]
    pub(crate) fn add_product(
        &self,
        half: usize,
        depth: usize,
        rule: Option<&Rule>,
        precision: Precision,
        sums: &mut [[f32; LANES]; 2],
    ) {
        let Some(rule) = rule else { return self.add_integers(half, depth, sums) };
        let rows = Rows { scratch: self, half };
        for (parity, sums) in sums.iter_mut().enumerate() {
            rule.add(&rows, &Columns { scratch: self, first: 4 * parity }, depth, precision, sums);
        }
    }

    #[inline(always)]
    fn add_integers(&self, half: usize, depth: usize, sums: &mut [[f32; LANES]; 2]) {
        let [mut even, mut odd] = [sums[0], sums[1]];
        for (a, b) in self.a.iter().zip(&self.b).take(depth) {
            let a = &a[half];
            for lane in 0..LANES {
                even[lane] = a[lane].mul_add(b[lane % 4], even[lane]);
            }
            for lane in 0..LANES {
                odd[lane] = a[lane].mul_add(b[4 + lane % 4], odd[lane]);
            }
        }
        *sums = [even, odd];
    }
}

/// What accumulators are.
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

    /// In which precision products are added.
    pub(crate) const fn precision(self) -> Precision {
        if matches!(self, Self::F16) { Precision::Half } else { Precision::Single }
    }

    /// What products are added to, of the registers' contents.
    #[inline(always)]
    pub(crate) fn start(self, words: &[[u32; LANES]; 2]) -> [[f32; LANES]; 2] {
        match self {
            Self::F32 => words.map(|words| words.map(f32::from_bits)),
            Self::F16 => [words[0].map(|w| element::f16(w & 0xffff)), words[0].map(|w| element::f16(w >> 16))],
            Self::Integer { .. } => [[0.0; LANES]; 2],
        }
    }

    /// The registers' new contents, of the old ones and the sums.
    #[inline(always)]
    pub(crate) fn finish(self, old: &[[u32; LANES]; 2], sums: &[[f32; LANES]; 2]) -> [[u32; LANES]; 2] {
        let mut words = [[0; LANES]; 2];
        match self {
            Self::F32 => {
                for e in 0..2 {
                    for lane in 0..LANES {
                        words[e][lane] = canonical(sums[e][lane]);
                    }
                }
            }
            Self::F16 => {
                for lane in 0..LANES {
                    words[0][lane] = round_to_f16(sums[0][lane]) | round_to_f16(sums[1][lane]) << 16;
                }
            }
            Self::Integer { saturates } => {
                for e in 0..2 {
                    for lane in 0..LANES {
                        let (old, product) = (old[e][lane] as i32, sums[e][lane] as i32);
                        let sum = if saturates { old.saturating_add(product) } else { old.wrapping_add(product) };
                        words[e][lane] = sum as u32;
                    }
                }
            }
        }
        words
    }
}

/// The bits of the nearest `.f16`, ties to even; written so that loops over it vectorise.
#[inline(always)]
pub(crate) fn round_to_f16(x: f32) -> u32 {
    // Below the normal numbers the sum with a large number rounds to multiples of the least one;
    // above, bits do.
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
