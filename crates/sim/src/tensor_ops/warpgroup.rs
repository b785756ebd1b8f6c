//! One warp's part of a `wgmma`: 16 rows of A times all columns of B, eight columns at a time.
//!
//! Register `4j + 2h + e` of lane `4g + t` holds row `g + 8h`, column `8j + 2t + e` of D, so four
//! registers at a time are the accumulators of `mma`'s fragments. So are the registers of A.

use warpfold_ptx::Major;

use super::descriptor::Layout;
use super::product::{Block, Columns, WORDS, columns_of, from_registers, rows_of};
use super::queue::Issued;
use super::wgmma::{Kind, Tile};
use crate::exec::machine::Machine;
use crate::exec::row::{ALL_LANES, LANES};

/// Rows of A per warp.
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

/// Reads eight rows (of A; columns of B) in shared memory, from `first`, a multiple of eight,
/// contiguous along K.
///
/// # Safety
/// They lie inside shared memory.
#[inline(always)]
unsafe fn along_k(m: &Machine, layout: &Layout, first: u32) -> Block {
    let mut block = [[0; LANES]; 2];
    for row in 0..8 {
        for half in 0..2 {
            // SAFETY: passed on.
            let unit = unsafe { unit(m, layout.unit(first + row, half)) };
            block[half as usize][4 * row as usize..][..4].copy_from_slice(&unit);
        }
    }
    block
}

/// Reads columns of B that are contiguous along N.
///
/// # Safety
/// As for [`along_k`].
#[inline(always)]
unsafe fn along_n(m: &Machine, layout: &Layout, first: u32) -> Columns {
    let mut columns = [[0; 8]; WORDS];
    for w in 0..WORDS {
        let k = 2 * w as u32;
        // SAFETY: passed on.
        let (low, high) = unsafe { (unit(m, layout.unit(k, first / 8)), unit(m, layout.unit(k + 1, first / 8))) };
        for i in 0..4 {
            columns[w][i] = low[i] & 0xffff | high[i] << 16;
            columns[w][4 + i] = low[i] >> 16 | high[i] & 0xffff_0000;
        }
    }
    columns
}

/// Reads eight columns of B, from `first`.
///
/// # Safety
/// As for [`along_k`].
#[inline(always)]
unsafe fn columns_of_b(m: &Machine, layout: &Layout, first: u32) -> Columns {
    // SAFETY: passed on.
    unsafe {
        match layout.major() {
            Major::K => columns_of(&along_k(m, layout, first)),
            Major::Mn => along_n(m, layout, first),
        }
    }
}

/// Reads eight of the warp's rows of A.
///
/// # Safety
/// As for [`multiply`].
#[inline(always)]
unsafe fn rows_of_a(m: &Machine, tile: &Tile, issued: &Issued, half: usize) -> Block {
    // SAFETY: passed on.
    unsafe {
        match &tile.a {
            Some(registers) => from_registers(m, registers, (half, 2), 2),
            None => {
                let layout = Layout::new(issued.a, tile.major[0]);
                let first = m.warp % 4 * WARP_ROWS + half as u32 * 8;
                match layout.major() {
                    Major::K => along_k(m, &layout, first),
                    Major::Mn => rows_of(&along_n(m, &layout, first)),
                }
            }
        }
    }
}

/// Executes a product of the current warp.
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
            scratch.set_b(types[1], &columns_of_b(m, &layout, j as u32 * 8), WORDS, rule.as_ref());
            for (half, rows) in rows.chunks_exact(registers).enumerate() {
                let mut old = [[0; LANES]; 2];
                if issued.adds {
                    for i in 0..registers {
                        old[i] = m.read::<u32>(rows[i]);
                    }
                }
                let mut accumulators = sums.start(&old);
                scratch.add_product(half, depth, rule.as_ref(), sums.precision(), &mut accumulators);
                let words = sums.finish(&old, &accumulators);
                for i in 0..registers {
                    m.write(rows[i], &words[i], ALL_LANES);
                }
            }
        }
    }
}

/// Single-bit products: the number of set bits in `A and B`.
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
            let b = columns_of(&along_k(m, &layout, j as u32 * 8));
            for (register, &row) in rows.iter().enumerate() {
                let mut sums = if issued.adds { m.read::<u32>(row) } else { [0; LANES] };
                for (w, b) in b.iter().enumerate() {
                    for lane in 0..LANES {
                        let both = a[register / 2][w / 4][lane / 4 * 4 + w % 4] & b[register % 2 * 4 + lane % 4];
                        sums[lane] = sums[lane].wrapping_add(both.count_ones());
                    }
                }
                m.write(row, &sums, ALL_LANES);
            }
        }
    }
}
