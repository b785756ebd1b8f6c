//! The fold whose threads are mapped along the reduced dimension: full reductions, rows, and
//! whatever has no better order.

use warpfold_lang::{Val, block_idx, grid_dim, kernel, thread_idx, wait_for_dependencies, when};

use super::erased::Definition;
use super::geometry::{FoldArgs, MAX_INPUTS};
use super::grid::{self, Parts};
use super::thread::{self, Share};
use super::{block, warp};
use crate::AnyKernel;
use crate::elements::{Place, Run};

/// What the kernel is built for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rows {
    /// Threads per block.
    pub block: u32,
    /// Threads per row, a power of two: up to 32, or the block.
    pub lanes: u32,
    /// Neighbouring items that a thread loads at a time.
    pub vector: u32,
    /// Such loads in flight a thread.
    pub unroll: u32,
    /// How these items are loaded, one an input.
    pub runs: [Run; MAX_INPUTS],
    /// Whether rows are contiguous (or repeat one element), so that no strides are needed.
    pub direct: bool,
    /// Kept dimensions.
    pub kept: usize,
    /// Reduced dimensions.
    pub folded: usize,
    /// Whether blocks share rows (split-K of a reduction).
    pub split: bool,
    /// Whether positions have 32 bits.
    pub small: bool,
}

pub(super) fn kernel_of(fold: &Definition, rows: &Rows) -> AnyKernel {
    let Definition { name, monoid, source, sink, .. } = fold.clone();
    let Rows { block, lanes, vector, unroll, runs, direct, kept, folded, split, small } = *rows;
    let body = move |args: FoldArgs| {
        wait_for_dependencies();
        let monoid = &*monoid;
        // Contract: the grid has a block for `block / lanes` rows in x, and one a part in y.
        let inputs = &args.inputs[..source.dtypes().len()];
        let outputs = &args.outputs[..sink.dtypes().len()];
        let thread = thread_idx().x;
        let rows_a_block = block / lanes;
        let own = if rows_a_block == 1 { Val::constant(0) } else { thread >> lanes.ilog2() };
        let row = block_idx().x.cast::<u64>() * u64::from(rows_a_block) + own.cast::<u64>();
        // Threads beyond the last row fold it as well, so that the lanes of a warp stay together.
        let row = if rows_a_block == 1 { row } else { row.min(args.results - 1) };
        let (start, end) = if split {
            let start = block_idx().y.cast::<u64>() * args.part_len;
            (start, (start + args.part_len).min(args.len))
        } else {
            (Val::constant(0), args.len)
        };
        // Load
        let bases = args.kept(kept).places(row, inputs, source.dtypes(), small);
        let dims = args.folded(folded);
        let load = |i: Val<u64>, n: u32| {
            let offsets = if direct { vec![i; bases.len()] } else { dims.offsets(i, bases.len(), small) };
            let place = |input: usize| {
                let (base, run) = (bases[input], runs[input]);
                let is_same = direct && run == Run::Same;
                let bytes = source.dtypes()[input].bytes();
                Place { pointer: if is_same { base } else { base.at(offsets[input] * bytes) }, run }
            };
            source.load(&(0..bases.len()).map(place).collect::<Vec<_>>(), n)
        };
        // Fold
        let lane = if lanes == block { thread } else { thread & (lanes - 1) };
        let acc =
            thread::fold(monoid, &Share { start, end, thread: lane, threads: lanes, vector, unroll, load: &load });
        let acc = if lanes <= 32 { warp::fold(monoid, acc, lanes) } else { block::fold(monoid, acc, lanes) };
        // Epilogue
        if split {
            let parts = Parts {
                workspace: args.workspace,
                slots: args.results * grid_dim().y.cast::<u64>(),
                first: row * grid_dim().y.cast::<u64>(),
                part: block_idx().y,
                parts: grid_dim().y,
                ticket: args.tickets.at(row),
            };
            grid::fold(monoid, acc, &parts, block, &|acc| {
                when(thread.eq(0), || sink.store_at(outputs, row, monoid.finish(acc, args.len)));
            });
            return;
        }
        let is_first = lane.eq(0);
        let is_row = block_idx().x.cast::<u64>() * u64::from(rows_a_block) + own.cast::<u64>();
        let writes = if rows_a_block == 1 { is_first } else { is_first & is_row.lt(args.results) };
        when(writes, || sink.store_at(outputs, row, monoid.finish(acc, args.len)));
    };
    kernel(format!("{name}_rows"), body).required_block(block).into()
}
