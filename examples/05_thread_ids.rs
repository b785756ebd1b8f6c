//! Where a thread stands: block, thread, warp, lane, and its number in the whole grid, for every
//! dimensionality of grid and block.
//!
//! The number in the grid is always `(number of the block) * (threads a block) + (number of the
//! thread in its block)`; the nine formulas of the textbooks are what is left of it when some
//! dimensions are 1.

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

/// The number of a position among `size` positions, `x` fastest, when only the first dimensions are
/// in use.
fn number(position: Xyz, size: Xyz, rank: Rank) -> Val<u32> {
    match rank {
        Rank::One => position.x,
        Rank::Two => position.y * size.x + position.x,
        Rank::Three => (position.z * size.y + position.y) * size.x + position.x,
    }
}

/// Threads a block, when only the first dimensions are in use.
fn threads_a_block(rank: Rank) -> Val<u32> {
    let Xyz { x, y, z } = block_dim();
    match rank {
        Rank::One => x,
        Rank::Two => x * y,
        Rank::Three => x * y * z,
    }
}

/// The number of the thread in the grid, by the formula for these dimensionalities.
fn global_index(grid: Rank, block: Rank) -> Val<u32> {
    number(block_idx(), grid_dim(), grid) * threads_a_block(block) + number(thread_idx(), block_dim(), block)
}

/// Words that a thread leaves: block, thread, warp, lane.
const WORDS: u32 = 4;

/// Each thread writes where it stands, at its place in the grid.
fn thread_ids(grid: Rank, block: Rank) -> Kernel<(Global<u32>,)> {
    kernel("thread_ids", move |ids: Global<u32>| {
        let mine = ids.at(global_index(grid, block) * WORDS);
        let block = number(block_idx(), grid_dim(), Rank::Three);
        mine.set_vec([block, linear_thread_idx(), warp_id(), lane_id()]);
    })
}

/// Launches and checks that every place in the grid was written by the thread that stands there.
fn show(device: &Device, grid: (Rank, [u32; 3]), block: (Rank, [u32; 3])) -> Result<Vec<u32>, warpfold_device::Error> {
    let threads: u32 = block.1.iter().product();
    let all = grid.1.iter().product::<u32>() * threads;
    let mut ids = device.alloc::<u32>((all * WORDS) as usize)?;
    let config = LaunchConfig::new(Dim3(grid.1), Dim3(block.1));
    device.launch(&thread_ids(grid.0, block.0), config, (&mut ids,))?;
    let ids = ids.download()?;
    for (i, id) in (0..).zip(ids.chunks(WORDS as usize)) {
        let thread = i % threads;
        assert_eq!(id, [i / threads, thread, thread / 32, thread % 32], "at place {i}");
    }
    Ok(ids)
}

fn main() -> Result<(), warpfold_device::Error> {
    let device = Device::from_env()?;
    println!("on {device}");

    println!("2 blocks of 64 threads:");
    let ids = show(&device, (Rank::One, [2, 1, 1]), (Rank::One, [64, 1, 1]))?;
    for (i, id) in ids.chunks(WORDS as usize).enumerate().step_by(21) {
        println!("  index {i:3}: block {}, thread {:2}, warp {}, lane {:2}", id[0], id[1], id[2], id[3]);
    }

    println!("a grid of (1, 4) blocks of (32, 4) threads:");
    let ids = show(&device, (Rank::Two, [1, 4, 1]), (Rank::Two, [32, 4, 1]))?;
    for (i, id) in ids.chunks(WORDS as usize).enumerate().step_by(73) {
        println!("  index {i:3}: block {}, thread {:3}, warp {}, lane {:2}", id[0], id[1], id[2], id[3]);
    }

    println!("all nine formulas:");
    let (grids, blocks) = ([[6, 1, 1], [3, 2, 1], [3, 2, 2]], [[48, 1, 1], [8, 6, 1], [4, 4, 3]]);
    for (grid_rank, grid) in RANKS.into_iter().zip(grids) {
        for (block_rank, block) in RANKS.into_iter().zip(blocks) {
            let ids = show(&device, (grid_rank, grid), (block_rank, block))?;
            println!("  grid {grid:?} x block {block:?}: {} places, each written by its thread", ids.len() / 4);
        }
    }
    Ok(())
}
