//! Rows scaled by their largest magnitude, and rounded to eight bits.

use super::answer::{Answer, Expected};
use super::array::Value;
use super::axes::Refused;
use super::call::Call;
use super::dtype::Dtype;
use super::extremes::abs_max;
use super::tolerance;

/// The result of a scaling operator: the rows, then what each was divided by.
pub(super) fn expected(call: &Call<'_>) -> Result<Vec<Expected>, Refused> {
    call.only_floats()?;
    let x = call.input(0)?;
    let lanes = call.lanes_or_last()?;
    let to = call.options.dtype.unwrap_or(Dtype::I8);
    let limit = match to {
        Dtype::I8 => 127.0,
        Dtype::F8E4M3 | Dtype::F8E5M2 => to.format().max(),
        other => return Refused::because(format!("quantize to {}", other.name())),
    };
    let is_scale = call.op == "abs-max-scale";
    let mut answers = vec![Answer::Anything; x.values.len()];
    let mut factors = Vec::new();
    for positions in &lanes.positions {
        let row: Vec<Value> = positions.iter().map(|&p| x.values[p]).collect();
        let max = abs_max(x.dtype, &row).float();
        factors.push(if is_scale { Answer::float(max) } else { scale_of(max, limit) });
        for &p in positions {
            let value = x.values[p].float();
            answers[p] = if is_scale { scaled(x.dtype, value, max) } else { quantised(value, max, limit) };
        }
    }
    let (dtype, factor) = if is_scale { (x.dtype, x.dtype) } else { (to, Dtype::F32) };
    let factors = Expected::new(factor, &lanes.kept_as_one, factors).or_single();
    Ok(vec![Expected::new(dtype, &x.shape, answers), factors])
}

/// A row of zeros stays.
fn scaled(dtype: Dtype, value: f64, max: f64) -> Answer {
    let divisor = if max == 0.0 { 1.0 } else { max };
    let quotient = value / divisor;
    let tiny = dtype.accumulator().format().min_normal();
    Answer::near(quotient, tolerance::units(dtype, 2.0, quotient) + if quotient == 0.0 { 0.0 } else { tiny })
}

/// One for a row of zeros.
fn scale_of(max: f64, limit: f64) -> Answer {
    let value = if max == 0.0 { 1.0 } else { max / limit };
    Answer::near(value, tolerance::units(Dtype::F32, 2.0, value) + Dtype::F32.format().min_denormal())
}

fn quantised(value: f64, max: f64, limit: f64) -> Answer {
    if !max.is_finite() {
        return Answer::Anything;
    }
    let value = if max == 0.0 { 0.0 } else { value / max * limit };
    Answer::Rounded { value, error: tolerance::units(Dtype::F32, 4.0, value), limit }
}

#[cfg(test)]
mod tests {
    use super::super::array::Array;
    use super::super::call::Options;
    use super::*;

    #[test]
    fn rows_are_scaled_by_their_largest_magnitude() {
        let x = Array::floats(Dtype::F32, &[2, 2], &[1.0, -4.0, 0.0, 0.0]);
        let call = Call { op: "abs-max-scale", inputs: &[&x], options: &Options::default() };
        let outputs = expected(&call).expect("a result");
        assert_eq!(outputs[0].check(&Array::floats(Dtype::F32, &[2, 2], &[0.25, -1.0, 0.0, 0.0])), Ok(()));
        assert_eq!(outputs[1].check(&Array::floats(Dtype::F32, &[2, 1], &[4.0, 0.0])), Ok(()));
        assert!(outputs[0].check(&Array::floats(Dtype::F32, &[2, 2], &[0.25, -1.0, 0.0, 0.1])).is_err());
    }

    #[test]
    fn rows_are_rounded_to_eight_bits() {
        let x = Array::floats(Dtype::F32, &[2, 2], &[1.0, -2.54, 0.0, 0.0]);
        let call = Call { op: "quantize", inputs: &[&x], options: &Options::default() };
        let outputs = expected(&call).expect("a result");
        assert_eq!(outputs[0].check(&Array::ints(Dtype::I8, &[2, 2], &[50, -127, 0, 0])), Ok(()));
        assert!(outputs[0].check(&Array::ints(Dtype::I8, &[2, 2], &[51, -127, 0, 0])).is_err());
        assert_eq!(outputs[1].check(&Array::floats(Dtype::F32, &[2, 1], &[0.02, 1.0])), Ok(()));
        let options = Options { dtype: Some(Dtype::F8E4M3), ..Options::default() };
        let outputs = expected(&Call { op: "quantize", inputs: &[&x], options: &options }).expect("a result");
        assert_eq!(outputs[0].check(&Array::floats(Dtype::F8E4M3, &[2, 2], &[176.0, -448.0, 0.0, 0.0])), Ok(()));
    }
}
