//! Copies in flight: loads into shared memory that complete on an mbarrier, and bulk stores in a
//! thread's bulk groups.
//!
//! A load lands when a wait at its barrier could not succeed otherwise; a store reads shared memory
//! and writes global memory at the wait that covers its group, or when its block is over.

use super::bytes;
use super::reduce::Reduction;
pub(crate) use super::tensor_box::Piece;
use super::tensor_box::TensorBox;
use crate::check::Kind;
use crate::exec::machine::Machine;
use crate::tensor_map::Fill;

/// A thread: its block, its warp and its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Thread {
    /// Linear index of the block.
    pub(crate) block: u64,
    /// Warp in the block.
    pub(crate) warp: u32,
    /// Lane in the warp.
    pub(crate) lane: u32,
}

/// The end of a copy that is not the block's shared memory.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// A linear range of bytes.
    Linear(u64),
    /// A box of a tensor.
    Tensor(Box<TensorBox>),
    /// Bytes in the shared memory of a block of the cluster.
    Shared(*mut u8, u32),
    /// Bytes from the thread's registers, of which the copy moves the first ones.
    Held([u8; 16]),
}

/// A copy into shared memory.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    /// The instruction.
    pub(crate) instruction: u32,
    /// The thread that issued it.
    pub(crate) by: Thread,
    /// The recorded step that issued it.
    pub(crate) step: Option<u32>,
    /// Source of the bytes.
    pub(crate) from: Place,
    /// Destination offset in the block's shared memory.
    pub(crate) to: u32,
    /// Number of bytes.
    pub(crate) bytes: u32,
    /// Reduction at the destination, unless the bytes are replaced.
    pub(crate) reduction: Option<Reduction>,
    /// The first byte of global memory that it reads, and the one past the last.
    pub(crate) span: (u64, u64),
    /// The barrier on which it completes.
    pub(crate) barrier: u32,
    /// The block's checker has been told of the copy.
    pub(crate) is_noted: bool,
}

/// A copy out of shared memory.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    /// The instruction.
    pub(crate) instruction: u32,
    /// The thread that issued it.
    pub(crate) by: Thread,
    /// The recorded step that issued it.
    pub(crate) step: Option<u32>,
    /// Source offset in the block's shared memory.
    pub(crate) from: u32,
    /// Destination of the bytes.
    pub(crate) to: Place,
    /// Number of bytes.
    pub(crate) bytes: u32,
    /// Reduction at the destination, unless the bytes are replaced.
    pub(crate) reduction: Option<Reduction>,
    /// The first byte of global memory that it writes, and the one past the last.
    pub(crate) span: (u64, u64),
    /// The bulk group of its thread.
    pub(crate) group: u32,
    /// The bytes, once they have been read.
    pub(crate) read: Option<Vec<u8>>,
    /// Bytes of it that nothing has written.
    pub(crate) unwritten: Vec<u32>,
    /// It was read before any wait for it.
    pub(crate) is_early: bool,
}

/// Calls for each piece of `bytes` bytes between global memory and an offset of shared memory.
pub(crate) fn pieces(place: &Place, shared: u32, bytes: u32, mut each: impl FnMut(Piece)) {
    match place {
        Place::Linear(address) => each(Piece { global: Some(*address), shared, bytes }),
        Place::Tensor(tensor) => tensor.pieces(shared, each),
        Place::Shared(..) | Place::Held(_) => {}
    }
}

impl Load {
    /// Kind of access to the destination.
    pub(crate) const fn kind(&self) -> Kind {
        if self.reduction.is_some() { Kind::Atomic } else { Kind::Write }
    }
}

impl Machine {
    /// Copies the bytes of a load into the current block's shared memory.
    pub(super) fn land(&mut self, load: &Load) {
        let shared = self.shared;
        let mut buffer = vec![0; load.bytes as usize];
        match &load.from {
            Place::Shared(memory, from) => {
                // SAFETY: the range was found inside the shared memory of a block of the cluster,
                // which is still there.
                unsafe { std::ptr::copy_nonoverlapping(memory.add(*from as usize), buffer.as_mut_ptr(), buffer.len()) };
            }
            Place::Held(bytes) => buffer.copy_from_slice(&bytes[..load.bytes as usize]),
            Place::Linear(_) | Place::Tensor(_) => {}
        }
        let fill = match &load.from {
            Place::Tensor(tensor) => fill_pattern(tensor),
            Place::Linear(_) | Place::Shared(..) | Place::Held(_) => [0; 8],
        };
        let global = &mut self.global;
        pieces(&load.from, load.to, load.bytes, |piece| {
            let offset = (piece.shared - load.to) as usize;
            let into = &mut buffer[offset..offset + piece.bytes as usize];
            match piece.global {
                Some(address) => {
                    // What lies outside of every allocation was found when the copy began, and
                    // gives zeros.
                    bytes::load(global, address, into);
                }
                None => into.iter_mut().enumerate().for_each(|(i, byte)| *byte = fill[(offset + i) % 8]),
            }
        });
        if let Place::Tensor(tensor) = &load.from {
            tensor.map.element.loaded(&mut buffer);
        }
        // SAFETY: the range was found inside the block's shared memory when the copy began.
        let to = unsafe { std::slice::from_raw_parts_mut(shared.add(load.to as usize), buffer.len()) };
        match load.reduction {
            Some(reduction) => reduction.apply(to, &buffer),
            None => to.copy_from_slice(&buffer),
        }
        self.step_load(load);
        self.progress = true;
    }

    /// Reads the source of a store.
    pub(super) fn read_source(&self, store: &mut Store) {
        if store.read.is_none() {
            // SAFETY: the range was found inside the block's shared memory when the copy began.
            let from =
                unsafe { std::slice::from_raw_parts(self.shared.add(store.from as usize), store.bytes as usize) };
            store.read = Some(from.to_vec());
        }
    }

    /// Writes the destination of a store.
    pub(super) fn write_target(&mut self, mut store: Store) {
        self.read_source(&mut store);
        let data = store.read.take().expect("it was read");
        let global = &mut self.global;
        pieces(&store.to, store.from, store.bytes, |piece| {
            let offset = (piece.shared - store.from) as usize;
            if let Some(address) = piece.global {
                let from = &data[offset..offset + piece.bytes as usize];
                match store.reduction {
                    Some(reduction) => reduction.apply_global(global, address, from),
                    None => bytes::store(global, address, from),
                }
            }
        });
        if self.recording.is_some() {
            pieces(&store.to, store.from, store.bytes, |piece| self.step_store(&store, &piece));
        }
        self.progress = true;
    }
}

/// Eight bytes of the fill value, repeated.
fn fill_pattern(tensor: &TensorBox) -> [u8; 8] {
    use crate::tensor_map::TensorType as E;
    if tensor.map.fill == Fill::Zero {
        return [0; 8];
    }
    // NOTE: which NaN hardware takes is not documented; these are the canonical ones of PTX.
    let two = |bits: u16| [bits; 4].map(u16::to_le_bytes).concat();
    let bytes = match tensor.map.element {
        E::F16 => two(0x7fff),
        E::Bf16 => two(0x7fff),
        E::F64 => 0x7fff_ffff_ffff_ffffu64.to_le_bytes().to_vec(),
        _ => [0x7fff_ffffu32; 2].map(u32::to_le_bytes).concat(),
    };
    bytes.try_into().expect("eight bytes")
}
