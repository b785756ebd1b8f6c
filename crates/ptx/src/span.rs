//! A place in the text: line and column.

use std::fmt;

/// Line and column (both from 1) of the first character; zero when the tree was not parsed from
/// text.
///
/// All spans are equal to one another, so that trees compare by content.
#[derive(Debug, Clone, Copy, Default)]
pub struct Span {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl PartialEq for Span {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Span {}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}
