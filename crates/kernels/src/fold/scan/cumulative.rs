//! The scans that users expect, by name: for each element type a [`Scan`] with its monoid, conversions and result type.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::{AnyScan, Scan};
use crate::elements::{Compute, Sink, Source};
use crate::fold::{Product, Sum};
use crate::{Dtype, Error, ErrorKind};

/// A scan.
///
/// Integers keep their type and wrap in it (as in ONNX; NumPy widens them); `bool` is counted in `i64`, and eight-bit
/// floats give `f32`. Floats are carried in `f32` at least, and rounded once for each result. The first result of an
/// exclusive scan is the identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cumulative {
    /// Running sums.
    Sum,
    /// Running products.
    Product,
}

impl Cumulative {
    /// All of them.
    pub const ALL: &[Self] = &[Self::Sum, Self::Product];

    /// As the program takes it: `cumsum`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "cumsum",
            Self::Product => "cumprod",
        }
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

/// The scan of elements of a type, made once a process; `dtype` is the results' type where it is not what the scan gives
/// by itself.
#[must_use]
pub fn scan_of(cumulative: Cumulative, from: Dtype, dtype: Option<Dtype>) -> Arc<dyn AnyScan> {
    type Key = (Cumulative, Dtype, Dtype);
    static SCANS: LazyLock<Mutex<HashMap<Key, Arc<dyn AnyScan>>>> = LazyLock::new(Mutex::default);
    let to = dtype.unwrap_or(match from {
        Dtype::Bool => Dtype::I64,
        Dtype::F8E4M3 | Dtype::F8E5M2 => Dtype::F32,
        _ => from,
    });
    let mut scans = SCANS.lock().unwrap_or_else(PoisonError::into_inner);
    scans.entry((cumulative, from, to)).or_insert_with(|| make(cumulative, from, to)).clone()
}

/// By the type that a scan of `from` stored as `to` is computed in.
fn make(cumulative: Cumulative, from: Dtype, to: Dtype) -> Arc<dyn AnyScan> {
    match (from, to) {
        (Dtype::F64, _) | (_, Dtype::F64) => computed::<f64>(cumulative, from, to),
        _ if from.is_float() || to.is_float() => computed::<f32>(cumulative, from, to),
        _ if from.bytes() == 8 || to.bytes() == 8 => computed::<i64>(cumulative, from, to),
        _ => computed::<i32>(cumulative, from, to),
    }
}

fn computed<C: Compute>(cumulative: Cumulative, from: Dtype, to: Dtype) -> Arc<dyn AnyScan> {
    let name = format!("{cumulative}_{from}_{to}");
    let (source, sink) = (Source::one::<C>(from), Sink::one::<C>(to));
    match cumulative {
        Cumulative::Sum => Arc::new(Scan::new(name, Sum::<C>::new(), source, sink)),
        Cumulative::Product => Arc::new(Scan::new(name, Product::<C>::new(), source, sink)),
    }
}
