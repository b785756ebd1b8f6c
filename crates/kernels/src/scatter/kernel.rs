//! The kernel that folds what goes to one place, in the order of the indices.

use warpfold_lang::{
    Global, Val, block_idx, grid_dim, kernel, loop_until_left, params, range, thread_idx, var, wait_for_dependencies,
    when,
};

use super::BLOCK;
use crate::elements::{Compute, load, store};
use crate::reductions::Reduction;
use crate::{AnyKernel, Dtype};

/// Sources that are loaded before the first of them is combined.
const UNROLL: u32 = 4;

/// What the kernel is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ScatterConfig {
    dtype: Dtype,
    keys: Dtype,
    combine: Option<Reduction>,
    include_table: bool,
    lanes: u32,
}

impl ScatterConfig {
    /// `lanes`, a power of two up to the block, threads share a part.
    pub(super) fn new(dtype: Dtype, keys: Dtype, combine: Option<Reduction>, include_table: bool, lanes: u32) -> Self {
        // Of what is moved only the bits count; of truths a sum is the largest, a product the
        // smallest.
        let (dtype, combine) = match (dtype, combine) {
            (dtype, None) => (dtype.bits(), None),
            (Dtype::Bool, Some(Reduction::Sum)) => (dtype, Some(Reduction::Max)),
            (Dtype::Bool, Some(Reduction::Product)) => (dtype, Some(Reduction::Min)),
            chosen => chosen,
        };
        Self { dtype, keys, combine, include_table: include_table && combine.is_some(), lanes }
    }
}

params! {
    /// Parameters of the kernel.
    pub(super) struct ScatterArgs {
        /// Sorted places, and which index each of them is of.
        keys: Global<u8>, order: Global<i64>, count: u64,
        source: Global<u8>, table: Global<u8>,
        /// Places of the table; parts before and elements of each.
        places: u64, outer: u64, inner: u64,
    }
}

pub(super) fn kernel_of(config: &ScatterConfig) -> AnyKernel {
    match config.dtype {
        Dtype::U32 => typed::<u32>(*config),
        Dtype::U64 => typed::<u64>(*config),
        Dtype::I64 => typed::<i64>(*config),
        Dtype::F64 => typed::<f64>(*config),
        Dtype::Bool | Dtype::U8 | Dtype::I8 | Dtype::U16 | Dtype::I16 | Dtype::I32 => typed::<i32>(*config),
        Dtype::F16 | Dtype::Bf16 | Dtype::F8E4M3 | Dtype::F8E5M2 | Dtype::F32 => typed::<f32>(*config),
    }
}

fn typed<C: Compute>(config: ScatterConfig) -> AnyKernel {
    let ScatterConfig { dtype, keys: key_type, combine, include_table, lanes } = config;
    let body = move |args: ScatterArgs| {
        let ScatterArgs { keys, order, source, table, count, places, outer, inner } = args;
        wait_for_dependencies();
        // Contract: the grid has a block for `BLOCK / lanes` indices in x, and as many as share
        // a part in y.
        let (slot, lane) = (thread_idx().x >> lanes.ilog2(), thread_idx().x & (lanes - 1));
        let i = block_idx().x.cast::<u64>() * u64::from(BLOCK / lanes) + slot.cast::<u64>();
        when(i.lt(count), || {
            let run = Run { keys, key_type, order, count, first: i };
            let place = run.place(i);
            // The thread at one end of a run, where places change, takes it.
            let takes = if combine.is_some() {
                i.eq(0) | run.place(i.eq(0).select(i, i - 1)).ne(place)
            } else {
                let is_last = (i + 1).eq(count);
                is_last | run.place(is_last.select(i, i + 1)).ne(place)
            };
            when(takes & place.lt(places), || {
                let step = grid_dim().y.cast::<u64>() * u64::from(lanes);
                let first = block_idx().y.cast::<u64>() * u64::from(lanes) + lane.cast::<u64>();
                range(first, outer * inner, step, |element| {
                    let (before, behind) = if lanes == 1 {
                        (Val::constant(0), Val::constant(0))
                    } else {
                        let before = element / inner;
                        (before, element - before * inner)
                    };
                    let at = |place: Val<u64>, places: Val<u64>| (before * places + place) * inner + behind;
                    let to = table.at(at(place, places) * dtype.bytes());
                    let from = |position: Val<u64>| {
                        load::<C, _>(dtype, source.at(at(position, count) * dtype.bytes()), 1, false)[0]
                    };
                    let result = match combine {
                        None => from(run.position(i)),
                        Some(combine) if include_table => {
                            let held = load::<C, _>(dtype, to, 1, false)[0];
                            run.fold(0, place, held, from, combine)
                        }
                        Some(combine) => run.fold(1, place, from(run.position(i)), from, combine),
                    };
                    store(dtype, to, &[result], false);
                });
            });
        });
    };
    let how = combine.map_or("last", Reduction::name);
    let begin = if combine.is_some() && !include_table { "_new" } else { "" };
    kernel(format!("scatter_{how}{begin}_{dtype}_{key_type}_{lanes}"), body).required_block(BLOCK).into()
}

/// Neighbours among sorted places that are the same, and which index each of them is of.
struct Run {
    keys: Global<u8>,
    key_type: Dtype,
    order: Global<i64>,
    count: Val<u64>,
    first: Val<u64>,
}

impl Run {
    fn place(&self, i: Val<u64>) -> Val<u64> {
        load::<u64, _>(self.key_type, self.keys.at(i * self.key_type.bytes()), 1, false)[0]
    }

    fn position(&self, i: Val<u64>) -> Val<u64> {
        self.order.at(i).get().bitcast::<u64>()
    }

    /// Combines what is held with the sources of the run, but for the first `skipped`.
    fn fold<C: Compute>(
        &self,
        skipped: u64,
        place: Val<u64>,
        held: Val<C>,
        from: impl Fn(Val<u64>) -> Val<C>,
        combine: Reduction,
    ) -> Val<C> {
        let (held, next) = (var(held), var(self.first + skipped));
        loop_until_left(|run| {
            let loaded: Vec<(Val<C>, Val<bool>)> = (0..u64::from(UNROLL))
                .map(|u| {
                    let at = next.get() + u;
                    let is_there = at.lt(self.count);
                    let is_mine = is_there & self.place(is_there.select(at, self.first)).eq(place);
                    // Behind the run its first source is loaded again, which is at hand.
                    (from(self.position(is_mine.select(at, self.first))), is_mine)
                })
                .collect();
            for (value, is_mine) in &loaded {
                held.update(|held| is_mine.select(combined(combine, held, *value), held));
            }
            next.add_assign(u64::from(UNROLL));
            run.leave_if(!loaded[loaded.len() - 1].1);
        });
        held.get()
    }
}

fn combined<C: Compute>(combine: Reduction, held: Val<C>, value: Val<C>) -> Val<C> {
    match combine {
        Reduction::Product => held * value,
        Reduction::Max => held.max_nan(value),
        Reduction::Min => held.min_nan(value),
        _ => held + value,
    }
}
