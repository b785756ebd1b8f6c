//! What may be chosen of a reduction, and which reductions take it.

use super::Reduction;
use crate::{Dtype, Error, ErrorKind};

/// What may be chosen of a reduction. An option that a reduction does not take is an error, never ignored.
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
}

impl Options {
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
                    R::Variance,
                    R::StandardDeviation,
                    R::MeanVariance,
                    R::Dot,
                ][..],
            ),
            (self.ignore_nan, "ignore-nan", &[R::Min, R::Max, R::MinMax, R::ArgMin, R::ArgMax]),
            (self.last, "last", &[R::ArgMin, R::ArgMax]),
            (self.ddof.is_some(), "ddof", &[R::Variance, R::StandardDeviation, R::MeanVariance]),
        ];
        match chosen.into_iter().find(|(is_chosen, _, takers)| *is_chosen && !takers.contains(&reduction)) {
            Some((_, option, _)) => Err(ErrorKind::OptionNotTaken { op: reduction.to_string(), option }.into()),
            None => Ok(()),
        }
    }
}
