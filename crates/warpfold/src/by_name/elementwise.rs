//! The element-wise operations.

use std::sync::Arc;

use warpfold_kernels::map::AnyMap;
use warpfold_kernels::operations::{Number, Operation, Options as Chosen, map_of};
use warpfold_kernels::{Dtype, Error, ErrorKind};

use super::{Choice, Operator, Options};
use crate::Tensor;
use crate::map::{map_into_first, map_with};

macro_rules! operators {
    ($($name:literal $inputs:literal [$($choice:ident)*] $summary:literal;)*) => {
        pub(super) const OPERATORS: &[Operator] = &[$(Operator {
            name: $name,
            summary: $summary,
            inputs: ($inputs, $inputs),
            outputs: 1,
            options: &[$(Choice::$choice),*],
            body: run,
        }),*];
    };
}

operators! {
    "abs" 1 [] "X → |x|";
    "neg" 1 [] "X → -x";
    "exp" 1 [] "X → e^x";
    "exp2" 1 [] "X → 2^x";
    "expm1" 1 [] "X → e^x - 1";
    "log" 1 [] "X → the natural logarithm";
    "log2" 1 [] "X → the logarithm to base 2";
    "log10" 1 [] "X → the logarithm to base 10";
    "log1p" 1 [] "X → ln(1 + x)";
    "sqrt" 1 [] "X → the square root";
    "rsqrt" 1 [] "X → 1 / sqrt(x)";
    "recip" 1 [] "X → 1 / x";
    "tanh" 1 [] "X → the hyperbolic tangent";
    "sigmoid" 1 [] "X → 1 / (1 + e^-x)";
    "relu" 1 [] "X → x, or 0 if that is larger";
    "gelu" 1 [] "X → x / 2 * (1 + erf(x / sqrt(2)))";
    "gelu-tanh" 1 [] "X → GELU by its approximation with tanh";
    "silu" 1 [] "X → x * sigmoid(x)";
    "erf" 1 [] "X → the error function";
    "sin" 1 [] "X → the sine";
    "cos" 1 [] "X → the cosine";
    "tan" 1 [] "X → the tangent";
    "floor" 1 [] "X → the next integer not above";
    "ceil" 1 [] "X → the next integer not below";
    "round" 1 [] "X → the nearest integer, ties to even";
    "trunc" 1 [] "X → the next integer towards zero";
    "sign" 1 [] "X → -1, 0 or 1";
    "square" 1 [] "X → x * x";
    "not" 1 [] "X → not x; of integers, every bit";
    "is-nan" 1 [] "X → whether x is NaN";
    "is-inf" 1 [] "X → whether x is infinite";
    "is-finite" 1 [] "X → whether x is neither infinite nor NaN";
    "add" 2 [] "X, Y → x + y";
    "sub" 2 [] "X, Y → x - y";
    "mul" 2 [] "X, Y → x * y";
    "div" 2 [] "X, Y → x / y";
    "rem" 2 [] "X, Y → the remainder of x / y";
    "pow" 2 [] "X, Y → x^y";
    "maximum" 2 [] "X, Y → the larger one; NaN if either is";
    "minimum" 2 [] "X, Y → the smaller one; NaN if either is";
    "fmax" 2 [] "X, Y → the larger one; the number if the other is NaN";
    "fmin" 2 [] "X, Y → the smaller one; the number if the other is NaN";
    "eq" 2 [] "X, Y → whether x = y";
    "ne" 2 [] "X, Y → whether x != y";
    "lt" 2 [] "X, Y → whether x < y";
    "le" 2 [] "X, Y → whether x <= y";
    "gt" 2 [] "X, Y → whether x > y";
    "ge" 2 [] "X, Y → whether x >= y";
    "and" 2 [] "X, Y → x & y";
    "or" 2 [] "X, Y → x | y";
    "xor" 2 [] "X, Y → x ^ y";
    "shl" 2 [] "X, Y → x * 2^y";
    "shr" 2 [] "X, Y → x / 2^y, rounded down";
    "where" 3 [] "C, X, Y → x where c is true, else y";
    "clamp" 3 [] "X, low, high → x within low and high";
    "fma" 3 [] "X, Y, Z → x * y + z";
    "scale" 1 [Alpha Beta] "X → alpha * x + beta (of integers: whole numbers)";
    "copy" 1 [] "X → a copy";
    "cast" 1 [Dtype] "X → its elements in another type";
}

fn map(operator: &Operator, dtypes: &[Dtype], options: &Options) -> Result<Arc<dyn AnyMap>, Error> {
    let operation: Operation = operator.name.parse()?;
    let number = |value: Option<f64>, default: i64| value.map_or(Number::from(default), Number::from);
    let chosen = Chosen { dtype: options.dtype, alpha: number(options.alpha, 1), beta: number(options.beta, 0) };
    let map = map_of(operation, dtypes, &chosen)?;
    if map.inputs() != dtypes {
        return Err(ErrorKind::DtypeMismatch { left: dtypes[0], right: map.inputs()[0] }.into());
    }
    Ok(map)
}

fn run(operator: &Operator, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
    let map = map(operator, &inputs.iter().map(Tensor::dtype).collect::<Vec<_>>(), options)?;
    map_with(&*map, &inputs.iter().collect::<Vec<_>>())
}

/// The same with the result in the place of the first input.
pub(super) fn run_in_place(
    operator: &Operator,
    first: &mut Tensor,
    others: &[Tensor],
    options: &Options,
) -> Result<Vec<Tensor>, Error> {
    let dtypes: Vec<_> = std::iter::once(first.dtype()).chain(others.iter().map(Tensor::dtype)).collect();
    map_into_first(&*map(operator, &dtypes, options)?, first, &others.iter().collect::<Vec<_>>())?;
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_of_tensors_has_its_operator() {
        for operation in Operation::ALL.iter().filter(|operation| operation.inputs() > 0) {
            let operator = OPERATORS.iter().find(|operator| operator.name == operation.name());
            let inputs = operator.unwrap_or_else(|| panic!("{operation} is no operator")).inputs;
            assert_eq!(inputs, (operation.inputs(), operation.inputs()));
        }
    }
}
