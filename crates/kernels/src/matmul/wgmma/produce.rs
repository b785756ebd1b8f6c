//! The producers: threads that issue TMA loads of stage after stage as soon as there is room, one
//! for each ring.

use warpfold_lang::{Cursor, Multiplicand, Pipeline, Val, range, setmaxnreg_dec, thread_idx, when};

use super::kernel::Block;
use super::rings::RingCursor;
use super::source::{Arrival, CopyTarget};
use crate::matmul::tile_scheduler::TileWork;

/// What the first warpgroup does.
pub(super) fn produce<T: Multiplicand>(block: &Block<'_, T>, at: RingCursor) {
    let (tile, rings) = (block.configuration.tile, block.rings);
    if tile.consumers == 2 {
        setmaxnreg_dec(40);
    }
    let [left, (ring, at)] = rings.each(at);
    when(thread_idx().x.eq(0), || {
        copy(block, (ring, at), [rings.are_one(), true]);
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
        when(thread_idx().x.eq(32), || copy(block, left, [true, false]));
    }
}

/// Copies what a ring brings, of the left factor, the right one or both, from the first stage to
/// the last.
fn copy<T: Multiplicand>(block: &Block<'_, T>, (ring, at): (Pipeline, Cursor), [brings_left, brings_right]: [bool; 2]) {
    let (tile, rows) = (block.configuration.tile, block.configuration.rows);
    // Each block of a cluster copies a part of the right factor to all of them.
    let mine = block.my_columns();
    let blocks = (tile.cluster > 1).then_some((1 << tile.cluster) - 1);
    let lines = if brings_left { rows } else { 0 } + if brings_right { tile.columns } else { 0 };
    let arrival = Arrival { pipeline: ring, at, blocks: None };
    block.each_work(&|work: &TileWork| {
        let (first_a, first_b) = (block.a.line(work.row), block.b.line(work.column + mine));
        block.each_stage(work, |step: Val<u32>| {
            ring.acquire(at);
            ring.full(at).arrive_expect(tile.panels * lines * block.depth * T::BYTES);
            for panel in 0..tile.panels {
                let step = if panel == 0 { step } else { step + panel * block.depth };
                if brings_left {
                    block.a.copy(block.a.panel(at, panel), first_a, step, work, CopyTarget::Stage(arrival));
                }
                if brings_right {
                    let tile_b = block.b.lines_from(block.b.panel(at, panel), mine, tile.copied_columns());
                    block.b.copy(tile_b, first_b, step, work, CopyTarget::Stage(Arrival { blocks, ..arrival }));
                }
            }
            at.advance();
        });
    });
}
