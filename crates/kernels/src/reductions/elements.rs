//! The sources that several reductions share: magnitudes, truths.

use warpfold_lang::{Signed, Val};

use crate::Dtype;
use crate::elements::{Compute, Source};

/// Whether elements of the type are integers (or truths) of at most 16 bits, which 32 bits compute
/// with.
pub(super) const fn is_narrow(dtype: Dtype) -> bool {
    dtype.bytes() <= 2 && !dtype.is_float()
}

/// Magnitudes, as the type has them: that of the smallest integer is itself.
pub(super) fn magnitudes<C: Compute + Signed>(from: Dtype) -> Source<Val<C>> {
    let source = Source::one::<C>(from).map(Val::abs);
    match from {
        Dtype::I8 => source.map(|x| x.cast::<i8>().cast()),
        Dtype::I16 => source.map(|x| x.cast::<i16>().cast()),
        _ => source,
    }
}

/// A word for each element that is zero if and only if the element is, in as few instructions as
/// the type allows.
pub(super) fn truths(from: Dtype) -> Source<Val<u32>> {
    // Either half of 64 bits.
    let fold = |x: Val<u64>| (x | (x >> 32)).cast::<u32>();
    match from {
        Dtype::U64 | Dtype::I64 => Source::one::<u64>(from).map(fold),
        // The sign of a zero does not count.
        Dtype::F64 => Source::one::<f64>(from).map(move |x| fold(x.bitcast::<u64>() << 1)),
        _ if from.is_float() => Source::one::<f32>(from).map(|x| x.bitcast::<u32>() << 1),
        _ => Source::one::<u32>(from),
    }
}
