//! The map of inputs that lie along another dimension than the output: tiles of them turn in shared memory.

use warpfold_lang::{
    Array, Element, Global, Number, Operand, Shared, Val, block_idx, kernel, lane_id, range, shared_named,
    sync_threads, thread_idx, when, when_else,
};

use super::Map;
use super::geometry::{MAX_INPUTS, WORDS, Words};
use crate::AnyKernel;
use crate::elements::{Origin, Place, Run};

/// Threads a block.
pub(super) const BLOCK: u32 = 256;
const WARPS: u32 = BLOCK / 32;

/// What the kernel is built for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tiles {
    /// Elements along each side of a tile.
    pub side: u32,
    /// Which inputs turn; the others are read as the output is written.
    pub staged: [bool; MAX_INPUTS],
    /// Dimensions beside the two of a tile.
    pub outer: usize,
}

impl Tiles {
    /// Elements of a tile that a thread takes.
    #[must_use]
    pub const fn items_a_thread(&self) -> u32 {
        self.side * self.side / BLOCK
    }

    /// Elements from one row of a tile to the next, so that the elements of a column lie in different banks: an odd number
    /// of words, or of two words.
    const fn pitch(&self, bytes: u32) -> u32 {
        if bytes < 4 { self.side + 4 / bytes } else { self.side + 1 }
    }
}

pub(super) fn kernel_of<I: Copy + 'static, O: Copy + 'static>(map: &Map<I, O>, tiles: &Tiles) -> AnyKernel {
    let (map, tiles) = (map.clone(), tiles.clone());
    let name = format!("{}_tiles", map.name);
    let body = move |in0: Global<u8>,
                     in1: Global<u8>,
                     in2: Global<u8>,
                     out0: Global<u8>,
                     out1: Global<u8>,
                     words: Array<u64, WORDS>| {
        // Contract: the grid has a block for each tile, those along the rows first.
        let words = Words(words);
        let memory: Vec<_> =
            [in0, in1, in2][..map.inputs()].iter().chain(&[out0, out1][..map.outputs()]).copied().collect();
        let (columns, rows) = (tiles.outer, tiles.outer + 1);
        let side = u64::from(tiles.side);
        let across = |dim: usize| (words.size(dim) + (side - 1)) >> tiles.side.ilog2();
        let block = block_idx().x.cast::<u64>();
        let (above, row_tile) = (block / across(rows), block % across(rows));
        let (outer, column_tile) = (above / across(columns), above % across(columns));
        let first = [column_tile * side, row_tile * side];
        let offsets = words.offsets(outer, tiles.outer, memory.len());
        let corner = |(tensor, (memory, offset)): (usize, (&Global<u8>, Val<u64>))| {
            let along = first[1].mul_add(words.stride(rows, tensor), offset);
            words.base(tensor, *memory).at(first[0].mul_add(words.stride(columns, tensor), along))
        };
        let corners = memory.iter().zip(offsets).enumerate().map(corner).collect();
        let inside = [columns, rows].map(|dim| words.size(dim));
        let tile =
            Tile { map: &map, tiles: &tiles, words, corners, left: [inside[0] - first[0], inside[1] - first[1]] };
        tile.run();
    };
    kernel(name, body).required_block(BLOCK).into()
}

/// A tile: positions along its columns (in which staged inputs lie side by side) and rows (the output).
struct Tile<'a, I, O> {
    map: &'a Map<I, O>,
    tiles: &'a Tiles,
    words: Words,
    /// The tile's first element in each tensor.
    corners: Vec<Global<u8>>,
    /// Elements from its corner to the end of the tensor, along columns and rows.
    left: [Val<u64>; 2],
}

impl<I: Copy + 'static, O: Copy + 'static> Tile<'_, I, O> {
    fn run(&self) {
        // Shared memory
        let dtypes = self.map.source.dtypes();
        let staged = |input: usize| self.tiles.staged[input].then(|| self.array(dtypes[input].bytes() as u32));
        let arrays: Vec<Option<Shared<u8>>> = (0..dtypes.len()).map(staged).collect();
        let side = u64::from(self.tiles.side);
        let is_full = self.left[0].ge(side) & self.left[1].ge(side);
        // Load: lanes along the columns.
        let lines = || self.lines().into_iter();
        let stage_all = || {
            for (input, array) in arrays.iter().enumerate() {
                let Some(array) = array else { continue };
                self.stage(input, *array, &lines().map(|(row, column)| (column, row)).collect::<Vec<_>>());
            }
        };
        let stage_some = || {
            self.each_line(|row, column| {
                when(self.is_inside(column, row), || {
                    for (input, array) in arrays.iter().enumerate() {
                        let Some(array) = array else { continue };
                        self.stage(input, *array, &[(column, row)]);
                    }
                });
            });
        };
        when_else(is_full, stage_all, stage_some);
        sync_threads();
        // Store: lanes along the rows.
        let store_all = || self.map_at(&arrays, &lines().collect::<Vec<_>>());
        let store_some = || {
            self.each_line(|column, row| when(self.is_inside(column, row), || self.map_at(&arrays, &[(column, row)])));
        };
        when_else(is_full, store_all, store_some);
    }

    fn array(&self, bytes: u32) -> Shared<u8> {
        let len = self.tiles.side * self.tiles.pitch(bytes);
        match bytes {
            1 => shared_named::<u8>("tile", len).reinterpret(),
            2 => shared_named::<u16>("tile", len).reinterpret(),
            4 => shared_named::<u32>("tile", len).reinterpret(),
            _ => shared_named::<u64>("tile", len).reinterpret(),
        }
    }

    /// The lines that a warp takes, and the lane's position in each: an unrolled walk.
    fn lines(&self) -> Vec<(Val<u32>, Val<u32>)> {
        let (warp, lane) = (thread_idx().x >> 5_u32, lane_id());
        let lines = (0..self.tiles.side / WARPS).map(|i| warp + i * WARPS);
        lines.flat_map(|line| (0..self.tiles.side / 32).map(move |i| (line, lane + i * 32))).collect()
    }

    /// The same walk as a loop.
    fn each_line(&self, visit: impl Fn(Val<u32>, Val<u32>)) {
        range(thread_idx().x >> 5_u32, self.tiles.side, WARPS, |line| {
            range(lane_id(), self.tiles.side, 32, |position| visit(line, position));
        });
    }

    fn is_inside(&self, column: Val<u32>, row: Val<u32>) -> Val<bool> {
        column.cast::<u64>().lt(self.left[0]) & row.cast::<u64>().lt(self.left[1])
    }

    fn global(&self, tensor: usize, column: Val<u32>, row: Val<u32>) -> Global<u8> {
        let stride = |dim: usize| self.words.stride(self.tiles.outer + dim, tensor);
        let offset = column.cast::<u64>() * stride(0);
        self.corners[tensor].at(row.cast::<u64>().mul_add(stride(1), offset))
    }

    /// Where an element lies in an array of shared memory, in elements.
    fn position(&self, bytes: u32, column: Val<u32>, row: Val<u32>) -> Val<u32> {
        row.mul_add(self.tiles.pitch(bytes), column)
    }

    /// Copies elements to shared memory: all loads before the first store.
    fn stage(&self, input: usize, array: Shared<u8>, at: &[(Val<u32>, Val<u32>)]) {
        match self.map.source.dtypes()[input].bytes() {
            1 => self.stage_as::<u8>(input, array, at),
            2 => self.stage_as::<u16>(input, array, at),
            4 => self.stage_as::<u32>(input, array, at),
            _ => self.stage_as::<u64>(input, array, at),
        }
    }

    fn stage_as<E: Number>(&self, input: usize, array: Shared<u8>, at: &[(Val<u32>, Val<u32>)])
    where
        Val<E>: Operand<E>,
    {
        let load = |(column, row): &(Val<u32>, Val<u32>)| self.global(input, *column, *row).reinterpret::<E>().get();
        let loaded: Vec<Val<E>> = at.iter().map(load).collect();
        for ((column, row), value) in at.iter().zip(loaded) {
            array.reinterpret::<E>().at(self.position(<E as Element>::BYTES, *column, *row)).set(value);
        }
    }

    /// Maps elements: all loads before the first store.
    fn map_at(&self, arrays: &[Option<Shared<u8>>], at: &[(Val<u32>, Val<u32>)]) {
        let dtypes = self.map.source.dtypes();
        let load = |(column, row): &(Val<u32>, Val<u32>)| {
            let origin = |(input, array): (usize, &Option<Shared<u8>>)| match array {
                Some(array) => {
                    let bytes = dtypes[input].bytes() as u32;
                    Origin::Shared(array.at(self.position(bytes, *column, *row) * bytes))
                }
                None => Origin::Global(Place { pointer: self.global(input, *column, *row), run: Run::Narrow }),
            };
            let origins: Vec<_> = arrays.iter().enumerate().map(origin).collect();
            self.map.source.load_from(&origins, 1)[0]
        };
        let loaded: Vec<I> = at.iter().map(load).collect();
        for ((column, row), item) in at.iter().zip(loaded) {
            let outputs = dtypes.len()..self.corners.len();
            let to: Vec<_> = outputs.map(|tensor| self.global(tensor, *column, *row)).collect();
            self.map.sink.store(&to, &[self.map.apply(item, self.words.scalars())], false);
        }
    }
}
