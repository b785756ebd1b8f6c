//! The kernel that copies rows: a group of threads per row, several accesses in flight each.

use warpfold_lang::{Element, Global, Number, Operand, Val, block_idx, kernel, params, range, thread_idx, when};

use crate::elements::load_position;
use crate::overlap::overlap_launches;
use crate::{AnyKernel, Dtype};

/// Threads per block.
pub(super) const BLOCK: u32 = 256;
/// Accesses of a thread before the first is stored.
pub(super) const UNROLL: u32 = 4;

/// What the kernel is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GatherConfig {
    /// The type of the indices.
    pub indices: Dtype,
    /// Bytes of an access: 1 to 16.
    pub access: u32,
    /// Threads per row: a power of two, at most the block.
    pub lanes: u32,
}

params! {
    /// Parameters of the kernel.
    pub(super) struct GatherArgs {
        indices: Global<u8>, table: Global<u8>, output: Global<u8>, bad_position: Global<u64>,
        /// Indices.
        count: u64, rows: u64,
        /// In bytes.
        row_stride: i64,
        /// Of a row, and of a row's part that a block copies.
        accesses: u64, part: u64,
    }
}

pub(super) fn kernel_of(config: &GatherConfig) -> AnyKernel {
    let GatherConfig { indices: dtype, access, lanes } = *config;
    let body = move |args: GatherArgs| {
        let GatherArgs { indices, table, output, bad_position, count, rows, row_stride, accesses, part } = args;
        overlap_launches();
        // Contract: the grid has a block for `BLOCK / lanes` rows in x, and one for each `part`
        // accesses of a row in y.
        let (slot, lane) = (thread_idx().x >> lanes.ilog2(), thread_idx().x & (lanes - 1));
        let position = block_idx().x.cast::<u64>() * u64::from(BLOCK / lanes) + slot.cast::<u64>();
        when(position.lt(count), || {
            let row = load_position(dtype, indices.at(position * dtype.bytes()), rows);
            let is_row = row.lt(rows);
            when(!is_row & thread_idx().x.eq(slot * lanes) & block_idx().y.eq(0), || {
                bad_position.reduction().min(position);
            });
            let from = table.at(is_row.select::<i64>(row.bitcast::<i64>(), 0) * row_stride);
            let to = output.at(position * accesses * u64::from(access));
            let copy = Copy { from, to, is_row, accesses, lanes };
            let first = block_idx().y.cast::<u64>() * part;
            let end = (first + part).min(accesses);
            range(first + lane.cast::<u64>(), end, u64::from(lanes * UNROLL), |i| match access {
                16 => copy.step::<u32, 4>(i),
                8 => copy.step::<u32, 2>(i),
                4 => copy.step::<u32, 1>(i),
                2 => copy.step::<u16, 1>(i),
                _ => copy.step::<u8, 1>(i),
            });
        });
    };
    kernel(format!("gather_{dtype}_{access}_{lanes}"), body).required_block(BLOCK).into()
}

/// The row that a thread helps to copy.
struct Copy {
    from: Global<u8>,
    to: Global<u8>,
    is_row: Val<bool>,
    accesses: Val<u64>,
    lanes: u32,
}

impl Copy {
    /// Accesses of `N` elements of `E` from `i` on, every `lanes`-th: all loads before the first
    /// store.
    fn step<E: Number, const N: usize>(&self, i: Val<u64>)
    where
        Val<E>: Operand<E>,
    {
        let bytes = u64::from(<E as Element>::BYTES) * N as u64;
        let at = |u: u32| i + u64::from(u * self.lanes);
        let load = |u: u32| {
            let has = self.is_row & at(u).lt(self.accesses);
            self.from.at(at(u) * bytes).reinterpret::<E>().get_vec_or::<N>(Val::constant(E::ZERO), has)
        };
        let loaded: Vec<[Val<E>; N]> = (0..UNROLL).map(load).collect();
        for (u, values) in (0..).zip(loaded) {
            self.to.at(at(u) * bytes).reinterpret::<E>().set_vec_if(values, at(u).lt(self.accesses));
        }
    }
}
