//! Asynchronous copies between global and shared memory, without registers: `cp.async`,
//! `cp.async.bulk`.

use super::pointer::{Global, Shared};
use crate::intrinsics::memory::Location;
use crate::intrinsics::{asynchronous, bulk};
use crate::recorder::{Raw, with};
use crate::tile::Barrier;
use crate::types::Element;
use crate::{Operand, Val};

/// Commits a group of copies: those that this thread issued since the last group.
#[track_caller]
pub fn commit_copies() {
    with(asynchronous::commit);
}

/// Waits until at most this many of this thread's groups are in flight: the data of older groups is
/// visible to this thread. Other threads see it after a barrier.
#[track_caller]
pub fn wait_for_copies(pending_groups: u32) {
    with(|r| asynchronous::wait(r, pending_groups));
}

impl<T: Element> Shared<T> {
    /// Starts copying `N` consecutive elements here from global memory: 4, 8 or 16 bytes in all,
    /// both addresses aligned to that. The data is available after [`wait_for_copies`] of their
    /// group.
    ///
    /// ```
    /// use warpfold_lang::{
    ///     Arch, Global, Target, commit_copies, kernel, shared, sync_threads, thread_idx, wait_for_copies,
    /// };
    /// let reverse = kernel("reverse", |data: Global<f32>| {
    ///     let (tile, thread) = (shared::<f32>(256), thread_idx().x);
    ///     tile.at(thread).copy_async::<1>(data.at(thread));
    ///     commit_copies();
    ///     wait_for_copies(0);
    ///     sync_threads();
    ///     data.at(thread).set(tile.at(255 - thread).get());
    /// });
    /// let ptx = reverse.required_block(256).ptx(&Target::new(Arch::SM_80, (7, 0)))?;
    /// assert!(ptx.contains("cp.async.ca.shared.global"));
    /// # Ok::<(), warpfold_lang::Error>(())
    /// ```
    #[track_caller]
    pub fn copy_async<const N: usize>(self, from: Global<T>) {
        const { check_copy(N, T::BYTES) };
        copy(self.location(), from.location(), N as u32 * T::BYTES, None);
    }

    /// Like [`Self::copy_async`], for the first bytes only; the rest is filled with zeros. With no
    /// bytes, global memory is not accessed.
    #[track_caller]
    pub fn copy_async_first<const N: usize>(self, from: Global<T>, bytes: impl Operand<u32>) {
        const { check_copy(N, T::BYTES) };
        let (to, from, source_bytes) = (self.location(), from.location(), bytes.val().raw());
        copy(to, from, N as u32 * T::BYTES, Some(source_bytes));
    }

    /// Like [`Self::copy_async`] if the condition holds; otherwise the elements become zeros (all
    /// bits), and global memory is not accessed.
    #[track_caller]
    pub fn copy_async_or_zero<const N: usize>(self, from: Global<T>, condition: impl Operand<bool>) {
        let bytes: Val<u32> = condition.val().select(N as u32 * T::BYTES, 0_u32);
        self.copy_async_first::<N>(from, bytes);
    }

    /// Starts copying bytes here from global memory; for one thread (sm_90). They complete on the
    /// barrier, which must [expect](Barrier::arrive_expect) them. Both addresses and the number are
    /// multiples of 16.
    ///
    /// ```
    /// use warpfold_lang::{Arch, Barriers, Global, Target, barriers, kernel, shared, sync_threads, thread_idx, when};
    /// let reverse = kernel("reverse", |data: Global<f32>| {
    ///     let (tile, thread, arrived) = (shared::<f32>(256), thread_idx().x, barriers(1));
    ///     when(thread.eq(0), || {
    ///         arrived.init(1);
    ///         Barriers::publish();
    ///         arrived.at(0).arrive_expect(1024);
    ///         tile.copy_bulk(data, 1024, arrived.at(0));
    ///     });
    ///     sync_threads();
    ///     arrived.at(0).wait(0);
    ///     data.at(thread).set(tile.at(255 - thread).get());
    /// });
    /// let ptx = reverse.required_block(256).ptx(&Target::new(Arch::SM_90, (8, 0)))?;
    /// assert!(ptx.contains("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"));
    /// # Ok::<(), warpfold_lang::Error>(())
    /// ```
    #[track_caller]
    pub fn copy_bulk(self, from: Global<T>, bytes: impl Operand<u32>, barrier: Barrier) {
        let bytes = bytes.val().raw();
        copy_in(self.location(), from.location(), bytes, barrier);
    }
}

impl<T: Element> Global<T> {
    /// Starts copying bytes here from shared memory; for one thread (sm_90). They belong to the
    /// next group of stores that [`bulk_commit`](crate::bulk_commit) makes. Both addresses and the
    /// number are multiples of 16. The copy sees writes to shared memory after a
    /// [`fence_async`](crate::fence_async) of each writing thread.
    ///
    /// ```
    /// use warpfold_lang::{
    ///     Arch, Global, Target, bulk_commit, bulk_wait_read, fence_async, kernel, shared, sync_threads, thread_idx, when,
    /// };
    /// let count = kernel("count", |data: Global<u32>| {
    ///     let (tile, thread) = (shared::<u32>(256), thread_idx().x);
    ///     tile.at(thread).set(thread);
    ///     fence_async();
    ///     sync_threads();
    ///     when(thread.eq(0), || {
    ///         data.copy_bulk(tile, 1024);
    ///         bulk_commit();
    ///         bulk_wait_read(0);
    ///     });
    /// });
    /// let ptx = count.required_block(256).ptx(&Target::new(Arch::SM_90, (8, 0)))?;
    /// assert!(ptx.contains("cp.async.bulk.global.shared::cta.bulk_group"));
    /// # Ok::<(), warpfold_lang::Error>(())
    /// ```
    #[track_caller]
    pub fn copy_bulk(self, from: Shared<T>, bytes: impl Operand<u32>) {
        let (to, from, bytes) = (self.location(), from.location(), bytes.val().raw());
        copy_out(to, from, bytes);
    }
}

#[track_caller]
#[inline(never)]
fn copy(to: Location, from: Location, bytes: u32, source_bytes: Option<Raw>) {
    with(|r| asynchronous::copy(r, to, from, bytes, source_bytes));
}

#[track_caller]
fn copy_in(to: Location, from: Location, bytes: Raw, barrier: Barrier) {
    with(|r| bulk::copy(r, to, from, bytes, barrier.place().location()));
}

#[track_caller]
fn copy_out(to: Location, from: Location, bytes: Raw) {
    with(|r| bulk::copy_out(r, to, from, bytes));
}

/// Checks the size of a copy.
const fn check_copy(n: usize, bytes: u32) {
    let total = n * bytes as usize;
    assert!(matches!(total, 4 | 8 | 16), "an asynchronous copy takes 4, 8 or 16 bytes");
}
