//! Operators that move elements: copy, cast, transpose, gather.

use super::answer::{Answer, Expected};
use super::array::Value;
use super::axes::{self, Refused};
use super::call::Call;
use super::dtype::Dtype;

/// The moved elements, to the sign of a zero.
pub(super) fn expected(call: &Call<'_>) -> Result<Vec<Expected>, Refused> {
    let x = call.input(0)?;
    let (dtype, shape, positions): (Dtype, Vec<usize>, Vec<usize>) = match call.op {
        "copy" => (x.dtype, x.shape.clone(), (0..x.values.len()).collect()),
        "cast" => return cast(call),
        "transpose" => transpose(call)?,
        _ => gather(call)?,
    };
    let answers = positions.iter().map(|&p| Answer::WithSign(x.values[p])).collect();
    Ok(vec![Expected::new(dtype, &shape, answers)])
}

fn cast(call: &Call<'_>) -> Result<Vec<Expected>, Refused> {
    let x = call.input(0)?;
    let Some(to) = call.options.dtype else { return Refused::because("cast without a type") };
    Ok(vec![Expected::new(to, &x.shape, x.values.iter().map(|&v| converted(to, v)).collect())])
}

/// Converts as NumPy does: integers wrap, fractions are truncated, everything but zero is true.
/// Floats of one byte saturate, as in ONNX. What no integer holds, and an infinity where there is
/// none, is anything.
fn converted(to: Dtype, value: Value) -> Answer {
    match value {
        v if to == Dtype::Bool => Answer::bool(v.is_true()),
        Value::Int(i) if to.is_float() => {
            let nearest = i as f64;
            // An f64 in between would round twice.
            let rest = (i - nearest as i128) as f64;
            let nudged = if rest > 0.0 {
                nearest.next_up()
            } else if rest < 0.0 {
                nearest.next_down()
            } else {
                nearest
            };
            Answer::float(if to == Dtype::F64 { nearest } else { saturated(to, nudged) })
        }
        Value::Int(i) => Answer::int(to.wrap(i)),
        Value::Float(x) if Dtype::TINY_FLOATS.contains(&to) && x.is_infinite() => Answer::Anything,
        Value::Float(x) if to.is_float() => Answer::WithSign(Value::Float(saturated(to, x))),
        Value::Float(x) => {
            let (low, high) = to.range();
            let cut = x.trunc();
            let fits = cut >= low as f64 && cut <= high as f64 && (cut as i128) <= high;
            if fits { Answer::int(cut as i128) } else { Answer::Anything }
        }
    }
}

fn saturated(to: Dtype, x: f64) -> f64 {
    if Dtype::TINY_FLOATS.contains(&to) { to.format().round_saturating(x) } else { to.format().round(x) }
}

/// A type, a shape, and where each element comes from.
type Moved = (Dtype, Vec<usize>, Vec<usize>);

fn transpose(call: &Call<'_>) -> Result<Moved, Refused> {
    let x = call.input(0)?;
    let rank = x.shape.len();
    let reversed: Vec<_> = (0..rank as i64).rev().collect();
    let order = call.options.axes.as_ref().unwrap_or(&reversed);
    if axes::normalise(order, rank)?.len() != rank {
        return Refused::because(format!("{order:?} is no order of {rank} axes"));
    }
    let order: Vec<usize> = order.iter().map(|&a| if a < 0 { a + rank as i64 } else { a } as usize).collect();
    let shape: Vec<usize> = order.iter().map(|&a| x.shape[a]).collect();
    let positions = axes::coordinates(&shape).map(|at| {
        let mut source = vec![0; rank];
        order.iter().zip(&at).for_each(|(&axis, &c)| source[axis] = c);
        axes::position(&source, &x.shape)
    });
    let positions = positions.collect();
    Ok((x.dtype, shape, positions))
}

fn gather(call: &Call<'_>) -> Result<Moved, Refused> {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    if indices.dtype.is_float() || x.shape.is_empty() {
        return Refused::because(format!("gather from {:?} by {}", x.shape, indices.dtype.name()));
    }
    let row: usize = x.shape[1..].iter().product();
    let mut positions = Vec::new();
    for index in &indices.values {
        let index = index.int();
        match usize::try_from(index) {
            Ok(i) if i < x.shape[0] => positions.extend(i * row..(i + 1) * row),
            _ => return Refused::because(format!("row {index} of {}", x.shape[0])),
        }
    }
    let shape = indices.shape.iter().chain(&x.shape[1..]).copied().collect();
    Ok((x.dtype, shape, positions))
}

#[cfg(test)]
mod tests {
    use super::super::array::Array;
    use super::super::call::Options;
    use super::*;

    fn run(op: &str, inputs: &[&Array], options: &Options) -> Expected {
        expected(&Call { op, inputs, options }).expect("a result").remove(0)
    }

    #[test]
    fn a_transposed_matrix_has_its_columns_as_rows() {
        let x = Array::ints(Dtype::I8, &[2, 3], &[1, 2, 3, 4, 5, 6]);
        let transposed = Array::ints(Dtype::I8, &[3, 2], &[1, 4, 2, 5, 3, 6]);
        assert_eq!(run("transpose", &[&x], &Options::default()).check(&transposed), Ok(()));
        let x = Array::ints(Dtype::I8, &[1, 2, 3], &[1, 2, 3, 4, 5, 6]);
        let options = Options { axes: Some(vec![2, 0, -2]), ..Options::default() };
        let moved = Array::ints(Dtype::I8, &[3, 1, 2], &[1, 4, 2, 5, 3, 6]);
        assert_eq!(run("transpose", &[&x], &options).check(&moved), Ok(()));
    }

    #[test]
    fn rows_are_gathered_by_index() {
        let x = Array::ints(Dtype::I8, &[3, 2], &[1, 2, 3, 4, 5, 6]);
        let indices = Array::ints(Dtype::I64, &[2], &[2, 0]);
        let rows = Array::ints(Dtype::I8, &[2, 2], &[5, 6, 1, 2]);
        assert_eq!(run("gather", &[&x, &indices], &Options::default()).check(&rows), Ok(()));
    }

    #[test]
    fn casts_cut_wrap_round_and_saturate() {
        #[track_caller]
        fn check(x: &Array, want: &Array) {
            let options = Options { dtype: Some(want.dtype), ..Options::default() };
            assert_eq!(run("cast", &[x], &options).check(want), Ok(()));
        }
        let x = Array::floats(Dtype::F32, &[4], &[-1.7, 0.0, 300.5, -0.0]);
        check(&x, &Array::ints(Dtype::I32, &[4], &[-1, 0, 300, 0]));
        check(&x, &Array::ints(Dtype::Bool, &[4], &[1, 0, 1, 0]));
        check(&x, &Array::floats(Dtype::F8E4M3, &[4], &[-1.75, 0.0, 288.0, -0.0]));
        check(&Array::floats(Dtype::F32, &[1], &[1e6]), &Array::floats(Dtype::F8E5M2, &[1], &[57344.0]));
        check(&Array::ints(Dtype::I32, &[2], &[300, -1]), &Array::ints(Dtype::U8, &[2], &[44, 255]));
        // 2^53 + 1 is halfway in an f64; 2^24 + 1 + 2^-30 of an f32 would be, were it rounded
        // twice.
        check(&Array::ints(Dtype::I64, &[1], &[(1 << 53) + 1]), &Array::floats(Dtype::F64, &[1], &[2f64.powi(53)]));
        let odd = (1 << 54) + (1 << 30) + 1;
        let up = 2f64.powi(54) + 2f64.powi(31);
        check(&Array::ints(Dtype::I64, &[1], &[odd]), &Array::floats(Dtype::F32, &[1], &[up]));
    }
}
