//! One `wgmma` for one warp: 16 rows of A times all columns of B, eight columns at a time.
//!
//! Register `4j + 2h + e` of lane `4g + t` holds row `g + 8h`, column `8j + 2t + e` of D, so four
//! registers at a time are the accumulators of `mma`'s fragments. So are the registers of A.

use super::descriptor::{Layout, Major};
use super::product::{Block, WORDS, from_registers};
use super::queue::Issued;
use super::wgmma::{Kind, Tile};
use crate::exec::machine::Machine;
use crate::exec::row::{ALL_LANES, LANES};

/// Rows of A that a warp has.
const WARP_ROWS: u32 = 16;

/// The four words of a unit of shared memory.
///
/// # Safety
/// `at` is the address of a unit inside shared memory.
#[inline(always)]
unsafe fn unit(m: &Machine, at: u32) -> [u32; 4] {
    // SAFETY: passed on.
    unsafe { *m.shared.add(at as usize).cast::<[u32; 4]>() }
}

/// Eight rows (of A; columns of B) in shared memory, from `first` on, a multiple of eight.
///
/// # Safety
/// They lie inside shared memory.
#[inline(always)]
unsafe fn from_shared(m: &Machine, layout: &Layout, first: u32) -> Block {
    let mut block = [[0; 8]; WORDS];
    match layout.major() {
        Major::K => {
            for row in 0..8 {
                for half in 0..2 {
                    // SAFETY: passed on.
                    let words = unsafe { unit(m, layout.unit(first + row, half)) };
                    for w in 0..4 {
                        block[half as usize * 4 + w][row as usize] = words[w];
                    }
                }
            }
        }
        Major::Mn => {
            for (w, rows) in block.iter_mut().enumerate() {
                // SAFETY: passed on.
                let [low, high] = [0, 1].map(|p| unsafe { unit(m, layout.unit(w as u32 * 2 + p, first / 8)) });
                for (row, word) in rows.iter_mut().enumerate() {
                    let of = |words: &[u32; 4]| words[row / 2] >> (row % 2 * 16) & 0xffff;
                    *word = of(&low) | of(&high) << 16;
                }
            }
        }
    }
    block
}

/// Eight of the warp's rows of A.
///
/// # Safety
/// As for [`multiply`].
#[inline(always)]
unsafe fn rows_of_a(m: &Machine, tile: &Tile, issued: &Issued, half: usize) -> Block {
    // SAFETY: passed on.
    unsafe {
        match &tile.a {
            Some(registers) => from_registers(m, [registers[half], registers[2 + half]].into_iter()),
            None => {
                let layout = Layout::new(issued.a, tile.major[0]);
                from_shared(m, &layout, m.warp % 4 * WARP_ROWS + half as u32 * 8)
            }
        }
    }
}

/// Carries out a product of the current warp.
///
/// # Safety
/// As for a handler: the frame is the one that the instruction was decoded for.
#[inline(always)]
pub(super) unsafe fn multiply(m: &mut Machine, tile: &Tile, issued: &Issued) {
    if !tile.is_in_bounds(m, issued) {
        return;
    }
    let Kind::Numbers { types, sums, rule } = &tile.kind else {
        // SAFETY: passed on; the operands are in bounds.
        return unsafe { count_bits(m, tile, issued) };
    };
    let layout = Layout::new(issued.b, tile.major[1]);
    let depth = (256 / types[0].bits()) as usize;
    let registers = sums.registers();
    let scratch = &raw mut *m.scratch;
    // SAFETY: nothing else refers to the scratch while a handler runs.
    let scratch = unsafe { &mut *scratch };
    // SAFETY: passed on; the operands are in bounds.
    unsafe {
        for half in 0..2 {
            scratch.set_a(types[0], half, &rows_of_a(m, tile, issued, half), WORDS, tile.negates, rule.as_ref());
        }
        for (j, rows) in tile.d.chunks_exact(2 * registers).enumerate() {
            scratch.set_b(types[1], &from_shared(m, &layout, j as u32 * 8), WORDS, rule.as_ref());
            for (half, rows) in rows.chunks_exact(registers).enumerate() {
                let mut old = [[0; LANES]; 2];
                if issued.adds {
                    for (old, &row) in old.iter_mut().zip(rows) {
                        *old = m.read::<u32>(row);
                    }
                }
                let mut accumulators = sums.start(&old);
                scratch.add_product(half, depth, rule.as_ref(), sums.precision(), &mut accumulators);
                for (words, &row) in sums.finish(&old, &accumulators).iter().zip(rows) {
                    m.write(row, words, ALL_LANES);
                }
            }
        }
    }
}

/// Single bits: how many are set in `A and B`.
///
/// # Safety
/// As for [`multiply`].
#[inline(always)]
unsafe fn count_bits(m: &mut Machine, tile: &Tile, issued: &Issued) {
    // SAFETY: passed on; the operands are in bounds.
    unsafe {
        let a = [0, 1].map(|half| rows_of_a(m, tile, issued, half));
        let layout = Layout::new(issued.b, Major::K);
        for (j, rows) in tile.d.chunks_exact(4).enumerate() {
            let b = from_shared(m, &layout, j as u32 * 8);
            for (register, &row) in rows.iter().enumerate() {
                let mut sums = if issued.adds { m.read::<u32>(row) } else { [0; LANES] };
                for (a, b) in a[register / 2].iter().zip(&b) {
                    for lane in 0..LANES {
                        let both = a[lane / 4] & b[lane % 4 * 2 + register % 2];
                        sums[lane] = sums[lane].wrapping_add(both.count_ones());
                    }
                }
                m.write(row, &sums, ALL_LANES);
            }
        }
    }
}
