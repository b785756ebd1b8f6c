//! Layout of a problem's elements in rows.

use super::{SizeOption, elements_of};

/// Rows of one length, which together are all elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rows {
    /// Number of rows.
    pub num_rows: usize,
    /// Elements of each.
    pub row_len: usize,
}

impl Rows {
    /// `size` elements in rows of `row_len`, or of as few more as divide `size`. A size below
    /// `row_len` is one row, and no elements are no rows.
    ///
    /// ```
    /// use warpfold_ladders::ladder::Rows;
    /// assert_eq!(Rows::of(4096, 1024), Rows { num_rows: 4, row_len: 1024 });
    /// assert_eq!(Rows::of(1_000_000, 1024), Rows { num_rows: 800, row_len: 1250 });
    /// assert_eq!(Rows::of(1999, 1024), Rows { num_rows: 1, row_len: 1999 });
    /// ```
    #[must_use]
    pub fn of(size: usize, row_len: usize) -> Self {
        if size == 0 {
            return Self { num_rows: 0, row_len };
        }
        let num_rows = (1..=size / row_len).rev().find(|num_rows| size.is_multiple_of(*num_rows)).unwrap_or(1);
        Self { num_rows, row_len: size / num_rows }
    }

    /// The rows of a size whose option is their length. A length that was asked for is exact, and
    /// there are as many rows as fit; else rows are about as long as the option says.
    pub(crate) fn with(size: u64, columns: &SizeOption) -> Self {
        let elements = elements_of(size);
        match columns.given(size) {
            _ if elements == 0 => Self { num_rows: 0, row_len: 0 },
            Some(columns) => Self { num_rows: (elements / columns).max(1), row_len: columns },
            None => Self::of(elements, columns.default),
        }
    }
}
