//! The element types of results.

use super::{Options, Reduction};
use crate::error::input_of;
use crate::{Dtype, Error, ErrorKind};

/// The element types of a reduction's results over elements of these types, one an input.
///
/// # Errors
/// [`ErrorKind::NumInputs`], [`ErrorKind::DtypeMismatch`], [`ErrorKind::OptionNotTaken`],
/// [`ErrorKind::OptionOutOfRange`], and [`ErrorKind::Unsupported`] for a reproducible sum of
/// integers: any sum of them is.
pub fn outputs(reduction: Reduction, dtypes: &[Dtype], options: Options) -> Result<Vec<Dtype>, Error> {
    options.check(reduction)?;
    let inputs = reduction.inputs();
    if dtypes.len() != inputs {
        let op = reduction.to_string();
        return Err(ErrorKind::NumInputs { op, least: inputs, most: inputs, found: dtypes.len() }.into());
    }
    let from = dtypes[0];
    if let Some(other) = dtypes.iter().position(|dtype| *dtype != from) {
        let (operand, found) = (input_of(other, reduction), dtypes[other]);
        return Err(ErrorKind::DtypeMismatch { operand, found, expected: from }.into());
    }
    if reduction == Reduction::ReproducibleSum && !from.is_float() {
        return Err(ErrorKind::Unsupported { op: reduction.to_string(), dtype: from }.into());
    }
    Ok(match reduction {
        Reduction::Sum | Reduction::Product | Reduction::L1 | Reduction::SumSquares | Reduction::ReproducibleSum => {
            vec![options.dtype.unwrap_or(total(from))]
        }
        Reduction::Dot => vec![options.dtype.unwrap_or(product(from))],
        Reduction::Mean
        | Reduction::L2
        | Reduction::LogSum
        | Reduction::LogSumExp
        | Reduction::Variance
        | Reduction::StandardDeviation => vec![options.dtype.unwrap_or(float(from))],
        Reduction::MeanVariance => vec![options.dtype.unwrap_or(float(from)); 2],
        Reduction::Min | Reduction::Max | Reduction::LInf | Reduction::AbsMax => vec![from],
        Reduction::MinMax => vec![from; 2],
        Reduction::MaxSumExp => vec![options.dtype.unwrap_or(float(from)); 2],
        Reduction::TopK => vec![from, Dtype::I64],
        Reduction::Any | Reduction::All => vec![Dtype::Bool],
        Reduction::CountNonzero | Reduction::ArgMin | Reduction::ArgMax => vec![Dtype::I64],
    })
}

/// Of what is added or multiplied along an axis: integers have 64 bits.
pub(crate) const fn total(from: Dtype) -> Dtype {
    match from {
        Dtype::Bool | Dtype::I8 | Dtype::I16 | Dtype::I32 => Dtype::I64,
        Dtype::U8 | Dtype::U16 | Dtype::U32 => Dtype::U64,
        _ => product(from),
    }
}

/// Of a product of vectors, which has the type of its factors.
const fn product(from: Dtype) -> Dtype {
    match from {
        Dtype::Bool => Dtype::I64,
        Dtype::F8E4M3 | Dtype::F8E5M2 => Dtype::F32,
        _ => from,
    }
}

/// Of what divides, or takes roots or logarithms.
const fn float(from: Dtype) -> Dtype {
    match from {
        Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64 => from,
        Dtype::F8E4M3 | Dtype::F8E5M2 => Dtype::F32,
        _ => Dtype::F64,
    }
}
