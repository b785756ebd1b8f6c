//! L2 prefetch of weights before the launch before has ended: it reads nothing into registers or
//! shared memory, so it needs no `griddepcontrol.wait`.

use warpfold_lang::{Multiplicand, Val, thread_idx, when};

use super::kernel::Block;
use super::source::CopyTarget;

/// Bytes of a factor that a block asks L2 for before it may look at memory, and where two blocks
/// share what they ask for: more does not come in time, and loads queue after it.
const AHEAD: [u32; 2] = [96 << 10, 48 << 10];

/// Asks for the first stages of a factor that passes by once, while launches before this one end:
/// otherwise nothing of it is under way from then until 0.8 us after their end. Weights of 8192 x
/// 8192 on an H200, 2026-11-21:
///
/// | rows | us with prefetch | us without |
/// |---|---|---|
/// | 16 | 31.6 | 33.0 |
/// | 64 | 33.2 | 34.5 |
/// | 128 | 34.8 | 35.5 |
pub(super) fn prefetch_to_l2<T: Multiplicand>(block: &Block<'_, T>) {
    let config = block.config;
    let (tile, [once_a, once_b]) = (config.tile, config.read_once);
    let (factor, lines) = match (once_a, once_b) {
        (true, _) => (&block.a, config.rows),
        (false, true) => (&block.b, tile.copied_columns()),
        (false, false) => return,
    };
    let panels = AHEAD[usize::from(tile.cluster > 1)] / (lines * block.depth * T::BYTES);
    when(thread_idx().x.eq(32), || {
        let work = block.first_work();
        let line = factor.line(if once_a { work.row } else { work.column + block.my_columns() });
        let place = factor.lines_from(factor.first_panel(), Val::constant(0), lines);
        for panel in 0..panels {
            factor.copy(place, line, work.begin + panel * block.depth, &work, CopyTarget::Cache);
        }
    });
}
