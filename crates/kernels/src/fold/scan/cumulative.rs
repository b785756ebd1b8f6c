//! The scans that users expect, by name: for each element type a [`Scan`] with its monoid,
//! conversions and result type.

use std::fmt;
use std::str::FromStr;

use warpfold_device::Profile;
use warpfold_lang::Val;

use super::{Direction, Prefix, Scan, ScanOrder};
use crate::elements::{Compute, Sink, Source};
use crate::fold::{Extreme, Monoid, Nan, Product, Side, Sum};
use crate::list::Shipped;
use crate::plan::{Key, TensorSpec};
use crate::{Dtype, Error, ErrorKind};

/// A scan.
///
/// Integers keep their type and wrap in it (as in ONNX; NumPy widens them); sums and products of
/// `bool` are `i64`, those of eight-bit floats `f32`. Floats are carried in `f32` at least and
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
    let to = match from {
        _ if cumulative.selects() => from,
        Dtype::Bool => dtype.unwrap_or(Dtype::I64),
        Dtype::F8E4M3 | Dtype::F8E5M2 => dtype.unwrap_or(Dtype::F32),
        _ => dtype.unwrap_or(from),
    };
    Ok(make(cumulative, from, to).with_key(Key::of((cumulative, from, to))))
}

fn make(cumulative: Cumulative, from: Dtype, to: Dtype) -> Scan {
    let row = Row { cumulative, from, to };
    if cumulative.selects() {
        return row.extreme();
    }
    match (from.is_float(), to.is_float()) {
        _ if from == Dtype::F64 || to == Dtype::F64 && from.is_float() => row.total::<f64>(),
        (true, _) => row.total::<f32>(),
        // Exact as long as it fits.
        (false, true) if cumulative == Cumulative::Sum && from.bytes() <= 4 => row.total::<i64>(),
        (false, true) => row.total::<f64>(),
        (false, false) if from.bytes() == 8 || to.bytes() == 8 => row.total::<i64>(),
        (false, false) => row.total::<i32>(),
    }
}

/// A scan with its types.
#[derive(Clone, Copy)]
struct Row {
    cumulative: Cumulative,
    from: Dtype,
    to: Dtype,
}

impl Row {
    fn scan<M: Monoid<Item = Val<C>, Output = Val<C>>, C: Compute>(self, monoid: M) -> Scan {
        let name = format!("{}_{}_{}", self.cumulative, self.from, self.to);
        Scan::new(name, monoid, Source::one::<C>(self.from), Sink::one::<C>(self.to))
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
