//! The kernel language: typed Rust values that record PTX.
//!
//! A kernel is a Rust closure that runs while the kernel is *built*. A Rust value is known then; a
//! [`Val<T>`] is a register when the kernel *runs*. So a Rust `for` unrolls and [`range`] loops on
//! the device, a Rust `if` selects code and [`when`] branches.
//!
//! ```
//! use warpfold_lang::{
//!     Arch, Global, Kernel, Target, Val, block_idx, halving, kernel, shared, sync_threads, thread_idx, when,
//! };
//!
//! /// Sums `block` elements a block: sequential addressing, no bank conflicts.
//! pub fn sequential(block: u32) -> Kernel<(Global<i32>, Global<i32>, u32)> {
//!     kernel("reduce_sequential", move |input: Global<i32>, output: Global<i32>, len: Val<u32>| {
//!         let tile = shared::<i32>(block);
//!         let thread = thread_idx().x;
//!         let i = block_idx().x * block + thread;
//!         tile.at(thread).set(input.at(i).get_or(0, i.lt(len)));
//!         sync_threads();
//!         for stride in halving(block / 2) {
//!             when(thread.lt(stride), || tile.at(thread).add_assign(tile.at(thread + stride).get()));
//!             sync_threads();
//!         }
//!         when(thread.eq(0), || output.at(block_idx().x).set(tile.at(0).get()));
//!     })
//!     .required_block(block)
//! }
//!
//! let target = Target::new(Arch::SM_90A, (8, 0));
//! let ptx = sequential(256).ptx(&target)?;
//! assert!(ptx.starts_with(".version 8.0\n.target sm_90a\n"));
//! println!("{ptx}");
//! # Ok::<(), warpfold_lang::Error>(())
//! ```
//!
//! Start with [`kernel()`], [`Val`] and [`Pointer`]; [`params!`] names a kernel's parameters, and
//! [`Strided`] is a tensor among them. `intrinsics` is the only place that writes instructions.
//! Deliberately absent: devices (the device crate launches, see [`mod@params`]), and optimisation
//! beyond folding constants and reading a special register once: `ptxas` does the rest. What PTX
//! means is said by the PTX ISA.

#![warn(clippy::wildcard_enum_match_arm)] // The compiler lists what an added type or space still needs.

mod any_registers;
mod block;
mod cluster;
mod error;
mod flow;
mod fold;
mod grid;
mod intrinsics;
mod kernel;
mod memory;
mod named;
pub mod params;
mod predicate;
mod print;
mod recorder;
mod registers;
mod round_to_odd;
mod strided;
mod target;
mod tile;
mod types;
mod untyped;
mod val;
mod var;
mod warp;
mod words;

pub use any_registers::AnyRegisters;
pub use block::{
    NamedBarrier, NamedBarriers, Xyz, block_dim, block_idx, clock, global_timer, grid_dim, lane_id, lanes_after,
    lanes_before, launch_dependents, launch_dependents_of_few, linear_thread_idx, multiprocessor_id, nanosleep,
    sync_threads, sync_threads_and, sync_threads_count, sync_threads_or, this_lane, thread_idx, wait_for_dependencies,
    wait_for_dependencies_after_constants, warp_id,
};
pub use cluster::{
    cluster_arrive, cluster_arrive_relaxed, cluster_block_idx, cluster_block_rank, cluster_dim, cluster_idx,
    cluster_sync, cluster_wait, num_cluster_blocks, num_clusters, setmaxnreg_dec, setmaxnreg_inc,
};
pub use error::{Error, ErrorKind};
pub use flow::{
    Loop, doubling, exit, halving, loop_until_left, range, trap, when, when_else, when_else_like, while_loop,
};
pub use grid::grid_sync;
pub use kernel::{Body, Bounds, Built, Dims, Kernel, Threads, kernel, target};
pub use memory::{
    Atomic, AtomicAdd, AtomicBits, Cache, ClusterSpace, Distributed, Global, GlobalSpace, Index, Local, LocalSpace,
    Order, Pointer, Reduction, Scope, Shared, SharedSpace, Space, commit_copies, dynamic_shared, fence,
    fence_sequential, local, shared, shared_named, wait_for_copies,
};
pub use named::{
    FieldPlace, FieldPlaces, FieldShape, Lazy, NamedArgument, NamedParam, NamedParams, Numbers, Recorded, Several,
    Side, layout_of,
};
pub use params::{Argument, Arguments, Array, Layout, Param, Params, Received, Sink, Slot};
pub use print::{PrintArgs, Printable, print};
pub use registers::{FixedRegisters, MapRegisters, Registers, TakeRegister, Vars, ZipRegisters, vars};
pub use strided::Strided;
pub use target::{Arch, Limits, Target, UnknownArch};
pub use tile::{
    Barrier, Barriers, Cursor, Fragment, FragmentVar, LinesOfA, LinesOfB, Major, Multiplicand, Operands, Pipeline, Sum,
    Swizzle, TensorMap, Tile, TileCounter, Tiles, WarpSums, WarpgroupFragment, WarpgroupSums, barriers, bulk_commit,
    bulk_wait, bulk_wait_read, fence_async, fold_quad, load_matrices, store_matrices, sync_warpgroup, tile, tiles,
    warpgroup_idx, wgmma_commit, wgmma_fence, wgmma_wait,
};
pub use types::{
    Bf16x2, EightBitFloat, Element, F8E4M3, F8E5M2, F16x2, Float, Integer, Number, Ordered, Scalar, ScalarFloat,
    Signed, Type, WideFloat, Word,
};
pub use val::{HalfOfPair, Operand, Pair, Rounding, Val};
pub use var::{Var, var};
pub use warp::{Lanes, Redux, active_mask, ballot, shfl, shfl_down, shfl_up, shfl_xor, sync_warp};
pub use words::{join_words, split_words};
