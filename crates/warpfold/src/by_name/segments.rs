//! Offsets of segments as an input of reductions and scans.

use warpfold_kernels::{Dtype, Error, ErrorKind};

use super::{Operator, Options};
use crate::Tensor;

/// The one input and the offsets of its segments, where these are asked for: in order, and inside.
///
/// # Errors
/// [`ErrorKind::Operand`] for tensors that are not of one dimension and offsets that are no
/// integers, descend or lie outside; [`ErrorKind::NumInputs`] with more inputs;
/// [`ErrorKind::OptionNotTaken`] for axes.
pub(super) fn of<'a>(
    operator: &Operator,
    inputs: &'a [Tensor],
    options: &Options,
) -> Result<Option<(&'a Tensor, &'a Tensor)>, Error> {
    if options.offsets != Some(true) {
        return Ok(None);
    }
    let [x, offsets] = inputs else {
        let (op, found) = (operator.name.to_owned(), inputs.len());
        return Err(ErrorKind::NumInputs { op, least: 2, most: 2, found }.into());
    };
    if options.axes.is_some() {
        let op = format!("{} of segments", operator.name);
        return Err(ErrorKind::OptionNotTaken { op, option: "axes" }.into());
    }
    let refused = |reason: String| Error::from(ErrorKind::Operand { operator: "segments", reason });
    if x.rank() != 1 || offsets.rank() != 1 || offsets.is_empty() {
        let (left, right) = (x.shape(), offsets.shape());
        return Err(refused(format!("tensor and offsets have one dimension, not the shapes {left:?} and {right:?}")));
    }
    let found: Vec<i64> = match offsets.dtype() {
        Dtype::I32 => offsets.to_vec::<i32>()?.into_iter().map(i64::from).collect(),
        Dtype::I64 => offsets.to_vec()?,
        dtype => return Err(ErrorKind::Unsupported { op: "offsets of segments".to_owned(), dtype }.into()),
    };
    let len = x.len() as i64;
    if found.windows(2).any(|pair| pair[0] > pair[1]) || found[0] < 0 || found[found.len() - 1] > len {
        return Err(refused(format!("offsets ascend from 0 at least to {len} at most")));
    }
    Ok(Some((x, offsets)))
}
