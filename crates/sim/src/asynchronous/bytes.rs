//! Access to bytes of global memory, by relaxed host atomics like all accesses there.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use crate::exec::machine::GlobalView;

/// Reads `into.len()` bytes at a device address; `false` if they are not in one allocation.
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

/// Writes bytes at a device address, if they are in one allocation.
pub(crate) fn store(global: &mut GlobalView, address: u64, from: &[u8]) {
    let Some(data) = global.locate(address, from.len() as u64) else { return };
    let mut i = 0;
    // SAFETY: the whole range lies in one live allocation, which is only ever accessed atomically.
    unsafe {
        if address.is_multiple_of(8) {
            for word in from.as_chunks::<8>().0 {
                (*data.add(i).cast::<AtomicU64>()).store(u64::from_le_bytes(*word), Relaxed);
                i += 8;
            }
        }
        for byte in &from[i..] {
            (*data.add(i).cast::<AtomicU8>()).store(*byte, Relaxed);
            i += 1;
        }
    }
}

/// Updates an element of up to 8 bytes, aligned to its size, atomically.
pub(crate) fn update(global: &mut GlobalView, address: u64, size: usize, change: impl Fn([u8; 8]) -> [u8; 8]) {
    let Some(data) = global.locate(address, size as u64) else { return };
    // An element smaller than a word is changed with the aligned word around it.
    let within = if size == 8 { 0 } else { (address % 4) as usize };
    // SAFETY: allocations start at multiples of 256 bytes and have whole words, so the aligned word
    // lies inside.
    unsafe {
        if size == 8 {
            let cell = &*data.cast::<AtomicU64>();
            let _ = cell.fetch_update(Relaxed, Relaxed, |old| Some(u64::from_le_bytes(change(old.to_le_bytes()))));
            return;
        }
        let cell = &*data.sub(within).cast::<AtomicU32>();
        let _ = cell.fetch_update(Relaxed, Relaxed, |old| {
            let mut word = old.to_le_bytes();
            let mut element = [0; 8];
            element[..size].copy_from_slice(&word[within..within + size]);
            word[within..within + size].copy_from_slice(&change(element)[..size]);
            Some(u32::from_le_bytes(word))
        });
    }
}
