//! Loads of whole rows from any address into the shared memory of a block, by asynchronous copies.

use warpfold_lang::{
    Barrier, Barriers, Global, Shared, Val, barriers, commit_copies, range, sync_threads, target, thread_idx,
    wait_for_copies, when,
};

use super::on_chip_row::{GroupCoord, GroupLoop};
use crate::Dtype;

/// Bytes that asynchronous copies move at once; they begin and end at multiples of it.
pub(super) const COPY_BYTES: u32 = 16;

/// The loop of a block's threads over a row: each takes every `threads`-th group.
#[derive(Debug, Clone, Copy)]
pub(super) struct StridedLoop {
    pub(super) len: Val<u32>,
    pub(super) threads: u32,
    /// Items a group.
    pub(super) vector: u32,
    /// Groups that a thread reads before it uses the first.
    pub(super) unroll: u32,
}

impl GroupLoop for StridedLoop {
    fn for_each(&self, body: &dyn Fn(&[GroupCoord])) {
        let Self { len, threads, vector, unroll } = *self;
        let (round, tile) = (threads * vector, threads * vector * unroll);
        let whole = len & !(tile - 1);
        let first = thread_idx().x * vector;
        range(first, whole, tile, |i| {
            body(&(0..unroll).map(|u| GroupCoord::at(i + u * round)).collect::<Vec<_>>());
        });
        range(first + whole, len, round, |i| body(&[GroupCoord::at(i)]));
    }
}

/// A row of one input, to be copied.
#[derive(Clone, Copy)]
pub(super) struct RowCopy {
    pub(super) dtype: Dtype,
    pub(super) from: Global<u8>,
    /// At a multiple of [`COPY_BYTES`], with as many bytes to spare after the row.
    pub(super) to: Shared<u8>,
    pub(super) len: Val<u32>,
}

/// A row as it is copied.
#[derive(Clone, Copy)]
struct Aligned {
    /// Bytes before the first multiple of [`COPY_BYTES`].
    head: Val<u32>,
    /// Bytes between that and the last multiple.
    body: Val<u32>,
    /// Where the first element goes.
    to: Shared<u8>,
}

impl RowCopy {
    fn bytes(&self) -> Val<u32> {
        self.len * self.dtype.bytes() as u32
    }

    /// Elements have the same misalignment in shared memory as in global memory.
    fn align(&self) -> Aligned {
        let ahead = self.from.address().cast::<u32>() & (COPY_BYTES - 1);
        let head = (-ahead.bitcast::<i32>()).bitcast::<u32>() & (COPY_BYTES - 1);
        Aligned { head, body: (self.bytes() - head) & !(COPY_BYTES - 1), to: self.to.at(ahead) }
    }
}

/// Copies rows, all longer than two units of [`COPY_BYTES`], into shared memory, and waits until
/// each thread of the block sees them. Returns where they begin.
pub(super) fn load_rows(rows: &[RowCopy], threads: u32) -> Vec<Shared<u8>> {
    let aligned: Vec<Aligned> = rows.iter().map(RowCopy::align).collect();
    let wait = if target().has(90, (8, 0)) { by_tma(rows, &aligned) } else { by_threads(rows, &aligned, threads) };
    for (row, aligned) in rows.iter().zip(&aligned) {
        copy_edges(row, aligned);
    }
    wait();
    aligned.into_iter().map(|aligned| aligned.to).collect()
}

/// One thread issues all TMA copies; all threads wait for them.
fn by_tma(rows: &[RowCopy], aligned: &[Aligned]) -> Box<dyn FnOnce()> {
    let arrived: Barrier = {
        let barriers = barriers(1);
        when(thread_idx().x.eq(0), || {
            barriers.init(1);
            Barriers::publish();
            let bytes = aligned.iter().map(|row| row.body).reduce(|sum, body| sum + body).expect("there is a row");
            barriers.at(0).arrive_expect(bytes);
            for (row, aligned) in rows.iter().zip(aligned) {
                let Aligned { head, body, to } = *aligned;
                to.at(head).copy_bulk(row.from.at(head), body, barriers.at(0));
            }
        });
        barriers.at(0)
    };
    Box::new(move || {
        sync_threads();
        arrived.wait(0);
    })
}

/// All threads copy (`cp.async`).
fn by_threads(rows: &[RowCopy], aligned: &[Aligned], threads: u32) -> Box<dyn FnOnce()> {
    for (row, aligned) in rows.iter().zip(aligned) {
        let Aligned { head, body, to } = *aligned;
        range(thread_idx().x * COPY_BYTES, body, threads * COPY_BYTES, |i| {
            to.at(head).at(i).copy_async::<16>(row.from.at(head).at(i));
        });
    }
    commit_copies();
    Box::new(|| {
        wait_for_copies(0);
        sync_threads();
    })
}

/// A thread for each element before and after the aligned part.
fn copy_edges(row: &RowCopy, aligned: &Aligned) {
    let (RowCopy { dtype, from, .. }, Aligned { head, body, to }) = (*row, *aligned);
    let bytes = dtype.bytes() as u32;
    let first = thread_idx().x * bytes;
    let one = |at: Val<u32>| match bytes {
        1 => to.at(at).set(from.at(at).get()),
        2 => to.at(at).reinterpret::<u16>().set(from.at(at).reinterpret::<u16>().get()),
        4 => to.at(at).reinterpret::<u32>().set(from.at(at).reinterpret::<u32>().get()),
        _ => to.at(at).reinterpret::<u64>().set(from.at(at).reinterpret::<u64>().get()),
    };
    when(first.lt(head), || one(first));
    let after = head + body + first;
    when(after.lt(row.bytes()), || one(after));
}
