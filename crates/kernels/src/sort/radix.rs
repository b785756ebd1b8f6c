//! The kernels of a radix sort, for long rows: digits from the lowest on, each in the order that
//! the digits before it left (LSD), which makes it stable.
//!
//! A block takes a tile of a row. For each digit, one kernel counts the digits of each tile; a scan
//! over the tiles of all values of the digit, one value after the other, says where each tile's
//! elements of a value go; another kernel brings them there. Lanes with equal digits find each
//! other by `match.any`, and a warp has counts of its own, so that elements keep their order.

use warpfold_lang::{
    Global, Lanes, Val, block_idx, kernel, lane_id, lanes_before, params, shared_named, sync_threads, sync_warp,
    thread_idx, var, wait_for_dependencies, warp_id, when,
};

use super::pair::{Pair, Results, Scratch, pair_of};
use crate::{AnyKernel, Dtype};

/// Threads of a block: one for each value of a digit.
pub(super) const BLOCK: u32 = 256;
/// Elements of a tile.
pub(super) const TILE: u32 = ITEMS * BLOCK;
/// Values of a digit.
pub(super) const RADIX: u32 = 1 << DIGIT_BITS;
/// Bits of a digit.
pub(super) const DIGIT_BITS: u32 = 8;
/// Elements of a thread.
const ITEMS: u32 = 16;
const WARPS: u32 = BLOCK / 32;

/// What a kernel is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RadixConfig {
    pub(super) dtype: Dtype,
    pub(super) descending: bool,
    /// Whether it reads the rows themselves, and no pairs.
    pub(super) is_first: bool,
    pub(super) part: Part,
}

/// What is done for a digit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Part {
    /// The values of a tile's digits are counted.
    Count,
    /// Elements go where the digit says; by the last one, to the results.
    Move { is_last: bool },
}

params! {
    /// Parameters of the kernel.
    pub(super) struct RadixArgs {
        rows: Global<u8>, sorted: Global<u8>, positions: Global<i64>,
        /// Keys that the digit before left, and their positions where these have their own words.
        keys: Option<Global<u64>>, key_positions: Option<Global<u32>>,
        /// Places of those that this digit leaves.
        to_keys: Option<Global<u64>>, to_positions: Option<Global<u32>>,
        counts: Global<u32>,
        /// Length of a row, and its tiles.
        len: u64, tiles: u64,
        /// The digit's lowest bit.
        shift: u32,
    }
}

pub(super) fn kernel_of(config: &RadixConfig) -> AnyKernel {
    let config = *config;
    let RadixConfig { dtype, descending, is_first, part } = config;
    let is_wide = dtype.bytes() == 8;
    let body = move |args: RadixArgs| {
        let RadixArgs { rows, sorted, positions, keys, key_positions, .. } = args;
        let RadixArgs { to_keys, to_positions, counts, len, tiles, shift, .. } = args;
        wait_for_dependencies();
        // Contract: a block for each tile of each row.
        let block = block_idx().x.cast::<u64>();
        let (row, tile) = (block / tiles, block % tiles);
        let (first, thread) = (row * len, thread_idx().x);
        let of = |optional: Global<u32>| is_wide.then_some(optional);
        let from = Scratch { keys, positions: of(key_positions) };
        // What is beyond the row is its first element.
        let place = |at: Val<u32>| {
            let column = tile * u64::from(TILE) + at.cast::<u64>();
            (column.lt(len), column.lt(len).select(column, Val::constant(0_u64)))
        };
        let pair = |column: Val<u64>| match is_first {
            true => pair_of(dtype, descending, rows.at((first + column) * dtype.bytes()), column.cast::<u32>()),
            false => from.get(first + column),
        };
        let digit = |key: Val<u64>| (key >> shift).cast::<u32>() & (RADIX - 1);
        let count = counts.at((row * u64::from(RADIX) + thread.cast::<u64>()) * tiles + tile);
        if part == Part::Count {
            // Shared-memory map
            let of_digits = shared_named::<u32>("counts", RADIX);
            of_digits.at(thread).set(0_u32);
            sync_threads();
            // Load
            let places: Vec<_> = (0..ITEMS).map(|item| place(thread + item * BLOCK)).collect();
            let key = |column| if is_first { pair(column).key } else { keys.at(first + column).get() };
            let all: Vec<_> = places.iter().map(|(_, column)| key(*column)).collect();
            for ((is_there, _), key) in places.iter().zip(all) {
                when(*is_there, || of_digits.at(digit(key)).reduction().add(1_u32));
            }
            sync_threads();
            // Epilogue
            count.set(of_digits.at(thread).get());
            return;
        }
        // Shared-memory map: counts of the values of digits, of each warp.
        let of_warps = shared_named::<u32>("counts", WARPS * RADIX);
        (0..WARPS).for_each(|warp| of_warps.at(warp * RADIX + thread).set(0_u32));
        sync_threads();
        // Load: a warp's elements stand side by side.
        let of_warp = warp_id() * (32 * ITEMS) + lane_id();
        let places: Vec<_> = (0..ITEMS).map(|item| place(of_warp + item * 32)).collect();
        let pairs: Vec<_> = places.iter().map(|(_, column)| pair(*column)).collect();
        // Ranks among the warp's elements with the same digit
        let mine = of_warps.at(warp_id() * RADIX);
        let rank = |(i, ((is_there, _), pair)): (u32, (&(Val<bool>, Val<u64>), &Pair))| {
            let digit = digit(pair.key);
            let equal = Lanes::all_lanes().match_any(is_there.select(digit, Val::constant(RADIX)));
            let (before, among) = (mine.at(digit).get(), (equal & lanes_before()).popc());
            sync_warp();
            when(*is_there & among.eq(0), || mine.at(digit).set(before + equal.popc()));
            if i + 1 < ITEMS {
                sync_warp();
            }
            before + among
        };
        let ranks: Vec<_> = (0..).zip(places.iter().zip(&pairs)).map(rank).collect();
        sync_threads();
        // Where the elements of each warp go, value by value
        let next = var(count.get());
        for warp in 0..WARPS {
            let slot = of_warps.at(warp * RADIX + thread);
            let count = slot.get();
            slot.set(next);
            next.add_assign(count);
        }
        sync_threads();
        // Epilogue
        let to = Scratch { keys: to_keys, positions: of(to_positions) };
        let results = Results { dtype, rows, sorted, positions };
        for (((is_there, _), pair), rank) in places.iter().zip(pairs).zip(ranks) {
            when(*is_there, || {
                let column = (mine.at(digit(pair.key)).get() + rank).cast::<u64>();
                match part {
                    Part::Move { is_last: true } => results.set(first, column, pair.position()),
                    Part::Move { .. } | Part::Count => to.set(first + column, pair),
                }
            });
        }
    };
    let (order, from) = (if descending { "down" } else { "up" }, if is_first { "_first" } else { "" });
    let part = match part {
        Part::Count => "count",
        Part::Move { is_last: false } => "move",
        Part::Move { is_last: true } => "last",
    };
    kernel(format!("sort_radix_{dtype}_{order}_{part}{from}"), body).required_block(BLOCK).into()
}
