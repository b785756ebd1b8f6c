//! How matrices lie in the registers of a warp, one rule for all shapes and types.
//!
//! Lane `4g + t` is thread `t` of group `g`. A register of A holds, for row `g`, the `E` elements from `t * E` on of a chunk of
//! `4 * E` columns; registers go through the blocks of eight rows first, then through the chunks. B is the same with its
//! columns for rows. A pair of accumulators holds columns `2t` and `2t + 1` of row `g`, pairs go through the blocks of eight rows (PTX
//! ISA, "Matrix Fragments for mma"). So a register of all lanes, read as memory, is a row-major block of eight rows.

use super::element::{self, Element, split};
use crate::exec::machine::Machine;
use crate::exec::row::LANES;

/// Most rows of A.
pub(crate) const ROWS: usize = 16;
/// Columns of B.
pub(crate) const COLUMNS: usize = 8;
/// Most columns of A.
pub(crate) const DEPTH: usize = 64;

/// A as numbers, by row.
pub(crate) type A = [[f32; DEPTH]; ROWS];
/// B as numbers, by its rows.
pub(crate) type B = [[f32; COLUMNS]; DEPTH];
/// C or D, by row.
pub(crate) type C<T> = [[T; COLUMNS]; ROWS];

/// Calls `put(register, group, position, element)` for each element that the registers hold.
///
/// # Safety
/// `rows` are 32-bit registers of the current frame.
#[inline(always)]
unsafe fn each<const E: usize>(
    m: &Machine,
    rows: &[u32],
    one: impl Fn(u32) -> f32,
    put: &mut impl FnMut(usize, usize, usize, f32),
) {
    for (register, &row) in rows.iter().enumerate() {
        // SAFETY: passed on.
        let words = unsafe { &*m.lanes::<u32>(row) };
        for lane in 0..LANES {
            let elements = split::<E>(words[lane], &one);
            for (i, x) in elements.into_iter().enumerate() {
                put(register, lane / 4, lane % 4 * E + i, x);
            }
        }
    }
}

/// [`each`] for a type that is known when it runs.
///
/// # Safety
/// As for [`each`].
#[inline(always)]
unsafe fn each_of(m: &Machine, ty: Element, rows: &[u32], mut put: impl FnMut(usize, usize, usize, f32)) {
    // SAFETY: passed on.
    unsafe {
        match ty {
            Element::F16 => each::<2>(m, rows, element::f16, &mut put),
            Element::Bf16 => each::<2>(m, rows, element::bf16, &mut put),
            Element::Tf32 => each::<1>(m, rows, element::tf32, &mut put),
            Element::E4m3 => each::<4>(m, rows, element::e4m3, &mut put),
            Element::E5m2 => each::<4>(m, rows, element::e5m2, &mut put),
            Element::S8 => each::<4>(m, rows, element::s8, &mut put),
            Element::U8 => each::<4>(m, rows, element::unsigned, &mut put),
            Element::S4 => each::<8>(m, rows, element::s4, &mut put),
            Element::U4 => each::<8>(m, rows, element::unsigned, &mut put),
        }
    }
}

/// Reads A: `blocks` blocks of eight rows.
///
/// # Safety
/// `rows` are 32-bit registers of the current frame, no more than [`A`] has room for.
#[inline(always)]
pub(crate) unsafe fn read_a(m: &Machine, ty: Element, rows: &[u32], blocks: usize, a: &mut A) {
    let chunk = 4 * (32 / ty.bits()) as usize;
    // SAFETY: passed on.
    unsafe {
        each_of(m, ty, rows, |register, group, position, x| {
            a[(group + 8 * (register % blocks)) % ROWS][(register / blocks * chunk + position) % DEPTH] = x;
        });
    }
}

/// Reads B.
///
/// # Safety
/// As for [`read_a`].
#[inline(always)]
pub(crate) unsafe fn read_b(m: &Machine, ty: Element, rows: &[u32], b: &mut B) {
    let chunk = 4 * (32 / ty.bits()) as usize;
    // SAFETY: passed on.
    unsafe {
        each_of(m, ty, rows, |register, group, position, x| {
            b[(register * chunk + position) % DEPTH][group] = x;
        });
    }
}

/// Reads accumulators of one register each, `f` giving the number that its bits mean.
///
/// # Safety
/// `rows` are registers of `W`'s width of the current frame, two for each block of eight rows.
#[inline(always)]
pub(crate) unsafe fn read_c<W: crate::exec::row::Word, T>(m: &Machine, rows: &[u32], c: &mut C<T>, f: impl Fn(W) -> T) {
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
pub(crate) unsafe fn write_c<W: crate::exec::row::Word, T: Copy>(
    m: &mut Machine,
    rows: &[u32],
    c: &C<T>,
    mask: u32,
    f: impl Fn(T) -> W,
) {
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
