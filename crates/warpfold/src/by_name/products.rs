//! Products of matrices and convolutions by name.

use warpfold_kernels::matmul::Activation;
use warpfold_kernels::{Error, ErrorKind};

use super::{Choice, Operator, Options};
use crate::{Conv2d, ImageLayout, Matmul, Tensor};

pub(super) const OPERATORS: &[Operator] = &[
    Operator {
        name: "matmul",
        summary: "A [.., M, K], B [.., K, N][, C][, scales][, bias] → activation(αAB + βC + bias) (of integers: whole α, β)",
        inputs: (2, 7),
        outputs: 1,
        options: &[
            Choice::TransposeA,
            Choice::TransposeB,
            Choice::ScaleA,
            Choice::ScaleB,
            Choice::ScaleResult,
            Choice::Bias,
            Choice::Activation,
            Choice::Alpha,
            Choice::Beta,
            Choice::Dtype,
            Choice::BatchInvariant,
        ],
        body: matmul,
    },
    Operator {
        name: "conv2d",
        summary: "X [N, C, H, W], filters [K, C, R, S][, bias [K]] → activation(X * filters + bias)",
        inputs: (2, 3),
        outputs: 1,
        options: &[
            Choice::Stride,
            Choice::Padding,
            Choice::Dilation,
            Choice::Groups,
            Choice::Layout,
            Choice::Bias,
            Choice::Activation,
            Choice::Dtype,
        ],
        body: conv2d,
    },
];

/// A number for each direction.
fn both(operator: &Operator, option: Choice, numbers: Option<&Vec<usize>>, default: u32) -> Result<[u32; 2], Error> {
    let expected = || ErrorKind::OptionOutOfRange {
        op: operator.name.to_owned(),
        option: option.name(),
        expected: "of one number or two".to_owned(),
    };
    let number = |number: usize| u32::try_from(number).map_err(|_| Error::from(expected()));
    match numbers.map(Vec::as_slice) {
        None => Ok([default; 2]),
        Some([one]) => Ok([number(*one)?; 2]),
        Some([down, across]) => Ok([number(*down)?, number(*across)?]),
        Some(_) => Err(expected().into()),
    }
}

fn conv2d(operator: &Operator, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
    let (images, filters, bias) = match (inputs, options.bias) {
        ([images, filters], None | Some(false)) => (images, filters, None),
        ([images, filters, bias], Some(true)) => (images, filters, Some(bias)),
        _ => {
            let (op, found) = (operator.name.to_owned(), inputs.len());
            let inputs = if options.bias == Some(true) { 3 } else { 2 };
            return Err(ErrorKind::NumInputs { op, least: inputs, most: inputs, found }.into());
        }
    };
    let layout = match options.layout.as_deref() {
        None | Some("nchw") => ImageLayout::Nchw,
        Some("nhwc") => ImageLayout::Nhwc,
        Some(_) => {
            let (op, expected) = (operator.name.to_owned(), "nchw or nhwc".to_owned());
            return Err(ErrorKind::OptionOutOfRange { op, option: "layout", expected }.into());
        }
    };
    let mut convolution = Conv2d::new()
        .stride(both(operator, Choice::Stride, options.stride.as_ref(), 1)?)
        .padding(both(operator, Choice::Padding, options.padding.as_ref(), 0)?)
        .dilation(both(operator, Choice::Dilation, options.dilation.as_ref(), 1)?)
        .groups(options.groups.unwrap_or(1))
        .layout(layout);
    if let Some(bias) = bias {
        convolution = convolution.bias(bias);
    }
    if let Some(name) = &options.activation {
        convolution = convolution.activation(Activation::named(name)?);
    }
    if let Some(dtype) = options.dtype {
        convolution = convolution.dtype(dtype);
    }
    Ok(vec![convolution.run(images, filters)?])
}

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
    // The matrices first, then what options stand for, in their order.
    let flags = [options.scale_a, options.scale_b, options.scale_result, options.bias];
    let num_named = flags.iter().filter(|flag| **flag == Some(true)).count();
    let (matrices, named) = inputs.split_at(inputs.len().saturating_sub(num_named));
    let (left, right, c) = match matrices {
        [left, right] => (left, right, None),
        [left, right, c] => (left, right, Some(c)),
        _ => {
            let (op, found, least) = (operator.name.to_owned(), inputs.len(), 2 + num_named);
            return Err(ErrorKind::NumInputs { op, least, most: least + 1, found }.into());
        }
    };
    let mut named = named.iter();
    let [scale_a, scale_b, scale_result, bias] = flags.map(|flag| if flag == Some(true) { named.next() } else { None });
    if options.beta.is_some() && c.is_none() {
        let (op, expected) = (operator.name.to_owned(), "only with a third input".to_owned());
        return Err(ErrorKind::OptionOutOfRange { op, option: "beta", expected }.into());
    }
    let mut product = Matmul::new();
    if let Some(scale) = scale_a {
        product = product.scale_a(scale);
    }
    if let Some(scale) = scale_b {
        product = product.scale_b(scale);
    }
    if let Some(scale) = scale_result {
        product = product.scale_result(scale);
    }
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
