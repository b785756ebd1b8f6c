//! Accesses to local memory and to kernel parameters.
//!
//! Local memory lies as on hardware: word `w` of all 32 lanes side by side, so that lanes that use
//! the same offset touch one row.

use super::access::{Access, Direction, address_fault, element_rows};
use super::shared;
use crate::exec::machine::Machine;
use crate::exec::memory_map::{LOCAL_WINDOW, PARAM_WINDOW};
use crate::exec::op::{NONE, Op};
use crate::exec::row::LANES;
use crate::memory_ops::access::Load;
use crate::report::FindingKind;

/// Loads or stores one element per lane.
///
/// # Safety
/// As for a handler: the rows of `op` fit `access`.
#[inline(never)]
pub(crate) unsafe fn access<D: Direction>(m: &mut Machine, op: &Op, access: Access, at: &[u64; LANES], mask: u32) {
    m.counters[op.instruction as usize].local_requests += 1;
    let (bytes, size) = (u64::from(access.bytes()), access.element() as usize);
    for lane in 0..LANES {
        if mask >> lane & 1 == 0 {
            continue;
        }
        let lane32 = u32::try_from(lane).expect("a lane");
        if !at[lane].is_multiple_of(bytes) {
            let rule = format!("a local access of {bytes} bytes must be aligned to {bytes} bytes");
            address_fault(m, op, FindingKind::Misaligned, lane32, LOCAL_WINDOW + at[lane], rule);
            continue;
        }
        if at[lane].saturating_add(bytes) > u64::from(m.local_end) {
            let rule = format!("a local access of {bytes} bytes outside the function's local variables");
            address_fault(m, op, FindingKind::OutOfBounds, lane32, LOCAL_WINDOW + at[lane], rule);
            continue;
        }
        // SAFETY: `local` points at the local memory of the current warp, which reaches to
        // `local_end`.
        unsafe {
            let rows = &mut *m.local;
            for (k, row) in element_rows(op).into_iter().take(access.count() as usize).enumerate() {
                let start = at[lane] as usize + k * size;
                if size <= 4 {
                    let word = rows[start / 4].0.as_mut_ptr().add(lane).cast::<u8>();
                    shared::element::<D>(m, access, word.add(start % 4), row, lane);
                    continue;
                }
                // Wider elements are gathered from, or spread over, the words of their lane.
                let mut buffer = [0u128; 1];
                let words = buffer.as_mut_ptr().cast::<u32>();
                if D::LOAD {
                    for w in 0..size / 4 {
                        *words.add(w) = rows[start / 4 + w].0[lane];
                    }
                    shared::element::<D>(m, access, words.cast(), row, lane);
                } else {
                    shared::element::<D>(m, access, words.cast(), row, lane);
                    for w in 0..size / 4 {
                        rows[start / 4 + w].0[lane] = *words.add(w);
                    }
                }
            }
        }
    }
}

/// Loads from the kernel's parameters.
///
/// # Safety
/// As for a handler: the rows of `op` fit `access`.
#[inline(always)]
pub(crate) unsafe fn param_load(m: &mut Machine, op: &Op, access: Access, at: &[u64; LANES], mask: u32) {
    let (bytes, size) = (access.bytes() as usize, access.element() as usize);
    // The parameters stay where they are while the launch runs.
    let params: *const [u8] = &raw const *m.params;
    // SAFETY: the machine holds the parameters, and nothing writes them.
    let params = unsafe { &*params };
    if op.a == NONE && access.count() == 1 && at[0] as usize + bytes <= params.len() && !access.extends() {
        let data = &params[at[0] as usize..][..bytes];
        let low = data.iter().take(8).rev().fold(0u64, |all, &b| all << 8 | u64::from(b));
        // SAFETY: passed on.
        unsafe {
            match bytes {
                8 => return m.write(op.dst, &[low; LANES], mask),
                1 | 2 | 4 => return m.write(op.dst, &[low as u32; LANES], mask),
                _ => {}
            }
        }
    }
    for lane in 0..LANES {
        if mask >> lane & 1 == 0 {
            continue;
        }
        let slice = usize::try_from(at[lane]).ok().and_then(|start| params.get(start..start.checked_add(bytes)?));
        let Some(slice) = slice else {
            let rule = format!("a load of {bytes} bytes outside the {} bytes of parameters", params.len());
            let lane = u32::try_from(lane).expect("a lane");
            address_fault(m, op, FindingKind::OutOfBounds, lane, PARAM_WINDOW + at[lane as usize], rule);
            continue;
        };
        for (k, row) in element_rows(op).into_iter().take(access.count() as usize).enumerate() {
            let mut buffer = [0u128; 1];
            // SAFETY: the buffer holds the largest element.
            unsafe {
                let data = buffer.as_mut_ptr().cast::<u8>();
                std::ptr::copy_nonoverlapping(slice[k * size..].as_ptr(), data, size);
                shared::element::<Load>(m, access, data, row, lane);
            }
        }
    }
}
