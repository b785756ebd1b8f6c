//! Accesses to shared memory, which only the host thread of the block touches.

use super::access::{Access, Direction, address_fault, element_rows};
use super::pattern;
use crate::check::{Kind, Pattern, Space};
use crate::exec::lanes::{self, Span};
use crate::exec::machine::Machine;
use crate::exec::memory_map::{SHARED_WINDOW, is_tagged, tagged};
use crate::exec::op::{NONE, Op};
use crate::exec::row::{ALL_LANES, LANES};
use crate::report::FindingKind;

/// The offset that each lane accesses.
///
/// # Safety
/// As for a handler.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "shared addresses have 32 bits")]
pub(crate) unsafe fn addresses(m: &Machine, op: &Op, wide: bool) -> [u32; LANES] {
    let offset = op.imm as u32;
    let mut out = [offset; LANES];
    if op.a == NONE {
        return out;
    }
    // SAFETY: passed on.
    unsafe {
        if wide {
            let a = &*m.lanes::<u64>(op.a);
            for lane in 0..LANES {
                // An address beyond 32 bits is outside shared memory, regardless of its low bits.
                let address = a[lane].wrapping_add(op.imm as u64);
                out[lane] = if address >> 32 == 0 { address as u32 } else { u32::MAX };
            }
        } else {
            let a = &*m.lanes::<u32>(op.a);
            for lane in 0..LANES {
                out[lane] = a[lane].wrapping_add(offset);
            }
        }
    }
    out
}

/// Loads or stores one element per lane.
///
/// # Safety
/// As for a handler: the rows of `op` fit `access`.
#[inline(always)]
pub(crate) unsafe fn access<D: Direction, const CHECK: bool>(
    m: &mut Machine,
    op: &Op,
    access: Access,
    at: &[u32; LANES],
    mask: u32,
) {
    let bytes = access.bytes();
    if mask == ALL_LANES
        && access.is_word()
        && let Some(step) = step32(at)
    {
        // SAFETY: passed on.
        let is_done = unsafe { words_in_line::<D, CHECK>(m, op, access, at[0], step) };
        if is_done {
            return;
        }
    }
    let Span { mut lowest, mut highest, bits } = lanes::span(at, mask);
    let mut mask = mask;
    if highest.saturating_add(bytes) > m.shared_bytes || bits & (bytes - 1) != 0 {
        if is_tagged(bits) && has_own_tag(m, at, mask) {
            // SAFETY: passed on.
            return unsafe { through_own_tag::<D, CHECK>(m, op, access, at, mask) };
        }
        mask = refuse_bad(m, op, access, at, mask, if D::LOAD { "load" } else { "store" });
        (lowest, highest) = (0, u32::MAX);
    }
    if CHECK {
        mask = m.check_shared::<D>(op, access, at, mask, lowest..=highest);
    }
    if mask == 0 {
        return;
    }
    m.progress |= !D::LOAD;
    m.waiting |= access.is_strong();
    m.record_shared(op, at, mask, bytes);
    let (wavefronts, ideal) = pattern::wavefronts(at, mask, bytes, D::LOAD);
    count(m, op, wavefronts, wavefronts - ideal);
    // SAFETY: every active lane's access is inside shared memory and aligned.
    unsafe { transfer::<D>(m, op, access, at, mask) };
    if CHECK && D::LOAD && access.is_strong() {
        m.after_strong(op, access, Kind::Read, Space::Shared, &at.map(u64::from), mask);
    }
}

/// Returns true if some lane's address in `.shared::cluster` names the running block.
#[cold]
fn has_own_tag(m: &Machine, at: &[u32; LANES], mask: u32) -> bool {
    (0..LANES).any(|lane| mask >> lane & 1 != 0 && tagged(at[lane], m.cluster.rank).0 == Some(m.cluster.rank))
}

/// Handles addresses of the running block made by `mapa`, which are in the window of
/// `.shared::cta`, too.
///
/// # Safety
/// As for [`access`].
#[cold]
unsafe fn through_own_tag<D: Direction, const CHECK: bool>(
    m: &mut Machine,
    op: &Op,
    access: Access,
    at: &[u32; LANES],
    mask: u32,
) {
    let own = m.cluster.rank;
    let at = at.map(|address| match tagged(address, own) {
        (Some(rank), offset) if rank == own => offset,
        _ => address,
    });
    // SAFETY: passed on.
    unsafe { access_apart::<D, CHECK>(m, op, access, &at, mask) }
}

/// [`access`], compiled once, for what seldom reaches the block's memory this way: it is long.
///
/// # Safety
/// As for [`access`].
#[inline(never)]
pub(super) unsafe fn access_apart<D: Direction, const CHECK: bool>(
    m: &mut Machine,
    op: &Op,
    access: Access,
    at: &[u32; LANES],
    mask: u32,
) {
    // SAFETY: passed on.
    unsafe { self::access::<D, CHECK>(m, op, access, at, mask) }
}

/// Counts a request.
#[inline(always)]
pub(crate) fn count(m: &mut Machine, op: &Op, wavefronts: u64, conflicts: u64) {
    let counters = &mut m.counters[op.instruction as usize];
    counters.shared_requests += 1;
    counters.wavefronts += wavefronts;
    counters.conflicts += conflicts;
}

/// Plain accesses of all lanes to consecutive words, or to one word: one wavefront each. Inspects
/// the register with the addresses. Returns false, with nothing done, for anything else.
///
/// # Safety
/// As for a handler.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "shared addresses have 32 bits")]
pub(crate) unsafe fn quick<D: Direction, const CHECK: bool>(m: &mut Machine, op: &Op, access: Access) -> bool {
    // SAFETY: passed on.
    unsafe {
        let (first, step) = if op.a == NONE {
            (u64::from(op.imm as u32), 0)
        } else if access.wide() {
            let a = &*m.lanes::<u64>(op.a);
            let Some(step) = step64(a) else { return false };
            (a[0].wrapping_add(op.imm as u64), step)
        } else {
            let a = &*m.lanes::<u32>(op.a);
            let Some(step) = step32(a) else { return false };
            (u64::from(a[0].wrapping_add(op.imm as u32)), step)
        };
        // No closure: it would not be inlined, and be compiled without the host's instructions.
        let Ok(first) = u32::try_from(first) else { return false };
        words_in_line::<D, CHECK>(m, op, access, first, step)
    }
}

/// Stride of the addresses: 0 if all are equal, 4 for consecutive words.
#[inline(always)]
fn step32(at: &[u32; LANES]) -> Option<u32> {
    if at[0] == at[1] {
        return if lanes::differing(at, at[0], 0) == 0 { Some(0) } else { None };
    }
    if lanes::differing(at, at[0], 4) == 0 { Some(4) } else { None }
}

/// [`step32`] for addresses of 64 bits.
#[inline(always)]
pub(super) fn step64(at: &[u64; LANES]) -> Option<u32> {
    if at[0] == at[1] {
        return if lanes::differing64(at, at[0], 0) == 0 { Some(0) } else { None };
    }
    if lanes::differing64(at, at[0], 4) == 0 { Some(4) } else { None }
}

/// All lanes access the word at `first`, or consecutive words from it. Returns false, with nothing
/// done, if any is misaligned or outside shared memory.
///
/// # Safety
/// As for [`access`]; each lane accesses one word.
#[inline(always)]
unsafe fn words_in_line<D: Direction, const CHECK: bool>(
    m: &mut Machine,
    op: &Op,
    access: Access,
    first: u32,
    step: u32,
) -> bool {
    let is_uniform = step == 0;
    let bytes = if is_uniform { 4 } else { 128 };
    if !first.is_multiple_of(4) || first.saturating_add(bytes) > m.shared_bytes {
        return false;
    }
    let is_checked = CHECK && m.check_shared_line::<D>(op, first, is_uniform);
    if (CHECK && !is_checked) || m.recording.is_some() {
        let mut at = [0; LANES];
        for lane in 0..LANES {
            at[lane] = first + step * lane as u32;
        }
        let (low, high) = (0, 31);
        let pattern =
            if is_uniform { Pattern::Uniform { first: low, last: high } } else { Pattern::Contiguous { lanes: 32 } };
        if CHECK && !is_checked && m.check_shared_words::<D>(op, access, &at, pattern) != ALL_LANES {
            return true;
        }
        m.record_shared(op, &at, ALL_LANES, 4);
    }
    count(m, op, 1, 0);
    // SAFETY: the words lie in shared memory; the frame holds the row.
    unsafe {
        let data = m.shared.add(first as usize).cast::<u32>();
        let row = &mut *m.lanes::<u32>(op.dst);
        match (D::LOAD, is_uniform) {
            (true, true) => *row = [*data; LANES],
            (true, false) => *row = *data.cast::<[u32; LANES]>(),
            // The lowest lane's value stays, as on an H200 (calibration case `store-winner`).
            (false, true) => *data = row[0],
            (false, false) => *data.cast::<[u32; LANES]>() = *row,
        }
        m.progress |= !D::LOAD;
    }
    true
}

/// Moves the elements.
///
/// # Safety
/// As for [`access`]; every active lane's access is inside shared memory and aligned.
#[inline(always)]
pub(super) unsafe fn transfer<D: Direction>(m: &mut Machine, op: &Op, access: Access, at: &[u32; LANES], mask: u32) {
    // SAFETY: passed on.
    unsafe {
        let shared = m.shared;
        match (access.element(), access.count()) {
            (4, 1) => return words::<D, 1>(m, op, at, mask),
            (4, 2) => return words::<D, 2>(m, op, at, mask),
            (4, 4) => return words::<D, 4>(m, op, at, mask),
            _ => {}
        }
        let size = access.element() as usize;
        for (k, row) in element_rows(op).into_iter().take(access.count() as usize).enumerate() {
            for lane in 0..LANES {
                let lane = if D::LOAD { lane } else { LANES - 1 - lane };
                if mask >> lane & 1 != 0 {
                    element::<D>(m, access, shared.add(at[lane] as usize + k * size), row, lane);
                }
            }
        }
    }
}

/// Moves `N` words of each lane.
///
/// # Safety
/// As for [`transfer`].
#[inline(always)]
unsafe fn words<D: Direction, const N: usize>(m: &mut Machine, op: &Op, at: &[u32; LANES], mask: u32) {
    // SAFETY: passed on.
    unsafe {
        let shared = m.shared;
        let rows: [_; 4] = element_rows(op);
        let rows: [*mut u32; N] = std::array::from_fn(|k| m.lanes::<u32>(rows[k]).cast::<u32>());
        let one = |lane: usize| {
            let cells = shared.add(at[lane] as usize).cast::<u32>();
            for (k, row) in rows.iter().enumerate() {
                let (cell, register) = (cells.add(k), row.add(lane));
                if D::LOAD { *register = *cell } else { *cell = *register }
            }
        };
        // Of stores to one word the lowest lane's stays, as on an H200 (calibration case
        // `store-winner`).
        if mask == ALL_LANES {
            for lane in 0..LANES {
                one(if D::LOAD { lane } else { LANES - 1 - lane });
            }
            return;
        }
        let mut rest = mask;
        while rest != 0 {
            let lane = if D::LOAD { rest.trailing_zeros() } else { 31 - rest.leading_zeros() };
            rest &= !(1 << lane);
            one(lane as usize);
        }
    }
}

/// Moves one element between memory that no other host thread touches and a register row.
///
/// # Safety
/// `data` points at an aligned element; `row` is a register wide enough for it.
#[inline(always)]
pub(crate) unsafe fn element<D: Direction>(m: &mut Machine, access: Access, data: *mut u8, row: u32, lane: usize) {
    // SAFETY: passed on.
    unsafe {
        match access.element() {
            4 => {
                let (cell, register) = (data.cast::<u32>(), &mut (*m.lanes::<u32>(row))[lane]);
                if D::LOAD { *register = *cell } else { *cell = *register }
            }
            8 => {
                let (cell, register) = (data.cast::<u64>(), &mut (*m.lanes::<u64>(row))[lane]);
                if D::LOAD { *register = *cell } else { *cell = *register }
            }
            2 => {
                let (cell, register) = (data.cast::<u16>(), &mut (*m.lanes::<u32>(row))[lane]);
                if D::LOAD { *register = access.extend(u32::from(*cell)) } else { *cell = *register as u16 }
            }
            1 => {
                let register = &mut (*m.lanes::<u32>(row))[lane];
                if D::LOAD { *register = access.extend(u32::from(*data)) } else { *data = *register as u8 }
            }
            _ => {
                let (cell, register) = (data.cast::<u128>(), &mut (*m.lanes::<u128>(row))[lane]);
                if D::LOAD { *register = *cell } else { *cell = *register }
            }
        }
    }
}

/// Records the lanes that are outside shared memory or misaligned; returns the others.
#[cold]
#[inline(never)]
pub(crate) fn refuse_bad(m: &mut Machine, op: &Op, access: Access, at: &[u32; LANES], mask: u32, what: &str) -> u32 {
    let bytes = access.bytes();
    let mut good = mask;
    for lane in 0..LANES {
        if mask >> lane & 1 == 0 {
            continue;
        }
        let address = SHARED_WINDOW + u64::from(at[lane]);
        let lane32 = u32::try_from(lane).expect("a lane");
        if !at[lane].is_multiple_of(bytes) {
            let rule = format!("a {what} of {bytes} bytes must be aligned to {bytes} bytes");
            address_fault(m, op, FindingKind::Misaligned, lane32, address, rule);
        } else if at[lane].saturating_add(bytes) > m.shared_bytes {
            let rule = if is_tagged(at[lane]) {
                format!("a {what} of {bytes} bytes from a peer's shared memory, which .shared::cta does not reach")
            } else {
                format!("a {what} of {bytes} bytes outside the {} bytes of shared memory", m.shared_bytes)
            };
            address_fault(m, op, FindingKind::OutOfBounds, lane32, address, rule);
        } else {
            continue;
        }
        good &= !(1 << lane);
    }
    good
}
