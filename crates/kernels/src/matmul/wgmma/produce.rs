//! The producers: threads that issue TMA loads of stage after stage as soon as there is room, one
//! for each ring.

use warpfold_lang::{Cursor, Multiplicand, Pipeline, Val, Var, range, setmaxnreg_dec, thread_idx, var, when};

use super::kernel::{Block, WgmmaProductConfig};
use super::rings::RingCursor;
use super::source::{Arrival, CopyTarget, Line};
use crate::matmul::tile_scheduler::TileWork;

/// Fills the ring's stages with the block's first weights, and counts them, by the thread that
/// copies what comes after them. Where rows come through the same ring, stages are full when
/// [`produce`] has brought these.
pub(super) fn copy_weights<T: Multiplicand>(block: &Block<'_, T>) -> Var<u32> {
    let ahead = var::<u32>(0);
    when(thread_idx().x.eq(0), || {
        let [_, (ring, at)] = block.rings.each(block.rings.start());
        let work = block.first_work();
        let copier = Copier::new(block, (ring, at), [block.rings.are_one(), true]);
        let depth = block.config.tile.panels * block.depth;
        let end = work.end.min(work.begin + ring.stages() * depth);
        let line = copier.line_of_b(&work);
        range(work.begin, end, depth, |step| {
            copier.expect();
            for panel in 0..block.config.tile.panels {
                copier.bring_b(panel, line, block.step_of(panel, step), &work);
            }
            at.advance();
            ahead.add_assign(1);
        });
    });
    ahead
}

/// What the first warpgroup does, after so many stages of weights.
pub(super) fn produce<T: Multiplicand>(block: &Block<'_, T>, at: RingCursor, ahead: Option<Var<u32>>) {
    let (tile, rings) = (block.config.tile, block.rings);
    if tile.consumers == 2 {
        setmaxnreg_dec(40);
    }
    let [left, (ring, at)] = rings.each(at);
    when(thread_idx().x.eq(0), || {
        copy(&Copier::new(block, (ring, at), [rings.are_one(), true]), ahead);
        if tile.cluster > 1 {
            // No block leaves while the other may still write to it, or tell it that a stage is
            // read. Other threads do not wait for that: a barrier of the cluster at the end took
            // 0.5 us in 37 (128 x 8192 x 8192, H200, 2026-11-21).
            range(0, ring.stages(), 1, |_| {
                ring.acquire(at);
                at.advance();
            });
        }
    });
    if !rings.are_one() {
        when(thread_idx().x.eq(32), || copy(&Copier::new(block, left, [true, false]), None));
    }
}

/// Copies what a ring brings from the first stage to the last, but for the weights that are there
/// already.
fn copy<T: Multiplicand>(copier: &Copier<'_, T>, ahead: Option<Var<u32>>) {
    let &Copier { block, ring, at, brings: [brings_a, brings_b], .. } = copier;
    let unless_ahead = |body: &dyn Fn()| match ahead {
        None => body(),
        Some(ahead) => when(ahead.get().eq(0), body),
    };
    block.each_work(&|work: &TileWork| {
        let (line_a, line_b) = (block.a.line(work.row), copier.line_of_b(work));
        block.each_run(work, |work| {
            block.each_stage(work, |step: Val<u32>| {
                unless_ahead(&|| {
                    ring.acquire(at);
                    copier.expect();
                });
                for panel in 0..block.config.tile.panels {
                    let step = block.step_of(panel, step);
                    if brings_a {
                        copier.bring_a(panel, line_a, step, work);
                    }
                    if brings_b {
                        unless_ahead(&|| copier.bring_b(panel, line_b, step, work));
                    }
                }
                ahead.iter().for_each(|ahead| ahead.set(ahead.get().max(1) - 1));
                at.advance();
            });
        });
    });
}

/// Brings stages of the left factor, the right one or both.
struct Copier<'a, T> {
    block: &'a Block<'a, T>,
    ring: Pipeline,
    at: Cursor,
    brings: [bool; 2],
    /// The first of the columns of a tile that this block copies, to all blocks of its cluster.
    mine: Val<u32>,
}

impl<'a, T: Multiplicand> Copier<'a, T> {
    fn new(block: &'a Block<'a, T>, (ring, at): (Pipeline, Cursor), brings: [bool; 2]) -> Self {
        Self { block, ring, at, brings, mine: block.my_columns() }
    }

    fn line_of_b(&self, work: &TileWork) -> Line {
        self.block.b.line(work.column + self.mine)
    }

    /// Tells the stage how many bytes make it full.
    fn expect(&self) {
        let WgmmaProductConfig { tile, rows, .. } = *self.block.config;
        let lines =
            [rows, tile.columns].into_iter().zip(self.brings).map(|(lines, is_mine)| lines * u32::from(is_mine));
        let bytes = tile.panels * self.block.depth * T::BYTES;
        self.ring.full(self.at).arrive_expect(lines.sum::<u32>() * bytes);
    }

    fn bring_a(&self, panel: u32, line: Line, step: Val<u32>, work: &TileWork) {
        let a = &self.block.a;
        a.copy(a.panel(self.at, panel), line, step, work, self.target(None));
    }

    fn bring_b(&self, panel: u32, line: Line, step: Val<u32>, work: &TileWork) {
        let (tile, b) = (self.block.config.tile, &self.block.b);
        let to = b.lines_from(b.panel(self.at, panel), self.mine, tile.copied_columns());
        let blocks = (tile.cluster > 1).then_some((1 << tile.cluster) - 1);
        b.copy(to, line, step, work, self.target(blocks));
    }

    fn target(&self, blocks: Option<u16>) -> CopyTarget {
        CopyTarget::Stage(Arrival { pipeline: self.ring, at: self.at, blocks })
    }
}
