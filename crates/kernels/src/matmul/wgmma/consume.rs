//! The consumers: warpgroups that multiply 64 rows of each full stage, then store the results.

use warpfold_lang::{
    Multiplicand, Operands, Sum, Val, Var, WarpgroupSums, setmaxnreg_inc, var, wgmma_commit, wgmma_fence, wgmma_wait,
    when,
};

use super::kernel::{Block, WgmmaConfiguration};
use super::rings::RingCursor;
use super::store::{Results, Store};
use crate::matmul::accumulator::Accumulator;
use crate::matmul::tile_scheduler::TileWork;

/// What every warpgroup but the first does.
pub(super) fn consume<T: Multiplicand>(block: &Block<'_, T>, at: RingCursor, warpgroup: Val<u32>, results: Results)
where
    T::Sum: Accumulator + Sum,
{
    let WgmmaConfiguration { tile, is_promoted, .. } = *block.configuration;
    if tile.consumers == 2 {
        setmaxnreg_inc(232);
    }
    let sums = WarpgroupSums::<T>::new(tile.columns);
    let totals = is_promoted.then(|| Totals::new(&sums));
    let first = (warpgroup - 1) * 64;
    let done = (tile.is_ahead() && !is_promoted).then(|| block.rings.start());
    let main_loop = MainLoop { block, at, first, sums: &sums, totals: totals.as_ref(), done };
    let store = Store::<T::Sum>::new(block, first);
    block.each_work(&|work| {
        // What the epilogue reads once for all is in flight while the sums are made.
        let writer = store.writer(block, results, work);
        main_loop.multiply(work);
        let pairs = totals.as_ref().map_or_else(|| sums.pairs().collect(), |totals| totals.pairs(&sums));
        store.put(block, results, &writer, &pairs, work);
    });
    store.end();
}

/// From stages of factors to sums.
struct MainLoop<'a, T: Multiplicand> {
    block: &'a Block<'a, T>,
    at: RingCursor,
    /// The first row of the warpgroup.
    first: Val<u32>,
    sums: &'a WarpgroupSums<T>,
    totals: Option<&'a Totals<T::Sum>>,
    /// The stage of the product before, where that is still in flight.
    done: Option<RingCursor>,
}

impl<T: Multiplicand<Sum: Accumulator + Sum>> MainLoop<'_, T> {
    fn multiply(&self, work: &TileWork) {
        let Self { block, at, totals, done, .. } = *self;
        let rings = block.rings;
        totals.iter().for_each(|totals| totals.clear());
        block.each_stage(work, |step| {
            rings.wait(at);
            self.add_products(step, work);
            match done {
                Some(done) => {
                    wgmma_wait(1);
                    when(step.ne(work.begin), || {
                        rings.release(done);
                        done.advance();
                    });
                }
                None => {
                    wgmma_wait(0);
                    rings.release(at);
                }
            }
            totals.iter().for_each(|totals| totals.add(self.sums));
            at.advance();
        });
        if let Some(done) = done {
            wgmma_wait(0);
            if block.has_one_work() {
                rings.release_last(done);
            } else {
                rings.release(done);
                done.advance();
            }
        }
    }

    /// Starts the products of a stage.
    fn add_products(&self, step: Val<u32>, work: &TileWork) {
        let Block { a, b, rings, .. } = self.block;
        let [(_, at_a), (_, at_b)] = rings.each(self.at);
        let eight_rows = self.block.configuration.tile.eight_rows;
        let factors = (0..self.block.configuration.tile.panels).map(|panel| {
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
            self.sums.add_product(factors, if panel == 0 { keep } else { Val::constant(true) });
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
        let totals = self.sums.chunks_exact(2).map(|pair| [pair[0].get(), pair[1].get()]);
        sums.places().zip(totals).map(|((row, column), pair)| (row, column, pair)).collect()
    }
}
