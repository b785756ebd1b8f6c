//! The kernel library: what tensors are computed with.
//!
//! Start with [`fold`], which carries any monoid through warp, block and grid, and with
//! [`reductions`], the table of those that are built in. [`rowwise`] computes what rows become,
//! [`map`] and [`operations`] what elements become, [`matmul`], [`gemv`] and [`conv`] products;
//! [`attention`] attends, [`heads`] turns and keeps what it attends to, [`delta`] is attention with
//! a matrix per sequence instead; [`experts`] is a mixture of MLPs, [`sampling`] draws tokens;
//! [`generate`] makes sequences and random numbers; [`pooling`], [`sort`], [`histogram`], [`nms`],
//! [`unique`], [`gather`], [`scatter`], [`cross_entropy`] and [`softmax_v`] are operators by
//! themselves.
//! [`elements`] brings elements of any type to registers and back, [`digest`] tells whether they
//! are those of a host.
//!
//! How such kernels come to be, step by step, is shown by the ladders of the crate
//! `warpfold-ladders`, which nothing here uses. Deliberately absent: PTX text (the language writes
//! it) and any question which device a kernel is on.
//!
//! # Decisions, and why
//!
//! **A monoid is compiled for what it computes in.** Memory holds fifteen element types, registers
//! six (`elements/compute.rs`). A `Source` loads and converts while the kernel is recorded, by a
//! Rust `match` on the type, so a monoid is instantiated for the six and not for every pair; the
//! same closure takes the maps that are fused before. A `Sink` is the way back.
//!
//! **Two kernels fold everything.** In `fold/rows.rs` threads are mapped along the folded
//! dimension, in `fold/columns.rs` along a kept one; sizes and strides are parameters, what changes
//! the code (which dimension is contiguous, ranks, whether blocks share a result) is the key under
//! which a `Fold` keeps its kernels. Blocks that share a result leave parts in a workspace; the
//! last one folds them and resets the counter, so that one launch does it all and can be replayed.
//!
//! **The order never looks at the device.** Plans ask shapes, strides and alignment; the number of
//! parts has a fixed bound, not one from the number of SMs. A monoid that does not commute is
//! folded in the order of its items, by the same kernels.
//!
//! **Rows stay on chip.** Short rows are in the registers of a group of lanes or a warp. A longer
//! one is in shared memory in its own type, a piece for each warp (`rowwise/partition.rs`): its
//! threads bring it by copies in the background, fold it as it comes, put the results in its place,
//! and one copy takes them away, so that warps meet in folds alone. What shared memory has no room
//! for stays in registers, as it came. The operator runs over either home, and what it makes of
//! such items is made again at each use (`on_chip_row.rs`). Where the target has clusters, the
//! blocks of one share a row that is longer still, and fold through one another's shared memory
//! (`fold/cluster.rs`). Rows that do not begin at multiples of 16 bytes are held in a block's
//! registers, or brought whole (`smem_load.rs`). `placement.rs` and `tuning.rs` choose, by
//! measurements that they quote. Other rows are folded over the grid and then mapped (`long.rs`).
//! So the order of a long row's sum depends on the architecture (its shared memory, and whether it
//! has clusters), on how many rows there are where clusters share them, and on nothing else of the
//! device.
//!
//! **Group length, alignment.** A thread takes as many neighbours as 16 bytes hold even where
//! alignment forbids the wide access: the order stays.
//!
//! **No row kernel for strided rows.** `warpfold` makes a copy in which a row's elements are
//! contiguous, and gives the result as a view.
//!
//! **Launches overlap.** Each kernel of an operator begins with `wait_for_dependencies` (a test
//! holds all to it), so that the device starts it while the launch before ends. WGMMA GEMMs alone
//! also let the next one begin before they end: elsewhere that cost more than it gave.
//!
//! **One kernel for warpgroups** (`matmul/wgmma/kernel.rs`): one thread copies ahead into a ring of
//! stages (`produce.rs`), one or two warpgroups multiply (`consume.rs`), blocks take tile after
//! tile. What differs is where copies find a stage (`source.rs`: a matrix either way round, pixels
//! under a filter) and what becomes of the sums (`epilogue_writer.rs`). Plans weigh its tiles
//! against those of CUDA cores by a cost model in clocks (`cost.rs`), fitted to times on an H200.
//! An arrival at a neighbour's mbarrier is a release for its own block only: with the cluster's
//! scope ptxas fences the whole device every time, and all it says is that a stage was read. A
//! block's producer waits for all of its stages at the end, instead of the cluster. Few rows wait
//! for weights alone: long stages, weights that the cache gives up first, up to 32 rows in a tile's
//! columns (`Algorithm::SwapAb`), a tile for each SM (`WgmmaTile::wave`), sums shared by blocks
//! (`dsmem_reduce.rs`), a ring for rows and one for weights, which get the room (`rings.rs`). There
//! the first load counts: ahead of `wait_for_dependencies` stands all that needs no memory, and a
//! prefetch of weights, which shows nothing of them (`l2_prefetch.rs`).
//!
//! **Weights of few bits are the left factor** (`matmul/quantized/kernel.rs`). A warp decodes the
//! rows that it has of WGMMA's left factor in its registers, so that nothing but codes goes through
//! shared memory, and few rows of the other factor cost what one costs. It decodes to the numbers
//! that a matrix would have and adds their products in the same order, so bits are those of the
//! other products. A format is a few numbers that the kernel is built for.
//!
//! **One main loop for warps** (`matmul/mma/main_loop.rs`): tensor cores without warpgroups
//! (sm_80), and factors that TMA cannot read. All threads copy pieces of 4 to 16 bytes a few stages
//! ahead (`cp.async`), whose size is a matter of alignment alone, and one barrier a stage says both
//! that it is there and that the one before is free. Where a piece comes from is a `Feed`; pieces
//! of it that are outside are zeros.

pub mod attention;
pub mod conv;
pub mod cross_entropy;
pub mod delta;
pub mod digest;
pub mod elements;
pub mod experts;
pub mod fold;
pub mod gather;
pub mod gemv;
pub mod generate;
pub mod heads;
pub mod histogram;
pub mod layout;
pub mod map;
pub mod matmul;
pub mod nms;
pub mod operations;
pub mod plan;
pub mod pooling;
pub mod reductions;
pub mod rowwise;
pub mod sampling;
pub mod scatter;
pub mod softmax_v;
pub mod sort;
pub mod unique;

mod any_kernel;
mod dtype;
mod error;
mod kernel_name;
mod manifest;
mod overlap;
mod repack;
mod walk;

pub use any_kernel::AnyKernel;
pub use dtype::Dtype;
pub use error::{Error, ErrorKind};
pub(crate) use manifest::Shipped;
pub use manifest::{Listed, kernels};
pub use plan::Workspace;
