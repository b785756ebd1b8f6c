//! Variances whose mean is known: what is folded in the second of two passes.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use warpfold_lang::Val;

use super::{Options, Reduction, outputs};
use crate::elements::{Sink, Source};
use crate::fold::{AnyFold, Deviations, Fold};
use crate::{Dtype, Error, ErrorKind};

/// The fold of elements of a type, and of the mean of what each belongs to as `f64`, to their variance or standard
/// deviation; of [`Reduction::MeanVariance`] the variance alone, as the mean is there. Made once a process.
///
/// # Errors
/// [`ErrorKind::OptionNotTaken`] for another reduction, and those of [`outputs`].
pub fn second_pass(reduction: Reduction, from: Dtype, options: Options) -> Result<Arc<dyn AnyFold>, Error> {
    if !matches!(reduction, Reduction::Variance | Reduction::StandardDeviation | Reduction::MeanVariance) {
        return Err(ErrorKind::OptionNotTaken { op: reduction.to_string(), option: "two-pass" }.into());
    }
    static MADE: LazyLock<Mutex<HashMap<(Reduction, Dtype, Options), Arc<dyn AnyFold>>>> =
        LazyLock::new(Mutex::default);
    let to = outputs(reduction, &[from], options)?[0];
    let mut known = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(known.entry((reduction, from, options)).or_insert_with(|| make(reduction, from, to, options)).clone())
}

fn make(reduction: Reduction, from: Dtype, to: Dtype, options: Options) -> Arc<dyn AnyFold> {
    let source = Source::one::<f64>(from).zip(Source::one::<f64>(Dtype::F64)).map(|(x, mean)| x - mean);
    let sink = Sink::one::<f64>(to);
    let sink = match reduction {
        Reduction::StandardDeviation => sink.after(|variance: Val<f64>| variance.sqrt()),
        _ => sink,
    };
    let (name, monoid) = (reduction.name().replace('-', "_"), Deviations { ddof: options.ddof.unwrap_or(0) });
    Arc::new(Fold::new(format!("{name}_{from}_{to}_second"), monoid, source, sink))
}
