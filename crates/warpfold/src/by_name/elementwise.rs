//! The element-wise operations.

use warpfold_kernels::Error;
use warpfold_kernels::operations::{Number, Operation, Options as Chosen};

use super::{Choice, Operator, Options};
use crate::Tensor;
use crate::map::elementwise;
use crate::tensor::First;

macro_rules! operators {
    ($($operation:ident [$($choice:ident)*] $summary:literal;)*) => {
        pub(super) const OPERATORS: &[Operator] = &[$(Operator {
            name: Operation::$operation.name(),
            summary: $summary,
            inputs: (Operation::$operation.inputs(), Operation::$operation.inputs()),
            outputs: 1,
            options: &[$(Choice::$choice),*],
            body: |_, inputs, options| run(Operation::$operation, First::Read(&inputs[0]), &inputs[1..], options),
        }),*];
    };
}

operators! {
    Abs [] "X → |x|";
    Neg [] "X → -x";
    Exp [] "X → e^x";
    Exp2 [] "X → 2^x";
    Expm1 [] "X → e^x - 1";
    Log [] "X → the natural logarithm";
    Log2 [] "X → the logarithm to base 2";
    Log10 [] "X → the logarithm to base 10";
    Log1p [] "X → ln(1 + x)";
    Sqrt [] "X → the square root";
    Rsqrt [] "X → 1 / sqrt(x)";
    Recip [] "X → 1 / x";
    Tanh [] "X → the hyperbolic tangent";
    Sigmoid [] "X → 1 / (1 + e^-x)";
    Relu [] "X → x, or 0 if that is larger";
    Gelu [] "X → x / 2 * (1 + erf(x / sqrt(2)))";
    GeluTanh [] "X → GELU by its approximation with tanh";
    Silu [] "X → x * sigmoid(x)";
    Erf [] "X → the error function";
    Sin [] "X → the sine";
    Cos [] "X → the cosine";
    Tan [] "X → the tangent";
    Floor [] "X → the next integer not above";
    Ceil [] "X → the next integer not below";
    Round [] "X → the nearest integer, ties to even";
    Trunc [] "X → the next integer towards zero";
    Sign [] "X → -1, 0 or 1";
    Square [] "X → x * x";
    Not [] "X → not x; of integers, every bit";
    IsNan [] "X → whether x is NaN";
    IsInf [] "X → whether x is infinite";
    IsFinite [] "X → whether x is neither infinite nor NaN";
    Add [] "X, Y → x + y";
    Sub [] "X, Y → x - y";
    Mul [] "X, Y → x * y";
    Div [] "X, Y → x / y";
    Rem [] "X, Y → the remainder of x / y";
    Pow [] "X, Y → x^y";
    Maximum [] "X, Y → the larger one; NaN if either is";
    Minimum [] "X, Y → the smaller one; NaN if either is";
    Fmax [] "X, Y → the larger one; the number if the other is NaN";
    Fmin [] "X, Y → the smaller one; the number if the other is NaN";
    Eq [] "X, Y → whether x = y";
    Ne [] "X, Y → whether x != y";
    Lt [] "X, Y → whether x < y";
    Le [] "X, Y → whether x <= y";
    Gt [] "X, Y → whether x > y";
    Ge [] "X, Y → whether x >= y";
    And [] "X, Y → x & y";
    Or [] "X, Y → x | y";
    Xor [] "X, Y → x ^ y";
    Shl [] "X, Y → x * 2^y";
    Shr [] "X, Y → x / 2^y, rounded down";
    Where [] "C, X, Y → x where c is true, else y";
    Clamp [] "X, low, high → x within low and high";
    Fma [] "X, Y, Z → x * y + z";
    Scale [Alpha Beta] "X → alpha * x + beta (of integers: whole numbers)";
    Copy [] "X → a copy";
    Cast [Dtype] "X → its elements in another type";
}

fn run(operation: Operation, first: First<'_>, others: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
    let number = |value: Option<f64>, default: i64| value.map_or(Number::from(default), Number::from);
    let chosen = Chosen { dtype: options.dtype, alpha: number(options.alpha, 1), beta: number(options.beta, 0) };
    elementwise(operation, first, &others.iter().collect::<Vec<_>>(), &chosen)
}

/// Runs the operation of this name with its result in the memory of the first input; `None` if
/// there is none.
pub(super) fn run_in_place(
    name: &str,
    first: &mut Tensor,
    others: &[Tensor],
    options: &Options,
) -> Option<Result<Vec<Tensor>, Error>> {
    Some(run(name.parse().ok()?, First::Overwritten(first), others, options))
}
