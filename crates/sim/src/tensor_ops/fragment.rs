//! Layout of matrix fragments in the registers of a warp, one rule for all shapes and types.
//!
//! Lane `4g + t` is thread `t` of group `g`. A register of A holds, for row `g`, the `E` elements
//! from `t * E` on of a chunk of `4 * E` columns; registers go through the blocks of eight rows
//! first, then through the chunks. B is the same with its columns for rows. A pair of accumulators
//! holds columns `2t` and `2t + 1` of row `g`, pairs go through the blocks of eight rows (PTX ISA,
//! "Matrix Fragments for mma"). So a register of all lanes, read as memory, is a row-major block of
//! eight rows.
//!
//! Products of `f32` never leave this form ([`super::product`]); those of `.f64` and of bits do,
//! here.

use crate::exec::machine::Machine;
use crate::exec::row::{LANES, Word};

/// C or D, by row.
pub(crate) type C<T> = [[T; 8]; 16];

/// Reads accumulators of one register each; `f` converts their bits.
///
/// # Safety
/// `rows` are registers of `W`'s width of the current frame, two for each block of eight rows.
#[inline(always)]
pub(crate) unsafe fn read_c<W: Word, T>(m: &Machine, rows: &[u32], c: &mut C<T>, f: impl Fn(W) -> T) {
    for (block, pair) in rows.chunks_exact(2).enumerate() {
        // SAFETY: passed on.
        let (even, odd) = unsafe { (&*m.lanes::<W>(pair[0]), &*m.lanes::<W>(pair[1])) };
        for lane in 0..LANES {
            let row = &mut c[block * 8 + lane / 4];
            row[lane % 4 * 2] = f(even[lane]);
            row[lane % 4 * 2 + 1] = f(odd[lane]);
        }
    }
}

/// Writes accumulators of one register each.
///
/// # Safety
/// As for [`read_c`].
#[inline(always)]
pub(crate) unsafe fn write_c<W: Word, T: Copy>(m: &mut Machine, rows: &[u32], c: &C<T>, mask: u32, f: impl Fn(T) -> W) {
    for (block, pair) in rows.chunks_exact(2).enumerate() {
        let (mut even, mut odd) = ([W::default(); LANES], [W::default(); LANES]);
        for lane in 0..LANES {
            let row = &c[block * 8 + lane / 4];
            even[lane] = f(row[lane % 4 * 2]);
            odd[lane] = f(row[lane % 4 * 2 + 1]);
        }
        // SAFETY: passed on.
        unsafe {
            m.write(pair[0], &even, mask);
            m.write(pair[1], &odd, mask);
        }
    }
}
