//! The main loop for few rows: one warpgroup brings weights to the registers of its tensor cores'
//! left factor, rows are the right one, and a fifth warp copies both ahead.
//!
//! Weights come by bulk copies of whole pieces, rows of `x` by TMA, into one ring of stages of 256
//! steps, or 128 where there are more rows or outputs. While the tensor cores multiply 64 steps,
//! the warps decode the next.

use warpfold_lang::{
    Cursor, Global, HalfOfPair, Major, Multiplicand, Pair, Pipeline, Shared, Swizzle, TensorMap, Tiles, Val,
    WarpgroupFragment, WarpgroupSums, dynamic_shared, fence_async, lane_id, range, sync_threads, sync_warp, thread_idx,
    tiles, warp_id, wgmma_commit, wgmma_fence, wgmma_wait, when,
};

use super::decode::{Decoder, Place, Zeros, words_at};
use super::layout::{DEPTH, PIECE_ROWS, STEPS};
use super::scheme::Scheme;

/// Threads of a block: a warpgroup, and the warp that copies.
pub(crate) const THREADS: u32 = 160;

/// Steps of the sums that a thread decodes at once: half a piece.
const FRAGMENT: u32 = DEPTH / 2;

// THRESHOLD: a stage has one piece along K instead of two, for the room; tested by
// crates/kernels/tests/matmul/quantized.rs::every_scheme_gives_the_bits_of_its_matrix_for_any_number_of_rows
/// Rows of a block whose stages have two pieces, at most.
const FEW_ROWS: u32 = 64;

/// Bytes of shared memory that the stages of an SM's blocks take.
const SM_BYTES: u32 = 216 << 10;

/// What a piece of weights holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Pieces {
    /// Codes with scales.
    Codes(Scheme),
    /// Numbers of the type of the rows: a lane's words of a step, and those of the next.
    Numbers,
}

impl Pieces {
    /// Bytes of a piece.
    pub(crate) const fn bytes(self) -> u32 {
        match self {
            Self::Codes(scheme) => scheme.piece_bytes(),
            Self::Numbers => PIECE_ROWS * DEPTH * 2,
        }
    }
}

/// The stages of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Stages {
    pub(crate) pieces: Pieces,
    /// Rows of `x` of a block: columns of its sums.
    pub(crate) rows: u32,
    /// Halves of 64 outputs that a block has: one where that leaves more blocks.
    pub(crate) halves: u32,
    pub(crate) num: u32,
}

impl Stages {
    /// Pieces along K of a stage: a warp decodes as much between two barriers with one half as with
    /// two. (Of two pieces of two halves ptxas serialises the products: C7513.)
    pub(crate) const fn along(&self) -> u32 {
        if self.halves == 1 && self.rows <= FEW_ROWS { 2 } else { 1 }
    }

    /// Bytes of a stage.
    pub(crate) const fn bytes(&self) -> u32 {
        self.halves * self.half_bytes() + 2 * self.depth() * self.rows
    }

    /// Bytes of a stage's pieces of a half.
    const fn half_bytes(&self) -> u32 {
        self.along() * self.pieces.bytes()
    }

    /// As many stages as an SM has room for with so many blocks, and no more than needed.
    pub(crate) fn for_blocks(self, blocks: u64, needed: u64) -> Self {
        let (blocks, bytes) = (blocks.clamp(1, 4) as u32, self.bytes());
        let num = (SM_BYTES / blocks / bytes).max(3).min(SM_BYTES / bytes).min(16);
        Self { num: num.min(needed.clamp(2, 16) as u32), ..self }
    }

    /// Steps of K of a stage.
    pub(crate) const fn depth(&self) -> u32 {
        self.along() * DEPTH
    }
}

/// Where a block's operands begin.
pub(crate) struct Begin {
    /// The first piece of each half.
    pub(crate) pieces: Vec<Global<u8>>,
    /// The first row of `x`.
    pub(crate) row: Val<u32>,
    /// The first stage of K, if not that at 0.
    pub(crate) stage: Option<Val<u32>>,
    /// Stages along K.
    pub(crate) num: Val<u32>,
}

/// The ring of a block, for both of its roles.
pub(crate) struct Stream<T> {
    stages: Stages,
    begin: Begin,
    x: TensorMap<T>,
    packed: Shared<u8>,
    rows: Tiles<T>,
    ring: Pipeline,
}

impl<T: Multiplicand<Sum = f32> + HalfOfPair> Stream<T> {
    pub(crate) fn new(stages: Stages, x: TensorMap<u8>, begin: Begin) -> Self {
        // Shared-memory map
        let rows = tiles::<T>(stages.num, stages.rows, stages.depth(), Swizzle::Bytes128);
        let packed = dynamic_shared::<u8>(stages.num * stages.halves * stages.half_bytes());
        Self { stages, begin, x: x.reinterpret(), packed, rows, ring: Pipeline::new(stages.num) }
    }

    /// Prepares the barriers, by all threads of the block.
    pub(crate) fn init(&self) {
        when(thread_idx().x.eq(0), || {
            self.ring.init(1, 4);
            self.x.prefetch();
        });
        sync_threads();
    }

    /// Returns whether this thread starts copies.
    pub(crate) fn copies(&self) -> Val<bool> {
        thread_idx().x.eq(128)
    }

    /// Where the pieces of a half lie in a stage.
    fn half(&self, stage: Val<u32>, half: u32) -> Shared<u8> {
        let bytes = self.stages.half_bytes();
        self.packed.at(stage * (self.stages.halves * bytes)).at(half * bytes)
    }

    /// Begins a stage: its bytes are told, its weights are on their way.
    fn copy_weights(&self, at: Cursor, number: Val<u32>) {
        let (full, bytes) = (self.ring.full(at), self.stages.half_bytes());
        full.arrive_expect(self.stages.bytes());
        for (half, from) in (0..).zip(&self.begin.pieces) {
            let from = from.at(number.cast::<i64>() * i64::from(bytes));
            self.half(at.stage(), half).copy_bulk(from, bytes, full);
        }
    }

    /// Fills the ring with the first weights.
    pub(crate) fn copy_weights_ahead(&self) {
        let at = self.ring.start();
        range(0_u32, self.begin.num.min(self.stages.num), 1, |number| {
            self.copy_weights(at, number);
            at.advance();
        });
    }

    /// Copies stage after stage; the weights of the first ones are `ahead`, or not.
    pub(crate) fn copy(&self, ahead: bool) {
        let at = self.ring.start();
        range(0_u32, self.begin.num, 1, |number| {
            let weights = || {
                self.ring.acquire(at);
                self.copy_weights(at, number);
            };
            if ahead {
                when(number.ge(self.stages.num), weights);
            } else {
                weights();
            }
            let tile = self.rows.at(at.stage());
            let stage = self.begin.stage.map_or(number, |first| first + number);
            self.x.load_tile(tile, self.begin.row, stage * self.stages.depth(), self.ring.full(at));
            at.advance();
        });
    }

    /// Decodes and multiplies stage after stage: a row of the sums is an output, a column a row of
    /// `x`.
    pub(crate) fn multiply(&self) -> WarpgroupSums<T> {
        let Stages { pieces, halves, rows, .. } = self.stages;
        let sums = WarpgroupSums::<T>::new(rows);
        // ptxas serialises products whose registers are set twice before a loop's end.
        let products = self.stages.depth() / FRAGMENT;
        let fragments: Vec<_> = (0..products).map(|_| WarpgroupFragment::<T>::new(FRAGMENT)).collect();
        let (at, done) = (self.ring.start(), self.ring.start());
        let place = Place { warp: warp_id(), lane: lane_id() };
        // Main loop
        range(0_u32, self.begin.num, 1, |number| {
            self.ring.wait(at);
            let tile = self.rows.at(at.stage());
            for piece in 0..self.stages.along() {
                let place_of = |half: u32| self.half(at.stage(), half).at(piece * pieces.bytes());
                let halves: Vec<_> = (0..halves).map(|half| Half::load(pieces, place_of(half), place)).collect();
                for (i, fragment) in (0_u32..).zip(&fragments[2 * piece as usize..][..2]) {
                    let steps = FRAGMENT / 16;
                    let pairs = (i * steps..(i + 1) * steps).flat_map(|step| left_factor(&halves, step));
                    fragment.set_pairs(&pairs.collect::<Vec<_>>());
                    let is_first = piece == 0 && i == 0;
                    let keep = if is_first { number.ne(0) } else { Val::constant(true) };
                    let column = piece * DEPTH + i * FRAGMENT;
                    wgmma_fence();
                    sums.add_product_of(fragment, tile.columns_from(column, FRAGMENT), Major::K, keep);
                    wgmma_commit();
                    let is_last = column + FRAGMENT == self.stages.depth();
                    if is_first || is_last {
                        // Those before it have ended: of the first registers, or of the last.
                        wgmma_wait(1);
                    }
                    if is_first {
                        // It was the last of the stage before, whose codes are in registers, too.
                        when(number.ne(0), || {
                            fence_async();
                            sync_warp();
                            when(lane_id().eq(0), || self.ring.empty(done).arrive());
                            done.advance();
                        });
                    }
                }
            }
            at.advance();
        });
        wgmma_wait(0);
        sums
    }
}

/// A thread's weights of a piece.
enum Half {
    Codes(Decoder),
    Numbers(Vec<Val<u32>>),
}

impl Half {
    fn load(pieces: Pieces, from: Shared<u8>, place: Place) -> Self {
        match pieces {
            Pieces::Codes(scheme) => Self::Codes(Decoder::load(scheme, from, place, Zeros::Unsigned)),
            Pieces::Numbers => {
                let first = from.at(place.warp * (PIECE_ROWS / 4 * DEPTH * 2) + place.lane * 16);
                Self::Numbers((0..STEPS / 2).flat_map(|two| words_at(first.at(512 * two), 4)).collect())
            }
        }
    }

    /// The weights of a step of 16: those at `2 c`, `2 c + 1` and those at `2 c + 8`, `2 c + 9`.
    fn pairs<P: Pair>(&self, step: u32) -> [Val<P>; 2] {
        match self {
            Self::Codes(decoder) => decoder.step(step).map(|[low, high]| Val::from_f32(low, high)),
            Self::Numbers(words) => [0, 1].map(|i| words[2 * step as usize + i].bitcast()),
        }
    }
}

/// The registers of a step of the left factor: rows `g` and `g + 8`, then both 8 steps on.
fn left_factor<P: Pair>(halves: &[Half], step: u32) -> [Val<P>; 4] {
    let pairs: Vec<[Val<P>; 2]> = halves.iter().map(|half| half.pairs(step)).collect();
    // Rows of the other half are another block's.
    let pair = |half: usize, i: usize| pairs.get(half).map_or_else(|| Val::<u32>::constant(0).bitcast(), |of| of[i]);
    [pair(0, 0), pair(1, 0), pair(0, 1), pair(1, 1)]
}
