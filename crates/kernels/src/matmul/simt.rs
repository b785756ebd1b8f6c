//! The GEMM kernel on CUDA cores: tiles of block, warp and thread, stages in shared memory.

use warpfold_lang::{Kernel, Val, block_idx, dynamic_shared, kernel, when};

use super::accumulator::Accumulator;
use super::args::{MatrixArgs, ProductArgs, ProductSizes};
use super::epilogue_writer::{BatchCoord, EpilogueKey, EpilogueWriter};
use super::load::{Load, MatrixLoader};
use super::main_loop::Sums;
use super::tile::Tile;
use crate::kernel_name::KernelName;
use crate::overlap::overlap_launches;

/// What decides on the code of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SimtConfig {
    /// The tiles.
    pub tile: Tile,
    /// How each matrix is read.
    pub loads: [Load; 2],
    /// Whether a step may reach beyond the last product.
    pub has_rest: bool,
    /// What is done to the sums.
    pub epilogue: EpilogueKey,
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
    pub(crate) fn this(tile: Tile, sizes: ProductSizes) -> Self {
        let tiles = |size: Val<u32>, side: u32| (size - 1) / side + 1;
        let (down, across) = (tiles(sizes.m.get(), tile.rows), tiles(sizes.n.get(), tile.columns));
        let (rest, column) = divide(block_idx().x, across);
        let (rest, row) = divide(rest, down);
        let (flat, part) = divide(rest, sizes.parts.get());
        let (rest, inner) = divide(flat, sizes.batch.at(2));
        let (outer, middle) = divide(rest, sizes.batch.at(1));
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
pub(crate) fn simt<A: Accumulator>(config: &SimtConfig) -> Kernel<ProductArgs> {
    let SimtConfig { tile, loads, has_rest, epilogue } = config.clone();
    if let Err(rule) = tile.validate() {
        panic!("{rule}");
    }
    let [load_a, load_b] = loads.map(Load::key);
    let name = KernelName::new("matmul").part(format_args!("{}x{}", tile.rows, tile.columns)).part(load_a).part(load_b);
    let name = name.part_if(has_rest, "rest").part(A::DTYPE).part(epilogue.key());
    let body = move |ProductArgs { a, b, sizes, part_stride, end: outputs }: ProductArgs| {
        overlap_launches();
        // Shared-memory map
        let depth = tile.depth;
        let tiles = [tile.rows, tile.columns].map(|side| dynamic_shared::<A>(tile.elements(side)));
        // Roles
        let block = Block::this(tile, sizes);
        let (m, n, k) = (sizes.m.get(), sizes.n.get(), sizes.k.get());
        let begin = block.part * sizes.part.get();
        let end = k.min(begin + sizes.part.get());
        // Main loop
        let sums = Sums::<A>::new(tile);
        when(begin.lt(end), || {
            let ready = |which: usize, matrix: MatrixArgs, first: Val<u32>, side: u32, lines: Val<u32>| {
                let offset = matrix.offset(&block.position);
                let loader = MatrixLoader {
                    load: loads[which],
                    sides: [side, depth],
                    threads: tile.threads(),
                    first: matrix.memory.at(offset * loads[which].dtype.bytes() as i64),
                    strides: [matrix.row.get(), matrix.column.get()],
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
        let outputs = outputs.result_at(block.part.cast::<i64>() * part_stride.get() * bytes);
        let writer = EpilogueWriter::<A>::new(&epilogue, outputs, [m, n], block.position);
        sums.store(&writer, [block.row, block.column]);
    };
    kernel(String::from(name), body).required_block(tile.threads())
}
