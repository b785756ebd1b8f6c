//! Tensor maps for TMA copies (PTX ISA, "Tensors", "Tensor-map"; sm_90).

use std::fmt;
use std::marker::PhantomData;

use warpfold_ptx::ScalarType;

use super::barrier::Barrier;
use super::shared::Tile;
use crate::intrinsics::bulk::{self, Source};
use crate::intrinsics::memory::{self, Location};
use crate::memory::{Index, Shared};
use crate::params::{Param, Received};
use crate::recorder::{Raw, with};
use crate::types::{Element, Scalar, Type};
use crate::{ErrorKind, Operand, Val, untyped};

/// A tensor map: the address and layout of a tensor of up to five dimensions, and the box that one
/// copy moves. A parameter of a kernel, encoded by the host.
///
/// Elements beyond the tensor's edges are loaded as zeros, and not stored. Coordinates count
/// elements, innermost dimension first. Copies are started by one thread.
pub struct TensorMap<T> {
    address: Val<u64>,
    is_read_once: bool,
    element: PhantomData<fn() -> T>,
}

impl<T: Element> Param for TensorMap<T> {
    const PTX_TYPE: ScalarType = ScalarType::B8;
    const BYTES: u32 = 128;
    const ALIGN: u32 = 64;
    const LEN: Option<u32> = Some(128);
}

impl<T: Element> Received for TensorMap<T> {
    type Param = Self;

    fn receive(position: usize) -> Self {
        crate::params::declare::<Self>(position);
        Self::of_param(position)
    }
}

impl<T: Element> TensorMap<T> {
    /// Returns the map at a parameter position.
    pub(crate) fn of_param(position: usize) -> Self {
        let address = Val::from_raw(parameter_address(position));
        Self { address, is_read_once: false, element: PhantomData }
    }

    /// Returns the map for elements of another type of the same size.
    #[must_use]
    pub const fn reinterpret<U: Element>(self) -> TensorMap<U> {
        let Self { address, is_read_once, .. } = self;
        TensorMap { address, is_read_once, element: PhantomData }
    }

    /// The map with an L2 evict-first policy for its loads: for a tensor that each launch reads
    /// once, beside others that are reused.
    #[must_use]
    pub const fn read_once(self) -> Self {
        Self { is_read_once: true, ..self }
    }

    /// Prefetches the map itself: at the start of a kernel.
    #[track_caller]
    pub fn prefetch(self) {
        prefetch_map(self.address.raw());
    }

    /// Starts to prefetch the box at these coordinates to L2, without any completion signal: a
    /// later [`load`](Self::load) of it is faster. It has no visible effect, so it may precede
    /// [`wait_for_dependencies`](crate::wait_for_dependencies).
    #[track_caller]
    pub fn prefetch_box<const D: usize>(self, at: [impl Index; D]) {
        let at = coordinates(at);
        let source = self.source(&at, None);
        prefetch_box(source);
    }

    /// Starts to load the box at these coordinates to shared memory, in the map's swizzle. The
    /// bytes of the whole box complete on the barrier.
    #[track_caller]
    pub fn load<const D: usize>(self, to: Shared<T>, at: [impl Index; D], barrier: Barrier) {
        let at = coordinates(at);
        let source = self.source(&at, None);
        load(to.location(), source, barrier, None);
    }

    /// Like [`Self::load`], multicast to the same place in each block of the cluster whose rank is
    /// in the mask; the bytes complete on the same barrier of each.
    #[track_caller]
    pub fn load_multicast<const D: usize>(
        self,
        to: Shared<T>,
        at: [impl Index; D],
        barrier: Barrier,
        blocks: impl Operand<u16>,
    ) {
        let at = coordinates(at);
        let source = self.source(&at, None);
        let blocks = blocks.val().raw();
        load(to.location(), source, barrier, Some(blocks));
    }

    /// Starts to load a box of a map in im2col mode: pixels from the base at `at`, shifted by the
    /// filter's `offsets`.
    #[track_caller]
    pub fn load_im2col<const D: usize, const O: usize>(
        self,
        to: Shared<T>,
        at: [impl Index; D],
        offsets: [impl Operand<u16>; O],
        barrier: Barrier,
    ) {
        let at = coordinates(at);
        let offsets = offsets.map(|offset| offset.val().raw());
        check_offsets(D, O);
        let source = self.source(&at, Some(&offsets));
        load(to.location(), source, barrier, None);
    }

    /// Starts to load a tile of a matrix from `row` and `column`, one box per panel. The map's box
    /// has a panel's columns and the tile's rows, and its swizzle is the tile's.
    #[track_caller]
    pub fn load_tile(self, to: Tile<T>, row: impl Operand<u32>, column: impl Operand<u32>, barrier: Barrier) {
        let (row, column) = (row.val(), column.val());
        for (right, panel) in to.panels() {
            self.load(panel, [column + right, row], barrier);
        }
    }

    /// [`Self::load_tile`] into several blocks of the cluster; see [`Self::load_multicast`].
    #[track_caller]
    pub fn load_tile_multicast(
        self,
        to: Tile<T>,
        row: impl Operand<u32>,
        column: impl Operand<u32>,
        barrier: Barrier,
        blocks: impl Operand<u16>,
    ) {
        let (row, column, blocks) = (row.val(), column.val(), blocks.val());
        for (right, panel) in to.panels() {
            self.load_multicast(panel, [column + right, row], barrier, blocks);
        }
    }

    fn source<'a>(self, coordinates: &'a [Raw], offsets: Option<&'a [Raw]>) -> Source<'a> {
        Source { map: self.address.raw(), coordinates, offsets, is_read_once: self.is_read_once }
    }

    /// Starts to store the box at these coordinates from shared memory; wait with [`bulk_commit`]
    /// and [`bulk_wait`].
    #[track_caller]
    pub fn store<const D: usize>(self, from: Shared<T>, at: [impl Index; D]) {
        let at = coordinates(at);
        store(self.address.raw(), &at, from.location());
    }

    /// Starts to store a tile of a matrix; see [`Self::load_tile`].
    #[track_caller]
    pub fn store_tile(self, from: Tile<T>, row: impl Operand<u32>, column: impl Operand<u32>) {
        let (row, column) = (row.val(), column.val());
        for (right, panel) in from.panels() {
            self.store(panel, [column + right, row]);
        }
    }
}

fn coordinates<const D: usize>(at: [impl Index; D]) -> [Raw; D] {
    let at = at.map(Index::index);
    check_coordinates(&at.map(|(ty, _)| ty));
    at.map(|(_, value)| value.raw())
}

fn check_coordinates(types: &[Type]) {
    let num = types.len();
    if num == 0 || num > 5 {
        untyped::fail(ErrorKind::Misuse(format!("{num} coordinates: a tensor map has one to five dimensions")));
    }
    if let Some(ty) = types.iter().copied().find(|ty| ty.bits() != 32) {
        untyped::fail(ErrorKind::NoSuchOperation { what: "a coordinate of a tensor".to_owned(), ty });
    }
}

fn check_offsets(coordinates: usize, offsets: usize) {
    if coordinates < 3 || offsets != coordinates - 2 {
        untyped::fail(ErrorKind::Misuse(format!(
            "{offsets} offsets for {coordinates} coordinates: im2col has two fewer, from 3 on"
        )));
    }
}

#[track_caller]
fn parameter_address(position: usize) -> Raw {
    with(|r| memory::param_address(r, position))
}

#[track_caller]
fn prefetch_map(map: Raw) {
    with(|r| bulk::prefetch_map(r, map));
}

#[track_caller]
fn prefetch_box(source: Source<'_>) {
    with(|r| bulk::prefetch_box(r, source));
}

#[track_caller]
fn load(to: Location, source: Source<'_>, barrier: Barrier, blocks: Option<Raw>) {
    with(|r| bulk::load(r, to, source, barrier.place().location(), blocks));
}

#[track_caller]
fn store(map: Raw, at: &[Raw], from: Location) {
    with(|r| bulk::store(r, map, at, from));
}

/// Commits a group of the stores that this thread started since the last one.
#[track_caller]
pub fn bulk_commit() {
    with(bulk::commit);
}

/// Waits until at most `pending` of this thread's newest groups of stores are in flight: the writes
/// of the others are complete.
#[track_caller]
pub fn bulk_wait(pending: u32) {
    with(|r| bulk::wait(r, pending, false));
}

/// Like [`bulk_wait`], but only until the stores have read shared memory, so that it may be
/// overwritten.
#[track_caller]
pub fn bulk_wait_read(pending: u32) {
    with(|r| bulk::wait(r, pending, true));
}

impl<T> Clone for TensorMap<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for TensorMap<T> {}

impl<T: Scalar> fmt::Debug for TensorMap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TensorMap<{:?}>({:?})", T::TYPE, self.address)
    }
}
