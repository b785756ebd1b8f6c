//! Scans: the sum or the product of everything up to each element along an axis.

use super::answer::{Answer, Expected};
use super::array::Value;
use super::axes::Refused;
use super::call::Call;
use super::dtype::Dtype;
use super::reduce::{Product, Sum, wide};

/// The result of a scan.
pub(super) fn expected(call: &Call<'_>) -> Result<Vec<Expected>, Refused> {
    let x = call.input(0)?;
    let lanes = call.lanes_or_last()?;
    if lanes.kept.len() + 1 != x.shape.len() {
        return Refused::because("a scan goes along one axis");
    }
    let dtype = call.options.dtype.unwrap_or(wide(x.dtype));
    let mut answers = vec![Answer::Anything; x.values.len()];
    for positions in &lanes.positions {
        let mut positions = positions.clone();
        if call.options.reverse {
            positions.reverse();
        }
        let lane: Vec<Value> = positions.iter().map(|&p| x.values[p]).collect();
        let so_far = if call.op == "cumsum" { sums(dtype, &lane) } else { products(dtype, &lane) };
        for (i, &p) in positions.iter().enumerate() {
            answers[p] = so_far[if call.options.exclusive { i } else { i + 1 }];
        }
    }
    Ok(vec![Expected::new(dtype, &x.shape, answers)])
}

/// The sums of the first none, one, two, ... elements.
fn sums(dtype: Dtype, lane: &[Value]) -> Vec<Answer> {
    let mut sum = Sum::default();
    let first = sum.answer(dtype);
    let others = lane.iter().map(|&v| {
        sum.add(v);
        sum.answer(dtype)
    });
    std::iter::once(first).chain(others).collect()
}

/// The products of the first none, one, two, ... elements.
fn products(dtype: Dtype, lane: &[Value]) -> Vec<Answer> {
    let mut product = Product::default();
    let first = product.answer(dtype);
    let others = lane.iter().map(|&v| {
        product.multiply(v);
        product.answer(dtype)
    });
    std::iter::once(first).chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::super::array::Array;
    use super::super::call::Options;
    use super::*;

    #[track_caller]
    fn check(op: &str, options: &Options, expected_values: &[i128]) {
        let x = Array::ints(Dtype::I32, &[2, 3], &[1, 2, 3, 4, 5, 6]);
        let outputs = expected(&Call { op, inputs: &[&x], options }).expect("a result");
        assert_eq!(outputs[0].check(&Array::ints(Dtype::I64, &[2, 3], expected_values)), Ok(()));
    }

    #[test]
    fn scans_are_those_of_onnx() {
        let plain = Options::default();
        check("cumsum", &plain, &[1, 3, 6, 4, 9, 15]);
        check("cumsum", &Options { exclusive: true, ..plain.clone() }, &[0, 1, 3, 0, 4, 9]);
        check("cumsum", &Options { reverse: true, ..plain.clone() }, &[6, 5, 3, 15, 11, 6]);
        check("cumsum", &Options { reverse: true, exclusive: true, ..plain.clone() }, &[5, 3, 0, 11, 6, 0]);
        check("cumsum", &Options { axes: Some(vec![0]), ..plain.clone() }, &[1, 2, 3, 5, 7, 9]);
        check("cumprod", &plain, &[1, 2, 6, 4, 20, 120]);
        check("cumprod", &Options { exclusive: true, ..plain }, &[1, 1, 2, 1, 4, 20]);
    }
}
