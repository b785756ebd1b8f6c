//! The kernels of a bitonic network.

use warpfold_lang::{
    Global, Shared, Val, block_idx, kernel, params, shared_named, sync_threads, thread_idx, wait_for_dependencies, when,
};

use super::pair::{Pair, Results, Scratch, pair_of};
use crate::{AnyKernel, Dtype};

/// Threads of a block.
pub(super) const BLOCK: u32 = 512;
/// Pairs of key and position that a block sorts in shared memory.
pub(super) const CHUNK: u32 = 2 * BLOCK;

/// What the kernel is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SortConfig {
    pub(super) dtype: Dtype,
    pub(super) descending: bool,
    pub(super) stage: Stage,
}

/// Which part of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    /// All of it over sequences of `2^log_len`: whole rows, or parts of longer ones.
    Rows { log_len: u32, is_part: bool },
    /// Elements of a longer sequence that are at least a chunk apart.
    Distant,
    /// The elements of a longer sequence that are less than a chunk apart; the last of all or not.
    Merge { is_last: bool },
}

/// In shared memory.
struct Chunk {
    keys: Shared<u64>,
    positions: Option<Shared<u32>>,
}

impl Chunk {
    fn get(&self, i: Val<u32>) -> Pair {
        Pair { key: self.keys.at(i).get(), position: self.positions.map(|positions| positions.at(i).get()) }
    }

    fn set(&self, i: Val<u32>, pair: Pair) {
        self.keys.at(i).set(pair.key);
        self.positions.zip(pair.position).into_iter().for_each(|(to, position)| to.at(i).set(position));
    }

    /// Exchanges the two pairs of each thread that are `distance` apart, where `is_ascending` says
    /// which way.
    fn exchange(&self, distance: u32, is_ascending: impl Fn(Val<u32>) -> Val<bool>) {
        let thread = thread_idx().x;
        let low = thread * 2 - (thread & (distance - 1));
        let (a, b) = (self.get(low), self.get(low + distance));
        let is_wrong = a.is_above(b).eq(is_ascending(low));
        self.set(low, Pair::select(is_wrong, b, a));
        self.set(low + distance, Pair::select(is_wrong, a, b));
        sync_threads();
    }
}

params! {
    /// Parameters of the kernel.
    pub(super) struct SortArgs {
        rows: Global<u8>, sorted: Global<u8>, positions: Global<i64>,
        /// Keys between two launches, and their positions where these have words of their own.
        keys: Option<Global<u64>>, key_positions: Option<Global<u32>>,
        /// Rows, their length, and the power of two from it on.
        num_rows: u64, len: u64, padded: u64,
        /// Keys of a sequence, and between two that are compared.
        sequence: u32, distance: u32,
    }
}

pub(super) fn kernel_of(config: &SortConfig) -> AnyKernel {
    let config = *config;
    let SortConfig { dtype, descending, stage } = config;
    let is_wide = dtype.bytes() == 8;
    let body = move |args: SortArgs| {
        let SortArgs { rows, sorted, positions, keys, key_positions, num_rows, len, padded, sequence, distance } = args;
        wait_for_dependencies();
        // Contract: a thread for two places of the padded rows.
        let scratch = Scratch { keys, positions: is_wide.then_some(key_positions) };
        let all = num_rows * padded;
        let thread = thread_idx().x;
        if stage == Stage::Distant {
            let pair = block_idx().x.cast::<u64>() * u64::from(BLOCK) + thread.cast::<u64>();
            let apart = distance.cast::<u64>();
            let low = pair * 2 - (pair & (apart - 1));
            when(low.lt(all), || {
                let (a, b) = (scratch.get(low), scratch.get(low + apart));
                // Within a row, whose length is a power of two as well.
                let is_ascending = (low & (padded - 1) & sequence.cast::<u64>()).eq(0);
                when(a.is_above(b).eq(is_ascending), || {
                    scratch.set(low, b);
                    scratch.set(low + apart, a);
                });
            });
            return;
        }
        // Shared-memory map
        let chunk = Chunk {
            keys: shared_named::<u64>("keys", CHUNK),
            positions: is_wide.then(|| shared_named::<u32>("positions", CHUNK)),
        };
        let first = block_idx().x.cast::<u64>() * u64::from(CHUNK);
        let places = [thread, thread + BLOCK];
        // Load: what is beyond a row is above all of it.
        for place in places {
            let at = first + place.cast::<u64>();
            if matches!(stage, Stage::Merge { .. }) {
                chunk.set(place, scratch.get(at));
                continue;
            }
            let (row, column) = (at / padded, at & (padded - 1));
            let is_there = row.lt(num_rows) & column.lt(len);
            let element = is_there.select(row * len + column, Val::constant(0_u64));
            let pair = pair_of(dtype, descending, rows.at(element * dtype.bytes()), column.cast::<u32>());
            let key = if is_wide { Val::constant(u64::MAX) } else { column | (u64::from(u32::MAX) << 32) };
            let beyond = Pair { key, position: pair.position };
            chunk.set(place, Pair::select(is_there, pair, beyond));
        }
        sync_threads();
        // Network
        let in_row = |low: Val<u32>| ((first + low.cast::<u64>()) & (padded - 1)).cast::<u32>();
        match stage {
            Stage::Rows { log_len, .. } => {
                for log_sequence in 1..=log_len {
                    for log_distance in (0..log_sequence).rev() {
                        chunk.exchange(1 << log_distance, |low| (in_row(low) & (1_u32 << log_sequence)).eq(0));
                    }
                }
            }
            Stage::Distant | Stage::Merge { .. } => {
                for log_distance in (0..CHUNK.ilog2()).rev() {
                    chunk.exchange(1 << log_distance, |low| (in_row(low) & sequence).eq(0));
                }
            }
        }
        // Epilogue
        let is_last = matches!(stage, Stage::Rows { is_part: false, .. } | Stage::Merge { is_last: true });
        for place in places {
            let (at, pair) = (first + place.cast::<u64>(), chunk.get(place));
            if !is_last {
                scratch.set(at, pair);
                continue;
            }
            let (row, column) = (at / padded, at & (padded - 1));
            when(row.lt(num_rows) & column.lt(len), || {
                Results { dtype, rows, sorted, positions }.set(row * len, column, pair.position());
            });
        }
    };
    let order = if descending { "down" } else { "up" };
    let stage = match stage {
        Stage::Rows { log_len, is_part } => format!("{}{}", if is_part { "part" } else { "rows" }, 1 << log_len),
        Stage::Distant => "distant".to_owned(),
        Stage::Merge { is_last } => if is_last { "last" } else { "merge" }.to_owned(),
    };
    kernel(format!("sort_{dtype}_{order}_{stage}"), body).required_block(BLOCK).into()
}
