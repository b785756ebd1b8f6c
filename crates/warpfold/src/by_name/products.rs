//! Products of matrices by name.

use warpfold_kernels::matmul::Activation;
use warpfold_kernels::{Error, ErrorKind};

use super::{Choice, Operator, Options};
use crate::{Matmul, Tensor};

pub(super) const OPERATORS: &[Operator] = &[Operator {
    name: "matmul",
    summary: "A [.., M, K], B [.., K, N][, C][, bias] → activation(αAB + βC + bias)",
    inputs: (2, 4),
    outputs: 1,
    options: &[
        Choice::TransposeA,
        Choice::TransposeB,
        Choice::Bias,
        Choice::Activation,
        Choice::Alpha,
        Choice::Beta,
        Choice::Dtype,
        Choice::BatchInvariant,
    ],
    body: matmul,
}];

/// The last two axes exchanged, where that is asked for.
fn turned(tensor: &Tensor, is_turned: Option<bool>) -> Result<Tensor, Error> {
    if is_turned != Some(true) || tensor.rank() < 2 {
        return Ok(tensor.clone());
    }
    let mut axes: Vec<isize> = (0..tensor.rank() as isize).collect();
    let last = axes.len() - 1;
    axes.swap(last - 1, last);
    tensor.permute(&axes)
}

fn matmul(operator: &Operator, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
    let (bias, others) = match options.bias {
        Some(true) => inputs.split_last().map_or((None, inputs), |(bias, others)| (Some(bias), others)),
        _ => (None, inputs),
    };
    let (left, right, c) = match others {
        [left, right] => (left, right, None),
        [left, right, c] => (left, right, Some(c)),
        _ => {
            let (op, found) = (operator.name.to_owned(), others.len());
            return Err(ErrorKind::NumInputs { op, least: 2, most: 3, found }.into());
        }
    };
    if options.beta.is_some() && c.is_none() {
        let (op, expected) = (operator.name.to_owned(), "only with a third input".to_owned());
        return Err(ErrorKind::OptionOutOfRange { op, option: "beta", expected }.into());
    }
    let mut product = Matmul::new();
    if let Some(alpha) = options.alpha {
        product = product.alpha(alpha);
    }
    if let Some(c) = c {
        product = product.add(options.beta.unwrap_or(1.0), c);
    }
    if let Some(bias) = bias {
        product = product.bias(bias);
    }
    if let Some(name) = &options.activation {
        product = product.activation(Activation::named(name)?);
    }
    if let Some(dtype) = options.dtype {
        product = product.dtype(dtype);
    }
    if options.batch_invariant == Some(true) {
        product = product.batch_invariant();
    }
    let (left, right) = (turned(left, options.transpose_a)?, turned(right, options.transpose_b)?);
    Ok(vec![product.run(&left, &right)?])
}
