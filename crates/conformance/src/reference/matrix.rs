//! Products with a vector, and of softmax weights with values.

use super::answer::{Answer, Expected};
use super::array::Value;
use super::axes::Refused;
use super::call::Call;
use super::exact::Exact;
use super::reduce::dot_of;
use super::rows::weights;
use super::tolerance;

/// The result of a product.
pub(super) fn expected(call: &Call<'_>) -> Result<Vec<Expected>, Refused> {
    if call.op == "gemv" { gemv(call) } else { softmax_v(call) }
}

fn gemv(call: &Call<'_>) -> Result<Vec<Expected>, Refused> {
    let (a, x) = (call.input(0)?, call.input(1)?);
    let refused = || Refused::because(format!("gemv of {:?} and {:?}", a.shape, x.shape));
    let &[m, k] = &a.shape[..] else { return refused() };
    let (rows, columns) = if call.options.transpose { (k, m) } else { (m, k) };
    if x.shape != [columns] || a.dtype != x.dtype {
        return refused();
    }
    let element =
        |row: usize, column: usize| a.values[if call.options.transpose { column * k + row } else { row * k + column }];
    let pairs = |row: usize| (0..columns).map(|c| (element(row, c), x.values[c])).collect::<Vec<(Value, Value)>>();
    let answers = (0..rows).map(|row| dot_of(a.dtype, &pairs(row))).collect();
    Ok(vec![Expected::new(a.dtype, &[rows], answers)])
}

fn softmax_v(call: &Call<'_>) -> Result<Vec<Expected>, Refused> {
    call.only_floats()?;
    let (scores, v) = (call.input(0)?, call.input(1)?);
    let refused = || Refused::because(format!("softmax-v of {:?} and {:?}", scores.shape, v.shape));
    let ([outer @ .., s, t], [outer_v @ .., t_v, d]) = (&scores.shape[..], &v.shape[..]) else { return refused() };
    if outer != outer_v || t != t_v || scores.dtype != v.dtype {
        return refused();
    }
    let mut answers = Vec::new();
    for batch in 0..outer.iter().product::<usize>() {
        let values = &v.values[batch * t * d..][..t * d];
        for row in 0..*s {
            let scores: Vec<_> = scores.values[(batch * s + row) * t..][..*t].iter().map(|v| v.float()).collect();
            let weights = weights(v.dtype, &scores);
            answers.extend((0..*d).map(|c| {
                let (mut sum, mut error) = (Exact::default(), 0.0);
                for ((weight, relative), value) in weights.iter().zip(values[c..].iter().step_by(*d)) {
                    sum.add_product(*weight, value.float());
                    error += (weight * value.float()).abs() * (relative + tolerance::sum_relative(v.dtype, *t));
                    // A weight below the normal numbers may be flushed to zero.
                    error += value.float().abs() * v.dtype.accumulator().format().min_normal();
                }
                Answer::near(sum.value(), error)
            }));
        }
    }
    let shape: Vec<_> = outer.iter().chain([s, d]).copied().collect();
    Ok(vec![Expected::new(v.dtype, &shape, answers)])
}

#[cfg(test)]
mod tests {
    use super::super::array::Array;
    use super::super::call::Options;
    use super::super::dtype::Dtype;
    use super::*;

    #[test]
    fn a_matrix_times_a_vector() {
        let a = Array::floats(Dtype::F32, &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let (x, y) = (Array::floats(Dtype::F32, &[3], &[1.0, 0.0, -1.0]), Array::floats(Dtype::F32, &[2], &[1.0, 2.0]));
        let run = |x, transpose| {
            let options = Options { transpose, ..Options::default() };
            expected(&Call { op: "gemv", inputs: &[&a, x], options: &options })
        };
        assert_eq!(run(&x, false).expect("a result")[0].check(&Array::floats(Dtype::F32, &[2], &[-2.0, -2.0])), Ok(()));
        let transposed = run(&y, true).expect("a result");
        assert_eq!(transposed[0].check(&Array::floats(Dtype::F32, &[3], &[9.0, 12.0, 15.0])), Ok(()));
        assert!(run(&x, true).is_err() && run(&y, false).is_err());
    }

    #[test]
    fn softmax_weights_average_the_values() {
        let scores = Array::floats(Dtype::F32, &[1, 1, 2], &[0.0, 3f64.ln()]);
        let v = Array::floats(Dtype::F32, &[1, 2, 3], &[4.0, 8.0, 0.0, 8.0, 4.0, -4.0]);
        let call = Call { op: "softmax-v", inputs: &[&scores, &v], options: &Options::default() };
        let outputs = expected(&call).expect("a result");
        assert_eq!(outputs[0].check(&Array::floats(Dtype::F32, &[1, 1, 3], &[7.0, 5.0, -3.0])), Ok(()));
        assert!(outputs[0].check(&Array::floats(Dtype::F32, &[1, 1, 3], &[7.0, 5.0, -3.001])).is_err());
    }
}
