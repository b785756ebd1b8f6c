//! Element-wise functions of one input.

use std::f64::consts::PI;

use super::answer::{Answer, Expected};
use super::array::Value;
use super::axes::Refused;
use super::call::Call;
use super::dtype::Dtype;
use super::extremes::absolute;
use super::format::exp2;
use super::special::{erf, erfc};
use super::tolerance;

/// Their names.
pub const NAMES: &[&str] = &[
    "abs",
    "neg",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "recip",
    "tanh",
    "sigmoid",
    "relu",
    "gelu",
    "gelu-tanh",
    "silu",
    "erf",
    "sin",
    "cos",
    "tan",
    "floor",
    "ceil",
    "round",
    "trunc",
    "sign",
    "square",
    "not",
    "is-nan",
    "is-inf",
    "is-finite",
    "scale",
];

/// The function of every element.
pub(super) fn expected(call: &Call<'_>) -> Result<Vec<Expected>, Refused> {
    let x = call.input(0)?;
    let dtype = match (call.op, x.dtype) {
        ("is-nan" | "is-inf" | "is-finite", d) if d.is_float() => Dtype::Bool,
        ("is-nan" | "is-inf" | "is-finite", d) => return Refused::because(format!("{} of {}", call.op, d.name())),
        ("not", d) if d.is_float() => return Refused::because(format!("not of {}", d.name())),
        (_, d) => d,
    };
    let answer = |&value: &Value| match (call.op, value) {
        ("is-nan", value) => Ok(Answer::bool(value.is_nan())),
        ("is-inf", value) => Ok(Answer::bool(value.float().is_infinite())),
        ("is-finite", value) => Ok(Answer::bool(value.float().is_finite())),
        ("scale", value) => scaled(call, dtype, value),
        (op, Value::Int(i)) => of_integer(op, dtype, i),
        (op, Value::Float(x)) => Ok(of_float(op, dtype, x)),
    };
    let answers = x.values.iter().map(answer).collect::<Result<_, _>>()?;
    Ok(vec![Expected::new(dtype, &x.shape, answers)])
}

fn of_integer(op: &str, dtype: Dtype, i: i128) -> Result<Answer, Refused> {
    let value = match op {
        "abs" => absolute(dtype, Value::Int(i)).int(),
        "neg" => -i,
        "relu" => i.max(0),
        "sign" => i.signum(),
        "square" => dtype.wrap_product(i, i),
        // Of a bool this is its only bit, as its numbers wrap at two.
        "not" => -1 - i,
        _ => return Refused::because(format!("{op} of {}", dtype.name())),
    };
    Ok(Answer::int(dtype.wrap(value)))
}

/// A factor times the element and an addend, fused or not.
fn scaled(call: &Call<'_>, dtype: Dtype, value: Value) -> Result<Answer, Refused> {
    let (alpha, beta) = (call.options.alpha.unwrap_or(1.0), call.options.beta.unwrap_or(0.0));
    let Value::Float(x) = value else { return Refused::because(format!("scale of {}", dtype.name())) };
    let product = alpha * x;
    let value = product + beta;
    let once = if alpha == 1.0 { 0.0 } else { tolerance::units(dtype, 1.0, product) };
    let twice = if beta == 0.0 { 0.0 } else { tolerance::units(dtype, 1.0, value) };
    Ok(Answer::near(value, once + twice))
}

/// The usual approximation of [`gelu`].
fn gelu_tanh(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
}

/// The logistic function without overflow.
fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// x times the normal distribution's function, by the complement that does not cancel.
fn gelu(x: f64) -> f64 {
    0.5 * x * erfc(-x / 2f64.sqrt())
}

pub(super) fn of_float(op: &str, dtype: Dtype, x: f64) -> Answer {
    let units = |count: f64, y: f64| Answer::near(y, tolerance::units(dtype, count, y));
    let exponential = |y: f64| {
        let tiny = dtype.accumulator().format().min_normal();
        Answer::near(y, y.abs() * tolerance::exponential_relative(dtype, x.clamp(-200.0, 200.0)) + tiny)
    };
    match op {
        // Odd functions keep the sign of a zero.
        "sqrt" | "floor" | "ceil" | "round" | "trunc" | "sign" | "expm1" | "log1p" | "tanh" | "erf" | "sin" | "tan"
        | "silu" | "gelu" | "gelu-tanh"
            if x == 0.0 =>
        {
            Answer::WithSign(Value::Float(x))
        }
        // The limit is zero, the formula gives NaN, and nobody says which it should be.
        "silu" | "gelu" | "gelu-tanh" if x == f64::NEG_INFINITY => Answer::Anything,
        "abs" => Answer::WithSign(Value::Float(x.abs())),
        "neg" => Answer::WithSign(Value::Float(-x)),
        "sqrt" => Answer::float(x.sqrt()),
        "recip" => Answer::float(1.0 / x),
        "relu" => Answer::Exactly(Value::Float(if x.is_nan() { x } else { x.max(0.0) })),
        "floor" => Answer::Exactly(Value::Float(x.floor())),
        "ceil" => Answer::Exactly(Value::Float(x.ceil())),
        "round" => Answer::Exactly(Value::Float(x.round_ties_even())),
        "sign" => Answer::Exactly(Value::Float(if x == 0.0 || x.is_nan() { x } else { x.signum() })),
        // Of an f64 the square is rounded here, and again where it is compared: to the same.
        "square" => Answer::float(x * x),
        "exp" => exponential(x.exp()),
        "exp2" => exponential(x.exp2()),
        "expm1" => units(8.0, x.exp_m1()),
        "log1p" => units(8.0, x.ln_1p()),
        "log2" => Answer::near(x.log2(), tolerance::logarithm(dtype, x.log2())),
        "log10" => Answer::near(x.log10(), tolerance::logarithm(dtype, x.log10())),
        "trunc" => Answer::Exactly(Value::Float(x.trunc())),
        "tan" => {
            let slope = 1.0 + x.tan() * x.tan();
            Answer::near(x.tan(), 4.0 * tolerance::epsilon(dtype) * slope * (1.0 + x.abs() * exp2(-3)))
        }
        "gelu-tanh" => Answer::near(gelu_tanh(x), tolerance::units(dtype, 6.0, x)),
        "log" => Answer::near(x.ln(), tolerance::logarithm(dtype, x.ln())),
        "rsqrt" => units(2.0, 1.0 / x.sqrt()),
        "tanh" => units(8.0, x.tanh()),
        "erf" => units(8.0, erf(x)),
        "sin" => Answer::near(x.sin(), 4.0 * tolerance::epsilon(dtype) * (1.0 + x.abs() * exp2(-3))),
        "cos" => Answer::near(x.cos(), 4.0 * tolerance::epsilon(dtype) * (1.0 + x.abs() * exp2(-3))),
        "sigmoid" => exponential(sigmoid(x)),
        "silu" => exponential(x * sigmoid(x)),
        // 1 + erf cancels in the usual form, so the error is one of erf times the argument.
        _ => Answer::near(gelu(x), tolerance::units(dtype, 4.0, x)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::array::Array;
    use super::super::call::Options;
    use super::*;

    #[track_caller]
    fn check(op: &str, inputs: &[f64], values: &[f64]) {
        let x = Array::floats(Dtype::F32, &[inputs.len()], inputs);
        let outputs = expected(&Call { op, inputs: &[&x], options: &Options::default() }).expect("a result");
        assert_eq!(outputs[0].check(&Array::floats(Dtype::F32, &x.shape, values)), Ok(()), "{op}");
    }

    #[test]
    fn functions_have_the_values_of_the_tables() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        check("abs", &[-0.0, -2.0, nan], &[0.0, 2.0, nan]);
        check("neg", &[0.0, 2.0], &[-0.0, -2.0]);
        check("exp", &[0.0, 1.0, -inf, inf, 100.0], &[1.0, std::f64::consts::E, 0.0, inf, inf]);
        check("log", &[0.0, 1.0, -1.0], &[-inf, 0.0, nan]);
        check("rsqrt", &[4.0, 0.0], &[0.5, inf]);
        check("recip", &[4.0, -0.0], &[0.25, -inf]);
        check("tanh", &[0.5, inf], &[0.462_117_157, 1.0]);
        check("sigmoid", &[0.0, -1.0, inf], &[0.5, 0.268_941_421, 1.0]);
        check("silu", &[1.0], &[0.731_058_578]);
        check("gelu", &[1.0, -1.0, inf], &[0.841_344_746, -0.158_655_254, inf]);
        check("round", &[0.5, 1.5, -2.5], &[0.0, 2.0, -2.0]);
        check("sign", &[-3.0, 0.0, nan], &[-1.0, 0.0, nan]);
        check("gelu-tanh", &[1.0, -1.0], &[0.841_191_990, -0.158_808_010]);
        check("expm1", &[1e-5, -inf], &[1.000_005e-5, -1.0]);
        check("log1p", &[1e-5, -1.0], &[9.999_950e-6, -inf]);
        check("log2", &[8.0], &[3.0]);
        check("log10", &[1000.0], &[3.0]);
        check("tan", &[1.0], &[1.557_407_725]);
        check("trunc", &[-1.5], &[-1.0]);
        check("scale", &[-1.5], &[-1.5]);
        check("sin", &[1.0, inf], &[0.841_470_985, nan]);
        check("relu", &[-1.0, nan, 2.0], &[0.0, nan, 2.0]);
    }
}
