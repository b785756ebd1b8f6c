//! The kernel for few rows: one warpgroup decodes weights to the registers of its tensor cores'
//! left factor, rows are the right one, and a fifth warp copies both ahead.
//!
//! Weights come by bulk copies of whole pieces, rows of `x` by TMA, into one ring of stages of 256
//! steps, or 128 where there are more rows or outputs. While the tensor cores multiply 64 steps,
//! the warps decode the next. A block has all of K: the chain of sums is that of the other
//! products.

use half::bf16;
use warpfold_lang::{
    Cursor, Global, HalfOfPair, Kernel, Lazy, Major, Multiplicand, Pair, Pipeline, Shared, Swizzle, TensorMap, Tiles,
    Val, WarpgroupFragment, WarpgroupSums, block_idx, dynamic_shared, fence_async, kernel, lane_id, launch_dependents,
    params, range, sync_threads, sync_warp, thread_idx, tiles, wait_for_dependencies,
    wait_for_dependencies_after_constants, warp_id, warpgroup_idx, wgmma_commit, wgmma_fence, wgmma_wait, when,
    when_else,
};

use super::super::args::EpilogueArgs;
use super::super::epilogue_writer::{BatchCoord, EpilogueKey, EpilogueWriter};
use super::super::simt::divide;
use super::decode::{Decoder, Place, Zeros};
use super::layout::{BLOCK_ROWS, DEPTH, num_pieces};
use super::scheme::Scheme;
use crate::Dtype;
use crate::kernel_name::KernelName;

/// Threads of a block: a warpgroup, and the warp that copies.
pub(super) const THREADS: u32 = 160;

/// Steps of the sums that a thread decodes at once: half a piece.
const FRAGMENT: u32 = DEPTH / 2;

// THRESHOLD: a stage has one piece along K instead of two, for the room; tested by
// crates/kernels/tests/matmul/quantized.rs::every_scheme_gives_the_bits_of_its_matrix_for_any_number_of_rows
/// Rows of a block whose stages have two pieces, at most.
const FEW_ROWS: u32 = 64;

params! {
    /// Parameters of the kernel.
    pub(super) struct FewRowsArgs {
        weights: Global<u8>, x: TensorMap<u8>,
        /// Rows of `x`, outputs, steps of K, tiles of rows.
        rows: Lazy<u32>, outputs: Lazy<u32>, k: Lazy<u32>, tiles: Lazy<u32>,
        end: EpilogueArgs,
    }
}

/// What decides on the code of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct FewRowsConfig {
    /// The type of the rows.
    pub(super) dtype: Dtype,
    pub(super) scheme: Scheme,
    /// Rows of `x` of a block: columns of its sums.
    pub(super) rows: u32,
    /// Halves of 64 outputs that a block has: one where that leaves more blocks.
    pub(super) halves: u32,
    pub(super) stages: u32,
    /// Parts of K, a block for each, whose sums another launch adds.
    pub(super) parts: u32,
    /// Whether the first weights are copied before launches before this one have ended.
    pub(super) weights: bool,
    pub(super) epilogue: EpilogueKey,
}

impl FewRowsConfig {
    /// Pieces along K of a stage: a warp decodes as much between two barriers with one half as with
    /// two. (Of two pieces of two halves ptxas serialises the products: C7513.)
    pub(super) const fn pieces(halves: u32, rows: u32) -> u32 {
        if halves == 1 && rows <= FEW_ROWS { 2 } else { 1 }
    }

    /// Bytes of a stage.
    pub(super) const fn stage_bytes(scheme: Scheme, halves: u32, rows: u32) -> u32 {
        Self::pieces(halves, rows) * (halves * scheme.piece_bytes() + 2 * DEPTH * rows)
    }

    fn name(&self) -> String {
        let Self { dtype, scheme, rows, halves, stages, parts, weights, epilogue } = self;
        KernelName::new("matmul_quantized")
            .part(scheme.key())
            .part(format_args!("{}x{rows}x{stages}", halves * BLOCK_ROWS / 2))
            .part(dtype)
            .part_if(*parts > 1, format_args!("of{parts}"))
            .part_if(*weights, "weights")
            .part(epilogue.key())
            .into()
    }
}

/// The kernel for rows of one type.
pub(super) fn few_rows<T: Multiplicand<Sum = f32> + HalfOfPair>(config: &FewRowsConfig) -> Kernel<FewRowsArgs> {
    let shared = config.clone();
    let body = move |args: FewRowsArgs| {
        launch_dependents();
        let block = Block::<T>::new(&shared, args);
        // Barriers
        when(thread_idx().x.eq(0), || {
            block.ring.init(1, 4);
            block.x.prefetch();
        });
        sync_threads();
        if shared.weights {
            when(block.copies(), || block.copy_weights_ahead());
            wait_for_dependencies_after_constants();
        } else {
            wait_for_dependencies();
        }
        // Roles
        when_else(warpgroup_idx().eq(1), || when(block.copies(), || block.copy()), || block.multiply());
    };
    kernel(config.name(), body).required_block(THREADS).min_blocks(1)
}

/// A part of K of several.
#[derive(Clone, Copy)]
struct PartOfK {
    number: Val<u32>,
    /// Its first stage.
    stage: Val<u32>,
}

/// What both roles of a block use.
struct Block<'a, T> {
    config: &'a FewRowsConfig,
    args: FewRowsArgs,
    x: TensorMap<T>,
    /// The first piece of each half in memory, and where pieces go.
    pieces: Vec<Global<u8>>,
    packed: Shared<u8>,
    rows: Tiles<T>,
    ring: Pipeline,
    /// Stages of the block's part of K.
    num: Val<u32>,
    /// The part, where there are several.
    of_k: Option<PartOfK>,
    /// The first row of `x`, and the first output.
    first: [Val<u32>; 2],
}

impl<'a, T: Multiplicand<Sum = f32> + HalfOfPair> Block<'a, T> {
    fn new(config: &'a FewRowsConfig, args: FewRowsArgs) -> Self {
        let &FewRowsConfig { scheme, rows, halves, stages, .. } = config;
        // Shared-memory map
        let along = FewRowsConfig::pieces(halves, rows);
        let tiles = tiles::<T>(stages, rows, along * DEPTH, Swizzle::Bytes128);
        let packed = dynamic_shared::<u8>(stages * halves * along * scheme.piece_bytes());
        // Roles: tiles of rows that share weights stand side by side in the grid.
        let (parts, block) = (config.parts, block_idx().x);
        let pieces = num_pieces(args.k.get());
        let (block, of_k, num) = if parts == 1 {
            (block, None, pieces / along)
        } else {
            // Each part is whole stages: there are no pieces behind them.
            let num = args.k.get() / (parts * along * DEPTH);
            let number = block & (parts - 1);
            (block >> parts.ilog2(), Some(PartOfK { number, stage: number * num }), num)
        };
        let (part, tile) = divide(block, args.tiles.get());
        let half_bytes = pieces.cast::<i64>() * i64::from(scheme.piece_bytes());
        let first_half = part * halves;
        let piece = |half: u32| {
            let first = args.weights.at((first_half + half).cast::<i64>() * half_bytes);
            let skipped = |part: PartOfK| (part.stage * (along * scheme.piece_bytes())).cast::<i64>();
            of_k.map_or(first, |part| first.at(skipped(part)))
        };
        let pieces = (0..halves).map(piece).collect();
        let output = if halves == 2 {
            part * BLOCK_ROWS
        } else {
            // Halves have groups of eight in turns.
            (part >> 1) * BLOCK_ROWS + (part & 1) * 8
        };
        let first = [tile * rows, output];
        let ring = Pipeline::new(stages);
        Self { config, args, x: args.x.reinterpret(), pieces, packed, rows: tiles, ring, num, of_k, first }
    }

    /// Whether this thread starts copies.
    fn copies(&self) -> Val<bool> {
        thread_idx().x.eq(128)
    }

    /// Where the pieces of a half lie in a stage.
    fn half(&self, stage: Val<u32>, half: u32) -> Shared<u8> {
        let bytes = self.half_bytes();
        self.packed.at(stage * (self.config.halves * bytes)).at(half * bytes)
    }

    /// Bytes of a stage's pieces of a half.
    fn half_bytes(&self) -> u32 {
        let FewRowsConfig { scheme, halves, rows, .. } = self.config;
        FewRowsConfig::pieces(*halves, *rows) * scheme.piece_bytes()
    }

    /// Steps of K of a stage.
    fn depth(&self) -> u32 {
        let FewRowsConfig { halves, rows, .. } = self.config;
        FewRowsConfig::pieces(*halves, *rows) * DEPTH
    }

    /// Begins a stage: its bytes are told, its weights are on their way.
    fn copy_weights(&self, at: Cursor, number: Val<u32>) {
        let &FewRowsConfig { scheme, rows, halves, .. } = self.config;
        let (full, bytes) = (self.ring.full(at), self.half_bytes());
        full.arrive_expect(FewRowsConfig::stage_bytes(scheme, halves, rows));
        for (half, from) in (0..).zip(&self.pieces) {
            let from = from.at(number.cast::<i64>() * i64::from(bytes));
            self.half(at.stage(), half).copy_bulk(from, bytes, full);
        }
    }

    /// Fills the ring with the first weights.
    fn copy_weights_ahead(&self) {
        let at = self.ring.start();
        range(0_u32, self.num.min(self.config.stages), 1, |number| {
            self.copy_weights(at, number);
            at.advance();
        });
    }

    /// Copies stage after stage.
    fn copy(&self) {
        let at = self.ring.start();
        range(0_u32, self.num, 1, |number| {
            let weights = || {
                self.ring.acquire(at);
                self.copy_weights(at, number);
            };
            if self.config.weights {
                when(number.ge(self.config.stages), weights);
            } else {
                weights();
            }
            let tile = self.rows.at(at.stage());
            let stage = self.of_k.map_or(number, |part| part.stage + number);
            self.x.load_tile(tile, self.first[0], stage * self.depth(), self.ring.full(at));
            at.advance();
        });
    }

    /// Decodes and multiplies stage after stage, then stores.
    fn multiply(&self) {
        let &FewRowsConfig { scheme, halves, rows, .. } = self.config;
        let sums = WarpgroupSums::<T>::new(rows);
        // ptxas serialises products whose registers are set twice before a loop's end.
        let products = self.depth() / FRAGMENT;
        let fragments: Vec<_> = (0..products).map(|_| WarpgroupFragment::<T>::new(FRAGMENT)).collect();
        let (at, done) = (self.ring.start(), self.ring.start());
        let place = Place { warp: warp_id(), lane: lane_id() };
        // Main loop
        range(0_u32, self.num, 1, |number| {
            self.ring.wait(at);
            let tile = self.rows.at(at.stage());
            for piece in 0..FewRowsConfig::pieces(halves, rows) {
                let place_of = |half: u32| self.half(at.stage(), half).at(piece * scheme.piece_bytes());
                let decode = |half: u32| Decoder::load(scheme, place_of(half), place, Zeros::Unsigned);
                let decoders: Vec<_> = (0..halves).map(decode).collect();
                for (i, fragment) in (0_u32..).zip(&fragments[2 * piece as usize..][..2]) {
                    let steps = FRAGMENT / 16;
                    let pairs = (i * steps..(i + 1) * steps).flat_map(|step| left_factor(&decoders, step));
                    fragment.set_pairs(&pairs.collect::<Vec<_>>());
                    let is_first = piece == 0 && i == 0;
                    let keep = if is_first { number.ne(0) } else { Val::constant(true) };
                    let column = piece * DEPTH + i * FRAGMENT;
                    wgmma_fence();
                    sums.add_product_of(fragment, tile.columns_from(column, FRAGMENT), Major::K, keep);
                    wgmma_commit();
                    let is_last = column + FRAGMENT == self.depth();
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
        // Epilogue
        wgmma_wait(0);
        self.store(&sums);
    }

    fn store(&self, sums: &WarpgroupSums<T>) {
        let FewRowsConfig { halves, epilogue, .. } = self.config;
        let FewRowsArgs { rows, outputs, end, .. } = self.args;
        let end = self.of_k.map_or(end, |part| {
            let results = (rows.get() * outputs.get()).cast::<i64>();
            end.result_at(part.number.cast::<i64>() * results * epilogue.result_bytes() as i64)
        });
        let gate = epilogue.gate();
        let columns = if gate.is_some() { outputs.get() >> 1 } else { outputs.get() };
        let zero = Val::constant(0);
        let position = BatchCoord { flat: zero, each: [zero; 3] };
        let writer = EpilogueWriter::<f32>::new(epilogue, end, [rows.get(), columns], position);
        let [row, output] = self.first;
        // A row of the sums is an output, a pair of them two rows of `x`.
        let pairs: Vec<_> = sums.pairs().collect();
        for both in pairs.chunks_exact(2) {
            let [(down, right, upper), (lower_down, _, lower)] = [both[0], both[1]];
            for (i, row) in [row + right, row + right + 1].into_iter().enumerate() {
                match gate {
                    Some(gate) => {
                        let column = (output >> 1) + (warp_id() * 8 + (lane_id() >> 2));
                        writer.store_row(&[gate.apply(upper[i], lower[i])], row, column);
                    }
                    None => {
                        writer.store_row(&[upper[i]], row, output + down);
                        if *halves == 2 {
                            writer.store_row(&[lower[i]], row, output + lower_down);
                        }
                    }
                }
            }
        }
    }
}

/// The registers of a step of the left factor: rows `g` and `g + 8`, then both 8 steps on.
fn left_factor<P: Pair>(decoders: &[Decoder], step: u32) -> [Val<P>; 4] {
    let of_halves: Vec<_> = decoders.iter().map(|decoder| decoder.step(step)).collect();
    // Rows of the other half are another block's.
    let pair = |half: usize, i: usize| match of_halves.get(half) {
        Some(pairs) => Val::from_f32(pairs[i][0], pairs[i][1]),
        None => Val::<u32>::constant(0).bitcast(),
    };
    [pair(0, 0), pair(1, 0), pair(0, 1), pair(1, 1)]
}

/// The kernel, by the type of its rows.
pub(super) fn make(config: &FewRowsConfig) -> crate::AnyKernel {
    match config.dtype {
        Dtype::F16 => few_rows::<half::f16>(config).into(),
        Dtype::Bf16 => few_rows::<bf16>(config).into(),
        dtype => unreachable!("no plan multiplies {dtype} by weights of few bits in one launch"),
    }
}
