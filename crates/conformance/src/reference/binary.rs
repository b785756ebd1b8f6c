//! Element-wise functions of two inputs, which broadcast.

use super::answer::{Answer, Expected};
use super::array::{Array, Value};
use super::axes::{self, Refused};
use super::call::Call;
use super::dtype::Dtype;
use super::tolerance;

/// Their names.
pub const NAMES: &[&str] = &[
    "add", "sub", "mul", "div", "rem", "pow", "maximum", "minimum", "fmax", "fmin", "eq", "ne", "lt", "le", "gt", "ge",
    "and", "or", "xor", "shl", "shr",
];

/// Operators on the bits of integers.
pub const OF_BITS: &[&str] = &["and", "or", "xor", "shl", "shr"];

/// The function of every pair.
pub(super) fn expected(call: &Call<'_>) -> Result<Vec<Expected>, Refused> {
    let (x, y) = (call.input(0)?, call.input(1)?);
    if x.dtype != y.dtype {
        return Refused::because(format!("{} of {} and {}", call.op, x.dtype.name(), y.dtype.name()));
    }
    if OF_BITS.contains(&call.op) && x.dtype.is_float() {
        return Refused::because(format!("{} of {}", call.op, x.dtype.name()));
    }
    let is_predicate = matches!(call.op, "eq" | "ne" | "lt" | "le" | "gt" | "ge");
    let dtype = if is_predicate { Dtype::Bool } else { x.dtype };
    let shape = axes::broadcast(&[&x.shape, &y.shape])?;
    let answers = axes::coordinates(&shape).map(|at| {
        let element = |array: &Array| array.values[axes::position(&at, &array.shape)];
        match (is_predicate, element(x), element(y)) {
            (true, x, y) => Answer::bool(predicate(call.op, x, y)),
            (_, Value::Int(x), Value::Int(y)) => of_integers(call.op, dtype, x, y),
            (_, x, y) => of_floats(call.op, dtype, x.float(), y.float()),
        }
    });
    let answers = answers.collect();
    Ok(vec![Expected::new(dtype, &shape, answers)])
}

fn predicate(op: &str, x: Value, y: Value) -> bool {
    let order = match (x, y) {
        (Value::Int(x), Value::Int(y)) => Some(x.cmp(&y)),
        (x, y) => x.float().partial_cmp(&y.float()),
    };
    match op {
        "eq" => order.is_some_and(|o| o.is_eq()),
        "ne" => order.is_none_or(|o| o.is_ne()),
        "lt" => order.is_some_and(|o| o.is_lt()),
        "le" => order.is_some_and(|o| o.is_le()),
        "gt" => order.is_some_and(|o| o.is_gt()),
        _ => order.is_some_and(|o| o.is_ge()),
    }
}

/// Integers wrap; a quotient is cut towards zero, as in ONNX; by zero it is anything.
fn of_integers(op: &str, dtype: Dtype, x: i128, y: i128) -> Answer {
    Answer::int(dtype.wrap(match op {
        "add" => x + y,
        "sub" => x - y,
        "mul" => dtype.wrap_product(x, y),
        "maximum" | "fmax" => x.max(y),
        "minimum" | "fmin" => x.min(y),
        "and" => x & y,
        "or" => x | y,
        "xor" => x ^ y,
        "shl" if (0..8 * dtype.bytes() as i128).contains(&y) => x << y,
        "shr" if (0..8 * dtype.bytes() as i128).contains(&y) => x >> y,
        "rem" if y != 0 => x % y,
        "div" if y != 0 && x / y == dtype.wrap(x / y) => x / y,
        "pow" if y >= 0 => (0..y).fold(1, |product, _| dtype.wrap_product(product, x)),
        _ => return Answer::Anything,
    }))
}

fn of_floats(op: &str, dtype: Dtype, x: f64, y: f64) -> Answer {
    let extreme = |number: f64| if x.is_nan() || y.is_nan() { f64::NAN } else { number };
    match op {
        "add" => Answer::float(x + y),
        "sub" => Answer::float(x - y),
        "mul" => Answer::float(x * y),
        "div" => Answer::float(x / y),
        "maximum" => Answer::Exactly(Value::Float(extreme(x.max(y)))),
        "minimum" => Answer::Exactly(Value::Float(extreme(x.min(y)))),
        // The number where only one is none.
        "fmax" => Answer::Exactly(Value::Float(x.max(y))),
        "fmin" => Answer::Exactly(Value::Float(x.min(y))),
        // What is left of a quotient cut towards zero, exactly.
        "rem" => Answer::Exactly(Value::Float(x % y)),
        _ => {
            let value = x.powf(y);
            let exponent = if x == 0.0 || !x.is_finite() { 0.0 } else { y * x.abs().ln() };
            let tiny = dtype.accumulator().format().min_normal();
            let error = value.abs() * tolerance::exponential_relative(dtype, 2.0 * exponent.clamp(-800.0, 800.0));
            Answer::near(value, error + tiny)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::call::Options;
    use super::*;

    fn run(op: &str, x: &Array, y: &Array) -> Expected {
        expected(&Call { op, inputs: &[x, y], options: &Options::default() }).expect("a result").remove(0)
    }

    #[test]
    fn operands_broadcast() {
        let x = Array::floats(Dtype::F32, &[2, 1], &[1.0, 2.0]);
        let y = Array::floats(Dtype::F32, &[3], &[10.0, 20.0, f64::NAN]);
        let nan = f64::NAN;
        let sum = Array::floats(Dtype::F32, &[2, 3], &[11.0, 21.0, nan, 12.0, 22.0, nan]);
        assert_eq!(run("add", &x, &y).check(&sum), Ok(()));
        let max = Array::floats(Dtype::F32, &[2, 3], &[10.0, 20.0, nan, 10.0, 20.0, nan]);
        assert_eq!(run("maximum", &x, &y).check(&max), Ok(()));
        assert_eq!(run("lt", &x, &y).check(&Array::ints(Dtype::Bool, &[2, 3], &[1, 1, 0, 1, 1, 0])), Ok(()));
        assert_eq!(run("ne", &x, &y).check(&Array::ints(Dtype::Bool, &[2, 3], &[1; 6])), Ok(()));
    }

    #[test]
    fn integers_wrap_and_are_cut_towards_zero() {
        let x = Array::ints(Dtype::I8, &[3], &[127, -7, -128]);
        let y = Array::ints(Dtype::I8, &[3], &[1, 2, -1]);
        assert_eq!(run("add", &x, &y).check(&Array::ints(Dtype::I8, &[3], &[-128, -5, 127])), Ok(()));
        assert_eq!(run("div", &x, &y).check(&Array::ints(Dtype::I8, &[3], &[127, -3, 55])), Ok(()));
        assert_eq!(run("rem", &x, &y).check(&Array::ints(Dtype::I8, &[3], &[0, -1, 0])), Ok(()));
        assert_eq!(run("xor", &x, &y).check(&Array::ints(Dtype::I8, &[3], &[126, -5, 127])), Ok(()));
        assert_eq!(run("shr", &x, &y).check(&Array::ints(Dtype::I8, &[3], &[63, -2, 9])), Ok(()));
        let (x, y) = (Array::ints(Dtype::U64, &[1], &[-1]), Array::ints(Dtype::U64, &[1], &[-1]));
        assert_eq!(run("mul", &x, &y).check(&Array::ints(Dtype::U64, &[1], &[1])), Ok(()));
    }

    #[test]
    fn powers_are_those_of_c() {
        let x = Array::floats(Dtype::F64, &[4], &[-2.0, 2.0, f64::NAN, 0.0]);
        let y = Array::floats(Dtype::F64, &[4], &[3.0, 0.5, 0.0, -1.0]);
        let got = Array::floats(Dtype::F64, &[4], &[-8.0, 2f64.sqrt(), 1.0, f64::INFINITY]);
        assert_eq!(run("pow", &x, &y).check(&got), Ok(()));
    }
}
