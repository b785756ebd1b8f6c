//! Tiles in shared memory, and their swizzled byte order.

use std::fmt;

pub use warpfold_ptx::Major;

use crate::memory::{Index, Shared};
use crate::types::Element;
use crate::{ErrorKind, Operand, Val, untyped};

/// Permutation of the 16-byte chunks of a tile's rows that avoids bank conflicts along rows and
/// columns (PTX ISA, "Swizzling Modes"): chunk `p` of line `l` is stored at `p ^ (l mod …)`, a line
/// being 128 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Swizzle {
    /// Rows of 32 bytes.
    Bytes32,
    /// Rows of 64 bytes.
    Bytes64,
    /// Rows of 128 bytes: the best choice if rows are that long.
    Bytes128,
}

impl Swizzle {
    /// The length of a row, in bytes.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::Bytes32 => 32,
            Self::Bytes64 => 64,
            Self::Bytes128 => 128,
        }
    }

    /// The period of the pattern in bytes; tiles start at multiples of it.
    #[must_use]
    pub const fn period(self) -> u32 {
        8 * self.bytes()
    }

    /// The mask of the swizzle: byte `a` of the tile is stored at `a ^ ((a >> 3) & mask)`.
    pub(crate) const fn mask(self) -> u32 {
        match self {
            Self::Bytes32 => 0x10,
            Self::Bytes64 => 0x30,
            Self::Bytes128 => 0x70,
        }
    }

    /// The code of the mode in a matrix descriptor (PTX ISA, "Matrix Descriptor Format").
    pub(crate) const fn code(self) -> u64 {
        match self {
            Self::Bytes32 => 3,
            Self::Bytes64 => 2,
            Self::Bytes128 => 1,
        }
    }
}

/// A swizzled matrix in shared memory. Its columns are cut into panels as wide as the swizzle,
/// stored one after the other; a TMA copy with a box of one panel fills each.
pub struct Tile<T> {
    start: Shared<T>,
    rows: u32,
    columns: u32,
    swizzle: Swizzle,
}

/// Allocates a tile in dynamic shared memory.
///
/// A number of columns that is not whole panels, or a number of rows that is not a multiple of 8,
/// is an error of the kernel.
#[track_caller]
#[must_use]
pub fn tile<T: Element>(rows: u32, columns: u32, swizzle: Swizzle) -> Tile<T> {
    tiles(1, rows, columns, swizzle).at(0)
}

/// Several tiles of one layout: the stages of a pipeline.
pub struct Tiles<T> {
    first: Tile<T>,
    num: u32,
    /// Elements from one tile to the next.
    pitch: u32,
}

/// Allocates several tiles; see [`tile`].
#[track_caller]
#[must_use]
pub fn tiles<T: Element>(num: u32, rows: u32, columns: u32, swizzle: Swizzle) -> Tiles<T> {
    // Aligned for the widest swizzle whatever its own: so the base offset of descriptors is zero.
    let start = untyped::dynamic_shared(1024, u64::from(num * rows * columns * T::BYTES));
    let first = Tile { start: Shared::from_location(start), rows, columns, swizzle };
    check_shape(first);
    Tiles { first, num, pitch: rows * columns }
}

#[track_caller]
fn check_shape<T: Element>(tile: Tile<T>) {
    check_tile(tile.rows, tile.columns, tile.panel_columns(), tile.swizzle);
}

fn check_tile(rows: u32, columns: u32, panel: u32, swizzle: Swizzle) {
    if columns == 0 || !columns.is_multiple_of(panel) || rows == 0 || !rows.is_multiple_of(8) {
        let expected = format!("a multiple of 8 rows, and of {panel} columns for {swizzle:?}");
        let (what, value) = ("the shape of a tile".to_owned(), format!("{rows} x {columns}"));
        untyped::fail(ErrorKind::OutOfRange { what, value, expected });
    }
}

fn check_room(given: u32, asked: u32) {
    if asked > given {
        untyped::fail(ErrorKind::Misuse(format!("tiles of {asked} bytes do not fit the room of {given}")));
    }
}

fn check_panels(num: u32, width: u32) {
    if !num.is_multiple_of(width) {
        untyped::fail(ErrorKind::Misuse(format!("{num} columns are taken of a tile with panels of {width}")));
    }
}

impl<T: Element> Tiles<T> {
    /// Reuses the memory for tiles of another layout that are no larger in total.
    #[track_caller]
    #[must_use]
    pub fn lend<U: Element>(self, num: u32, rows: u32, columns: u32, swizzle: Swizzle) -> Tiles<U> {
        let first = Tile { start: self.first.start.reinterpret(), rows, columns, swizzle };
        check_shape(first);
        check_room(self.num * self.first.bytes(), num * first.bytes());
        Tiles { first, num, pitch: rows * columns }
    }

    /// Reuses each tile's memory for a tile of another shape that is no larger.
    #[track_caller]
    #[must_use]
    pub fn share(self, rows: u32, columns: u32, swizzle: Swizzle) -> Self {
        let first = Tile { rows, columns, swizzle, ..self.first };
        check_shape(first);
        check_room(self.first.bytes(), first.bytes());
        Self { first, ..self }
    }

    /// One of the tiles.
    #[track_caller]
    #[must_use]
    pub fn at(self, index: impl Index) -> Tile<T> {
        Tile { start: self.first.start.elements(self.pitch, index), ..self.first }
    }

    /// Number of tiles.
    #[must_use]
    pub const fn len(self) -> u32 {
        self.num
    }

    /// Returns true if there are no tiles.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.num == 0
    }
}

impl<T: Element> Tile<T> {
    /// Number of rows.
    #[must_use]
    pub const fn rows(self) -> u32 {
        self.rows
    }

    /// Number of columns.
    #[must_use]
    pub const fn columns(self) -> u32 {
        self.columns
    }

    /// The swizzle of the tiles.
    #[must_use]
    pub const fn swizzle(self) -> Swizzle {
        self.swizzle
    }

    /// Size in bytes: the transaction count of a copy that fills it.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        self.rows * self.columns * T::BYTES
    }

    /// Number of columns per panel.
    #[must_use]
    pub const fn panel_columns(self) -> u32 {
        self.swizzle.bytes() / T::BYTES
    }

    /// The panels, from left to right: the first column of each, and its start.
    pub fn panels(self) -> impl Iterator<Item = (u32, Shared<T>)> {
        let width = self.panel_columns();
        (0..self.columns / width).map(move |panel| (panel * width, self.start.at(panel * width * self.rows)))
    }

    /// The sub-tile of `num` rows from `first`, a multiple of 8. For tiles of one panel only.
    #[track_caller]
    #[must_use]
    pub fn rows_from(self, first: impl Index, num: u32) -> Self {
        if self.columns != self.panel_columns() {
            untyped::fail(ErrorKind::Misuse("rows are taken of a tile of one panel".to_owned()));
        }
        Self { start: self.start.elements(self.columns, first), rows: num, ..self }
    }

    /// The sub-tile of `num` columns from the panel that begins at column `first`: whole panels.
    #[track_caller]
    #[must_use]
    pub fn columns_from(self, first: impl Operand<u32>, num: u32) -> Self {
        let width = self.panel_columns();
        check_panels(num, width);
        Self { start: self.start.elements(self.rows, first.val()), columns: num, ..self }
    }

    /// A pointer to the element at this row and column, with the swizzle applied. It can be moved
    /// within its 16 bytes only.
    ///
    /// The part of the address that does not depend on the column is worth computing once: see
    /// [`Self::row`].
    #[track_caller]
    #[must_use]
    pub fn at(self, row: impl Operand<u32>, column: impl Operand<u32>) -> Shared<T> {
        self.row(row).at(column)
    }

    /// A row of the tile, for accesses at several columns.
    #[track_caller]
    #[must_use]
    pub fn row(self, row: impl Operand<u32>) -> Row<T> {
        let row = row.val();
        // The bits that the swizzle takes from the line are those of the row: shifted to where they
        // are applied.
        let bytes = row * self.swizzle.bytes();
        Row { tile: self, start: self.start.reinterpret::<u8>().at(bytes), pattern: (bytes >> 3) & self.swizzle.mask() }
    }

    pub(crate) const fn start(self) -> Shared<T> {
        self.start
    }
}

/// A row of a [`Tile`].
#[derive(Debug)]
pub struct Row<T> {
    tile: Tile<T>,
    start: Shared<u8>,
    pattern: Val<u32>,
}

impl<T> Clone for Row<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Row<T> {}

impl<T: Element> Row<T> {
    /// A pointer to the element at this column; see [`Tile::at`].
    #[track_caller]
    #[must_use]
    pub fn at(self, column: impl Operand<u32>) -> Shared<T> {
        let Tile { rows, columns, swizzle, .. } = self.tile;
        let offset = offset_in_row([rows, columns, T::BYTES], swizzle, self.pattern, column.val());
        self.start.at(offset).reinterpret()
    }
}

/// Offset of a column from the start of its row, in bytes.
#[track_caller]
fn offset_in_row(tile: [u32; 3], swizzle: Swizzle, pattern: Val<u32>, column: Val<u32>) -> Val<u32> {
    let [rows, columns, element_bytes] = tile;
    let width = swizzle.bytes() / element_bytes;
    let (panel, column) = match column.known() {
        Some(column) => (Val::constant(column / width), Val::constant(column % width)),
        None if columns == width => (Val::constant(0), column),
        None => (column / width, column % width),
    };
    let in_panel = (column * element_bytes) ^ pattern;
    let panel_bytes = rows * swizzle.bytes();
    panel * panel_bytes + in_panel
}

impl<T> Clone for Tile<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Tile<T> {}

impl<T> Clone for Tiles<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Tiles<T> {}

impl<T> fmt::Debug for Tile<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tile({} x {}, {:?})", self.rows, self.columns, self.swizzle)
    }
}

impl<T> fmt::Debug for Tiles<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tiles({} of {:?})", self.num, self.first)
    }
}
