//! Reduction of the values of all ranks: a monoid, folded in the order of ranks.

use std::fmt;
use std::sync::Arc;

use warpfold_kernels::Dtype;
use warpfold_kernels::elements::{Compute, Place, Run, Sink, Source};
use warpfold_kernels::fold::{Extreme, Monoid, Position, Product, Sum};
use warpfold_lang::{Global, Val};

/// Built-in reductions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reduce {
    /// The sum; f16, bf16 and f8 are added up in f32 and rounded once.
    Sum,
    /// The product, in f32 like the sum.
    Product,
    /// The minimum; NaN if any value is NaN.
    Min,
    /// The maximum; NaN if any value is NaN.
    Max,
}

impl Reduce {
    /// All reductions.
    pub const ALL: [Self; 4] = [Self::Sum, Self::Product, Self::Min, Self::Max];

    /// `sum`, `product`, `min`, `max`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Product => "product",
            Self::Min => "min",
            Self::Max => "max",
        }
    }
}

/// Loads the items of every rank at some places, combines them, and stores the results: for each
/// place pointers to the items by rank and to where the result goes, then how many neighbours a
/// place has, and whether they are aligned together.
type Step = dyn Fn(&[Vec<Global<u8>>], &[Vec<Global<u8>>], u32, bool) + Send + Sync;

/// A monoid with the types of its items and results in memory: the element-wise reduction of an
/// all-reduce, in the order of ranks. Results are bit-identical on every run and over every
/// transport.
///
/// ```
/// use warpfold_collectives::Combine;
/// use warpfold_kernels::Dtype;
/// use warpfold_kernels::elements::{Sink, Source};
/// use warpfold_kernels::fold::LogSumExp;
///
/// // log(exp(a) + exp(b) + …) over the ranks.
/// let combine = Combine::new("lse", LogSumExp::<f32>::new(), Source::one::<f32>(Dtype::F32), Sink::one(Dtype::F32));
/// assert_eq!(combine.name(), "lse");
/// ```
#[derive(Clone)]
pub struct Combine {
    name: Arc<str>,
    item: Dtype,
    output: Dtype,
    step: Arc<Step>,
}

impl Combine {
    /// Makes a reduction from a monoid with one input source and one output sink; the name is part
    /// of the kernels' names, and distinguishes it from other monoids of the group.
    ///
    /// # Panics
    /// If the source has not one input, or the sink not one output.
    #[must_use]
    pub fn new<M: Monoid>(
        name: impl Into<Arc<str>>,
        monoid: M,
        source: Source<M::Item>,
        sink: Sink<M::Output>,
    ) -> Self {
        let name = name.into();
        assert_eq!(source.dtypes().len(), 1, "{name} takes one input");
        assert_eq!(sink.dtypes().len(), 1, "{name} has one output");
        let (item, output) = (source.dtypes()[0], sink.dtypes()[0]);
        let step = move |items: &[Vec<Global<u8>>], to: &[Vec<Global<u8>>], n: u32, wide: bool| {
            let run = if wide { Run::Wide } else { Run::Narrow };
            let at = |rank: usize| Position::new(Val::constant(0), rank as u64);
            let load = |&pointer: &Global<u8>| source.load(&[Place { pointer, run }], n);
            // All loads come first, so that they overlap.
            let loaded: Vec<Vec<Vec<M::Item>>> = items.iter().map(|place| place.iter().map(load).collect()).collect();
            for (ranks, to) in loaded.into_iter().zip(to) {
                let count = Val::constant(ranks.len() as u64);
                let mut ranks = ranks.into_iter().enumerate();
                let (_, first) = ranks.next().expect("there is a rank");
                let mut folded: Vec<M::Acc> = first.into_iter().map(|item| monoid.lift(item, at(0))).collect();
                for (rank, items) in ranks {
                    for (acc, item) in folded.iter_mut().zip(items) {
                        *acc = monoid.combine(*acc, monoid.lift(item, at(rank)));
                    }
                }
                let results: Vec<M::Output> = folded.into_iter().map(|acc| monoid.finish(acc, count)).collect();
                to.iter().for_each(|to| sink.store(&[*to], &results, wide));
            }
        };
        Self { name, item, output, step: Arc::new(step) }
    }

    /// A built-in reduction of an element type.
    #[must_use]
    pub fn of(reduce: Reduce, dtype: Dtype) -> Self {
        match dtype {
            Dtype::Bool | Dtype::U8 | Dtype::I8 | Dtype::U16 | Dtype::I16 | Dtype::I32 => {
                Self::computed_in::<i32>(reduce, dtype)
            }
            Dtype::U32 => Self::computed_in::<u32>(reduce, dtype),
            Dtype::U64 => Self::computed_in::<u64>(reduce, dtype),
            Dtype::I64 => Self::computed_in::<i64>(reduce, dtype),
            Dtype::F64 => Self::computed_in::<f64>(reduce, dtype),
            Dtype::F16 | Dtype::Bf16 | Dtype::F8E4M3 | Dtype::F8E5M2 | Dtype::F32 => {
                Self::computed_in::<f32>(reduce, dtype)
            }
        }
    }

    fn computed_in<C: Compute>(reduce: Reduce, dtype: Dtype) -> Self {
        let name = format!("{}_{dtype}", reduce.name());
        let (source, sink) = (Source::one::<C>(dtype), Sink::one::<C>(dtype));
        match reduce {
            Reduce::Sum => Self::new(name, Sum::<C>::new(), source, sink),
            Reduce::Product => Self::new(name, Product::<C>::new(), source, sink),
            Reduce::Min => Self::new(name, Extreme::<C>::min(), source, sink),
            Reduce::Max => Self::new(name, Extreme::<C>::max(), source, sink),
        }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type of the items in memory.
    #[must_use]
    pub fn item(&self) -> Dtype {
        self.item
    }

    /// The type of the results in memory.
    #[must_use]
    pub fn output(&self) -> Dtype {
        self.output
    }

    /// Elements combined together if everything is aligned to 16 bytes.
    pub(crate) fn vector(&self) -> u32 {
        (16 / self.item.bytes().max(self.output.bytes())) as u32
    }

    /// Combines the items of all ranks at several places, `n` neighbours at each.
    pub(crate) fn step(&self, items: &[Vec<Global<u8>>], to: &[Vec<Global<u8>>], n: u32, wide: bool) {
        (self.step)(items, to, n, wide);
    }
}

impl fmt::Debug for Combine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Combine({}: {} to {})", self.name, self.item, self.output)
    }
}
