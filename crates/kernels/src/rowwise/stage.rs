//! Rows in the shared memory of a block, as they lie in the memory of the device: brought by copies in the background.

use warpfold_lang::{
    Barrier, Barriers, Global, Shared, Val, barriers, commit_copies, range, sync_threads, target, thread_idx,
    wait_for_copies, when,
};

use super::held::{At, Walk};
use crate::Dtype;

/// Bytes that copies move at once, at multiples of which they begin and end.
pub(super) const GRAIN: u32 = 16;

/// A row, dealt out to the threads of a block in turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) len: Val<u32>,
    pub(super) threads: u32,
    /// Items side by side.
    pub(super) vector: u32,
    /// Groups that a thread reads before it uses the first.
    pub(super) unroll: u32,
}

impl Walk for Span {
    fn each(&self, body: &dyn Fn(&[At])) {
        let Self { len, threads, vector, unroll } = *self;
        let (round, tile) = (threads * vector, threads * vector * unroll);
        let whole = len & !(tile - 1);
        let mine = thread_idx().x * vector;
        let at = |position: Val<u32>| At { first: position, more: 0, place: position, kept: None };
        range(mine, whole, tile, |i| body(&(0..unroll).map(|u| at(i + u * round)).collect::<Vec<_>>()));
        range(mine + whole, len, round, |i| body(&[at(i)]));
    }
}

/// Neighbouring elements of one input that a block brings.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub(super) dtype: Dtype,
    pub(super) from: Global<u8>,
    /// Where it goes: at a multiple of [`GRAIN`], with as much room again behind it.
    pub(super) to: Shared<u8>,
    pub(super) len: Val<u32>,
}

/// A piece as it is moved.
struct Cut {
    /// Bytes in front of the first multiple of [`GRAIN`].
    head: Val<u32>,
    /// Bytes between that and the last one.
    body: Val<u32>,
    /// Where the first element goes.
    to: Shared<u8>,
}

impl Piece {
    fn bytes(&self) -> Val<u32> {
        self.len * self.dtype.bytes() as u32
    }

    /// Elements lie in shared memory as far from a multiple of [`GRAIN`] as in the memory of the device.
    fn cut(&self) -> Cut {
        let ahead = self.from.address().cast::<u32>() & (GRAIN - 1);
        let head = (-ahead.bitcast::<i32>()).bitcast::<u32>() & (GRAIN - 1);
        Cut { head, body: (self.bytes() - head) & !(GRAIN - 1), to: self.to.at(ahead) }
    }
}

/// Brings pieces, all longer than two grains, into shared memory; each thread of the block sees them then. Returns where
/// they lie.
pub(super) fn bring(pieces: &[Piece], threads: u32) -> Vec<Shared<u8>> {
    let cuts: Vec<Cut> = pieces.iter().map(Piece::cut).collect();
    let arrive = if target().has(90, (8, 0)) { in_bulk(pieces, &cuts) } else { by_threads(pieces, &cuts, threads) };
    for (piece, cut) in pieces.iter().zip(&cuts) {
        edges(piece, cut);
    }
    arrive();
    cuts.into_iter().map(|cut| cut.to).collect()
}

/// One thread begins all copies; everyone waits for them.
fn in_bulk(pieces: &[Piece], cuts: &[Cut]) -> Box<dyn FnOnce()> {
    let arrived: Barrier = {
        let barriers = barriers(1);
        when(thread_idx().x.eq(0), || {
            barriers.init(1);
            Barriers::publish();
            let bytes = cuts.iter().map(|cut| cut.body).reduce(|sum, body| sum + body).expect("there is a piece");
            barriers.at(0).arrive_expect(bytes);
            for (piece, cut) in pieces.iter().zip(cuts) {
                cut.to.at(cut.head).copy_bulk(piece.from.at(cut.head), cut.body, barriers.at(0));
            }
        });
        barriers.at(0)
    };
    Box::new(move || {
        sync_threads();
        arrived.wait(0);
    })
}

/// All threads copy.
fn by_threads(pieces: &[Piece], cuts: &[Cut], threads: u32) -> Box<dyn FnOnce()> {
    for (piece, cut) in pieces.iter().zip(cuts) {
        range(thread_idx().x * GRAIN, cut.body, threads * GRAIN, |i| {
            cut.to.at(cut.head).at(i).copy_async::<16>(piece.from.at(cut.head).at(i));
        });
    }
    commit_copies();
    Box::new(|| {
        wait_for_copies(0);
        sync_threads();
    })
}

/// A thread for each element in front of the body and behind it.
fn edges(piece: &Piece, cut: &Cut) {
    let Piece { dtype, from, .. } = *piece;
    let bytes = dtype.bytes() as u32;
    let mine = thread_idx().x * bytes;
    let one = |at: Val<u32>| match bytes {
        1 => cut.to.at(at).set(from.at(at).get()),
        2 => cut.to.at(at).reinterpret::<u16>().set(from.at(at).reinterpret::<u16>().get()),
        4 => cut.to.at(at).reinterpret::<u32>().set(from.at(at).reinterpret::<u32>().get()),
        _ => cut.to.at(at).reinterpret::<u64>().set(from.at(at).reinterpret::<u64>().get()),
    };
    when(mine.lt(cut.head), || one(mine));
    let behind = cut.head + cut.body + mine;
    when(behind.lt(piece.bytes()), || one(behind));
}
