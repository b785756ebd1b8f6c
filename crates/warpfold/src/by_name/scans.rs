//! The scans.

use warpfold_kernels::fold::{Cumulative, Direction, Prefix, ScanOrder};
use warpfold_kernels::{Error, ErrorKind};

use super::{Choice, Operator, Options, segments};
use crate::Tensor;

const fn operator(name: &'static str, summary: &'static str) -> Operator {
    let options = &[Choice::Axes, Choice::Exclusive, Choice::Reverse, Choice::Dtype, Choice::Offsets];
    Operator { name, summary, inputs: (1, 1), outputs: 1, options, body: run }
}

pub(super) const OPERATORS: &[Operator] = &[
    operator("cumsum", "X → the sums up to each element along an axis, the last unless chosen, of integers in 64 bits"),
    operator("cumprod", "X → the products up to each element along an axis, the last unless chosen, likewise"),
];

fn run(operator: &Operator, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
    let cumulative: Cumulative = operator.name.parse()?;
    let axis = match options.axes.as_deref() {
        None => -1,
        Some(&[axis]) => axis,
        Some(axes) => return Err(ErrorKind::NotOneAxis { op: operator.name.to_owned(), found: axes.len() }.into()),
    };
    let offsets = segments::of(operator, inputs, options)?;
    let prefix = if options.exclusive == Some(true) { Prefix::Exclusive } else { Prefix::Inclusive };
    let direction = if options.reverse == Some(true) { Direction::Reverse } else { Direction::Forward };
    let order = ScanOrder { prefix, direction };
    Ok(vec![match offsets {
        Some((x, offsets)) => x.segment_scan(cumulative, offsets, order, options.dtype)?,
        None => inputs[0].scan(cumulative, axis, order, options.dtype)?,
    }])
}
