//! Which axes of a tensor an operator works along.

use warpfold_kernels::Error;
use warpfold_kernels::layout::normalize_axes;

/// Axes of a tensor; negative ones count from the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axes<'a> {
    /// All of them.
    All,
    /// These.
    Of(&'a [isize]),
}

impl Axes<'_> {
    /// As positions in order.
    ///
    /// # Errors
    /// [`AxisOutOfRange`](crate::ErrorKind::AxisOutOfRange),
    /// [`RepeatedAxis`](crate::ErrorKind::RepeatedAxis).
    pub fn resolve(self, rank: usize) -> Result<Vec<usize>, Error> {
        match self {
            Self::All => Ok((0..rank).collect()),
            Self::Of(axes) => normalize_axes(axes, rank),
        }
    }
}

impl<'a, const N: usize> From<&'a [isize; N]> for Axes<'a> {
    fn from(axes: &'a [isize; N]) -> Self {
        Self::Of(axes)
    }
}
