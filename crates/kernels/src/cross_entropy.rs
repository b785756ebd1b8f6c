//! Cross-entropy of logits against labels: `ln Σ e^x - x[label]` of each row.
//!
//! It is a fold: beside the statistics of softmax it carries the logit that the label points to, with the label as a
//! second input that is the same all along the row. One launch, each logit read once. A row whose label is the ignored
//! one has the loss 0; a label outside of the row gives NaN. Computed in f32.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use warpfold_lang::{Registers, Val};

use crate::elements::{Sink, Source};
use crate::fold::{AnyFold, Fold, Monoid, OnlineSoftmax, Position};
use crate::{Dtype, Error, ErrorKind};

/// Cross-entropy of one row: its items are a logit and the row's label, its results the loss and `ln Σ e^x`.
#[derive(Debug, Clone, Copy)]
pub struct CrossEntropy {
    /// The label that has no loss.
    pub ignored: i64,
}

/// No logit so far was the label's.
const NOT_FOUND: u32 = 0;
/// One was.
const FOUND: u32 = 1;
/// The row is not counted.
const IGNORED: u32 = 2;

impl CrossEntropy {
    /// The label's logit, or 0; and what is known of the label.
    fn pick(self, (logit, label): (Val<f32>, Val<i64>), position: Position) -> (Val<f32>, Val<u32>) {
        let is_label = position.index().bitcast::<i64>().eq(label);
        let state = is_label.select::<u32>(FOUND, NOT_FOUND);
        (is_label.select::<f32>(logit, 0.0), label.eq(self.ignored).select::<u32>(IGNORED, state))
    }
}

impl Monoid for CrossEntropy {
    type Item = (Val<f32>, Val<i64>);
    type Acc = ((Val<f32>, Val<f32>), (Val<f32>, Val<u32>));
    type Output = (Val<f32>, Val<f32>);
    const COMMUTES: bool = true;

    fn identity(self) -> Self::Acc {
        (OnlineSoftmax.identity(), (Val::constant(0.0), Val::constant(NOT_FOUND)))
    }

    fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
        let picked = Registers::select(left.1.1.eq(NOT_FOUND), right.1, left.1);
        (OnlineSoftmax.combine(left.0, right.0), picked)
    }

    fn lift(self, item: Self::Item, position: Position) -> Self::Acc {
        (OnlineSoftmax.lift(item.0, position), self.pick(item, position))
    }

    fn push(self, acc: Self::Acc, item: Self::Item, position: Position) -> Self::Acc {
        let picked = self.pick(item, position);
        (OnlineSoftmax.push(acc.0, item.0, position), Registers::select(acc.1.1.eq(NOT_FOUND), picked, acc.1))
    }

    fn finish(self, ((largest, sum), (logit, state)): Self::Acc, _: Val<u64>) -> Self::Output {
        let log_sum = sum.ln() + OnlineSoftmax::shift(largest);
        let loss = state.eq(FOUND).select::<f32>(log_sum - logit, f32::NAN);
        (state.eq(IGNORED).select::<f32>(0.0, loss), log_sum)
    }
}

/// The fold for logits and labels of these types, made once a process. Its outputs, the loss and `ln Σ e^x`, have the
/// type of the logits.
///
/// # Errors
/// [`ErrorKind::Unsupported`] unless logits are floats of up to 32 bits and labels integers.
pub fn cross_entropy(logits: Dtype, labels: Dtype, ignored: i64) -> Result<Arc<dyn AnyFold>, Error> {
    static MADE: LazyLock<Mutex<HashMap<(Dtype, Dtype, i64), Arc<dyn AnyFold>>>> = LazyLock::new(Mutex::default);
    let unsupported = |dtype| ErrorKind::Unsupported { op: "cross-entropy".to_owned(), dtype };
    if !matches!(logits, Dtype::F16 | Dtype::Bf16 | Dtype::F32) {
        return Err(unsupported(logits).into());
    }
    if !labels.is_integer() {
        return Err(unsupported(labels).into());
    }
    let make = || -> Arc<dyn AnyFold> {
        let source = Source::one::<f32>(logits).zip(Source::one::<i64>(labels));
        let sink = Sink::one::<f32>(logits).zip(Sink::one::<f32>(logits));
        let name = format!("cross_entropy_{logits}_{labels}");
        Arc::new(Fold::new(name, CrossEntropy { ignored }, source, sink))
    };
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(made.entry((logits, labels, ignored)).or_insert_with(make).clone())
}
