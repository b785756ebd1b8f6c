//! The GEMM kernel on CUDA cores: tiles of block, warp and thread, stages in shared memory.

use warpfold_lang::{Array, Global, Kernel, Val, block_idx, dynamic_shared, kernel, when};

use super::accumulator::Accumulator;
use super::epilogue::{MAX_INPUTS, MAX_SCALARS};
use super::epilogue_writer::{BatchCoord, EpilogueKey, EpilogueOperands, EpilogueWriter, STRIDES};
use super::load::{Load, MatrixLoader};
use super::main_loop::Sums;
use super::problem::{BATCH_RANK, Problem};
use super::tile::Tile;
use crate::kernel_name::KernelName;
use crate::overlap::overlap_launches;

/// Words of the sizes that the kernels take.
pub(crate) const SIZES: usize = 5 + BATCH_RANK;
/// Words of the strides of both matrices, and of the parts of a split.
pub(crate) const MATRICES: usize = 2 * (3 + BATCH_RANK) + 1;

/// What the kernel takes: `a`, `b`, sizes, strides, and what its [end](EpilogueOperands) takes.
pub(crate) type Simt = Kernel<(
    Global<u8>,
    Global<u8>,
    [u32; SIZES],
    [i64; MATRICES],
    Global<u8>,
    [Global<u8>; MAX_INPUTS],
    [i64; STRIDES],
    [f64; MAX_SCALARS],
)>;

/// What decides on the code of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Configuration {
    /// The tiles.
    pub tile: Tile,
    /// How each matrix is read.
    pub loads: [Load; 2],
    /// Whether a step may reach beyond the last product.
    pub has_rest: bool,
    /// What is done to the sums.
    pub epilogue: EpilogueKey,
}

/// Sizes as the kernels take them: `m`, `n`, `k`, products a part, parts, the batch.
pub(crate) fn size_words(problem: &Problem, part: u64, num_parts: u32) -> [u32; SIZES] {
    let mut words = [0; SIZES];
    let sizes = [problem.m, problem.n, problem.k, part, num_parts.into()];
    for (word, size) in words.iter_mut().zip(sizes.into_iter().chain(problem.walked())) {
        *word = size as u32;
    }
    words
}

/// For both matrices: the first element, strides from line to line and along the sums, and of the
/// batch; then the elements from the sums of one part to those of the next.
pub(super) fn matrix_words(problem: &Problem, part_stride: u64) -> [i64; MATRICES] {
    let mut words = [0; MATRICES];
    let Problem { m, n, k, batch, a, b, .. } = *problem;
    words[..3 + BATCH_RANK].copy_from_slice(&a.words([m, k], batch));
    words[3 + BATCH_RANK..MATRICES - 1].copy_from_slice(&b.transposed().words([n, k], batch));
    words[MATRICES - 1] = part_stride as i64;
    words
}

/// Where a block is: its tile of the result, its part of the sums, its position in the batch.
pub(crate) struct Block {
    pub(crate) row: Val<u32>,
    pub(crate) column: Val<u32>,
    part: Val<u32>,
    pub(crate) position: BatchCoord,
}

impl Block {
    /// Tiles of a row lie side by side in the grid, then those of a column, parts, and the batch.
    pub(crate) fn this(tile: Tile, sizes: Array<u32, SIZES>) -> Self {
        let tiles = |size: Val<u32>, side: u32| (size - 1) / side + 1;
        let (down, across) = (tiles(sizes.at(0), tile.rows), tiles(sizes.at(1), tile.columns));
        let (rest, column) = divide(block_idx().x, across);
        let (rest, row) = divide(rest, down);
        let (flat, part) = divide(rest, sizes.at(4));
        let (rest, inner) = divide(flat, sizes.at(7));
        let (outer, middle) = divide(rest, sizes.at(6));
        let position = BatchCoord { flat, each: [outer, middle, inner] };
        Self { row: row * tile.rows, column: column * tile.columns, part, position }
    }
}

pub(super) fn divide(number: Val<u32>, by: Val<u32>) -> (Val<u32>, Val<u32>) {
    let quotient = number / by;
    (quotient, number - quotient * by)
}

/// Each block computes a tile of the result of one product, or one part of its sums.
#[must_use]
pub(crate) fn simt<A: Accumulator>(configuration: &Configuration) -> Simt {
    let Configuration { tile, loads, has_rest, epilogue } = configuration.clone();
    if let Err(rule) = tile.validate() {
        panic!("{rule}");
    }
    let [load_a, load_b] = loads.map(Load::key);
    let name = KernelName::new("matmul").part(format_args!("{}x{}", tile.rows, tile.columns)).part(load_a).part(load_b);
    let name = name.part_if(has_rest, "rest").part(A::DTYPE).part(epilogue.key());
    let body = move |a: Global<u8>,
                     b: Global<u8>,
                     sizes: Array<u32, SIZES>,
                     strides: Array<i64, MATRICES>,
                     result: Global<u8>,
                     inputs: [Global<u8>; MAX_INPUTS],
                     ends: Array<i64, STRIDES>,
                     scalars: Array<f64, MAX_SCALARS>| {
        overlap_launches();
        // Shared-memory map
        let depth = tile.depth;
        let tiles = [tile.rows, tile.columns].map(|side| dynamic_shared::<A>(tile.elements(side)));
        // Roles
        let block = Block::this(tile, sizes);
        let (m, n, k) = (sizes.at(0), sizes.at(1), sizes.at(2));
        let begin = block.part * sizes.at(3);
        let end = k.min(begin + sizes.at(3));
        let sums = Sums::<A>::new(tile);
        when(begin.lt(end), || {
            let ready = |which: usize, memory: Global<u8>, first: Val<u32>, side: u32, lines: Val<u32>| {
                let words = |i: usize| strides.at(which * (3 + BATCH_RANK) + i);
                let offset = (0..BATCH_RANK).fold(words(0), |offset, dim| {
                    block.position.each[dim].cast::<i64>().mul_add(words(3 + dim), offset)
                });
                let loader = MatrixLoader {
                    load: loads[which],
                    sides: [side, depth],
                    threads: tile.threads(),
                    first: memory.at(offset * loads[which].dtype.bytes() as i64),
                    strides: [words(1), words(2)],
                    lines: [first, lines],
                    tile: tiles[which],
                    end: has_rest.then_some(end),
                };
                loader.ready()
            };
            let of_a = ready(0, a, block.row, tile.rows, m);
            let of_b = ready(1, b, block.column, tile.columns, n);
            sums.add_products([&of_a, &of_b], [begin, end]);
        });
        // Epilogue
        let bytes = epilogue.result_bytes() as i64;
        let result = result.at(block.part.cast::<i64>() * strides.at(MATRICES - 1) * bytes);
        let outputs = EpilogueOperands { result, inputs, strides: ends, scalars };
        let writer = EpilogueWriter::<A>::new(&epilogue, outputs, [m, n], block.position);
        sums.store(&writer, [block.row, block.column]);
    };
    kernel(String::from(name), body).required_block(tile.threads())
}
