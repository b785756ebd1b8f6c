//! Which monoid and which conversions each reduction has for each element type.
//!
//! What differs in maps only shares a monoid, so that a fold is compiled for few of them:
//! `Counted<Sum<_>>` in four types and `Counted<Count>` give all that is added up.

use warpfold_lang::{Signed, Val, WideFloat};

use super::elements::{is_narrow, magnitudes, truths};
use super::keys::Key;
use super::{Options, Reduction};
use crate::Dtype;
use crate::elements::{Compute, Sink, Source};
use crate::fold::{
    ArgExtreme, Binned, Both, Count, Counted, Extreme, Fold, LogSumExp, MaxSumExp, Monoid, Nan, Product,
    ReproducibleSum, Side, Sum, Ties, TopK, Variance,
};

/// A reduction with its types and options, which were checked.
#[derive(Clone, Copy)]
struct Row<'a> {
    reduction: Reduction,
    from: Dtype,
    to: &'a [Dtype],
    options: Options,
}

/// Calls a generic function for the type that computes with elements of a type.
macro_rules! in_compute_type {
    ($dtype:expr, $row:ident.$function:ident()) => {
        match $dtype {
            Dtype::U32 => $row.$function::<u32>(),
            Dtype::U64 => $row.$function::<u64>(),
            Dtype::I64 => $row.$function::<i64>(),
            Dtype::F64 => $row.$function::<f64>(),
            Dtype::Bool | Dtype::U8 | Dtype::I8 | Dtype::U16 | Dtype::I16 | Dtype::I32 => $row.$function::<i32>(),
            Dtype::F16 | Dtype::Bf16 | Dtype::F8E4M3 | Dtype::F8E5M2 | Dtype::F32 => $row.$function::<f32>(),
        }
    };
}

pub(super) fn make(reduction: Reduction, dtypes: &[Dtype], to: &[Dtype], options: Options) -> Fold {
    let from = dtypes[0];
    let row = Row { reduction, from, to, options };
    match reduction {
        Reduction::Sum
        | Reduction::Mean
        | Reduction::L1
        | Reduction::L2
        | Reduction::SumSquares
        | Reduction::LogSum
        | Reduction::Dot => row.total(),
        Reduction::Product => match (from, to[0]) {
            _ if row.has(Dtype::F64) => row.product::<f64>(),
            (from, to) if from.is_float() || to.is_float() => row.product::<f32>(),
            (from, to) if from.bytes().max(to.bytes()) == 8 => row.product::<i64>(),
            _ => row.product::<i32>(),
        },
        Reduction::Min | Reduction::Max => in_compute_type!(from, row.extreme()),
        Reduction::LInf | Reduction::AbsMax => row.largest_magnitude(),
        Reduction::MinMax => in_compute_type!(from, row.both_extremes()),
        Reduction::Any => row.truth(Extreme::max()),
        Reduction::All => row.truth(Extreme::min()),
        Reduction::CountNonzero => row.count(),
        Reduction::ArgMin | Reduction::ArgMax => in_compute_type!(from, row.position()),
        // As far as the result goes, so do the elements: integers of more than 16 bits are exact in
        // `f64` only.
        Reduction::LogSumExp if row.has(Dtype::F64) => row.log_sum_exp::<f64>(),
        Reduction::LogSumExp => row.log_sum_exp::<f32>(),
        Reduction::MaxSumExp if row.has(Dtype::F64) => row.max_sum_exp::<f64>(),
        Reduction::MaxSumExp => row.max_sum_exp::<f32>(),
        Reduction::Variance | Reduction::StandardDeviation | Reduction::MeanVariance => row.variance(),
        Reduction::TopK if from.bytes() == 8 => row.largest_few::<i64>(),
        Reduction::TopK => row.largest_few::<i32>(),
        Reduction::ReproducibleSum if row.has(Dtype::F64) => row.reproducible_sum::<f64>(),
        Reduction::ReproducibleSum => row.reproducible_sum::<f32>(),
    }
}

impl Row<'_> {
    /// Whether elements or results are of a type.
    fn has(self, dtype: Dtype) -> bool {
        self.from == dtype || self.to.contains(&dtype)
    }

    fn name(self) -> String {
        format!("{}_{}_{}", self.reduction.name().replace('-', "_"), self.from, self.to[0])
    }

    fn fold<M: Monoid>(self, monoid: M, source: Source<M::Item>, sink: Sink<M::Output>) -> Fold {
        Fold::new(self.name(), monoid, source, sink)
    }

    /// What is added up. Integers stay integers for as long as their sum is exact.
    fn total(self) -> Fold {
        let (from, to) = (self.from, self.to[0]);
        let is_square = matches!(self.reduction, Reduction::L2 | Reduction::SumSquares | Reduction::Dot);
        let is_more = matches!(self.reduction, Reduction::Mean | Reduction::L2 | Reduction::LogSum);
        match from {
            // A quotient, a root or a logarithm is cut to an integer once it is there.
            _ if !from.is_float() && !to.is_float() && !is_more => self.integer_total(),
            // Squares of 16 bits may take 33, and their sums more than 64.
            _ if !from.is_float() && from.bytes() == 1 || is_narrow(from) && !is_square => self.counted(),
            Dtype::I32 | Dtype::U32 if !is_square => self.float_of_integers(),
            _ if !from.is_float() || self.has(Dtype::F64) => self.float_total::<f64>(),
            // The squares would overflow or vanish where their root does not.
            Dtype::F32 | Dtype::Bf16 if self.reduction == Reduction::L2 => self.float_total::<f64>(),
            _ => self.float_total::<f32>(),
        }
    }

    /// Elements mapped as the reduction asks before they are added.
    fn terms<C: Compute + Signed>(self) -> Source<Val<C>> {
        let elements = Source::one::<C>(self.from);
        match self.reduction {
            // Without a sign it is its own magnitude, whatever type it is added up in.
            Reduction::L1 if !matches!(self.from, Dtype::U32 | Dtype::U64) => elements.map(Val::abs),
            Reduction::L2 | Reduction::SumSquares => elements.map(|x| x * x),
            Reduction::Dot => elements.zip(Source::one::<C>(self.from)).map(|(x, y)| x * y),
            _ => elements,
        }
    }

    fn integer_total(self) -> Fold {
        let to = self.to[0];
        let is_long = self.from.bytes().max(to.bytes()) == 8;
        // 8-bit squares, and what has 16 bits.
        let fits = self.from.bytes() == 1 || is_narrow(self.from) && self.reduction == Reduction::Sum;
        if is_long && fits {
            let sink = Sink::one::<i64>(to).after(|(sum, _)| sum);
            return self.fold(Counted(Count), self.terms(), sink);
        }
        if is_long {
            let sink = Sink::one::<i64>(to).after(|(sum, _)| sum);
            return self.fold(Counted(Sum::<i64>::new()), self.terms(), sink);
        }
        let sink = Sink::one::<i32>(to).after(|(sum, _)| sum);
        self.fold(Counted(Sum::<i32>::new()), self.terms(), sink)
    }

    /// What is made of a sum of integers, as a float.
    fn of_exact_sum(self) -> Sink<(Val<i64>, Val<u64>)> {
        let finish = self.of_sum::<f64>();
        finish.after(|(sum, count): (Val<i64>, Val<u64>)| (sum.cast::<f64>(), count))
    }

    fn counted(self) -> Fold {
        self.fold(Counted(Count), self.terms(), self.of_exact_sum())
    }

    fn float_of_integers(self) -> Fold {
        self.fold(Counted(Sum::<i64>::new()), self.terms(), self.of_exact_sum())
    }

    fn float_total<C: Compute + WideFloat>(self) -> Fold {
        self.fold(Counted(Sum::<C>::new()), self.terms(), self.of_sum::<C>())
    }

    /// What is made of a sum.
    fn of_sum<C: Compute + WideFloat>(self) -> Sink<(Val<C>, Val<u64>)> {
        let sink = Sink::one::<C>(self.to[0]);
        match self.reduction {
            Reduction::Mean => sink.after(|(sum, count): (Val<C>, Val<u64>)| sum / count.cast::<C>()),
            Reduction::LogSum => sink.after(|(sum, _): (Val<C>, _)| sum.ln()),
            Reduction::L2 => sink.after(|(sum, _): (Val<C>, _)| sum.sqrt()),
            _ => sink.after(|(sum, _)| sum),
        }
    }

    fn product<C: Compute>(self) -> Fold {
        self.fold(Product::<C>::new(), Source::one::<C>(self.from), Sink::one::<C>(self.to[0]))
    }

    const fn nan(self) -> Nan {
        if self.options.ignore_nan { Nan::Ignored } else { Nan::Propagates }
    }

    const fn side(self) -> Side {
        match self.reduction {
            Reduction::Min | Reduction::ArgMin => Side::Smallest,
            _ => Side::Largest,
        }
    }

    fn extreme<C: Compute>(self) -> Fold {
        let monoid = Counted(Extreme::<C>::new(self.side(), self.nan()));
        self.fold(monoid, Source::one::<C>(self.from), Sink::one::<C>(self.to[0]).after(|(value, _)| value))
    }

    fn largest_magnitude(self) -> Fold {
        match self.from {
            Dtype::U32 => self.largest_of(Source::one::<u32>(self.from)),
            Dtype::U64 => self.largest_of(Source::one::<u64>(self.from)),
            Dtype::I64 => self.largest_of(magnitudes::<i64>(self.from)),
            Dtype::F64 => self.largest_of(magnitudes::<f64>(self.from)),
            from if from.is_float() => self.largest_of(magnitudes::<f32>(from)),
            from => self.largest_of(magnitudes::<i32>(from)),
        }
    }

    /// The largest, and of nothing zero.
    fn largest_of<C: Compute>(self, source: Source<Val<C>>) -> Fold {
        let or_zero = |(value, count): (Val<C>, Val<u64>)| count.eq(0).select(C::ZERO, value);
        self.fold(Counted(Extreme::<C>::max()), source, Sink::one::<C>(self.to[0]).after(or_zero))
    }

    fn both_extremes<C: Compute>(self) -> Fold {
        let extreme = |side| Extreme::<C>::new(side, self.nan());
        let sink = Sink::one::<C>(self.to[0]).zip(Sink::one::<C>(self.to[1]));
        self.fold(Both(extreme(Side::Smallest), extreme(Side::Largest)), Source::one::<C>(self.from), sink)
    }

    fn truth(self, extreme: Extreme<u32>) -> Fold {
        self.fold(Counted(extreme), truths(self.from), Sink::one::<u32>(self.to[0]).after(|(truth, _)| truth))
    }

    fn count(self) -> Fold {
        let ones = truths(self.from).map(|truth| truth.min(1).cast::<i32>());
        self.fold(Counted(Count), ones, Sink::one::<i64>(self.to[0]).after(|(count, _)| count))
    }

    fn position<C: Compute>(self) -> Fold {
        let ties = if self.options.last { Ties::Last } else { Ties::First };
        let monoid = ArgExtreme::<C>::new(self.side(), self.nan(), ties);
        self.fold(monoid, Source::one::<C>(self.from), Sink::one::<u64>(self.to[0]))
    }

    fn log_sum_exp<C: Compute + WideFloat>(self) -> Fold {
        self.fold(LogSumExp::<C>::new(), Source::one::<C>(self.from), Sink::one::<C>(self.to[0]))
    }

    fn max_sum_exp<C: Compute + WideFloat>(self) -> Fold {
        let sink = Sink::one::<C>(self.to[0]).zip(Sink::one::<C>(self.to[1]));
        self.fold(MaxSumExp(LogSumExp::<C>::new()), Source::one::<C>(self.from), sink)
    }

    fn variance(self) -> Fold {
        let is_single = (self.from.bytes() <= 2 || self.from == Dtype::F32) && !self.has(Dtype::F64);
        let monoid = Variance { ddof: self.options.ddof.unwrap_or(0), is_single };
        let sink = Sink::one::<f64>(self.to[0]);
        let sink = match self.reduction {
            Reduction::Variance => sink.after(|(_, variance)| variance),
            Reduction::StandardDeviation => sink.after(|(_, variance): (_, Val<f64>)| variance.sqrt()),
            _ => sink.zip(Sink::one::<f64>(self.to[1])),
        };
        self.fold(monoid, Source::one::<f64>(self.from), sink)
    }

    /// Lists of three lengths, of which the shortest that is long enough is kept in registers.
    fn largest_few<K: Key>(self) -> Fold {
        match self.options.list_len() {
            ..=4 => self.list::<K, 4>(),
            5..=8 => self.list::<K, 8>(),
            _ => self.list::<K, 16>(),
        }
    }

    fn list<K: Key, const N: usize>(self) -> Fold {
        let len = self.options.list_len();
        let sink = K::list::<N>(self.to[0], len).zip(Sink::<[Val<u64>; N]>::list(self.to[1], len));
        let sink = sink.after(|list: [(Val<K>, Val<u64>); N]| (list.map(|entry| entry.0), list.map(|entry| entry.1)));
        self.fold(TopK::<K, N>::new(), K::source(self.from), sink)
    }

    fn reproducible_sum<C: Binned>(self) -> Fold {
        self.fold(ReproducibleSum::<C>::new(), Source::one::<C>(self.from), Sink::one::<C>(self.to[0]))
    }
}
