//! The fold whose threads are mapped along a kept dimension: columns of a matrix, so that loads are
//! coalesced; each warp takes a range of rows.

use warpfold_lang::{
    AnyRegisters, Global, Order, Registers, Val, Vars, block_idx, grid_dim, kernel, lane_id, range, shared_named,
    sync_threads, vars, wait_for_dependencies, warp_id, when,
};

use super::Position;
use super::erased::{Definition, ErasedMonoid};
use super::geometry::{FoldArgs, MAX_INPUTS};
use crate::AnyKernel;
use crate::elements::{Place, Run};

/// What the kernel is built for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Columns {
    /// Warps a block, each with a range of the reduced dimensions.
    pub warps: u32,
    /// Columns a thread.
    pub vector: u32,
    /// Loads in flight a thread.
    pub unroll: u32,
    /// How neighbouring columns are loaded, one an input.
    pub runs: [Run; MAX_INPUTS],
    /// Kept dimensions, the columns among them.
    pub kept: usize,
    /// Reduced dimensions.
    pub folded: usize,
    /// Whether blocks share columns, each with a part of the rows.
    pub split: bool,
    /// Whether positions have 32 bits.
    pub small: bool,
}

impl Columns {
    /// Columns a block.
    pub(crate) const fn width(&self) -> u32 {
        32 * self.vector
    }
}

pub(super) fn kernel_of(fold: &Definition, columns: &Columns) -> AnyKernel {
    let Definition { name, monoid, source, sink, .. } = fold.clone();
    let shape = columns.clone();
    let Columns { warps, vector, runs, kept, folded, split, small, .. } = *columns;
    let width = columns.width();
    let body = move |args: FoldArgs| {
        wait_for_dependencies();
        let monoid = &*monoid;
        // Contract: the grid has in x a block for each 32 * `vector` columns of each outer
        // position, in y one a part.
        let inputs = &args.inputs[..source.dtypes().len()];
        let outputs = &args.outputs[..sink.dtypes().len()];
        let kept_dims = args.kept(kept);
        let num_columns = kept_dims.size(kept - 1);
        let tiles = (num_columns + u64::from(width - 1)) >> width.ilog2();
        let block = block_idx().x.cast::<u64>();
        let (outer, tile) = if kept == 1 { (Val::constant(0), block) } else { (block / tiles, block % tiles) };
        let column = tile * u64::from(width) + (lane_id() * vector).cast::<u64>();
        let is_column = column.lt(num_columns);
        // Threads beyond the last column fold the last ones as well and store nothing.
        let column = column.min(num_columns - u64::from(vector));
        let (start, end) = if split {
            let start = block_idx().y.cast::<u64>() * args.part_len;
            (start, (start + args.part_len).min(args.len))
        } else {
            (Val::constant(0), args.len)
        };
        // Load
        let outer_offsets = args.kept(kept - 1).offsets(outer, inputs.len(), small);
        let bases: Vec<Global<u8>> = (0..inputs.len())
            .map(|input| {
                let offset = column.mul_add(kept_dims.stride(kept - 1, input), outer_offsets[input]);
                inputs[input].at(offset * source.dtypes()[input].bytes())
            })
            .collect();
        let load = |i: Val<u64>| {
            let offsets = args.folded(folded).offsets(i, inputs.len(), small);
            let places: Vec<_> = (0..inputs.len())
                .map(|input| Place {
                    pointer: bases[input].at(offsets[input] * source.dtypes()[input].bytes()),
                    run: runs[input],
                })
                .collect();
            source.load(&places, vector)
        };
        // Fold
        let accs = fold_run(monoid, &shape, [start, end], &load);
        // Warps
        let accs = over_warps(monoid, &accs, warps);
        // Epilogue
        let result = outer * num_columns + column;
        let finish = |accs: &[Vars<AnyRegisters>]| {
            when(is_column & warp_id().eq(0), || {
                for (acc, v) in accs.iter().zip(0_u64..) {
                    sink.store_at(outputs, result + v, monoid.finish(acc.get(), args.len));
                }
            });
        };
        if !split {
            finish(&accs);
            return;
        }
        let shared = Shared { args, is_column, result };
        over_blocks(monoid, &accs, &shared, warps, &finish);
    };
    kernel(format!("{name}_columns"), body).required_block(32 * warps).into()
}

/// Folds a warp's rows: an accumulator for each column of the thread.
fn fold_run(
    monoid: &dyn ErasedMonoid,
    &Columns { warps, vector, unroll, .. }: &Columns,
    [start, end]: [Val<u64>; 2],
    load: &dyn Fn(Val<u64>) -> Vec<AnyRegisters>,
) -> Vec<Vars<AnyRegisters>> {
    let each = (end.max(start) - start + u64::from(warps - 1)) >> warps.ilog2();
    let first = start + warp_id().cast::<u64>() * each;
    let last = (first + each).min(end);
    let accs: Vec<Vars<AnyRegisters>> = (0..vector).map(|_| vars(monoid.identity())).collect();
    let push = |rows: &[Vec<AnyRegisters>], first: Val<u64>| {
        for (acc, v) in accs.iter().zip(0..) {
            let items: Vec<_> = rows.iter().map(|row| row[v]).collect();
            acc.set(monoid.push_all(acc.get(), &items, Position::new(first, 0)));
        }
    };
    // The last warps may have nothing.
    let whole_end = first + ((last.max(first) - first) & !u64::from(unroll - 1));
    range(first, whole_end, u64::from(unroll), |i| {
        push(&(0..unroll).map(|u| load(i + u64::from(u))).collect::<Vec<_>>(), i);
    });
    if unroll > 1 {
        range(whole_end, last, 1, |i| push(&[load(i)], i));
    }
    accs
}

/// The memory of blocks that share columns.
struct Shared {
    args: FoldArgs,
    /// Whether the thread's columns exist.
    is_column: Val<bool>,
    /// The first of the thread's results.
    result: Val<u64>,
}

/// Stores the accumulators of a block; the last block folds those of all blocks in order, and
/// finishes.
fn over_blocks(
    monoid: &dyn ErasedMonoid,
    accs: &[Vars<AnyRegisters>],
    &Shared { args, is_column, result }: &Shared,
    warps: u32,
    finish: &dyn Fn(&[Vars<AnyRegisters>]),
) {
    let slots = monoid.identity().global(args.workspace, args.results * grid_dim().y.cast::<u64>(), &mut 0);
    let slot = |part: Val<u32>, v: u64| part.cast::<u64>() * args.results + result + v;
    let is_last = shared_named::<u32>("is_last", 1);
    let parts = grid_dim().y;
    when(is_column & warp_id().eq(0), || {
        accs.iter().zip(0..).for_each(|(acc, v)| acc.get().store(slots, slot(block_idx().y, v)));
    });
    // One thread's release publishes what all threads of the block wrote before the barrier.
    sync_threads();
    when(thread_is_first(), || {
        let before = args.tickets.at(block_idx().x).atomic().order(Order::AcqRel).increment_wrapping(parts - 1);
        is_last.set(before.eq(parts - 1).cast::<u32>());
    });
    sync_threads();
    when(is_last.get().ne(0), || {
        let each = (parts + (warps - 1)) / warps;
        let first = warp_id() * each;
        accs.iter().for_each(|acc| acc.set(monoid.identity()));
        range(first, (first + each).min(parts), 1, |part| {
            for (acc, v) in accs.iter().zip(0..) {
                acc.set(monoid.combine(acc.get(), AnyRegisters::load(slots, slot(part, v))));
            }
        });
        finish(&over_warps(monoid, accs, warps));
    });
}

fn thread_is_first() -> Val<bool> {
    warpfold_lang::linear_thread_idx().eq(0)
}

/// Folds the accumulators of each column over the warps, in their order; the result is in the first
/// warp.
fn over_warps(monoid: &dyn ErasedMonoid, accs: &[Vars<AnyRegisters>], warps: u32) -> Vec<Vars<AnyRegisters>> {
    if warps == 1 {
        return accs.to_vec();
    }
    let (lane, warp) = (lane_id(), warp_id());
    // The first warp keeps what it has.
    let of_warps: Vec<_> = accs.iter().map(|_| monoid.identity().shared(32 * (warps - 1))).collect();
    when(warp.ne(0), || {
        for (acc, of_warps) in accs.iter().zip(&of_warps) {
            acc.get().store(*of_warps, (warp - 1) * 32 + lane);
        }
    });
    sync_threads();
    when(warp.eq(0), || {
        for (acc, of_warps) in accs.iter().zip(&of_warps) {
            for warp in 0..warps - 1 {
                acc.set(monoid.combine(acc.get(), AnyRegisters::load(*of_warps, lane + warp * 32)));
            }
        }
    });
    accs.to_vec()
}
