//! The ladder `scan`: from the scan as a circuit to one launch in which each tile finds out what
//! the tiles before it add up to.
//!
//! The first three rungs are three launches: tiles are scanned by themselves and leave their
//! totals, one block scans the totals, and every tile adds what came before it. The last two are
//! one launch each.

mod r01_hillis_steele;
mod r02_blelloch;
mod r03_shuffle;
mod r04_chained;
mod r05_look_back;

pub use r01_hillis_steele::hillis_steele;
pub use r02_blelloch::blelloch;
pub use r03_shuffle::shuffle;
pub use r04_chained::chained;
pub use r05_look_back::look_back;

use warpfold_device::LaunchConfig;
use warpfold_kernels::{AnyKernel, Dtype};
use warpfold_lang::{
    Global, Kernel, Lanes, Order, Scope, Val, block_idx, doubling, join_words, kernel, lane_id, loop_until_left, range,
    shared_named, shfl, shfl_up, split_words, sync_threads, thread_idx, var, warp_id,
};

use super::instance::open;
use crate::LadderElement;
use crate::ladder::{Change, Claim, Finish, Ladder, Launch, MAX_SIZE_OF_U32, Metric, Rung, Sizes, elements_of};

/// Parameters of the scan of independent tiles: input, output, the total of each tile, the length.
pub type Tiles<T> = Kernel<(Global<T>, Global<T>, Global<T>, u32)>;

/// Parameters of a single-launch scan: input, output, a zero per tile, a zero for the next tile's
/// number, the length.
pub type SingleLaunch<T> = Kernel<(Global<T>, Global<T>, Global<u64>, Global<u32>, u32)>;

/// Elements of a tile, and threads of most blocks.
pub const TILE: u32 = 512;

/// A thread's results of [`scan_block`].
struct Scanned<T: LadderElement> {
    /// The sum of the values of all threads before it.
    before: Val<T>,
    /// The sum of all, in every thread.
    total: Val<T>,
}

/// The inclusive sums of a value per lane, in segments of `width` lanes.
fn scan_lanes<T: LadderElement>(mut sum: Val<T>, width: u32) -> Val<T> {
    let lane = lane_id() % width;
    for delta in doubling(width) {
        let before = Lanes::all_lanes().width(width).shfl_up(sum, delta);
        sum = lane.ge(delta).select(before + sum, sum);
    }
    sum
}

/// Scans a value per thread of a block of [`TILE`] threads, by shuffles.
fn scan_block<T: LadderElement>(mine: Val<T>) -> Scanned<T> {
    let num_warps = TILE / 32;
    let zero = Val::constant(T::ZERO);
    let of_warps = shared_named::<T>("of_warps", num_warps);
    let sum = scan_lanes(mine, 32);
    warpfold_lang::when(lane_id().eq(31), || of_warps.at(warp_id()).set(sum));
    sync_threads();
    let warps = scan_lanes(of_warps.at(lane_id() % num_warps).get(), num_warps);
    let before_warp = warp_id().eq(0).select(zero, shfl(warps, (warp_id() + (num_warps - 1)) % num_warps));
    let before_lane = lane_id().eq(0).select(zero, shfl_up(sum, 1));
    Scanned { before: before_warp + before_lane, total: shfl(warps, num_warps - 1) }
}

/// One block turns the totals of the tiles into what comes before each.
fn scan_totals<T: LadderElement>(rung: &str) -> Kernel<(Global<T>, u32)> {
    let body = |totals: Global<T>, num_tiles: Val<u32>| {
        let carry = var(T::ZERO);
        range(0, num_tiles, TILE, |first| {
            let i = first + thread_idx().x;
            let Scanned { before, total } = scan_block(totals.at(i).get_or(T::ZERO, i.lt(num_tiles)));
            totals.at(i).set_if(carry.get() + before, i.lt(num_tiles));
            carry.set(carry.get() + total);
            // Before the next round takes the words of the warps.
            sync_threads();
        });
    };
    kernel(format!("scan_{rung}_totals_{}", T::DTYPE), body).required_block(TILE)
}

/// Every tile adds what comes before it.
fn add_totals<T: LadderElement>(rung: &str) -> Kernel<(Global<T>, Global<T>, u32)> {
    let body = |output: Global<T>, totals: Global<T>, len: Val<u32>| {
        let i = block_idx().x * TILE + thread_idx().x;
        warpfold_lang::when(i.lt(len), || output.at(i).add_assign(totals.at(block_idx().x).get()));
    };
    kernel(format!("scan_{rung}_add_{}", T::DTYPE), body).required_block(TILE)
}

/// State of a tile: nothing yet, its own total, the inclusive prefix up to its end.
const TOTAL: u32 = 1;
const PREFIX: u32 = 2;

/// Tells a value: it travels with its mark in one word of 64 bits, so that no fence is needed.
fn tell<T: LadderElement>(word: Global<u64>, mark: u32, value: Val<T>) {
    let bits = split_words(value)[0].cast::<u64>();
    word.store(bits | (u64::from(mark) << 32), Order::Relaxed, Scope::Gpu);
}

/// Waits until a tile has told at least so much; the mark and the value.
fn wait_for<T: LadderElement>(word: Global<u64>, least: u32) -> (Val<u32>, Val<T>) {
    let seen = var(0_u64);
    loop_until_left(|spin| {
        seen.set(word.load(Order::Relaxed, Scope::Gpu));
        spin.leave_if((seen.get() >> 32).cast::<u32>().ge(least));
    });
    let value = join_words(Val::constant(T::ZERO), &[seen.get().cast::<u32>()]);
    ((seen.get() >> 32).cast::<u32>(), value)
}

/// The number of the tile that the block takes: in the order in which blocks begin, so that no
/// block waits for one that has not begun.
fn next_tile(ticket: Global<u32>) -> Val<u32> {
    let number = shared_named::<u32>("number", 1);
    warpfold_lang::when(thread_idx().x.eq(0), || number.set(ticket.atomic().add(1)));
    sync_threads();
    number.get()
}

/// A launch with a block per tile.
fn tiles(size: u64) -> LaunchConfig {
    LaunchConfig::for_elements(elements_of(size).max(1), TILE)
}

/// A kernel for an element type.
macro_rules! typed {
    ($kernel:ident($($argument:expr)?)) => {
        |dtype| match dtype {
            Dtype::I32 => AnyKernel::from($kernel::<i32>($($argument)?)),
            Dtype::F32 => AnyKernel::from($kernel::<f32>($($argument)?)),
            _ => unreachable!("the ladder has no kernel for {dtype}"),
        }
    };
}

/// The launches that follow the scan of the tiles.
macro_rules! behind {
    ($first:expr, $rung:literal) => {
        &[
            $first,
            Launch::new(typed!(scan_totals($rung)), |_| LaunchConfig::new(1, TILE)),
            Launch::new(typed!(add_totals($rung)), tiles),
        ]
    };
}

/// The ladder.
pub const LADDER: Ladder = Ladder {
    name: "scan",
    problem: "the inclusive sums of a vector",
    sizes: Sizes::Elements,
    default_size: 33_554_432,
    max_size: MAX_SIZE_OF_U32,
    dtypes: &[Dtype::I32, Dtype::F32],
    rungs: RUNGS,
    open,
};

const RUNGS: &[Rung] = &[
    Rung {
        name: "hillis_steele",
        changed: "Every thread adds what lies 1, 2, 4 … before it; a second launch scans the tiles' totals, a third adds them",
        claims: &[],
        launches: behind!(Launch::new(typed!(hillis_steele()), tiles), "hillis_steele"),
        finish: Finish::Nothing,
    },
    Rung {
        name: "blelloch",
        changed: "A tree goes up with sums and down with what comes before: as many additions as elements, but its strides have bank conflicts",
        claims: &[
            Claim::new(Metric::SharedAccesses, Change::Falls),
            Claim::new(Metric::Instructions, Change::Falls),
            Claim::new(Metric::StoreConflicts, Change::FromZero),
        ],
        launches: behind!(
            Launch::new(typed!(blelloch()), |size| LaunchConfig { block: [TILE / 2, 1, 1], ..tiles(size) }),
            "blelloch"
        ),
        finish: Finish::Nothing,
    },
    Rung {
        name: "shuffle",
        changed: "Warps scan by shuffles, and one word per warp goes through shared memory",
        claims: &[
            Claim::new(Metric::SharedAccesses, Change::Falls),
            Claim::new(Metric::StoreConflicts, Change::ToZero),
            Claim::new(Metric::Barriers, Change::Falls),
        ],
        launches: behind!(Launch::new(typed!(shuffle()), tiles), "shuffle"),
        finish: Finish::Nothing,
    },
    Rung {
        name: "chained",
        changed: "One launch: each tile waits for the sum up to the tile before it, and hands its own on",
        claims: &[
            // Tiles that wait load again and again, so that loads prove nothing.
            Claim::new(Metric::Steps, Change::Falls),
            Claim::new(Metric::StoreBytes, Change::Falls),
        ],
        launches: &[Launch::new(typed!(chained()), tiles)],
        finish: Finish::Cleared,
    },
    Rung {
        name: "look_back",
        changed: "A tile tells its own total at once, and adds up those before it until one has told a whole sum",
        claims: &[],
        launches: &[Launch::new(typed!(look_back()), tiles)],
        finish: Finish::Cleared,
    },
];
