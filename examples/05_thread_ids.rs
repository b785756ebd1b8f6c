//! Where a thread stands: the fields of each thread, and its number in the whole grid by every
//! formula of the textbooks.
//!
//! The number in the grid is always `(number of the block) * (threads per block) + (number of the
//! thread in its block)`; the nine formulas of the textbooks are what is left of it when some
//! dimensions are 1. The tenth is another order: a grid in two dimensions as the pixels of a
//! picture, row by row, across all blocks.
//!
//! `--all` prints every thread's line.

use warpfold_device::{Device, Dim3, LaunchConfig};
use warpfold_lang::{
    Global, Kernel, Val, Xyz, block_dim, block_idx, grid_dim, kernel, lane_id, linear_thread_idx, thread_idx, warp_id,
};

/// Dimensions of a grid or a block.
#[derive(Debug, Clone, Copy)]
enum Rank {
    One,
    Two,
    Three,
}

const RANKS: [Rank; 3] = [Rank::One, Rank::Two, Rank::Three];

/// How a thread finds its number in the grid.
#[derive(Debug, Clone, Copy)]
enum Formula {
    /// Block by block, by the dimensionalities of grid and block.
    Blocks(Rank, Rank),
    /// `gridDim.x * blockDim.x * idy + idx`, of a grid of blocks in two dimensions.
    RowMajor,
}

/// The number of a position among `size` positions, `x` fastest, when only the first dimensions are
/// in use.
fn number(position: Xyz, size: Xyz, rank: Rank) -> Val<u32> {
    match rank {
        Rank::One => position.x,
        Rank::Two => position.y * size.x + position.x,
        Rank::Three => (position.z * size.y + position.y) * size.x + position.x,
    }
}

/// Threads per block, when only the first dimensions are in use.
fn threads_per_block(rank: Rank) -> Val<u32> {
    let Xyz { x, y, z } = block_dim();
    match rank {
        Rank::One => x,
        Rank::Two => x * y,
        Rank::Three => x * y * z,
    }
}

/// The number of the thread in the grid.
fn global_index(formula: Formula) -> Val<u32> {
    match formula {
        Formula::Blocks(grid, block) => {
            let of_block = number(block_idx(), grid_dim(), grid) * threads_per_block(block);
            of_block + number(thread_idx(), block_dim(), block)
        }
        Formula::RowMajor => {
            let idx = block_idx().x * block_dim().x + thread_idx().x;
            let idy = block_idx().y * block_dim().y + thread_idx().y;
            grid_dim().x * block_dim().x * idy + idx
        }
    }
}

/// Words that a thread leaves: threadIdx, blockIdx, blockDim and gridDim in x, y and z; its numbers
/// in the block and in the grid, its block, warp and lane, the warps per block, its global x and y,
/// and its index by the formula.
const WORDS: usize = 21;

/// Each thread writes where it stands, at its place in the grid.
fn thread_ids(formula: Formula) -> Kernel<(Global<u32>,)> {
    kernel("thread_ids", move |ids: Global<u32>| {
        let index = global_index(formula);
        let block = number(block_idx(), grid_dim(), Rank::Three);
        let threads = block_dim().count();
        let fields = [thread_idx(), block_idx(), block_dim(), grid_dim()].map(|Xyz { x, y, z }| [x, y, z]);
        let ids_of_thread = [
            linear_thread_idx(),
            block,
            warp_id(),
            lane_id(),
            threads.div_ceil(32),
            block * threads + linear_thread_idx(),
            block_idx().x * block_dim().x + thread_idx().x,
            block_idx().y * block_dim().y + thread_idx().y,
            index,
        ];
        for (i, value) in (0_u32..).zip(fields.into_iter().flatten().chain(ids_of_thread)) {
            ids.at(index * WORDS as u32 + i).set(value);
        }
    })
}

/// A launch's sizes.
type Sizes = [u32; 3];

/// What thread `thread` of block `block` has to say, by the host's own arithmetic.
fn expected(grid: Sizes, block: Sizes, block_number: u32, thread: u32, formula: Formula) -> [u32; WORDS] {
    let position = |i: u32, [x, y, _]: Sizes| [i % x, i / x % y, i / x / y];
    let (t, b) = (position(thread, block), position(block_number, grid));
    let threads: u32 = block.iter().product();
    let linear = block_number * threads + thread;
    let index = match formula {
        Formula::Blocks(..) => linear,
        Formula::RowMajor => (b[1] * block[1] + t[1]) * grid[0] * block[0] + b[0] * block[0] + t[0],
    };
    let [x, y] = [0, 1].map(|axis| b[axis] * block[axis] + t[axis]);
    let last = [thread, block_number, thread / 32, thread % 32, threads.div_ceil(32), linear, x, y, index];
    let mut fields = [0; WORDS];
    fields.iter_mut().zip([t, b, block, grid].concat().into_iter().chain(last)).for_each(|(to, from)| *to = from);
    fields
}

/// Launches, and checks that every place in the grid was written by the thread that belongs there.
fn show(
    device: &Device,
    formula: Formula,
    grid: Sizes,
    block: Sizes,
) -> Result<Vec<[u32; WORDS]>, warpfold_device::Error> {
    let (blocks, threads): (u32, u32) = (grid.iter().product(), block.iter().product());
    let all = (blocks * threads) as usize;
    let mut ids = device.alloc::<u32>(all * WORDS)?;
    device.launch(&thread_ids(formula), LaunchConfig::new(Dim3(grid), Dim3(block)), (&mut ids,))?;
    let ids = ids.download()?;
    let mut rows: Vec<[u32; WORDS]> =
        ids.chunks(WORDS).map(|row| row.try_into().expect("a row has every field")).collect();
    for i in 0..blocks * threads {
        let expected = expected(grid, block, i / threads, i % threads, formula);
        assert_eq!(rows[expected[WORDS - 1] as usize], expected, "thread {} of block {}", i % threads, i / threads);
    }
    rows.sort_by_key(|row| row[WORDS - 1]);
    Ok(rows)
}

/// One line of a thread.
fn line(row: &[u32; WORDS]) -> String {
    let [tx, ty, tz, bx, by, bz, dx, dy, dz, gx, gy, gz, thread, block, warp, lane, warps, linear, x, y, index] = *row;
    format!(
        "  index {index:3}: threadIdx ({tx:2},{ty},{tz}) blockIdx ({bx},{by},{bz}) blockDim ({dx},{dy},{dz}) \
         gridDim ({gx},{gy},{gz}) thread {thread:3} block {block} warp {warp} of {warps} lane {lane:2} global {linear:3} x {x:2} y {y:2}"
    )
}

fn main() -> Result<(), warpfold_device::Error> {
    let device = Device::from_env()?;
    let prints_all = std::env::args().any(|argument| argument == "--all");
    let step = |few: usize| if prints_all { 1 } else { few };
    println!("on {device}");

    println!("2 blocks of 64 threads:");
    let rows = show(&device, Formula::Blocks(Rank::One, Rank::One), [2, 1, 1], [64, 1, 1])?;
    rows.iter().step_by(step(21)).for_each(|row| println!("{}", line(row)));

    println!("a grid of (1, 4) blocks of (32, 4) threads:");
    let rows = show(&device, Formula::Blocks(Rank::Two, Rank::Two), [1, 4, 1], [32, 4, 1])?;
    rows.iter().step_by(step(73)).for_each(|row| println!("{}", line(row)));

    println!("all nine formulas:");
    let (grids, blocks) = ([[6, 1, 1], [3, 2, 1], [3, 2, 2]], [[48, 1, 1], [8, 6, 1], [4, 4, 3]]);
    for (grid_rank, grid) in RANKS.into_iter().zip(grids) {
        for (block_rank, block) in RANKS.into_iter().zip(blocks) {
            let rows = show(&device, Formula::Blocks(grid_rank, block_rank), grid, block)?;
            println!("  grid {grid:?} x block {block:?}: {} places, each written by its thread", rows.len());
        }
    }

    println!("the tenth, gridDim.x * blockDim.x * idy + idx, over a grid of (2, 3) blocks of (8, 4) threads:");
    let rows = show(&device, Formula::RowMajor, [2, 3, 1], [8, 4, 1])?;
    rows.iter().step_by(step(37)).for_each(|row| println!("{}", line(row)));
    Ok(())
}
