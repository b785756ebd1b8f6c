//! The consumers: warpgroups that multiply 64 rows of each full stage, then store the results.

use warpfold_lang::{
    Multiplicand, Number, Operands, Shared, Sum, Val, Var, WarpgroupSums, dynamic_shared, setmaxnreg_inc, thread_idx,
    var, warpgroup_idx, wgmma_commit, wgmma_fence, wgmma_wait, when,
};

use super::kernel::{Block, WgmmaProductConfig};
use super::rings::RingCursor;
use super::store::Store;
use super::tile::WgmmaTile;
use crate::fold::pairwise_sums;
use crate::matmul::accumulator::Accumulator;
use crate::matmul::tile_scheduler::TileWork;

/// What every warpgroup but the first does.
pub(super) fn consume<T: Multiplicand>(block: &Block<'_, T>, at: RingCursor, warpgroup: Val<u32>)
where
    T::Sum: Accumulator + Sum,
{
    let WgmmaProductConfig { tile, is_promoted, parts, .. } = *block.config;
    if tile.consumers == 2 {
        setmaxnreg_inc(232);
    }
    // Roles: each warpgroup has 64 rows of the tile.
    let sums = &WarpgroupSums::<T>::new(tile.columns);
    let totals = is_promoted.then(|| Totals::new(sums));
    let tree = (parts > 1).then(|| Tree::new(sums, tile, parts));
    let first = (warpgroup - 1) * 64;
    let done = (tile.is_ahead() && !is_promoted).then(|| block.rings.start());
    let main_loop = MainLoop { block, at, first, totals: totals.as_ref(), done };
    let store = Store::<T::Sum>::new(block, first);
    block.each_work(&|work| {
        // What the epilogue reads once for all is in flight while the sums are made.
        let writer = store.writer(block, work);
        // Main loop
        let pairs = match &tree {
            Some(tree) => tree.fold(&main_loop, sums, work),
            None => {
                main_loop.multiply(sums, work, Ends { begins: true, drains: true, is_last: true });
                totals.as_ref().map_or_else(|| sums.pairs().collect(), |totals| totals.pairs(sums))
            }
        };
        // Epilogue
        store.put(block, &writer, &pairs, work);
    });
    store.end();
}

/// From stages of factors to sums.
struct MainLoop<'a, T: Multiplicand> {
    block: &'a Block<'a, T>,
    at: RingCursor,
    /// The first row of the warpgroup.
    first: Val<u32>,
    totals: Option<&'a Totals<T::Sum>>,
    /// The stage of the product before, where that is still in flight.
    done: Option<RingCursor>,
}

/// What stands around some of a block's stages.
#[derive(Clone, Copy)]
struct Ends {
    /// Whether no product is in flight before them.
    begins: bool,
    /// Whether none is in flight behind them.
    drains: bool,
    /// Whether they are the last ones of a tile.
    is_last: bool,
}

impl<T: Multiplicand<Sum: Accumulator + Sum>> MainLoop<'_, T> {
    /// The sums of a piece of work, or of a part of its steps.
    fn multiply(&self, sums: &WarpgroupSums<T>, work: &TileWork, ends: Ends) {
        let Self { block, at, totals, done, .. } = *self;
        let rings = block.rings;
        totals.iter().for_each(|totals| totals.clear());
        block.each_stage(work, |step| {
            rings.wait(at);
            self.add_products(sums, step, work);
            match done {
                Some(done) => {
                    wgmma_wait(1);
                    let release = || {
                        rings.release(done);
                        done.advance();
                    };
                    if ends.begins { when(step.ne(work.begin), release) } else { release() }
                }
                None => {
                    wgmma_wait(0);
                    rings.release(at);
                }
            }
            totals.iter().for_each(|totals| totals.add(sums));
            at.advance();
        });
        if let Some(done) = done.filter(|_| ends.drains) {
            wgmma_wait(0);
            if ends.is_last && block.has_one_work() {
                rings.release_last(done);
            } else {
                rings.release(done);
                done.advance();
            }
        }
    }

    /// Starts the products of a stage.
    fn add_products(&self, sums: &WarpgroupSums<T>, step: Val<u32>, work: &TileWork) {
        let Block { a, b, rings, .. } = self.block;
        let [(_, at_a), (_, at_b)] = rings.each(self.at);
        let eight_rows = self.block.config.tile.eight_rows;
        let factors = (0..self.block.config.tile.panels).map(|panel| {
            let tile_a = a.panel(at_a, panel);
            // Eight rows stand for all.
            let tile_a = if eight_rows { tile_a } else { a.lines_from(tile_a, self.first, 64) };
            let tile_b = b.panel(at_b, panel);
            Operands { a: tile_a, a_major: a.major.for_lang(), b: tile_b, b_major: b.major.for_lang() }
        });
        let factors: Vec<_> = factors.collect();
        let keep = if self.totals.is_some() { Val::constant(false) } else { step.ne(work.begin) };
        wgmma_fence();
        for (panel, factors) in factors.iter().enumerate() {
            sums.add_product(factors, if panel == 0 { keep } else { Val::constant(true) });
        }
        wgmma_commit();
    }
}

/// Pairs of neighbours of a row, with their places in a warpgroup's 64 rows.
pub(super) type Pairs<S> = Vec<(Val<u32>, Val<u32>, [Val<S>; 2])>;

/// Sums of the sums of stages.
struct Totals<S: Sum> {
    sums: Vec<Var<S>>,
}

impl<S: Accumulator + Sum> Totals<S> {
    fn new<T: Multiplicand<Sum = S>>(sums: &WarpgroupSums<T>) -> Self {
        Self { sums: (0..sums.columns() / 2).map(|_| var::<S>(Val::constant(S::ZERO))).collect() }
    }

    fn clear(&self) {
        self.sums.iter().for_each(|sum| sum.set(Val::constant(S::ZERO)));
    }

    fn add<T: Multiplicand<Sum = S>>(&self, sums: &WarpgroupSums<T>) {
        let values = sums.pairs().flat_map(|(_, _, pair)| pair);
        self.sums.iter().zip(values).for_each(|(total, sum)| total.add_assign(sum));
    }

    fn pairs<T: Multiplicand<Sum = S>>(&self, sums: &WarpgroupSums<T>) -> Pairs<S> {
        at_places(sums, &self.sums.iter().map(|sum| sum.get()).collect::<Vec<_>>())
    }
}

/// Values in the places of a warpgroup's sums.
fn at_places<T: Multiplicand>(sums: &WarpgroupSums<T>, values: &[Val<T::Sum>]) -> Pairs<T::Sum> {
    let pairs = values.chunks_exact(2).map(|pair| [pair[0], pair[1]]);
    sums.places().zip(pairs).map(|((row, column), pair)| (row, column, pair)).collect()
}

/// Sums of parts of K, added in a balanced tree.
enum Tree<T: Multiplicand> {
    /// Of narrow tiles each part has sums of its own, which are added at the end: no part waits for
    /// the one before.
    Apart(Vec<WarpgroupSums<T>>),
    /// The parts come one after the other: what a level holds waits for its right neighbour, as the
    /// digits of a binary counter do.
    InTurn(u32, Vec<Level<T::Sum>>),
}

/// Where the sums of a level wait.
enum Level<S> {
    Registers(Vec<Var<S>>),
    /// Those of the last level of the largest tiles, in so many groups of four: written and read
    /// once for a tile.
    Shared(Shared<S>, u32),
}

// THRESHOLD: parts come one after the other; tested by
// crates/kernels/tests/matmul/tree.rs::the_parts_of_k_are_one_tree_in_every_tile
/// Columns of a tile whose parts have sums of their own, at most: 128 registers for eight parts.
const MOST_APART: u32 = 32;

impl<T: Multiplicand<Sum: Accumulator + Sum>> Tree<T> {
    fn new(sums: &WarpgroupSums<T>, tile: WgmmaTile, parts: u32) -> Self {
        if tile.columns <= MOST_APART {
            return Self::Apart((0..parts).map(|_| WarpgroupSums::new(tile.columns)).collect());
        }
        let level = |level: u32| match tile.tree_bytes(parts) {
            bytes if bytes > 0 && level + 1 == parts.ilog2() => {
                let (thread, warpgroup) = (thread_idx().x & 127, warpgroup_idx() - 1);
                let group = tile.columns / 8 * 512;
                Level::Shared(dynamic_shared(bytes / 4).at(warpgroup * group + thread * 4), tile.columns / 8)
            }
            _ => Level::Registers((0..sums.columns() / 2).map(|_| var(Val::constant(T::Sum::ZERO))).collect()),
        };
        Self::InTurn(parts, (0..parts.ilog2()).map(level).collect())
    }

    /// The sums of all parts of a piece of work.
    fn fold(&self, main_loop: &MainLoop<'_, T>, sums: &WarpgroupSums<T>, work: &TileWork) -> Pairs<T::Sum> {
        let values = |sums: &WarpgroupSums<T>| -> Vec<_> { sums.pairs().flat_map(|(_, _, pair)| pair).collect() };
        let part = |i: u32, parts: u32| main_loop.block.part_of(work, Val::constant(i), parts);
        let folded = match self {
            Self::Apart(each) => {
                let parts = each.len() as u32;
                for (i, sums) in (0..).zip(each) {
                    let is_last = i + 1 == parts;
                    main_loop.multiply(sums, &part(i, parts), Ends { begins: i == 0, drains: is_last, is_last });
                }
                pairwise_sums(&each.iter().map(values).collect::<Vec<_>>())
            }
            Self::InTurn(parts, levels) => {
                let mut folded = Vec::new();
                for i in 0..*parts {
                    let ends = Ends { begins: true, drains: true, is_last: i + 1 == *parts };
                    main_loop.multiply(sums, &part(i, *parts), ends);
                    folded = values(sums);
                    for (digit, level) in levels.iter().enumerate() {
                        if i >> digit & 1 == 0 {
                            level.set(&folded);
                            break;
                        }
                        folded = level.get().into_iter().zip(folded).map(|(left, right)| left + right).collect();
                    }
                }
                folded
            }
        };
        at_places(sums, &folded)
    }
}

impl<S: Accumulator + Sum> Level<S> {
    fn set(&self, sums: &[Val<S>]) {
        match self {
            Self::Registers(level) => level.iter().zip(sums).for_each(|(place, sum)| place.set(*sum)),
            Self::Shared(level, _) => (0_u32..).zip(sums.chunks_exact(4)).for_each(|(i, group)| {
                level.at(512 * i).set_vec([group[0], group[1], group[2], group[3]]);
            }),
        }
    }

    fn get(&self) -> Vec<Val<S>> {
        match self {
            Self::Registers(level) => level.iter().map(|place| place.get()).collect(),
            Self::Shared(level, groups) => (0..*groups).flat_map(|i| level.at(512 * i).get_vec::<4>()).collect(),
        }
    }
}
