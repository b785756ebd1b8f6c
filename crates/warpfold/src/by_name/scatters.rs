//! Scatters by name.

use warpfold_kernels::reductions::Reduction;
use warpfold_kernels::{Error, ErrorKind};

use super::{Choice, Operator, Options};

pub(super) const OPERATORS: &[Operator] = &[
    Operator {
        name: "scatter",
        summary: "X, indices, source of as many axes → X with each source where its index along an axis says",
        inputs: (3, 3),
        outputs: 1,
        options: &[Choice::Axes, Choice::Reduce, Choice::ExcludeSelf],
        body: |operator, inputs, options| {
            let [x, indices, source] = inputs else { unreachable!("it takes three inputs") };
            let axis = axis(operator, options)?;
            let result = match reduction(operator, options)? {
                None => x.scatter(indices, source, axis)?,
                Some((reduction, with_self)) => x.scatter_reduce(indices, source, axis, reduction, with_self)?,
            };
            Ok(vec![result])
        },
    },
    Operator {
        name: "index-scatter",
        summary: "X, indices [n], source → X with each part of the source along an axis where its index says",
        inputs: (3, 3),
        outputs: 1,
        options: &[Choice::Axes, Choice::Reduce, Choice::ExcludeSelf],
        body: |operator, inputs, options| {
            let [x, indices, source] = inputs else { unreachable!("it takes three inputs") };
            let axis = axis(operator, options)?;
            let result = match reduction(operator, options)? {
                None => x.index_copy(indices, source, axis)?,
                Some((reduction, with_self)) => x.index_reduce(indices, source, axis, reduction, with_self)?,
            };
            Ok(vec![result])
        },
    },
];

/// The axis, the first unless chosen.
fn axis(operator: &Operator, options: &Options) -> Result<isize, Error> {
    match options.axes.as_deref() {
        None => Ok(0),
        Some(&[axis]) => Ok(axis),
        Some(axes) => Err(ErrorKind::NotOneAxis { op: operator.name.to_owned(), found: axes.len() }.into()),
    }
}

/// Returns the reduction of sources, and whether it includes the element itself.
fn reduction(operator: &Operator, options: &Options) -> Result<Option<(Reduction, bool)>, Error> {
    let exclude_self = options.exclude_self == Some(true);
    let op = || operator.name.to_owned();
    let reduction = match options.reduce.as_deref() {
        None if exclude_self => return Err(ErrorKind::MissingOption { op: op(), option: "reduce" }.into()),
        None => return Ok(None),
        Some("sum") => Reduction::Sum,
        Some("prod") => Reduction::Product,
        Some("max") => Reduction::Max,
        Some("min") => Reduction::Min,
        Some(_) => {
            let expected = "of sum, prod, max or min".to_owned();
            return Err(ErrorKind::OptionOutOfRange { op: op(), option: "reduce", expected }.into());
        }
    };
    Ok(Some((reduction, !exclude_self)))
}
