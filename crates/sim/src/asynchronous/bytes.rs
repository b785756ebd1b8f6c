//! Bytes of global memory, moved by relaxed host atomics as everything there.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64};

use crate::exec::machine::GlobalView;

/// Reads `into.len()` bytes at a device address; `false` if they do not lie in one allocation.
pub(crate) fn load(global: &mut GlobalView, address: u64, into: &mut [u8]) -> bool {
    let Some(data) = global.locate(address, into.len() as u64) else { return false };
    let mut i = 0;
    // SAFETY: the whole range lies in one live allocation, which is only ever accessed atomically.
    unsafe {
        if address.is_multiple_of(8) {
            let (words, _) = into.as_chunks_mut::<8>();
            for word in words {
                *word = (*data.add(i).cast::<AtomicU64>()).load(Relaxed).to_le_bytes();
                i += 8;
            }
        }
        for byte in &mut into[i..] {
            *byte = (*data.add(i).cast::<AtomicU8>()).load(Relaxed);
            i += 1;
        }
    }
    true
}
