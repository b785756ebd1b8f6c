//! Which monoid, which conversions and which result each reduction has for each element type.

use std::sync::Arc;

use super::{Options, Reduction};
use crate::elements::{Compute, Sink, Source};
use crate::fold::{AnyFold, Fold, Sum};
use crate::{Dtype, Error};

pub(super) fn make(reduction: Reduction, dtypes: &[Dtype], options: Options) -> Result<Arc<dyn AnyFold>, Error> {
    let from = dtypes[0];
    let to = options.dtype.unwrap_or(from);
    Ok(match reduction {
        Reduction::Sum => by_compute_type(to, from, reduction),
    })
}

/// The type that a sum of `from` stored as `to` is computed in.
fn by_compute_type(to: Dtype, from: Dtype, reduction: Reduction) -> Arc<dyn AnyFold> {
    match (from, to) {
        (Dtype::F64, _) | (_, Dtype::F64) => sum::<f64>(reduction, from, to),
        _ if from.is_float() || to.is_float() => sum::<f32>(reduction, from, to),
        _ if from.bytes() == 8 || to.bytes() == 8 => sum::<i64>(reduction, from, to),
        _ => sum::<i32>(reduction, from, to),
    }
}

fn sum<C: Compute>(reduction: Reduction, from: Dtype, to: Dtype) -> Arc<dyn AnyFold> {
    let name = format!("{reduction}_{from}_{to}");
    Arc::new(Fold::new(name, Sum::<C>::new(), Source::one::<C>(from), Sink::one::<C>(to)))
}
