//! Operators of a pair of tensors.

use warpfold_kernels::Error;

use super::{Choice, Operator, Options};
use crate::Tensor;

pub(super) const OPERATORS: &[Operator] = &[
    Operator {
        name: "cross-entropy",
        summary: "logits, labels → loss, log-sum-exp of each row",
        inputs: (2, 2),
        outputs: 2,
        options: &[Choice::IgnoreIndex],
        body: cross_entropy,
    },
    Operator {
        name: "softmax-v",
        summary: "scores [.., S, T], values [.., T, D] → softmax(scores) values",
        inputs: (2, 2),
        outputs: 1,
        options: &[],
        body: softmax_v,
    },
];

fn cross_entropy(_: &Operator, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
    let (loss, log_sum) = inputs[0].cross_entropy(&inputs[1], options.ignore_index)?;
    Ok(vec![loss, log_sum])
}

fn softmax_v(_: &Operator, inputs: &[Tensor], _: &Options) -> Result<Vec<Tensor>, Error> {
    Ok(vec![inputs[0].softmax_v(&inputs[1])?])
}
