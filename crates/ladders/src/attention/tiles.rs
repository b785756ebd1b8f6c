//! Loads of a head's rows into tiles: by all threads, or by TMA into rings.

use warpfold_lang::{
    Cursor, Element, Pipeline, Swizzle, TensorMap, Tile, Tiles, Val, lane_id, thread_idx, tiles, when,
};

use super::work::Head;
use crate::hgemm::Half;

/// Elements of 16 bytes.
const PIECE: u32 = 8;

impl<T: Half> Head<T> {
    /// Begins to copy the rows from `first` on, 16 bytes at a time by all threads of the block;
    /// zeros stand for what is beyond the last.
    pub(super) fn copy_async(self, to: Tile<T>, first: Val<u32>, threads: u32) {
        let pieces = self.dim / PIECE;
        for i in (0..to.rows() * pieces).step_by(threads as usize) {
            let piece = thread_idx().x + i;
            let (row, column) = (piece / pieces, piece % pieces * PIECE);
            let exists = (first + row).lt(self.tokens);
            to.at(row, column).copy_async_or_zero::<{ PIECE as usize }>(self.row(first + row).at(column), exists);
        }
    }
}

/// Tiles that TMA fills and warps read in turn.
pub(super) struct Ring<T> {
    tiles: Tiles<T>,
    pipeline: Pipeline,
}

impl<T> Clone for Ring<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ring<T> {}

impl<T: Element> Ring<T> {
    pub(super) fn new(stages: u32, rows: u32, dim: u32) -> Self {
        Self { tiles: tiles(stages, rows, dim, Swizzle::Bytes128), pipeline: Pipeline::new(stages) }
    }

    /// For one thread, before the block synchronises: so many warps read each tile.
    pub(super) fn init(self, warps: u32) {
        self.pipeline.init(1, warps);
    }

    pub(super) fn start(self) -> Cursor {
        self.pipeline.start()
    }

    /// For one thread: starts to load the rows of a head from `row` on. The tile is empty.
    pub(super) fn load(self, at: Cursor, map: TensorMap<T>, [row, head]: [Val<u32>; 2]) {
        let (tile, full) = (self.tiles.at(at.stage()), self.pipeline.full(at));
        full.arrive_expect(tile.bytes());
        for (column, panel) in tile.panels() {
            map.load(panel, [Val::constant(column), row, head], full);
        }
    }

    /// For one thread: the same when the tile is empty, which it waits for.
    pub(super) fn fill(self, at: Cursor, map: TensorMap<T>, place: [Val<u32>; 2]) {
        self.pipeline.acquire(at);
        self.load(at, map, place);
    }

    /// Waits until the tile is full.
    pub(super) fn wait(self, at: Cursor) -> Tile<T> {
        self.pipeline.wait(at);
        self.tiles.at(at.stage())
    }

    /// For a whole warp: has read the tile.
    pub(super) fn release(self, at: Cursor) {
        when(lane_id().eq(0), || self.pipeline.empty(at).arrive());
    }
}
