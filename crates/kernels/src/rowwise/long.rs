//! The kernel that maps long rows, after a launch that has folded each of them.

use warpfold_lang::{
    AnyRegisters, Global, Val, block_idx, kernel, range, thread_idx, wait_for_dependencies, when, when_else,
};

use super::body::{RowArgs, places};
use super::family::Code;
use crate::AnyKernel;
use crate::elements::{Place, Run};
use crate::fold::geometry::MAX_INPUTS;
use crate::walk::Walk;

/// What the kernel is built for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Long {
    /// Neighbouring items of a group; it divides the row's length.
    pub vector: u32,
    /// How neighbours of the row inputs are loaded.
    pub runs: [Run; MAX_INPUTS],
    /// How neighbours of the vectors along the row are loaded.
    pub column_runs: [Run; MAX_INPUTS],
    /// Whether results can be stored by vector accesses.
    pub wide_out: bool,
    /// Kept dimensions.
    pub kept: usize,
    /// Whether positions have 32 bits.
    pub small: bool,
}

/// Threads per block.
pub(super) const BLOCK: u32 = 256;
/// Groups that a thread loads before it uses the first.
const UNROLL: u32 = 4;

impl Long {
    /// Items that a thread loads before it uses the first.
    pub(super) const fn items_a_thread(&self) -> u32 {
        self.vector * UNROLL
    }

    /// Items a block.
    pub(super) const fn tile(&self) -> u64 {
        (BLOCK * self.items_a_thread()) as u64
    }
}

pub(super) fn kernel_of(code: Code, shape: Long) -> AnyKernel {
    let name = format!("{}_long_{}", code.name, shape.vector);
    let Code { operator, source, columns, sink, stats, spilled, .. } = code;
    let Long { vector, runs, column_runs, wide_out, kept, small } = shape;
    let tile = shape.tile();
    let body = move |args: RowArgs| {
        wait_for_dependencies();
        // Contract: the grid has a block for each tile of each row.
        let inputs = &args.inputs[..source.dtypes().len()];
        let column_inputs = &args.columns[..columns.dtypes().len()];
        let outputs = &args.outputs[..sink.dtypes().len()];
        let tiles = (args.len + (tile - 1)) / tile;
        let block = block_idx().x.cast::<u64>();
        let row = block / tiles;
        let start = (block - row * tiles) * tile;
        // Load
        let (bytes, load_spilled) = &spilled;
        let from = |(memory, bytes): (&Global<u8>, &u64)| Place { pointer: memory.at(row * *bytes), run: Run::Narrow };
        let of_row: Vec<_> = args.spilled.iter().zip(bytes).map(from).collect();
        let of_row = load_spilled.load(&of_row, 1)[0];
        let bases = Walk::new(args.kept, kept).places(row, inputs, source.dtypes(), small);
        let load = |i: Val<u64>| {
            let items = source.load(&places(&bases, source.dtypes(), &runs, (i, 0)), vector);
            (items, columns.load(&places(column_inputs, columns.dtypes(), &column_runs, (i, 0)), vector))
        };
        // Compute and store
        let first = row * args.len;
        let finish = |i: Val<u64>, (items, along): (Vec<AnyRegisters>, Vec<AnyRegisters>)| {
            let results: Vec<_> =
                items.into_iter().zip(along).map(|(item, along)| operator.apply(item, of_row, along)).collect();
            let to: Vec<_> = (outputs.iter().zip(sink.dtypes()))
                .map(|(output, dtype)| output.at((first + i) * dtype.bytes()))
                .collect();
            sink.store(&to, &results, wide_out);
        };
        let mine = start + (thread_idx().x * vector).cast::<u64>();
        let step = u64::from(BLOCK * vector);
        let whole = || {
            let loaded: Vec<_> = (0..u64::from(UNROLL)).map(|u| load(mine + u * step)).collect();
            loaded.into_iter().zip(0..).for_each(|(loaded, u)| finish(mine + u * step, loaded));
        };
        let part = || range(mine, args.len, step, |i| finish(i, load(i)));
        when_else((start + tile).le(args.len), whole, part);
        if !stats.dtypes().is_empty() {
            let stat_outputs = &args.stats[..stats.dtypes().len()];
            when(start.eq(0) & thread_idx().x.eq(0), || stats.store_at(stat_outputs, row, of_row));
        }
    };
    kernel(name, body).required_block(BLOCK).into()
}
