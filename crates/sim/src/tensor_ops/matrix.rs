//! `ldmatrix`, `stmatrix`, `movmatrix`: 8x8 matrices of 16-bit elements between shared memory and
//! fragments.
//!
//! Lanes `8j` to `8j + 7` give the addresses of the rows of matrix `j`; each row is 16 bytes, and
//! the eight rows of a matrix are one phase of shared memory. To the checker it is the lane with
//! the address that accesses the row.

use warpfold_ptx::{Instruction, Name, Opcode, ScalarType as T, Scope};

use super::expect_whole_warp;
use crate::Error;
use crate::check::Kind;
use crate::decode::Decoder;
use crate::exec::code::Class;
use crate::exec::machine::Machine;
use crate::exec::memory_map::{Window, window};
use crate::exec::op::{LaneOp, NONE, Op};
use crate::exec::row::LANES;
use crate::memory_ops::access::{self, Access, Extend, Space, element_rows};
use crate::memory_ops::{pattern, shared};

/// Bytes of a row of a matrix.
const ROW_BYTES: u32 = 16;
/// Flag in `Op::dst2`, above the bits of [`Access`]: the matrices are transposed.
const TRANSPOSED: u32 = 1 << 16;
/// Flag in `Op::dst2`: the address is generic.
const GENERIC: u32 = 1 << 17;
/// Shift in `Op::dst2` of the number of matrices.
const COUNT_SHIFT: u32 = 18;

/// A matrix in a register of all lanes is row-major, two elements a lane.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn transpose(words: &[u32; LANES]) -> [u32; LANES] {
    use std::arch::x86_64::*;
    let mut out = [0; LANES];
    // SAFETY: every x86-64 has SSE2; rows are of four words.
    unsafe {
        let row = |n: usize| _mm_loadu_si128(words.as_ptr().add(4 * n).cast());
        // Pairs, then quadruples, then all eight elements of a column.
        let pairs = |n: usize| (_mm_unpacklo_epi16(row(n), row(n + 1)), _mm_unpackhi_epi16(row(n), row(n + 1)));
        let fours = |n: usize| {
            let ((low, high), (next_low, next_high)) = (pairs(n), pairs(n + 2));
            let halves = |x, y| [_mm_unpacklo_epi32(x, y), _mm_unpackhi_epi32(x, y)];
            let ([first, second], [third, fourth]) = (halves(low, next_low), halves(high, next_high));
            [first, second, third, fourth]
        };
        for (n, (top, bottom)) in fours(0).into_iter().zip(fours(4)).enumerate() {
            let to = out.as_mut_ptr().add(8 * n).cast::<__m128i>();
            _mm_storeu_si128(to, _mm_unpacklo_epi64(top, bottom));
            _mm_storeu_si128(to.add(1), _mm_unpackhi_epi64(top, bottom));
        }
    }
    out
}

#[cfg(not(target_arch = "x86_64"))]
use element_by_element as transpose;

/// The same for any host.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn element_by_element(words: &[u32; LANES]) -> [u32; LANES] {
    let element = |row: usize, column: usize| words[row * 4 + column / 2] >> (column % 2 * 16) & 0xffff;
    std::array::from_fn(|lane| {
        let (g, t) = (lane / 4, lane % 4);
        element(2 * t, g) | element(2 * t + 1, g) << 16
    })
}

/// The addresses of the rows.
///
/// # Safety
/// As for a handler.
#[inline(always)]
unsafe fn row_addresses(m: &Machine, op: &Op) -> [u32; LANES] {
    let wide = Access(op.dst2 & (TRANSPOSED - 1)).wide();
    // SAFETY: passed on.
    unsafe {
        if op.dst2 & GENERIC == 0 {
            return shared::addresses(m, op, wide);
        }
        access::addresses(m, op, wide).map(|address| match window(address) {
            (Window::Shared, offset) => u32::try_from(offset).unwrap_or(u32::MAX),
            _ => u32::MAX,
        })
    }
}

/// The addresses of the rows, and the lanes that give a good one.
///
/// # Safety
/// As for a handler.
#[inline(always)]
unsafe fn rows<const CHECK: bool>(
    m: &mut Machine,
    op: &Op,
    kind: Kind,
    stored: impl Fn(u32) -> u128,
) -> ([u32; LANES], u32) {
    let access = Access(op.dst2 & (TRANSPOSED - 1));
    let count = op.dst2 >> COUNT_SHIFT;
    let mask = u32::MAX >> (32 - 8 * count);
    // SAFETY: passed on.
    let at = unsafe { row_addresses(m, op) };
    let (mut lowest, mut highest, mut bits) = (u32::MAX, 0, 0);
    for &address in &at[..8 * count as usize] {
        (lowest, highest, bits) = (address.min(lowest), address.max(highest), bits | address);
    }
    let mut good = mask;
    if highest.saturating_add(ROW_BYTES) > m.shared_bytes || bits % ROW_BYTES != 0 {
        let what = if kind == Kind::Read { "load of a matrix row" } else { "store of a matrix row" };
        good = shared::refuse_bad(m, op, access, &at, mask, what);
        (lowest, highest) = (0, u32::MAX);
    }
    if CHECK {
        good = m.check_matrices(op, kind, (&at, good), &(lowest..=highest), stored);
    }
    m.record_shared(op, &at, good, ROW_BYTES);
    let (wavefronts, ideal) = pattern::wavefronts(&at, good, ROW_BYTES, false);
    shared::count(m, op, wavefronts, wavefronts - ideal);
    (at, good)
}

/// `ldmatrix`.
struct LoadMatrix<const CHECK: bool>;
impl<const CHECK: bool> LaneOp for LoadMatrix<CHECK> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        expect_whole_warp(m, op, mask);
        // SAFETY: the decoder checked the operands; the rows of `good` lanes are in bounds.
        unsafe {
            if CHECK && let Some(checking) = &mut m.checking {
                checking.findings.hush(true);
            }
            let (at, good) = rows::<CHECK>(m, op, Kind::Read, |_| 0);
            let is_unwritten = CHECK && m.checking.as_mut().is_some_and(|checking| checking.findings.hush(false));
            for (j, row) in element_rows(op).into_iter().take((op.dst2 >> COUNT_SHIFT) as usize).enumerate() {
                let mut words = [0; LANES];
                for (i, words) in words.chunks_exact_mut(4).enumerate() {
                    if good >> (8 * j + i) & 1 != 0 {
                        words.copy_from_slice(&*m.shared.add(at[8 * j + i] as usize).cast::<[u32; 4]>());
                    }
                }
                let words = if op.dst2 & TRANSPOSED == 0 { words } else { transpose(&words) };
                m.write(row, &words, mask);
                if is_unwritten {
                    mark(m, op, (j, row), &at, good);
                }
            }
        }
    }
}

/// Marks what a register has of bytes that nothing has written: of matrix `j`.
#[cold]
fn mark(m: &mut Machine, op: &Op, (j, row): (usize, u32), at: &[u32; LANES], good: u32) {
    let mut bits = [0; LANES];
    for (i, bits) in bits.chunks_exact_mut(4).enumerate() {
        if good >> (8 * j + i) & 1 != 0 {
            bits.copy_from_slice(&m.unwritten_words(at[8 * j + i]));
        }
    }
    let bits = if op.dst2 & TRANSPOSED == 0 { bits } else { transpose(&bits) };
    m.mark_matrix(op, row, &bits, at[8 * j]);
}

/// `stmatrix`.
struct StoreMatrix<const CHECK: bool>;
impl<const CHECK: bool> LaneOp for StoreMatrix<CHECK> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        expect_whole_warp(m, op, mask);
        m.progress = true;
        let mut matrices = [[0; LANES]; 4];
        for (matrix, row) in matrices.iter_mut().zip(element_rows(op)).take((op.dst2 >> COUNT_SHIFT) as usize) {
            // SAFETY: the decoder checked the operands.
            let words = unsafe { m.read::<u32>(row) };
            *matrix = if op.dst2 & TRANSPOSED == 0 { words } else { transpose(&words) };
        }
        let words = |lane: usize| -> [u32; 4] {
            matrices[lane / 8][lane % 8 * 4..][..4].try_into().expect("four words make a row")
        };
        let stored = |lane: u32| words(lane as usize).iter().rev().fold(0, |all, w| all << 32 | u128::from(*w));
        // SAFETY: the decoder checked the operands; the rows of `good` lanes are in bounds.
        unsafe {
            let (at, good) = rows::<CHECK>(m, op, Kind::Write, stored);
            for lane in (0..LANES).rev().filter(|lane| good >> lane & 1 != 0) {
                *m.shared.add(at[lane] as usize).cast::<[u32; 4]>() = words(lane);
            }
        }
    }
}

/// Marks the destination of an `stmatrix` in a warp with undefined bits.
#[cold]
pub(crate) fn leave_matrix(m: &mut Machine, op: &Op) {
    // SAFETY: the decoder checked the operands.
    let at = unsafe { row_addresses(m, op) };
    for (j, row) in element_rows(op).into_iter().take((op.dst2 >> COUNT_SHIFT) as usize).enumerate() {
        let Some(bits) = m.undefined_bits(row) else { continue };
        let bits = if op.dst2 & TRANSPOSED == 0 { bits } else { transpose(&bits) };
        for (i, bits) in bits.chunks_exact(4).enumerate() {
            m.leave_row(at[8 * j + i], [bits[0], bits[1], bits[2], bits[3]]);
        }
    }
}

/// `movmatrix`: `dst` is the transposed `a`.
struct Transpose;
impl LaneOp for Transpose {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        expect_whole_warp(m, op, mask);
        // SAFETY: the decoder checked the operands.
        unsafe {
            let words = m.read::<u32>(op.a);
            m.write(op.dst, &transpose(&words), mask);
        }
    }
}

/// Decodes `ldmatrix.sync.aligned.m8n8.num{.trans}{.shared}.b16 r, [p]` and `stmatrix … [p], r`.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    d.expect_modifiers(inst, &["sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", "shared", "shared::cta"])?;
    d.expect_operands(inst, 2)?;
    if !inst.has("m8n8") || d.ty(inst, 0)? != T::B16 {
        return Err(d.unsupported(inst, "only 8x8 matrices of .b16 exist before sm_100"));
    }
    let counts: Vec<&str> = inst.modifiers.iter().filter(|m| m.starts_with('x')).map(Name::as_str).collect();
    let count = match counts[..] {
        ["x1"] => 1,
        ["x2"] => 2,
        ["x4"] => 4,
        _ => return Err(d.invalid(inst, "expected .x1, .x2 or .x4")),
    };
    let is_load = inst.opcode == Opcode::Ldmatrix;
    let (values_at, address_at) = if is_load { (0, 1) } else { (1, 0) };
    let mut address = d.address(inst, address_at)?;
    let generic = match access::space_of(d, inst, &mut address.offset, address.place)? {
        Space::Shared => 0,
        Space::Generic => GENERIC,
        Space::Global | Space::Local | Space::Param | Space::Cluster => {
            return Err(d.invalid(inst, "the matrix must be in .shared"));
        }
    };
    let mut rows = [NONE; 4];
    for (row, operand) in rows.iter_mut().zip(d.vector(inst, values_at, count)?) {
        *row = if is_load { d.destination(inst, operand, T::B32)? } else { d.source(inst, operand, T::B32)? };
    }
    let handler = match (is_load, d.checked) {
        (true, false) => d.handler::<LoadMatrix<false>>(),
        (true, true) => d.handler::<LoadMatrix<true>>(),
        (false, false) => d.handler::<StoreMatrix<false>>(),
        (false, true) => d.handler::<StoreMatrix<true>>(),
    };
    let access = Access::new(ROW_BYTES, 1, address.wide, Extend::Zero, None, Scope::Block);
    let transposed = if inst.has("trans") { TRANSPOSED } else { 0 };
    let [dst, b, c, d_row] = rows;
    let dst2 = access.0 | transposed | generic | (count as u32) << COUNT_SHIFT;
    let op = Op { dst, b, c, d: d_row, a: address.row, imm: address.offset, dst2, ..Op::new(handler) };
    d.whole_warp(inst, op)?;
    d.set_class(if is_load { Class::Load } else { Class::Store });
    Ok(())
}

/// Decodes `movmatrix.sync.aligned.m8n8.trans.b16 d, a`.
pub(super) fn decode_transpose(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    d.expect_modifiers(inst, &["sync", "aligned", "m8n8", "trans"])?;
    d.expect_operands(inst, 2)?;
    if !inst.has("m8n8") || !inst.has("trans") || d.ty(inst, 0)? != T::B16 {
        return Err(d.invalid(inst, "expected .m8n8.trans.b16"));
    }
    let a = d.src(inst, 1, T::B32)?;
    let dst = d.dst(inst, 0, T::B32)?;
    let handler = d.handler::<Transpose>();
    d.whole_warp(inst, Op { dst, a, ..Op::new(handler) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_is_turned_as_element_by_element() {
        let words = std::array::from_fn(|lane| 0x1234_5678u32.wrapping_mul(lane as u32 + 1).rotate_left(lane as u32));
        assert_eq!(transpose(&words), element_by_element(&words));
        assert_eq!(transpose(&transpose(&words)), words);
        assert_ne!(transpose(&words), words);
    }
}
