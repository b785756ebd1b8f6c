//! The scans that users expect, by name: for each element type a [`Scan`] with its monoid,
//! conversions and result type.

use std::fmt;
use std::str::FromStr;

use warpfold_device::Profile;
use warpfold_lang::Val;

use super::{Direction, Prefix, Scan, ScanOrder};
use crate::Shipped;
use crate::elements::{Compute, Sink, Source};
use crate::fold::{Extreme, InSegments, Monoid, Nan, Product, Side, Sum};
use crate::plan::{Key, TensorSpec};
use crate::reductions::total;
use crate::{Dtype, Error, ErrorKind};

/// A scan.
///
/// Sums and products of integers and of `bool` have 64 bits and wrap there, as in NumPy and the
/// array API (ONNX keeps their type, as the option does); those of eight-bit floats are `f32`.
/// Floats are carried in `f32` at least and
/// rounded once for each result; integers whose results are floats are added exactly. The first
/// result of an exclusive scan is the identity: 0, 1, or the farthest value of the type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cumulative {
    /// Running sums.
    Sum,
    /// Running products.
    Product,
    /// The largest so far; from a NaN on, NaN.
    Max,
    /// The smallest so far; from a NaN on, NaN.
    Min,
}

impl Cumulative {
    /// All of them.
    pub const ALL: &[Self] = &[Self::Sum, Self::Product, Self::Max, Self::Min];

    /// As the program takes it: `cumsum`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "cumsum",
            Self::Product => "cumprod",
            Self::Max => "cummax",
            Self::Min => "cummin",
        }
    }

    /// Whether results are elements, so that there is no other type to choose.
    const fn selects(self) -> bool {
        matches!(self, Self::Max | Self::Min)
    }
}

impl fmt::Display for Cumulative {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Cumulative {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let known = Self::ALL.iter().copied().find(|scan| scan.name() == text);
        known.ok_or_else(|| ErrorKind::UnknownOperation(text.to_owned()).into())
    }
}

/// The scan of elements of a type; `dtype` is the results' type where it is not what the scan gives
/// by itself.
///
/// # Errors
/// [`ErrorKind::OptionNotTaken`] for a type of results that are elements.
pub fn scan_of(cumulative: Cumulative, from: Dtype, dtype: Option<Dtype>) -> Result<Scan, Error> {
    if cumulative.selects() && dtype.is_some() {
        return Err(ErrorKind::OptionNotTaken { op: cumulative.to_string(), option: "dtype" }.into());
    }
    let to = result(cumulative, from, dtype);
    Ok(Row { cumulative, from, to, segments: None }.make().with_key(Key::of((cumulative, from, to))))
}

/// The element type of a scan's results.
fn result(cumulative: Cumulative, from: Dtype, dtype: Option<Dtype>) -> Dtype {
    if cumulative.selects() { from } else { dtype.unwrap_or(total(from)) }
}

impl Cumulative {
    /// The scan of segments, each by itself. Its second input says where they begin, in the order
    /// of the scan: an `i32` for each element, not 0 for the first of a segment. It is carried out
    /// as an inclusive scan, whether or not the prefixes have their own element.
    ///
    /// # Errors
    /// Those of [`scan_of`].
    pub fn in_segments(self, from: Dtype, dtype: Option<Dtype>, prefix: Prefix) -> Result<Scan, Error> {
        if self.selects() && dtype.is_some() {
            return Err(ErrorKind::OptionNotTaken { op: self.to_string(), option: "dtype" }.into());
        }
        let to = result(self, from, dtype);
        let scan = Row { cumulative: self, from, to, segments: Some(prefix) }.make();
        Ok(scan.with_key(Key::of(("segments", self, from, to, prefix))))
    }
}

/// A scan with its types.
#[derive(Clone, Copy)]
struct Row {
    cumulative: Cumulative,
    from: Dtype,
    to: Dtype,
    /// Which items prefixes of segments have.
    segments: Option<Prefix>,
}

impl Row {
    fn make(self) -> Scan {
        let Self { cumulative, from, to, .. } = self;
        if cumulative.selects() {
            return self.extreme();
        }
        match (from.is_float(), to.is_float()) {
            _ if from == Dtype::F64 || to == Dtype::F64 && from.is_float() => self.total::<f64>(),
            (true, _) => self.total::<f32>(),
            // Exact as long as it fits.
            (false, true) if cumulative == Cumulative::Sum && from.bytes() <= 4 => self.total::<i64>(),
            (false, true) => self.total::<f64>(),
            (false, false) if from.bytes() == 8 || to.bytes() == 8 => self.total::<i64>(),
            (false, false) => self.total::<i32>(),
        }
    }

    fn scan<M: Monoid<Item = Val<C>, Acc = Val<C>, Output = Val<C>>, C: Compute>(self, monoid: M) -> Scan {
        let Self { cumulative, from, to, segments } = self;
        let (source, sink) = (Source::one::<C>(from), Sink::one::<C>(to));
        let name = format!("{cumulative}_{from}_{to}");
        match segments {
            None => Scan::new(name, monoid, source, sink),
            Some(prefix) => {
                let is_exclusive = prefix == Prefix::Exclusive;
                let heads = Source::one::<u32>(Dtype::I32);
                let name = format!("{name}_segments{}", if is_exclusive { "_exclusive" } else { "" });
                Scan::new(name, InSegments { monoid, is_exclusive }, source.zip(heads), sink)
            }
        }
    }

    /// Computed in `C`.
    fn total<C: Compute>(self) -> Scan {
        match self.cumulative {
            Cumulative::Product => self.scan(Product::<C>::new()),
            _ => self.scan(Sum::<C>::new()),
        }
    }

    fn extreme(self) -> Scan {
        let side = if self.cumulative == Cumulative::Max { Side::Largest } else { Side::Smallest };
        match self.from {
            Dtype::U32 => self.scan(Extreme::<u32>::new(side, Nan::Propagates)),
            Dtype::U64 => self.scan(Extreme::<u64>::new(side, Nan::Propagates)),
            Dtype::I64 => self.scan(Extreme::<i64>::new(side, Nan::Propagates)),
            Dtype::F64 => self.scan(Extreme::<f64>::new(side, Nan::Propagates)),
            from if from.is_float() => self.scan(Extreme::<f32>::new(side, Nan::Propagates)),
            _ => self.scan(Extreme::<i32>::new(side, Nan::Propagates)),
        }
    }
}

/// Kernels of every kind, each of another type, for the list of all kernels.
pub(crate) fn kernels() -> Vec<Shipped> {
    use Direction::{Forward, Reverse};
    use Prefix::{Exclusive, Inclusive};
    let cases: [(_, _, &[usize], _, _, _); 9] = [
        (Cumulative::Sum, Dtype::F32, &[1 << 24], 0, Inclusive, Forward),
        (Cumulative::Sum, Dtype::F64, &[1 << 24], 0, Exclusive, Reverse),
        (Cumulative::Sum, Dtype::U8, &[1 << 24], 0, Inclusive, Forward),
        (Cumulative::Sum, Dtype::Bf16, &[4096, 4096], 1, Inclusive, Forward),
        (Cumulative::Sum, Dtype::I16, &[4096, 100], 1, Exclusive, Forward),
        (Cumulative::Product, Dtype::F32, &[1001, 6001], 1, Inclusive, Reverse),
        (Cumulative::Sum, Dtype::I64, &[1 << 16, 64], 0, Inclusive, Forward),
        (Cumulative::Max, Dtype::F32, &[64, 4096, 512], 1, Inclusive, Forward),
        (Cumulative::Min, Dtype::F16, &[8, 4096], 0, Exclusive, Reverse),
    ];
    let kernel = |(cumulative, dtype, shape, axis, prefix, direction)| {
        let scan = scan_of(cumulative, dtype, None).expect("results have their own type");
        let spec = |dtype| TensorSpec::contiguous(dtype, shape).expect("few dimensions");
        let (from, to) = (vec![spec(dtype)], vec![spec(scan.outputs()[0])]);
        Shipped::planned(&scan, &scan.problem(from, to, axis, ScanOrder { prefix, direction }), Profile::H200)
    };
    cases.map(kernel).into()
}
