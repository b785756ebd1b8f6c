//! Operators on rows: softmax, norms, cross-entropy.

use super::answer::{Answer, Expected};
use super::array::{Array, Value};
use super::axes::{self, Refused};
use super::call::Call;
use super::dtype::Dtype;
use super::exact;
use super::reduce::{log_sum_exp_of, moments, variance_with_error};
use super::tolerance;

/// Default epsilon of a norm.
const EPS: f64 = 1e-5;
/// The label that cross-entropy leaves out unless a call says otherwise.
const IGNORE_INDEX: i64 = -100;

/// The result of a row operator.
pub(super) fn expected(call: &Call<'_>) -> Result<Vec<Expected>, Refused> {
    call.only_floats()?;
    match call.op {
        "softmax" | "log-softmax" => softmaxes(call),
        "layer-norm" => layer_norm(call),
        "rms-norm" => rms_norm(call),
        _ => cross_entropy(call),
    }
}

fn softmaxes(call: &Call<'_>) -> Result<Vec<Expected>, Refused> {
    let x = call.input(0)?;
    let mut answers = vec![Answer::Anything; x.values.len()];
    let of_row = if call.op == "softmax" { softmax } else { log_softmax };
    let scores = scores(call)?;
    for positions in &call.lanes_or_last()?.positions {
        let row: Vec<_> = positions.iter().map(|&p| scores[p]).collect();
        for (&p, answer) in positions.iter().zip(of_row(x.dtype, &row)) {
            answers[p] = answer;
        }
    }
    Ok(vec![Expected::new(x.dtype, &x.shape, answers)])
}

/// The input, scaled and with the mask added, which broadcasts.
fn scores(call: &Call<'_>) -> Result<Vec<f64>, Refused> {
    let x = call.input(0)?;
    let alpha = call.options.alpha.unwrap_or(1.0);
    let mut scores: Vec<_> = x.values.iter().map(|v| alpha * v.float()).collect();
    if let Some(mask) = call.inputs.get(1) {
        if mask.dtype != x.dtype || axes::broadcast(&[&x.shape, &mask.shape])? != x.shape {
            return Refused::because(format!("a mask of {:?} for {:?}", mask.shape, x.shape));
        }
        for (score, at) in scores.iter_mut().zip(axes::coordinates(&x.shape)) {
            *score += mask.values[axes::position(&at, &mask.shape)].float();
        }
    }
    Ok(scores)
}

/// The largest number, and the sum of exponentials of the distances to it; NaN where the row has no
/// softmax: with a NaN, an infinity, or nothing but minus infinity (inf - inf, as in NumPy's
/// formula and in PyTorch).
fn statistics(row: &[f64]) -> (f64, f64) {
    let (log_sum, max) = log_sum_exp_of(row.iter().copied());
    if !log_sum.is_finite() {
        return (max, f64::NAN);
    }
    (max, exact::sum(row.iter().map(|x| (x - max).exp())))
}

/// The weights of a row and their relative errors.
pub(super) fn weights(dtype: Dtype, row: &[f64]) -> Vec<(f64, f64)> {
    let (max, sum) = statistics(row);
    let relative = |x: f64| {
        2.0 * tolerance::exponential_relative(dtype, (x - max).max(-200.0)) + tolerance::sum_relative(dtype, row.len())
    };
    row.iter().map(|&x| ((x - max).exp() / sum, relative(x))).collect()
}

fn softmax(dtype: Dtype, row: &[f64]) -> Vec<Answer> {
    // A result below the normal numbers may be flushed to zero.
    let tiny = dtype.accumulator().format().min_normal();
    weights(dtype, row).iter().map(|(y, relative)| Answer::near(*y, relative * y + tiny)).collect()
}

fn log_softmax(dtype: Dtype, row: &[f64]) -> Vec<Answer> {
    let (max, sum) = statistics(row);
    let of = |&x: &f64| {
        let value = x - max - sum.ln();
        let error = tolerance::log_sum_exp(dtype, row.len(), 0.0) + tolerance::units(dtype, 2.0, x - max);
        Answer::near(value, error + tolerance::units(dtype, 1.0, value))
    };
    row.iter().map(of).collect()
}

/// A scale or bias, one for each element of a row or one for all.
fn vector<'a>(call: &Call<'a>, index: usize, len: usize) -> Result<Option<&'a Array>, Refused> {
    let Some(&array) = call.inputs.get(index) else { return Ok(None) };
    let is_right = [len, 1].contains(&array.values.len()) && array.dtype == call.input(0)?.dtype;
    if is_right {
        Ok(Some(array))
    } else {
        Refused::because(format!("a vector of {:?} for rows of {len}", array.shape))
    }
}

/// A normalised row.
struct Normed {
    answers: Vec<Answer>,
    mean: Answer,
    rstd: Answer,
}

fn layer_norm(call: &Call<'_>) -> Result<Vec<Expected>, Refused> {
    norm(call, |dtype, row, eps, scale, bias| {
        let n = row.len();
        let (mean, _, rms) = moments(row.iter().copied());
        let (variance, variance_error) = variance_with_error(dtype, row.iter().copied());
        let magnitude: f64 = row.iter().map(|x| x.abs()).sum();
        let mean_error = tolerance::sum(dtype, n, magnitude) / n as f64 + tolerance::units(dtype, 1.0, rms);
        let (rstd, rstd_error) = reciprocal_root(dtype, variance, variance_error, eps);
        let answer = |i: usize| {
            let (scale, bias) = (scale(i), bias(i));
            let normed = (row[i] - mean) * rstd;
            let error = mean_error * (rstd + rstd_error) + (row[i] - mean).abs() * rstd_error;
            let product = normed * scale;
            let value = product + bias;
            let last = tolerance::units(dtype, 2.0, product) + tolerance::units(dtype, 1.0, bias.abs() + value.abs());
            Answer::near(value, error * scale.abs() + last)
        };
        let answers = (0..n).map(answer).collect();
        Normed { answers, mean: Answer::near(mean, mean_error), rstd: Answer::near(rstd, rstd_error) }
    })
}

fn rms_norm(call: &Call<'_>) -> Result<Vec<Expected>, Refused> {
    let mut outputs = norm(call, |dtype, row, eps, scale, bias| {
        let n = row.len();
        let square = exact::sum(row.iter().map(|x| x * x)) / n as f64;
        let square_error = tolerance::sum_of_products(dtype, n, square * n as f64) / n as f64;
        let (rstd, rstd_error) = reciprocal_root(dtype, square, square_error, eps);
        let answer = |i: usize| {
            let product = row[i] * rstd * scale(i);
            let value = product + bias(i);
            let error = (row[i] * scale(i)).abs() * rstd_error + tolerance::units(dtype, 2.0, product);
            let sum = if bias(i) == 0.0 { 0.0 } else { tolerance::units(dtype, 1.0, value) };
            Answer::near(value, error + sum)
        };
        let answers = (0..n).map(answer).collect();
        Normed { answers, mean: Answer::Anything, rstd: Answer::near(rstd, rstd_error) }
    })?;
    // There is no mean among its outputs.
    outputs.remove(1);
    Ok(outputs)
}

/// 1 / sqrt(square + eps), and its error; exact where the square is no number or infinite.
fn reciprocal_root(dtype: Dtype, square: f64, error: f64, eps: f64) -> (f64, f64) {
    let of = |square: f64| 1.0 / (square + eps).sqrt();
    let value = of(square);
    if !square.is_finite() {
        return (value, 0.0);
    }
    let spread = (of((square - error).max(0.0)) - value).max(value - of(square + error));
    (value, spread + tolerance::units(dtype, 4.0, value))
}

/// Element of a vector by position.
type Factor<'a> = &'a dyn Fn(usize) -> f64;

fn norm(
    call: &Call<'_>,
    of_row: impl Fn(Dtype, &[f64], f64, Factor<'_>, Factor<'_>) -> Normed,
) -> Result<Vec<Expected>, Refused> {
    let x = call.input(0)?;
    let lanes = call.lanes_or_last()?;
    let (scale, bias) = (vector(call, 1, lanes.len)?, vector(call, 2, lanes.len)?);
    let eps = call.options.eps.unwrap_or(EPS);
    let mut answers = vec![Answer::Anything; x.values.len()];
    let (mut means, mut rstds) = (Vec::new(), Vec::new());
    for positions in &lanes.positions {
        let row: Vec<_> = positions.iter().map(|&p| x.values[p].float()).collect();
        let element =
            |array: Option<&Array>, i: usize, none: f64| array.map_or(none, |a| a.values[i % a.values.len()].float());
        let (scale, bias) = (|i| element(scale, i, 1.0), |i| element(bias, i, 0.0));
        let normed = of_row(x.dtype, &row, eps, &scale, &bias);
        for (&p, answer) in positions.iter().zip(normed.answers) {
            answers[p] = answer;
        }
        means.push(normed.mean);
        rstds.push(normed.rstd);
    }
    let statistic = |answers| Expected::new(x.dtype.accumulator(), &lanes.kept_as_one, answers);
    Ok(vec![Expected::new(x.dtype, &x.shape, answers), statistic(means), statistic(rstds)])
}

fn cross_entropy(call: &Call<'_>) -> Result<Vec<Expected>, Refused> {
    let (x, labels) = (call.input(0)?, call.input(1)?);
    if x.shape.len() != 2 || labels.shape != x.shape[..1] || labels.dtype.is_float() {
        return Refused::because(format!("cross-entropy of {:?} with labels of {:?}", x.shape, labels.shape));
    }
    let (n, classes) = (x.shape[0], x.shape[1]);
    let ignored = i128::from(call.options.ignore_index.unwrap_or(IGNORE_INDEX));
    let (mut losses, mut log_sums) = (Vec::new(), Vec::new());
    for i in 0..n {
        let row = &x.values[i * classes..][..classes];
        let (log_sum, max) = log_sum_exp_of(row.iter().map(|v| v.float()));
        let error = tolerance::log_sum_exp(x.dtype, classes, max);
        log_sums.push(Answer::near(log_sum, error));
        let label = labels.values[i].int();
        losses.push(match usize::try_from(label).ok().and_then(|label| row.get(label)) {
            _ if label == ignored => Answer::Exactly(Value::Float(0.0)),
            Some(chosen) => {
                let value = log_sum - chosen.float();
                Answer::near(value, error + tolerance::units(x.dtype, 1.0, value))
            }
            // No loss is as wrong as none that nobody notices; a device cannot refuse in time.
            None => Answer::float(f64::NAN),
        });
    }
    let output = |answers| Expected::new(x.dtype, &[n], answers).or_single();
    Ok(vec![output(losses), output(log_sums)])
}

#[cfg(test)]
mod tests {
    use super::super::call::Options;
    use super::*;

    #[track_caller]
    fn check(op: &str, inputs: &[&Array], options: &Options, output: usize, values: &[f64]) {
        let outputs = expected(&Call { op, inputs, options }).expect("a result");
        let got = Array::floats(Dtype::F32, &outputs[output].shape, values);
        assert_eq!(outputs[output].check(&got), Ok(()));
        // An answer that takes everything would prove nothing.
        let off =
            Array::floats(Dtype::F32, &outputs[output].shape, &values.iter().map(|x| x + 0.001).collect::<Vec<_>>());
        assert!(outputs[output].check(&off).is_err() || values.iter().any(|x| !x.is_finite()));
    }

    fn row(values: &[f64]) -> Array {
        Array::floats(Dtype::F32, &[1, values.len()], values)
    }

    #[test]
    fn softmax_is_the_one_of_the_textbook() {
        let plain = Options::default();
        check("softmax", &[&row(&[1.0, 2.0, 3.0])], &plain, 0, &[0.090_030_573, 0.244_728_47, 0.665_240_96]);
        check("log-softmax", &[&row(&[1.0, 2.0, 3.0])], &plain, 0, &[-2.407_605_9, -1.407_605_9, -0.407_605_94]);
        check("softmax", &[&row(&[0.0, f64::NEG_INFINITY])], &plain, 0, &[1.0, 0.0]);
        check("softmax", &[&row(&[1000.0, 1000.0])], &plain, 0, &[0.5, 0.5]);
        check("softmax", &[&row(&[f64::NEG_INFINITY; 2])], &plain, 0, &[f64::NAN; 2]);
        check("log-softmax", &[&row(&[0.0, f64::NEG_INFINITY])], &plain, 0, &[0.0, f64::NEG_INFINITY]);
    }

    #[test]
    fn norms_are_those_of_onnx() {
        let eps = Options { eps: Some(0.0), ..Options::default() };
        let x = row(&[1.0, 2.0, 3.0, 4.0]);
        let normed = [-1.341_640_8, -0.447_213_6, 0.447_213_6, 1.341_640_8];
        check("layer-norm", &[&x], &eps, 0, &normed);
        check("layer-norm", &[&x], &eps, 1, &[2.5]);
        check("layer-norm", &[&x], &eps, 2, &[0.894_427_2]);
        let (scale, bias) = (row(&[2.0, 2.0, 2.0, 0.0]), row(&[1.0; 4]));
        check("layer-norm", &[&x, &scale, &bias], &eps, 0, &[-1.683_281_6, 0.105_572_8, 1.894_427_2, 1.0]);
        check("rms-norm", &[&x], &eps, 1, &[0.365_148_37]);
        check("rms-norm", &[&x, &scale], &eps, 0, &[0.730_296_74, 1.460_593_5, 2.190_890_2, 0.0]);
    }

    #[test]
    fn a_row_that_is_not_finite_has_no_norm() {
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        check("layer-norm", &[&row(&[1.0, inf])], &Options::default(), 0, &[nan, nan]);
        check("layer-norm", &[&row(&[1.0, nan])], &Options::default(), 2, &[nan]);
        check("rms-norm", &[&row(&[1.0, nan])], &Options::default(), 0, &[nan, nan]);
        check("rms-norm", &[&row(&[1.0, inf])], &Options::default(), 0, &[0.0, nan]);
    }

    #[test]
    fn cross_entropy_leaves_out_the_ignored_label() {
        let x = Array::floats(Dtype::F32, &[2, 3], &[1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
        let labels = Array::ints(Dtype::I64, &[2], &[0, -100]);
        check("cross-entropy", &[&x, &labels], &Options::default(), 0, &[2.407_605_9, 0.0]);
        let outside = Array::ints(Dtype::I64, &[2], &[3, -1]);
        check("cross-entropy", &[&x, &outside], &Options::default(), 0, &[f64::NAN, f64::NAN]);
        check("cross-entropy", &[&x, &labels], &Options::default(), 1, &[3.407_605_9, 3.407_605_9]);
    }
}
