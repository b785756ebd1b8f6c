//! The map of inputs that are contiguous along another dimension than the output: tiles of them are
//! transposed in shared memory, so that loads and stores are coalesced.
//!
//! A tile is read along its columns, the dimension along which the staged inputs are contiguous,
//! and written along its rows. Lanes load and store words: an element, or as many neighbours as fit
//! in 4 bytes if all of them are aligned. A cell is a square of as many elements; its words are
//! loaded row by row from shared memory and transposed in registers. Rows are swizzled (the word's
//! number xor the row's), so that there are no bank conflicts.

use warpfold_lang::{
    Global, Number, Operand, Shared, Val, block_idx, kernel, lane_id, range, shared_named, sync_threads, thread_idx,
    when, when_else,
};

use super::family::Code;
use super::geometry::{MAX_INPUTS, MapArgs};
use crate::AnyKernel;
use crate::elements::{Origin, Place, Run};
use crate::overlap::overlap_launches;

/// Threads per block.
pub(super) const BLOCK: u32 = 256;
const WARPS: u32 = BLOCK / 32;

/// What the kernel is built for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tiles {
    /// Elements along each side of a tile: a multiple of `32 * vector`.
    pub side: u32,
    /// Elements that a lane loads and stores together: those of a word, or one.
    pub vector: u32,
    /// Which inputs are transposed; the others are read as the output is written.
    pub staged: [bool; MAX_INPUTS],
    /// How the elements of a lane are loaded, of an input that is not transposed.
    pub runs: [Run; MAX_INPUTS],
    /// Dimensions beside the two of a tile.
    pub outer: usize,
}

impl Tiles {
    /// Elements of a tile that a thread maps.
    #[must_use]
    pub const fn items_a_thread(&self) -> u32 {
        self.side * self.side / BLOCK
    }

    /// Cells along each side.
    const fn cells(&self) -> u32 {
        self.side / self.vector
    }

    /// Where a word of a row is in shared memory, in words.
    fn position(&self, row: Val<u32>, cell: Val<u32>) -> Val<u32> {
        (cell ^ ((row >> self.vector.ilog2()) & 31)) + row * self.cells()
    }
}

pub(super) fn kernel_of(map: Code, tiles: Tiles) -> AnyKernel {
    let name = format!("{}_tiles", map.name);
    let body = move |args: MapArgs| {
        overlap_launches();
        // Contract: the grid has a block for each tile.
        let (inputs, outputs) = args.tensors(map.inputs(), map.outputs());
        let memory = [inputs, outputs].concat();
        let (columns, rows) = (tiles.outer, tiles.outer + 1);
        let dims = args.dims(tiles.outer + 2);
        let (outer, [column_tile, row_tile]) = tile_of(&tiles, args);
        let first = [column_tile, row_tile].map(|tile| tile * u64::from(tiles.side));
        let offsets = args.offsets(outer, tiles.outer, memory.len());
        let corner = |(tensor, (memory, offset)): (usize, (&Global<u8>, Val<u64>))| {
            let along = first[1].mul_add(dims.stride(rows, tensor), offset);
            args.base(tensor, *memory).at(first[0].mul_add(dims.stride(columns, tensor), along))
        };
        let corners = memory.iter().zip(offsets).enumerate().map(corner).collect();
        let inside = [columns, rows].map(|dim| dims.size(dim));
        let tile = Tile { map: &map, tiles: &tiles, args, corners, left: [inside[0] - first[0], inside[1] - first[1]] };
        tile.run();
    };
    kernel(name, body).required_block(BLOCK).into()
}

/// The position along the outer dimensions, and the tile along columns and rows, of this block:
/// rows first.
fn tile_of(tiles: &Tiles, args: MapArgs) -> (Val<u64>, [Val<u64>; 2]) {
    let across = |dim: usize| (args.dims(dim + 1).size(dim) + u64::from(tiles.side - 1)) >> tiles.side.ilog2();
    let (columns, rows) = (across(tiles.outer), across(tiles.outer + 1));
    let block = block_idx().x.cast::<u64>();
    let above = block / rows;
    let outer = if tiles.outer == 0 { Val::constant(0) } else { above / columns };
    (outer, [above - outer * columns, block - above * rows])
}

/// A tile: positions along its columns and rows.
struct Tile<'a> {
    map: &'a Code,
    tiles: &'a Tiles,
    args: MapArgs,
    /// The tile's first element in each tensor.
    corners: Vec<Global<u8>>,
    /// Elements from its corner to the end of the tensor, along columns and rows.
    left: [Val<u64>; 2],
}

/// A tile of one input in shared memory.
#[derive(Clone, Copy)]
enum Staged {
    /// Elements of up to 4 bytes, by words.
    Words(Shared<u32>),
    /// Elements of 8 bytes.
    Longs(Shared<u64>),
}

impl Tile<'_> {
    fn run(&self) {
        // Shared memory
        let words = self.tiles.side * self.tiles.cells();
        let array = |(bytes, is_staged): (u64, bool)| match (is_staged, bytes) {
            (false, _) => None,
            (true, 8) => Some(Staged::Longs(shared_named::<u64>("tile", words))),
            (true, _) => Some(Staged::Words(shared_named::<u32>("tile", words))),
        };
        let bytes = self.map.source.dtypes().iter().map(|dtype| dtype.bytes());
        let arrays: Vec<Option<Staged>> = bytes.zip(self.tiles.staged).map(array).collect();
        // Load: lanes along the columns.
        for (input, array) in arrays.iter().enumerate() {
            match array {
                Some(Staged::Words(array)) => self.stage_words(input, *array),
                Some(Staged::Longs(array)) => self.stage::<u64>(input, |row, cell, value| {
                    array.at(self.tiles.position(row, cell)).set(value);
                }),
                None => {}
            }
        }
        sync_threads();
        // Store: lanes along the rows.
        let side = u64::from(self.tiles.side);
        let is_full = self.left[0].ge(side) & self.left[1].ge(side);
        let all = || self.map_cells(&arrays, &self.walk(self.tiles.cells()));
        // The same walk as a loop: few tiles are at the end of a tensor.
        let some = || {
            let (cells, first) = (self.tiles.cells(), self.tiles.vector);
            range(thread_idx().x >> 5_u32, cells, WARPS, |column| {
                range(lane_id(), cells, 32, |row| {
                    when(self.is_inside(column * first, row * first), || self.map_cells(&arrays, &[(column, row)]));
                });
            });
        };
        when_else(is_full, all, some);
    }

    /// The lines of `lines` that a warp has, and the lane's cells in each.
    fn walk(&self, lines: u32) -> Vec<(Val<u32>, Val<u32>)> {
        let (warp, lane) = (thread_idx().x >> 5_u32, lane_id());
        let lines = (0..lines / WARPS).map(|i| warp + i * WARPS);
        lines.flat_map(|line| (0..self.tiles.cells() / 32).map(move |i| (line, lane + i * 32))).collect()
    }

    /// Sizes are multiples of a cell, so that the first element stands for all of it.
    fn is_inside(&self, column: Val<u32>, row: Val<u32>) -> Val<bool> {
        column.cast::<u64>().lt(self.left[0]) & row.cast::<u64>().lt(self.left[1])
    }

    fn global(&self, tensor: usize, column: Val<u32>, row: Val<u32>) -> Global<u8> {
        let stride = |dim: usize| self.args.dims(self.tiles.outer + 2).stride(self.tiles.outer + dim, tensor);
        let offset = column.cast::<u64>() * stride(0);
        self.corners[tensor].at(row.cast::<u64>().mul_add(stride(1), offset))
    }

    fn stage_words(&self, input: usize, array: Shared<u32>) {
        let at = |row, cell| array.at(self.tiles.position(row, cell));
        match self.tiles.vector * self.map.source.dtypes()[input].bytes() as u32 {
            1 => self.stage::<u8>(input, |row, cell, value| at(row, cell).set(value.cast::<u32>())),
            2 => self.stage::<u16>(input, |row, cell, value| at(row, cell).set(value.cast::<u32>())),
            _ => self.stage::<u32>(input, |row, cell, value| at(row, cell).set(value)),
        }
    }

    /// Loads what the tensor has of the tile, a word per lane, and stores it: all loads before the
    /// first store.
    fn stage<E: Number>(&self, input: usize, store: impl Fn(Val<u32>, Val<u32>, Val<E>))
    where
        Val<E>: Operand<E>,
    {
        let lines = self.walk(self.tiles.side);
        let load = |(row, cell): &(Val<u32>, Val<u32>)| {
            let column = *cell * self.tiles.vector;
            let from = self.global(input, column, *row).reinterpret::<E>();
            from.get_or(Val::constant(E::ZERO), self.is_inside(column, *row))
        };
        let loaded: Vec<Val<E>> = lines.iter().map(load).collect();
        for ((row, cell), value) in lines.into_iter().zip(loaded) {
            store(row, cell, value);
        }
    }

    /// Maps these cells, given along columns and rows: all loads before the first store.
    fn map_cells(&self, arrays: &[Option<Staged>], cells: &[(Val<u32>, Val<u32>)]) {
        let n = self.tiles.vector;
        let mut lines = Vec::new();
        for (column, row) in cells {
            let transposed: Vec<Option<Vec<Origin>>> =
                arrays.iter().map(|array| array.map(|array| self.transpose(array, *column, *row))).collect();
            for k in 0..n {
                let (column, row) = (*column * n + k, *row * n);
                let origin = |(input, transposed): (usize, &Option<Vec<Origin>>)| match transposed {
                    Some(words) => words[k as usize],
                    None => {
                        let pointer = self.global(input, column, row);
                        Origin::Global(Place { pointer, run: self.tiles.runs[input] })
                    }
                };
                let origins: Vec<_> = transposed.iter().enumerate().map(origin).collect();
                lines.push((column, row, self.map.source.load_from(&origins, n)));
            }
        }
        for (column, row, items) in lines {
            let outputs = arrays.len()..self.corners.len();
            let to: Vec<_> = outputs.map(|tensor| self.global(tensor, column, row)).collect();
            let results: Vec<_> = items.into_iter().map(|item| self.map.apply(item, self.args.scalars())).collect();
            self.map.sink.store(&to, &results, n > 1);
        }
    }

    /// The words of a cell along the rows, one per column.
    fn transpose(&self, array: Staged, column: Val<u32>, row: Val<u32>) -> Vec<Origin> {
        let rows = (0..self.tiles.vector).map(|k| row * self.tiles.vector + k);
        match array {
            Staged::Longs(array) => {
                rows.map(|row| Origin::Long(array.at(self.tiles.position(row, column)).get())).collect()
            }
            Staged::Words(array) => {
                let words: Vec<_> = rows.map(|row| array.at(self.tiles.position(row, column)).get()).collect();
                transpose_words(&words).into_iter().map(Origin::Word).collect()
            }
        }
    }
}

/// The columns of a square of bytes or of pairs of bytes whose rows are these words.
fn transpose_words(rows: &[Val<u32>]) -> Vec<Val<u32>> {
    let both = |a: Val<u32>, b: Val<u32>, low, high| [a.prmt(b, low), a.prmt(b, high)];
    match rows {
        [a, b] => both(*a, *b, 0x5410, 0x7632).to_vec(),
        [a, b, c, d] => {
            // Bytes 0 and 1, then 2 and 3, of two rows each.
            let (above, below) = (both(*a, *b, 0x5140, 0x7362), both(*c, *d, 0x5140, 0x7362));
            above.into_iter().zip(below).flat_map(|(a, b)| both(a, b, 0x5410, 0x7632)).collect()
        }
        _ => rows.to_vec(),
    }
}
