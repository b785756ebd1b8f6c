//! The tile scheduler of tensor-core kernels: which tile, of which product and part of K, a block
//! computes when.

use warpfold_lang::Val;

use super::args::ProductSizes;
use super::epilogue_writer::BatchCoord;
use super::simt::divide;

/// Tiles of the result in scheduler of a few rows, column by column within a band: what runs at
/// once shares rows and columns.
pub(crate) struct TileScheduler {
    /// Rows and columns of a block.
    block: [u32; 2],
    /// Blocks, one below the other, that take their tiles together.
    cluster: u32,
    /// Rows of clusters that a band has.
    band: u32,
    /// Whether the blocks of a cluster take parts of one tile's sums instead of tiles.
    is_split: bool,
    /// Whether there is more than one product. Where there is not, a block knows its work some
    /// divisions sooner.
    is_batch: bool,
    sizes: ProductSizes,
    /// Rows of clusters, and columns of blocks.
    down: Val<u32>,
    across: Val<u32>,
}

/// A block's piece of work.
#[derive(Clone, Copy)]
pub(crate) struct TileWork {
    pub(crate) row: Val<u32>,
    pub(crate) column: Val<u32>,
    pub(crate) part: Val<u32>,
    /// The first of its steps of the sums, and the one after the last.
    pub(crate) begin: Val<u32>,
    pub(crate) end: Val<u32>,
    pub(crate) position: BatchCoord,
}

impl TileScheduler {
    pub(crate) fn new(block: [u32; 2], cluster: u32, band: u32, sizes: ProductSizes) -> Self {
        let tiles = |size: Val<u32>, side: u32| (size - 1) / side + 1;
        let (down, across) = (tiles(sizes.m.get(), cluster * block[0]), tiles(sizes.n.get(), block[1]));
        Self { block, cluster, band, is_split: false, is_batch: true, sizes, down, across }
    }

    /// The same where the blocks of a cluster share each tile, the part of its sums being a block's
    /// rank.
    pub(crate) fn split(self) -> Self {
        Self { is_split: true, ..self }
    }

    /// The same where there is one product.
    pub(crate) fn of_one_product(self) -> Self {
        Self { is_batch: false, ..self }
    }

    /// Pieces of work, each for a cluster.
    pub(crate) fn num(&self) -> Val<u32> {
        let parts = if self.is_split { Val::constant(1) } else { self.sizes.parts.get() };
        let batch = self.sizes.batch;
        self.down * self.across * parts * batch.at(0) * batch.at(1) * batch.at(2)
    }

    /// The work number `i` of one product in one part, all columns of a row side by side: for rows
    /// that are gathered, and with a single division, which one thread alone waits for.
    pub(crate) fn row_by_row(&self, i: Val<u32>, rank: Val<u32>) -> TileWork {
        let (row, column) = divide(i, self.across);
        let none = Val::constant(0);
        TileWork {
            row: (row * self.cluster + rank) * self.block[0],
            column: column * self.block[1],
            part: none,
            begin: none,
            end: self.sizes.k.get(),
            position: BatchCoord { flat: none, each: [none; 3] },
        }
    }

    /// The work number `i` of the block with a rank in its cluster.
    pub(crate) fn work(&self, i: Val<u32>, rank: Val<u32>) -> TileWork {
        let Self { block: [block_m, block_n], cluster, band: most, is_split, is_batch, sizes, down, across } = *self;
        let (k, part_len, parts) = (sizes.k.get(), sizes.part.get(), sizes.parts.get());
        let none = Val::constant(0);
        let (rest, i) = if is_split && !is_batch { (none, i) } else { divide(i, down * across) };
        let (flat, part, rank) = match (is_split, is_batch) {
            (true, _) => (rest, rank, none),
            (false, false) => (none, rest, rank),
            (false, true) => {
                let (flat, part) = divide(rest, parts);
                (flat, part, rank)
            }
        };
        let each = if is_batch {
            let (rest, inner) = divide(flat, sizes.batch.at(2));
            let (outer, middle) = divide(rest, sizes.batch.at(1));
            [outer, middle, inner]
        } else {
            [none; 3]
        };
        let (band, in_band) = divide(i, across * most);
        // The last band may have fewer rows.
        let rows = (down - band * most).min(most);
        let (column, row) = divide(in_band, rows);
        let begin = part * part_len;
        TileWork {
            row: ((band * most + row) * cluster + rank) * block_m,
            column: column * block_n,
            part,
            begin,
            end: k.min(begin + part_len),
            position: BatchCoord { flat, each },
        }
    }
}
