//! Cross-entropy of logits against labels: `ln Σ e^x - x[label]` of each row.
//!
//! It is a fold: beside the statistics of softmax it carries the logit of the label, with the label
//! as a second input that is broadcast along the row. One launch, each logit is read once. A row
//! whose label is the ignored one has the loss 0; a label outside of the row gives NaN.

use warpfold_lang::{Registers, Val, when_else};

use crate::elements::{Sink, Source};
use crate::fold::{Fold, Monoid, Position};
use crate::layout::Layout;
use crate::plan::{Family, Key, Operand, Plan, Planner, TensorSpec};
use crate::rowwise::add_fold;
use crate::rowwise::operators::{Exponentials, RowFloat};
use crate::{Dtype, Error, ErrorKind};

/// Cross-entropy of one row: its items are a logit and the row's label, its results the loss and
/// `ln Σ e^x`.
#[derive(Debug, Clone, Copy)]
struct CrossEntropy<F> {
    /// The label that has no loss.
    pub ignored: i64,
    exponentials: Exponentials<F>,
}

/// No logit so far was the label's.
const NOT_FOUND: u32 = 0;
/// One was.
const FOUND: u32 = 1;
/// The row is not counted.
const IGNORED: u32 = 2;

/// The label's logit, or 0, and whether it was found.
type Picked<F> = (Val<F>, Val<u32>);

impl<F: RowFloat> CrossEntropy<F> {
    /// Looks for the label among neighbours from `first` on.
    fn pick(self, picked: Picked<F>, items: &[(Val<F>, Val<i64>)], first: Position) -> Picked<F> {
        let label = items[0].1;
        // The label's position among these items.
        let ahead = label.bitcast::<u64>() - first.index();
        let is_here = ahead.lt(items.len() as u64);
        let found = || {
            let place = ahead.cast::<u32>();
            let pick = |logit, (i, item): (u32, &(Val<F>, Val<i64>))| place.eq(i).select::<F>(item.0, logit);
            ((1_u32..).zip(&items[1..]).fold(items[0].0, pick), Val::constant(FOUND))
        };
        // Taken by one thread of a row, once.
        let (logit, state) = when_else(is_here, found, || picked);
        (logit, label.eq(self.ignored).select::<u32>(IGNORED, state))
    }
}

impl<F: RowFloat> Monoid for CrossEntropy<F> {
    type Item = (Val<F>, Val<i64>);
    type Acc = ((Val<F>, Val<F>), Picked<F>);
    type Output = (Val<F>, Val<F>);
    const COMMUTES: bool = true;

    fn identity(self) -> Self::Acc {
        (self.exponentials.identity(), (Val::constant(F::ZERO), Val::constant(NOT_FOUND)))
    }

    fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
        let picked = Registers::select(left.1.1.eq(NOT_FOUND), right.1, left.1);
        (self.exponentials.combine(left.0, right.0), picked)
    }

    fn lift(self, item: Self::Item, position: Position) -> Self::Acc {
        self.push_all(self.identity(), &[item], position)
    }

    fn push(self, acc: Self::Acc, item: Self::Item, position: Position) -> Self::Acc {
        self.push_all(acc, &[item], position)
    }

    fn push_all(self, acc: Self::Acc, items: &[Self::Item], first: Position) -> Self::Acc {
        let logits: Vec<_> = items.iter().map(|item| item.0).collect();
        (self.exponentials.push_all(acc.0, &logits, first), self.pick(acc.1, items, first))
    }

    fn finish(self, ((largest, sum), (logit, state)): Self::Acc, _: Val<u64>) -> Self::Output {
        let log_sum = sum.ln() + self.exponentials.shift(largest);
        let loss = state.eq(FOUND).select::<F>(log_sum - logit, F::from_f64(f64::NAN));
        (state.eq(IGNORED).select::<F>(F::ZERO, loss), log_sum)
    }
}

/// The family of cross-entropies. Inputs are logits and labels, outputs the loss of each row and
/// `ln Σ e^x`, of the type of the logits.
#[derive(Debug, Clone, Copy, Default)]
pub struct CrossEntropyLoss;

/// Logits and labels.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Floats of 16 to 64 bits, with the classes along the last dimension.
    pub logits: TensorSpec,
    /// Integers of the shape of the logits without the last dimension.
    pub labels: TensorSpec,
    /// The label that has no loss.
    pub ignored: i64,
}

/// What its kernels are built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct CrossEntropyConfig {
    logits: Dtype,
    labels: Dtype,
    ignored: i64,
}

impl CrossEntropyConfig {
    /// # Errors
    /// [`ErrorKind::Unsupported`] unless logits are floats and labels integers.
    fn of(problem: &Problem) -> Result<Self, Error> {
        let (logits, labels) = (problem.logits.dtype, problem.labels.dtype);
        let unsupported = |dtype| ErrorKind::Unsupported { op: "cross-entropy".to_owned(), dtype };
        if !matches!(logits, Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64) {
            return Err(unsupported(logits).into());
        }
        if !labels.is_integer() {
            return Err(unsupported(labels).into());
        }
        Ok(Self { logits, labels, ignored: problem.ignored })
    }

    fn fold(self) -> Fold {
        match self.logits {
            Dtype::F64 => self.fold_in::<f64>(),
            _ => self.fold_in::<f32>(),
        }
    }

    fn fold_in<F: RowFloat>(self) -> Fold {
        let Self { logits, labels, ignored } = self;
        let source = Source::one::<F>(logits).zip(Source::one::<i64>(labels));
        let sink = Sink::one::<F>(logits).zip(Sink::one::<F>(logits));
        let monoid = CrossEntropy { ignored, exponentials: Exponentials::<F>::new(logits.bytes() <= 2) };
        Fold::new(format!("cross_entropy_{logits}_{labels}"), monoid, source, sink)
    }
}

/// There is not one label for each row of the logits.
fn labels_do_not_fit(logits: &[usize], labels: &[usize]) -> Error {
    let reason = format!("logits {logits:?} take labels {:?}, not {labels:?}", &logits[..logits.len().max(1) - 1]);
    ErrorKind::Operand { operator: "cross-entropy", reason }.into()
}

impl Family for CrossEntropyLoss {
    type Problem = Problem;

    fn plan(&self, problem: &Problem, planner: &Planner<'_>) -> Result<Plan, Error> {
        let Problem { logits, labels, .. } = problem;
        let config = CrossEntropyConfig::of(problem)?;
        let (shape, rows) = (logits.layout.shape(), labels.layout.shape());
        if shape.split_last().is_none_or(|(_, of_rows)| of_rows != rows) {
            return Err(labels_do_not_fit(shape, rows));
        }
        let strides = labels.layout.strides().iter().copied().chain([0]).collect();
        let repeated = TensorSpec { layout: Layout::new(shape.to_vec(), strides)?, ..labels.clone() };
        let result = TensorSpec::contiguous(logits.dtype, rows)?;
        let mut plan = Plan::new("cross-entropy")
            .input(logits.operand("the logits"))
            .input(labels.operand("the labels"))
            .output(result.operand("the losses"))
            .output(result.operand("the logarithms"))
            .choice("a fold of each row");
        let inputs = [(Operand::Input(0), logits.clone()), (Operand::Input(1), repeated)];
        let outputs = [Operand::Output(0), Operand::Output(1)];
        let fold = config.fold().with_key(Key::of(config));
        add_fold(&mut plan, &fold, &inputs, &[shape.len() - 1], outputs, planner)?;
        Ok(plan)
    }
}
