//! What may be chosen of a reduction, and which reductions take it.

use super::Reduction;
use crate::{Dtype, Error, ErrorKind};

/// What may be chosen of a reduction. An option that a reduction does not take is an error, never
/// ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Options {
    /// The result's element type, where it is not what the reduction gives by itself.
    pub dtype: Option<Dtype>,
    /// Pass over NaN.
    pub ignore_nan: bool,
    /// Of equals the last, not the first.
    pub last: bool,
    /// What is subtracted from the count in the divisor of a variance; 0 unless said.
    pub ddof: Option<u64>,
    /// How many of the largest; from 1 to [`Options::MAX_K`].
    pub k: Option<usize>,
}

impl Options {
    // THRESHOLD: longer lists are refused; tested by
    // crates/kernels/tests/reductions/rules.rs::an_option_that_a_reduction_does_not_take_is_an_error
    /// The longest list of largest elements.
    pub const MAX_K: usize = 16;

    /// The length of a list of largest elements.
    pub(super) fn list_len(self) -> u32 {
        self.k.unwrap_or(0) as u32
    }

    /// Whether a reduction takes all that is chosen.
    pub(super) fn check(self, reduction: Reduction) -> Result<(), Error> {
        use Reduction as R;
        let chosen = [
            (
                self.dtype.is_some(),
                "dtype",
                &[
                    R::Sum,
                    R::Product,
                    R::Mean,
                    R::L1,
                    R::L2,
                    R::SumSquares,
                    R::LogSum,
                    R::LogSumExp,
                    R::MaxSumExp,
                    R::Variance,
                    R::StandardDeviation,
                    R::MeanVariance,
                    R::Dot,
                    R::ReproducibleSum,
                ][..],
            ),
            (self.ignore_nan, "ignore-nan", &[R::Min, R::Max, R::MinMax, R::ArgMin, R::ArgMax]),
            (self.last, "last", &[R::ArgMin, R::ArgMax]),
            (self.ddof.is_some(), "ddof", &[R::Variance, R::StandardDeviation, R::MeanVariance]),
            (self.k.is_some(), "k", &[R::TopK]),
        ];
        match chosen.into_iter().find(|(is_chosen, _, takers)| *is_chosen && !takers.contains(&reduction)) {
            Some((_, option, _)) => Err(ErrorKind::OptionNotTaken { op: reduction.to_string(), option }.into()),
            None if reduction == R::TopK && !self.k.is_some_and(|k| (1..=Self::MAX_K).contains(&k)) => {
                Err(self.list_error(Self::MAX_K))
            }
            None => Ok(()),
        }
    }

    fn list_error(self, most: usize) -> Error {
        let expected = format!("from 1 to {most}");
        ErrorKind::OptionOutOfRange { op: Reduction::TopK.to_string(), option: "k", expected }.into()
    }

    /// Whether a list of the largest is not longer than what it is made of.
    pub(super) fn check_list(self, len: usize) -> Result<(), Error> {
        if self.k.is_some_and(|k| k > len) { Err(self.list_error(len.min(Self::MAX_K))) } else { Ok(()) }
    }
}
