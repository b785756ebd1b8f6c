//! Element-wise functions of three inputs, which broadcast.

use super::answer::{Answer, Expected};
use super::array::{Array, Value};
use super::axes::{self, Refused};
use super::call::Call;
use super::dtype::Dtype;
use super::exact::Exact;
use super::tolerance;

/// Their names.
pub const NAMES: &[&str] = &["where", "clamp", "fma"];

/// The function of every triple: `where` takes condition, then, else; `clamp` value, low, high.
pub(super) fn expected(call: &Call<'_>) -> Result<Vec<Expected>, Refused> {
    let (a, b, c) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let first = if call.op == "where" { Dtype::Bool } else { b.dtype };
    if a.dtype != first || b.dtype != c.dtype || call.op == "fma" && !b.dtype.is_float() {
        let names = [a, b, c].map(|x| x.dtype.name()).join(", ");
        return Refused::because(format!("{} of {names}", call.op));
    }
    let shape = axes::broadcast(&[&a.shape, &b.shape, &c.shape])?;
    let answers = axes::coordinates(&shape).map(|at| {
        let element = |array: &Array| array.values[axes::position(&at, &array.shape)];
        let (a, b, c) = (element(a), element(b), element(c));
        match call.op {
            "where" => Answer::WithSign(if a.is_true() { b } else { c }),
            "clamp" => Answer::Exactly(clamp(a, b, c)),
            _ => fma(first, a.float(), b.float(), c.float()),
        }
    });
    let answers = answers.collect();
    Ok(vec![Expected::new(b.dtype, &shape, answers)])
}

/// The smaller of high and the larger of low and the value, as NumPy's `clip`; NaN stays.
fn clamp(value: Value, low: Value, high: Value) -> Value {
    match (value, low, high) {
        (Value::Int(x), Value::Int(low), Value::Int(high)) => Value::Int(x.max(low).min(high)),
        (x, low, high) if x.is_nan() || low.is_nan() || high.is_nan() => Value::Float(f64::NAN),
        (x, low, high) => Value::Float(x.float().max(low.float()).min(high.float())),
    }
}

/// One rounding, but for types that are computed in a wider one and rounded from there.
fn fma(dtype: Dtype, a: f64, b: f64, c: f64) -> Answer {
    if !(a.is_finite() && b.is_finite() && c.is_finite()) {
        return Answer::float(a * b + c);
    }
    let mut sum = Exact::default();
    sum.add_product(a, b);
    sum.add(c);
    let value = sum.value();
    let first = if dtype.bytes() < 4 { 0.5 * tolerance::units(dtype, 1.0, value) } else { 0.0 };
    Answer::near(value, first)
}

#[cfg(test)]
mod tests {
    use super::super::call::Options;
    use super::*;

    fn run(op: &str, inputs: &[&Array]) -> Expected {
        expected(&Call { op, inputs, options: &Options::default() }).expect("a result").remove(0)
    }

    #[test]
    fn triples_give_what_numpy_gives() {
        let x = Array::floats(Dtype::F32, &[3], &[1.0, -5.0, f64::NAN]);
        let (low, high) = (Array::floats(Dtype::F32, &[1], &[-1.0]), Array::floats(Dtype::F32, &[], &[0.5]));
        let clamped = Array::floats(Dtype::F32, &[3], &[0.5, -1.0, f64::NAN]);
        assert_eq!(run("clamp", &[&x, &low, &high]).check(&clamped), Ok(()));
        let condition = Array::ints(Dtype::Bool, &[3], &[1, 0, 0]);
        let chosen = Array::floats(Dtype::F32, &[3], &[1.0, -1.0, -1.0]);
        assert_eq!(run("where", &[&condition, &x, &low]).check(&chosen), Ok(()));
    }

    #[test]
    fn a_fused_product_is_rounded_once() {
        let eps = f64::from(f32::EPSILON);
        let x = Array::floats(Dtype::F32, &[1], &[1.0 + eps]);
        let z = Array::floats(Dtype::F32, &[1], &[-1.0 - 2.0 * eps]);
        let got = |value| Array::floats(Dtype::F32, &[1], &[value]);
        assert_eq!(run("fma", &[&x, &x, &z]).check(&got(eps * eps)), Ok(()));
        assert!(run("fma", &[&x, &x, &z]).check(&got(0.0)).is_err());
    }
}
