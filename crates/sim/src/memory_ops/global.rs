//! Accesses to global memory: relaxed host atomics, with host fences around strong accesses.
//!
//! NOTE: a kernel whose threads access the same bytes with different sizes at the same time makes
//! the host do so, too. Rust leaves that outside its memory model; the hosts that this runs on do
//! what one expects.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, fence};

use super::access::{Access, Direction, address_fault, element_rows};
use super::pattern;
use super::shared::step64;
use crate::check::{Kind, Space};
use crate::exec::lanes::{differing64, move_row};
use crate::exec::machine::Machine;
use crate::exec::op::{NONE, Op};
use crate::exec::row::{ALL_LANES, LANES};
use crate::report::FindingKind;

/// Moves one element between memory and a register row.
///
/// # Safety
/// `data` points at an aligned element inside a live allocation; `row` is a register wide enough
/// for it.
#[inline(always)]
unsafe fn element<D: Direction>(m: &mut Machine, access: Access, data: *mut u8, row: u32, lane: usize) {
    // SAFETY: passed on; global memory is only ever accessed atomically.
    unsafe {
        match access.element() {
            4 => {
                let (cell, register) = (&*data.cast::<AtomicU32>(), &mut (*m.lanes::<u32>(row))[lane]);
                if D::LOAD { *register = cell.load(Relaxed) } else { cell.store(*register, Relaxed) }
            }
            8 => {
                let (cell, register) = (&*data.cast::<AtomicU64>(), &mut (*m.lanes::<u64>(row))[lane]);
                if D::LOAD { *register = cell.load(Relaxed) } else { cell.store(*register, Relaxed) }
            }
            2 => {
                let (cell, register) = (&*data.cast::<AtomicU16>(), &mut (*m.lanes::<u32>(row))[lane]);
                if D::LOAD {
                    *register = access.extend(u32::from(cell.load(Relaxed)));
                } else {
                    cell.store(*register as u16, Relaxed);
                }
            }
            1 => {
                let (cell, register) = (&*data.cast::<AtomicU8>(), &mut (*m.lanes::<u32>(row))[lane]);
                if D::LOAD {
                    *register = access.extend(u32::from(cell.load(Relaxed)));
                } else {
                    cell.store(*register as u8, Relaxed);
                }
            }
            _ => {
                let cells = [&*data.cast::<AtomicU64>(), &*data.add(8).cast::<AtomicU64>()];
                let register = &mut (*m.lanes::<u128>(row))[lane];
                if D::LOAD {
                    *register = u128::from(cells[0].load(Relaxed)) | u128::from(cells[1].load(Relaxed)) << 64;
                } else {
                    cells[0].store(*register as u64, Relaxed);
                    cells[1].store((*register >> 64) as u64, Relaxed);
                }
            }
        }
    }
}

/// Plain accesses of all lanes to consecutive words, and loads of one word by all lanes. Inspects
/// the register with the addresses. Returns false, with nothing done, for anything else.
///
/// # Safety
/// As for a handler; each lane accesses one word, and addresses have 64 bits.
#[inline(always)]
#[allow(clippy::cast_sign_loss, reason = "addresses wrap")]
pub(crate) unsafe fn quick<D: Direction, const CHECK: bool>(m: &mut Machine, op: &Op, access: Access) -> bool {
    if op.a == NONE {
        return false;
    }
    // SAFETY: passed on.
    let a = unsafe { &*m.lanes::<u64>(op.a) };
    let Some(step) = step64(a) else { return false };
    let (start, bytes) = (a[0].wrapping_add(op.imm as u64), if step == 0 { 4 } else { 128 });
    if !start.is_multiple_of(4) || (step == 0 && !D::LOAD) {
        return false;
    }
    let Some(data) = m.global.locate(start, bytes) else { return false };
    let counters = &mut m.counters[op.instruction as usize];
    counters.global_requests += 1;
    counters.global_bytes += 128;
    counters.sectors += pattern::range_sectors(start, start + bytes);
    m.progress |= !D::LOAD;
    if CHECK || m.recording.is_some() {
        let at = std::array::from_fn(|lane| start + u64::from(step) * lane as u64);
        m.record(op, &at, ALL_LANES, 4);
        if CHECK {
            m.check_global::<D>(op, access, &at, ALL_LANES);
        }
    }
    // SAFETY: the words lie in one live allocation, aligned; global memory is only ever accessed
    // atomically.
    unsafe {
        if step == 0 {
            let value = (*data.cast::<AtomicU32>()).load(Relaxed);
            *m.lanes::<u32>(op.dst) = [value; LANES];
        } else {
            contiguous::<D>(m, op, access, data, ALL_LANES);
        }
    }
    true
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
    at: &[u64; LANES],
    mask: u32,
) {
    let bytes = u64::from(access.bytes());
    let counters = &mut m.counters[op.instruction as usize];
    counters.global_requests += 1;
    counters.global_bytes += bytes * u64::from(mask.count_ones());
    m.record(op, at, mask, access.bytes());
    m.progress |= !D::LOAD;
    if access.is_strong() {
        m.waiting = true;
        if !D::LOAD {
            // The store itself is relaxed: earlier accesses must not come after it.
            fence(Release);
        }
    }
    let first = mask.trailing_zeros();
    let last = 31 - mask.leading_zeros();
    if let Some(base) = pattern::contiguous(at, mask, bytes) {
        let (start, end) = (at[first as usize], at[last as usize].wrapping_add(bytes));
        if start.is_multiple_of(bytes)
            && let Some(data) = m.global.locate(start, end.wrapping_sub(start))
        {
            m.counters[op.instruction as usize].sectors += if pattern::is_run(mask) {
                pattern::range_sectors(start, end)
            } else {
                pattern::sectors(at, mask, bytes)
            };
            if CHECK {
                m.check_global::<D>(op, access, at, mask);
            }
            let data = data.wrapping_sub(start.wrapping_sub(base) as usize);
            // SAFETY: the whole range lies in one live allocation and is aligned.
            unsafe { contiguous::<D>(m, op, access, data, mask) };
            if D::LOAD && access.is_strong() {
                after_strong_load::<CHECK>(m, op, access, at, mask);
            }
            return;
        }
    }
    // SAFETY: passed on.
    unsafe {
        let is_quick = mask == ALL_LANES && access.is_word() && strided_words::<D, CHECK>(m, op, access, at);
        if !is_quick {
            scattered::<D, CHECK>(m, op, access, at, mask);
        }
    }
}

/// Plain accesses of all lanes to words at a constant stride, in one allocation. Returns false,
/// with nothing done, for anything else.
///
/// # Safety
/// As for [`access`]; each lane accesses one word.
#[inline(always)]
unsafe fn strided_words<D: Direction, const CHECK: bool>(
    m: &mut Machine,
    op: &Op,
    access: Access,
    at: &[u64; LANES],
) -> bool {
    const FAR: u64 = 1 << 20;
    let (start, step) = (at[0], at[1].wrapping_sub(at[0]));
    if !start.is_multiple_of(4)
        || !step.is_multiple_of(4)
        || !(4..FAR).contains(&step)
        || differing64(at, start, step as u32) != 0
    {
        return false;
    }
    let Some(data) = m.global.locate(start, 31 * step + 4) else { return false };
    m.counters[op.instruction as usize].sectors += pattern::sectors(at, ALL_LANES, 4);
    if CHECK {
        m.check_global::<D>(op, access, at, ALL_LANES);
    }
    // SAFETY: the words lie in one live allocation, aligned; global memory is only ever accessed
    // atomically; the frame holds the row.
    unsafe {
        let row = &mut *m.lanes::<u32>(op.dst);
        for lane in 0..LANES {
            let cell = &*data.add(lane * step as usize).cast::<AtomicU32>();
            if D::LOAD { row[lane] = cell.load(Relaxed) } else { cell.store(row[lane], Relaxed) }
        }
    }
    true
}

/// Lane `l` accesses `data + l * bytes`.
///
/// # Safety
/// As for [`access`]; the range of the active lanes lies in one live allocation and is aligned.
#[inline(always)]
unsafe fn contiguous<D: Direction>(m: &mut Machine, op: &Op, access: Access, data: *mut u8, mask: u32) {
    // SAFETY: passed on.
    unsafe {
        if mask == ALL_LANES && access.element() == 4 && access.count() == 1 {
            let row = m.lanes::<u32>(op.dst).cast::<u8>();
            if if D::LOAD { move_row(data, row) } else { move_row(row, data) } {
                return;
            }
            let row = &mut *m.lanes::<u32>(op.dst);
            for (lane, register) in row.iter_mut().enumerate() {
                let cell = &*data.add(lane * 4).cast::<AtomicU32>();
                if D::LOAD { *register = cell.load(Relaxed) } else { cell.store(*register, Relaxed) }
            }
            return;
        }
        if mask == ALL_LANES && access.element() == 4 && access.count() == 4 {
            for (k, row) in element_rows(op).into_iter().enumerate() {
                let row = &mut *m.lanes::<u32>(row);
                for (lane, register) in row.iter_mut().enumerate() {
                    let cell = &*data.add(lane * 16 + k * 4).cast::<AtomicU32>();
                    if D::LOAD { *register = cell.load(Relaxed) } else { cell.store(*register, Relaxed) }
                }
            }
            return;
        }
        let (bytes, size) = (access.bytes() as usize, access.element() as usize);
        for (k, row) in element_rows(op).into_iter().take(access.count() as usize).enumerate() {
            for lane in 0..LANES {
                if mask >> lane & 1 != 0 {
                    element::<D>(m, access, data.wrapping_add(lane * bytes + k * size), row, lane);
                }
            }
        }
    }
}

/// Any other pattern; also finds the lanes that are out of bounds or misaligned.
///
/// # Safety
/// As for [`access`].
#[inline(never)]
unsafe fn scattered<D: Direction, const CHECK: bool>(
    m: &mut Machine,
    op: &Op,
    access: Access,
    at: &[u64; LANES],
    mask: u32,
) {
    let bytes = u64::from(access.bytes());
    let (good, data) = resolve(m, op, at, mask, bytes, if D::LOAD { "load" } else { "store" });
    if good == 0 {
        return;
    }
    m.counters[op.instruction as usize].sectors += pattern::sectors(at, good, bytes);
    if CHECK {
        m.check_global::<D>(op, access, at, good);
    }
    let size = access.element() as usize;
    for lane in 0..LANES {
        if good >> lane & 1 != 0 {
            for (k, row) in element_rows(op).into_iter().take(access.count() as usize).enumerate() {
                // SAFETY: `resolve` found the whole access inside a live allocation, aligned.
                unsafe { element::<D>(m, access, data[lane].wrapping_add(k * size), row, lane) };
            }
        }
    }
    if D::LOAD && access.is_strong() {
        after_strong_load::<CHECK>(m, op, access, at, good);
    }
}

/// Orders a strong load before what follows it, and tells the checker, which may acquire something.
#[inline(never)]
fn after_strong_load<const CHECK: bool>(m: &mut Machine, op: &Op, access: Access, at: &[u64; LANES], mask: u32) {
    fence(Acquire);
    if CHECK {
        m.after_strong(op, access, Kind::Read, Space::Global, at, mask);
    }
}

/// Returns the lanes whose access is aligned and inside a live allocation, and its host address;
/// records faults for the others.
#[inline(always)]
pub(crate) fn resolve(
    m: &mut Machine,
    op: &Op,
    at: &[u64; LANES],
    mask: u32,
    bytes: u64,
    what: &str,
) -> (u32, [*mut u8; LANES]) {
    resolve_aligned(m, op, at, mask, (bytes, bytes), what)
}

/// Like [`resolve`], with explicit size and alignment.
#[inline(always)]
pub(crate) fn resolve_aligned(
    m: &mut Machine,
    op: &Op,
    at: &[u64; LANES],
    mask: u32,
    (bytes, align): (u64, u64),
    what: &str,
) -> (u32, [*mut u8; LANES]) {
    let mut good = 0u32;
    let mut data = [std::ptr::null_mut::<u8>(); LANES];
    for lane in 0..LANES {
        if mask >> lane & 1 == 0 {
            continue;
        }
        match if at[lane].is_multiple_of(align) { m.global.locate(at[lane], bytes) } else { None } {
            Some(found) => {
                data[lane] = found;
                good |= 1 << lane;
            }
            None => bad_access(m, op, at[lane], (bytes, align), lane, what),
        }
    }
    (good, data)
}

/// Records the fault of an invalid access to global memory.
#[cold]
#[inline(never)]
fn bad_access(m: &mut Machine, op: &Op, address: u64, (bytes, align): (u64, u64), lane: usize, what: &str) {
    let lane = u32::try_from(lane).expect("a lane");
    if !address.is_multiple_of(align) {
        let rule = format!("a {what} of {bytes} bytes must be aligned to {align} bytes");
        address_fault(m, op, FindingKind::Misaligned, lane, address, rule);
    } else if m.global.is_freed(address) {
        let rule = format!("a {what} of {bytes} bytes from memory that was freed");
        address_fault(m, op, FindingKind::UseAfterFree, lane, address, rule);
    } else {
        let rule = format!("a {what} of {bytes} bytes outside every allocation");
        address_fault(m, op, FindingKind::OutOfBounds, lane, address, rule);
    }
}
