//! Variances whose mean is known: what is folded in the second of two passes.

use warpfold_lang::Val;

use super::{Options, Reduction, outputs};
use crate::elements::{Sink, Source};
use crate::fold::{Deviations, Fold};
use crate::plan::Key;
use crate::{Dtype, Error, ErrorKind};

/// The fold of elements of a type, and of the mean of the group of each as `f64`, to their variance
/// or standard deviation; of [`Reduction::MeanVariance`] the variance alone, as the mean is there.
///
/// # Errors
/// [`ErrorKind::OptionNotTaken`] for another reduction, and those of [`outputs`].
pub fn second_pass(reduction: Reduction, from: Dtype, options: Options) -> Result<Fold, Error> {
    if !matches!(reduction, Reduction::Variance | Reduction::StandardDeviation | Reduction::MeanVariance) {
        return Err(ErrorKind::OptionNotTaken { op: reduction.to_string(), option: "two-pass" }.into());
    }
    let to = outputs(reduction, &[from], options)?[0];
    let source = Source::one::<f64>(from).zip(Source::one::<f64>(Dtype::F64)).map(|(x, mean)| x - mean);
    let sink = Sink::one::<f64>(to);
    let sink = match reduction {
        Reduction::StandardDeviation => sink.after(|variance: Val<f64>| variance.sqrt()),
        _ => sink,
    };
    let (name, monoid) = (reduction.name().replace('-', "_"), Deviations { ddof: options.ddof.unwrap_or(0) });
    let fold = Fold::new(format!("{name}_{from}_{to}_second"), monoid, source, sink);
    Ok(fold.with_key(Key::of(("second pass", reduction, from, options))))
}
