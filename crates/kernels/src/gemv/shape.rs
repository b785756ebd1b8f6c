//! How the rows of a matrix are shared out between the lanes of warps.

use super::BLOCK;

/// How rows are shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Lanes that take a row together: 1, 2, 4, 8, 16 or 32.
    pub lanes: u32,
    /// Rows that the lanes take side by side.
    pub rows: u32,
    /// Accesses of each row that a lane has under way.
    pub unroll: u32,
    /// Elements of an access.
    pub width: u32,
}

impl Shape {
    /// Rows of a block.
    #[must_use]
    pub const fn rows_of_block(self) -> u32 {
        BLOCK / self.lanes * self.rows
    }
}
