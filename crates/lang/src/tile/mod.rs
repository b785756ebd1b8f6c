//! Tiles: shared memory laid out for tensor cores and bulk copies, products of tiles, and what
//! orders them.
//!
//! - [`Tile`]: rows and columns in shared memory, with the [`Swizzle`] under which copies write
//!   them and tensor cores read them. Everything else takes tiles, so a layout is said once, where
//!   the tile is declared.
//! - [`Fragment`] and [`WarpSums`]: `mma.sync`, a warp's products of tiles in its registers;
//!   [`LinesOfA`] and [`LinesOfB`] give the fragments of tile after tile.
//! - [`WarpgroupSums`]: `wgmma`, the products of four warps, straight from shared memory, in the
//!   background (sm_90a). [`WarpgroupFragment`] is their A in registers, for products of products.
//!   `mma.sync` adds to the same sums, a warp for itself.
//! - [`TensorMap`]: a tensor in the memory of the device, from and to which one thread copies whole
//!   tiles (sm_90).
//! - [`Barrier`]: the `mbarrier` that copies and threads arrive at; [`Pipeline`]: a ring of stages
//!   with two for each.
//! - [`TileCounter`]: which output tile a block of a persistent kernel computes next.
//!
//! Which elements tensor cores multiply is said by [`Multiplicand`]. Sections of the PTX ISA: "Warp
//! Level Matrix Multiply-Accumulate Instructions", "Asynchronous Warpgroup Level Matrix
//! Instructions", "mbarrier".

mod barrier;
mod counter;
mod descriptor;
mod fragment;
mod lines;
mod map;
mod multiplicand;
mod pipeline;
mod shared;
mod warpgroup;
mod warpgroup_fragment;
mod warpgroup_rows;

pub use barrier::{Barrier, Barriers, barriers, fence_async};
pub use counter::TileCounter;
pub use fragment::{Fragment, FragmentVar, WarpSums, load_matrices, store_matrices};
pub use lines::{LinesOfA, LinesOfB};
pub use map::{TensorMap, bulk_commit, bulk_wait, bulk_wait_read};
pub use multiplicand::{Multiplicand, Sum};
pub use pipeline::{Cursor, Pipeline};
pub use shared::{Major, Swizzle, Tile, Tiles, tile, tiles};
pub use warpgroup::{Operands, WarpgroupSums, sync_warpgroup, warpgroup_idx, wgmma_commit, wgmma_fence, wgmma_wait};
pub use warpgroup_fragment::WarpgroupFragment;
pub use warpgroup_rows::fold_quad;
