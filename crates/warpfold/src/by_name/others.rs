//! Operators beyond the families: products, losses, rows by index, counts of values.

use warpfold_kernels::{Error, ErrorKind};

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
    Operator {
        name: "gemv",
        summary: "A [M, K], x [K] → A x [M]; with --transpose x [M] → Aᵀ x [K]",
        inputs: (2, 2),
        outputs: 1,
        options: &[Choice::Transpose],
        body: gemv,
    },
    Operator {
        name: "gather",
        summary: "table [R, ..], indices [n] → rows of the table",
        inputs: (2, 2),
        outputs: 1,
        options: &[],
        body: gather,
    },
    Operator {
        name: "histogram",
        summary: "X (integers) → how often each number below the bins comes, i32",
        inputs: (1, 1),
        outputs: 1,
        options: &[Choice::Bins],
        body: histogram,
    },
    Operator {
        name: "unique-count",
        summary: "X → how many different elements there are",
        inputs: (1, 1),
        outputs: 1,
        options: &[Choice::Axes, Choice::Keepdims],
        body: unique_count,
    },
    Operator {
        name: "transpose",
        summary: "X → its axes in reverse, or in the order of --axes",
        inputs: (1, 1),
        outputs: 1,
        options: &[Choice::Axes],
        body: transpose,
    },
    Operator {
        name: "topk",
        summary: "X → the k largest along an axis, their positions",
        inputs: (1, 1),
        outputs: 2,
        options: &[Choice::Axes, Choice::K],
        body: top_k,
    },
    Operator {
        name: "nms",
        summary: "boxes [N, 4], scores [N] → the positions of the boxes that are kept",
        inputs: (2, 2),
        outputs: 1,
        options: &[Choice::Threshold],
        body: nms,
    },
];

fn nms(operator: &Operator, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
    let missing = || ErrorKind::MissingOption { op: operator.name.to_owned(), option: "threshold" };
    Ok(vec![inputs[0].nms(&inputs[1], options.threshold.ok_or_else(missing)? as f32)?])
}

fn top_k(operator: &Operator, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
    let op = || operator.name.to_owned();
    let k = options.k.ok_or_else(|| ErrorKind::MissingOption { op: op(), option: "k" })?;
    let axes = options.axes.as_deref().unwrap_or(&[-1]);
    let [axis] = *axes else { return Err(ErrorKind::NotOneAxis { op: op(), found: axes.len() }.into()) };
    let (values, positions) = inputs[0].top_k(k, axis)?;
    Ok(vec![values, positions])
}

fn gemv(_: &Operator, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
    let matrix = if options.transpose == Some(true) && inputs[0].rank() == 2 {
        inputs[0].transpose()?
    } else {
        inputs[0].clone()
    };
    Ok(vec![matrix.gemv(&inputs[1])?])
}

fn gather(_: &Operator, inputs: &[Tensor], _: &Options) -> Result<Vec<Tensor>, Error> {
    Ok(vec![inputs[0].gather(&inputs[1])?])
}

fn histogram(operator: &Operator, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
    let missing = || ErrorKind::MissingOption { op: operator.name.to_owned(), option: "bins" };
    Ok(vec![inputs[0].histogram(options.bins.ok_or_else(missing)?)?])
}

fn unique_count(_: &Operator, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
    let (x, axes) = (&inputs[0], options.axes_or_all());
    let counts = x.unique_count(axes)?;
    Ok(vec![if options.keepdims == Some(true) { counts.keep_axes(axes, x.rank())? } else { counts }])
}

fn transpose(_: &Operator, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
    let turned = options.axes.as_ref().map_or_else(|| inputs[0].transpose(), |axes| inputs[0].permute(axes))?;
    Ok(vec![turned.contiguous()?])
}

fn cross_entropy(_: &Operator, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
    let (loss, log_sum) = inputs[0].cross_entropy(&inputs[1], options.ignore_index)?;
    Ok(vec![loss, log_sum])
}

fn softmax_v(_: &Operator, inputs: &[Tensor], _: &Options) -> Result<Vec<Tensor>, Error> {
    Ok(vec![inputs[0].softmax_v(&inputs[1])?])
}
