//! The fold of the items that one thread takes of a range that threads share.

use warpfold_lang::{AnyRegisters, Registers, Val, Vars, lane_id, range, vars, when_else};

use super::erased::ErasedMonoid;
use super::{Position, warp};

/// The items from `start` to before `end`, and how threads share them.
pub(crate) struct Share<'a> {
    pub(crate) start: Val<u64>,
    pub(crate) end: Val<u64>,
    /// The thread's number among those that share.
    pub(crate) thread: Val<u32>,
    /// How many share: a power of two.
    pub(crate) threads: u32,
    /// Neighbouring items that a thread loads at a time: a power of two.
    pub(crate) vector: u32,
    /// Such loads in flight before the first is used: as many independent accumulators.
    pub(crate) unroll: u32,
    /// Loads items from a position on.
    pub(crate) load: &'a dyn Fn(Val<u64>, u32) -> Vec<AnyRegisters>,
}

/// Folds the thread's part of a share. The threads' results, folded in the order of the threads,
/// are the fold of all; for a monoid that does not commute they are in the first lane of each warp
/// (of each group, if fewer share).
///
/// The order is fixed by the numbers of items, threads, vector and unroll alone.
pub(crate) fn fold(monoid: &dyn ErasedMonoid, share: &Share<'_>) -> AnyRegisters {
    if monoid.commutes() { interleaved(monoid, share) } else { in_order(monoid, share) }
}

fn push_all(monoid: &dyn ErasedMonoid, acc: Vars<AnyRegisters>, items: &[AnyRegisters], first: Val<u64>, offset: u64) {
    acc.set(monoid.push_all(acc.get(), items, Position::new(first, offset)));
}

/// Independent accumulators of a thread that loads `unroll` vectors at a time, while registers
/// last.
fn num_accs(monoid: &dyn ErasedMonoid, unroll: u32) -> u32 {
    let most = match monoid.num_registers() {
        0..=4 => 4,
        5..=8 => 2,
        _ => 1,
    };
    unroll.min(most)
}

/// Neighbouring threads take neighbouring vectors: coalesced loads, row after row of vectors.
fn interleaved(monoid: &dyn ErasedMonoid, share: &Share<'_>) -> AnyRegisters {
    let Share { start, end, vector, unroll, load, .. } = *share;
    let row = u64::from(share.threads * vector);
    let tile = row * u64::from(unroll);
    let first = if share.threads == 1 { start } else { start + (share.thread * vector).cast::<u64>() };
    let accs: Vec<Vars<AnyRegisters>> = (0..num_accs(monoid, unroll)).map(|_| vars(monoid.identity())).collect();
    // Whole tiles, with every load before its first use.
    let whole_end = if unroll == 1 && vector == 1 { start } else { start + ((end - start) & !(tile - 1)) };
    if unroll > 1 || vector > 1 {
        range(first, whole_end, tile, |i| {
            let items: Vec<_> = (0..unroll).map(|u| load(i + u64::from(u) * row, vector)).collect();
            for ((u, items), acc) in (0..).zip(&items).zip(accs.iter().cycle()) {
                push_all(monoid, *acc, items, i, u * row);
            }
        });
    }
    // The rest, a vector a thread at a time.
    let rest = whole_end + (first - start);
    range(rest, end, row, |i| {
        if vector == 1 {
            push_all(monoid, accs[0], &load(i, 1), i, 0);
            return;
        }
        let whole = || push_all(monoid, accs[0], &load(i, vector), i, 0);
        let single = || range(i, end, 1, |i| push_all(monoid, accs[0], &load(i, 1), i, 0));
        when_else((i + u64::from(vector)).le(end), whole, single);
    });
    let accs = accs.into_iter().map(Vars::get);
    accs.reduce(|left, right| monoid.combine(left, right)).expect("at least one accumulator")
}

/// Each warp takes one contiguous range, and folds it tile by tile.
fn in_order(monoid: &dyn ErasedMonoid, share: &Share<'_>) -> AnyRegisters {
    let Share { start, end, vector, load, .. } = *share;
    let lanes = share.threads.min(32);
    let warps = u64::from(share.threads / lanes);
    let tile = u64::from(lanes * vector);
    let tiles_a_warp = ((end - start) + (tile * warps - 1)) >> (tile * warps).ilog2();
    let warp = if warps == 1 { Val::constant(0) } else { (share.thread >> 5).cast::<u64>() };
    let lane = if lanes == 1 { Val::constant(0) } else { share.thread & (lanes - 1) };
    let first = start + warp * tiles_a_warp * tile;
    let last = (first + tiles_a_warp * tile).min(end);
    let acc = vars(monoid.identity());
    range(first, last, tile, |i| {
        let mine = i + (lane * vector).cast::<u64>();
        let ours = vars(monoid.identity());
        let whole = || push_all(monoid, ours, &load(mine, vector), mine, 0);
        let single = || range(mine, last, 1, |i| push_all(monoid, ours, &load(i, 1), i, 0));
        when_else((mine + u64::from(vector)).le(last), whole, single);
        acc.set(monoid.combine(acc.get(), warp::fold(monoid, ours.get(), lanes)));
    });
    if lanes == 1 {
        return acc.get();
    }
    let is_first = (lane_id() & (lanes - 1)).eq(0);
    Registers::select(is_first, acc.get(), monoid.identity())
}
