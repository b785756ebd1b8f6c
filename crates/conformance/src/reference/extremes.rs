//! Operators that compare: extremes and where they are, the largest k, and counts of what is not
//! zero.
//!
//! NaN counts as larger and as smaller than everything, so that it is what both extremes give, at
//! its first place.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::answer::{Answer, Expected};
use super::array::Value;
use super::axes::{Lanes, Refused};
use super::call::Call;
use super::dtype::Dtype;

/// Counts distinct elements: NaN is one of them, and so is zero.
fn different(lane: &[Value]) -> usize {
    let key = |value: &Value| match *value {
        Value::Int(i) => (i, 0),
        Value::Float(x) if x.is_nan() => (0, 1),
        Value::Float(x) => ((x + 0.0).to_bits().into(), 2),
    };
    lane.iter().map(key).collect::<BTreeSet<_>>().len()
}

/// The result of a comparing reduction.
pub(super) fn expected(call: &Call<'_>) -> Result<Vec<Expected>, Refused> {
    let x = call.input(0)?;
    if call.op == "topk" {
        return topk(call);
    }
    let lanes = call.lanes_or_all()?;
    let lane_of = |positions: &Vec<usize>| positions.iter().map(|&p| x.values[p]).collect::<Vec<_>>();
    let each = |f: &dyn Fn(&[Value]) -> Answer| -> Vec<_> { lanes.positions.iter().map(|p| f(&lane_of(p))).collect() };
    let count = |lane: &[Value]| lane.iter().filter(|v| v.is_true()).count();
    let shape = call.shape_of(&lanes);
    let one = |dtype, answers| Ok(vec![Expected::new(dtype, shape, answers)]);
    match call.op {
        "any" => return one(Dtype::Bool, each(&|lane| Answer::bool(count(lane) > 0))),
        "all" => return one(Dtype::Bool, each(&|lane| Answer::bool(count(lane) == lane.len()))),
        "count-nonzero" => return one(Dtype::I64, each(&|lane| Answer::int(count(lane) as i128))),
        "unique-count" => return one(Dtype::I64, each(&|lane| Answer::int(different(lane) as i128))),
        "linf" | "abs-max" => return one(x.dtype, each(&|lane| Answer::Exactly(abs_max(x.dtype, lane)))),
        _ => {}
    }
    refuse_empty(call, &lanes)?;
    let ignore_nan = call.options.ignore_nan;
    let side = if matches!(call.op, "max" | "argmax") { Ordering::Greater } else { Ordering::Less };
    if call.op == "min-max" {
        let extreme = |side| each(&|lane| Answer::Exactly(lane[place(lane, side, false, ignore_nan)]));
        let outputs = [Ordering::Less, Ordering::Greater].map(|side| Expected::new(x.dtype, shape, extreme(side)));
        return Ok(outputs.to_vec());
    }
    if matches!(call.op, "argmin" | "argmax") {
        let find = |lane: &[Value]| place(lane, side, call.options.last, ignore_nan);
        return one(Dtype::I64, each(&|lane| Answer::int(find(lane) as i128)));
    }
    one(x.dtype, each(&|lane| Answer::Exactly(lane[place(lane, side, false, ignore_nan)])))
}

/// An extreme of nothing is an error where somebody would see it.
fn refuse_empty(call: &Call<'_>, lanes: &Lanes) -> Result<(), Refused> {
    let is_empty = lanes.len == 0 && !lanes.positions.is_empty();
    if is_empty { Refused::because(format!("{} of no elements", call.op)) } else { Ok(()) }
}

/// Compares two numbers; none is NaN.
fn compare(left: Value, right: Value) -> Ordering {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => a.cmp(&b),
        (a, b) => a.float().partial_cmp(&b.float()).expect("no NaN"),
    }
}

/// The place of the extreme on a side: the first or the last of equal ones, NaN before all numbers
/// unless ignored. If everything is NaN, it is there all the same.
pub(super) fn place(lane: &[Value], side: Ordering, last: bool, ignore_nan: bool) -> usize {
    let mut best = 0;
    for (i, &value) in lane.iter().enumerate().skip(1) {
        let order = match (value.is_nan(), lane[best].is_nan()) {
            (true, true) => Ordering::Equal,
            (true, false) => {
                if ignore_nan {
                    side.reverse()
                } else {
                    side
                }
            }
            (false, true) => {
                if ignore_nan {
                    side
                } else {
                    side.reverse()
                }
            }
            (false, false) => compare(value, lane[best]),
        };
        if order == side || order == Ordering::Equal && last {
            best = i;
        }
    }
    best
}

/// The largest magnitude, zero for nothing.
pub(super) fn abs_max(dtype: Dtype, lane: &[Value]) -> Value {
    let magnitudes: Vec<_> = lane.iter().map(|&v| absolute(dtype, v)).collect();
    let zero = if dtype.is_float() { Value::Float(0.0) } else { Value::Int(0) };
    if magnitudes.is_empty() { zero } else { magnitudes[place(&magnitudes, Ordering::Greater, false, false)] }
}

/// The magnitude; the lowest integer has none and stays.
pub(super) fn absolute(dtype: Dtype, value: Value) -> Value {
    match value {
        Value::Int(i) => Value::Int(dtype.wrap(i.abs())),
        Value::Float(x) => Value::Float(x.abs()),
    }
}

/// The k largest along one axis, in descending order, and where they stood.
fn topk(call: &Call<'_>) -> Result<Vec<Expected>, Refused> {
    let x = call.input(0)?;
    let lanes = call.lanes_or_last()?;
    let Some(k) = call.options.k else { return Refused::because("topk without k") };
    if k > lanes.len || lanes.kept.len() + 1 != x.shape.len() {
        return Refused::because(format!("topk with k = {k} of {:?}", x.shape));
    }
    let shape: Vec<_> = lanes.kept_as_one.clone();
    let axis = super::axes::normalise(call.options.axes.as_deref().unwrap_or(&[-1]), shape.len())?[0];
    let mut shape = shape;
    shape[axis] = k;
    let inner: usize = shape[axis + 1..].iter().product();
    let mut values = vec![Answer::Anything; shape.iter().product()];
    let mut indices = values.clone();
    for (row, positions) in lanes.positions.iter().enumerate() {
        let lane: Vec<_> = positions.iter().map(|&p| x.values[p]).collect();
        for (rank, &i) in descending(&lane).iter().take(k).enumerate() {
            let at = (row / inner * k + rank) * inner + row % inner;
            values[at] = Answer::Exactly(lane[i]);
            indices[at] = Answer::int(i as i128);
        }
    }
    Ok(vec![Expected::new(x.dtype, &shape, values), Expected::new(Dtype::I64, &shape, indices)])
}

/// Indices from the largest down, lower ones first among equals, NaN before all.
pub(super) fn descending(lane: &[Value]) -> Vec<usize> {
    let mut order: Vec<_> = (0..lane.len()).collect();
    order.sort_by(|&a, &b| match (lane[a].is_nan(), lane[b].is_nan()) {
        (false, false) => compare(lane[b], lane[a]),
        (a_is_nan, b_is_nan) => b_is_nan.cmp(&a_is_nan),
    });
    order
}

#[cfg(test)]
mod tests {
    use super::super::array::Array;
    use super::super::call::Options;
    use super::*;

    fn run(op: &str, x: &Array, options: &Options) -> Result<Vec<Expected>, Refused> {
        expected(&Call { op, inputs: &[x], options })
    }

    #[track_caller]
    fn gives(op: &str, values: &[f64], options: &Options, dtype: Dtype, expected: &[f64]) {
        let outputs = run(op, &Array::floats(Dtype::F32, &[values.len()], values), options).expect("a result");
        let value = |&x: &f64| if dtype.is_float() { Value::Float(x) } else { Value::Int(x as i128) };
        let want = Array::new(dtype, &outputs[0].shape, expected.iter().map(value));
        assert_eq!(outputs.last().expect("an output").check(&want), Ok(()));
    }

    const NAN: f64 = f64::NAN;
    const INF: f64 = f64::INFINITY;

    #[test]
    fn extremes_are_those_of_numpy() {
        let plain = Options::default();
        gives("max", &[1.0, 3.0, 2.0], &plain, Dtype::F32, &[3.0]);
        gives("min", &[1.0, NAN, 2.0], &plain, Dtype::F32, &[NAN]);
        gives("max", &[-INF, -INF], &plain, Dtype::F32, &[-INF]);
        gives("argmax", &[1.0, NAN, 2.0, NAN], &plain, Dtype::I64, &[1.0]);
        gives("argmin", &[1.0, 0.0, -0.0], &plain, Dtype::I64, &[1.0]);
        gives("argmax", &[3.0, 1.0, 3.0], &plain, Dtype::I64, &[0.0]);
        gives("argmax", &[3.0, 1.0, 3.0], &Options { last: true, ..plain.clone() }, Dtype::I64, &[2.0]);
        gives("max", &[1.0, NAN, 2.0], &Options { ignore_nan: true, ..plain.clone() }, Dtype::F32, &[2.0]);
        gives("min", &[NAN, NAN], &Options { ignore_nan: true, ..plain.clone() }, Dtype::F32, &[NAN]);
        gives("argmin", &[NAN, 7.0, 2.0], &Options { ignore_nan: true, ..plain.clone() }, Dtype::I64, &[2.0]);
        gives("any", &[], &plain, Dtype::Bool, &[0.0]);
        gives("all", &[], &plain, Dtype::Bool, &[1.0]);
        gives("all", &[1.0, NAN], &plain, Dtype::Bool, &[1.0]);
        gives("any", &[0.0, -0.0], &plain, Dtype::Bool, &[0.0]);
        gives("count-nonzero", &[0.0, -0.0, NAN, 2.0], &plain, Dtype::I64, &[2.0]);
        gives("unique-count", &[0.0, NAN, -0.0, 2.0, NAN, 2.0, -2.0], &plain, Dtype::I64, &[4.0]);
        gives("min-max", &[1.0, -3.0, 2.0], &plain, Dtype::F32, &[2.0]);
        gives("linf", &[1.0, -3.0, 2.0], &plain, Dtype::F32, &[3.0]);
    }

    #[test]
    fn extremes_of_nothing_are_refused_where_they_would_be_seen() {
        let empty = |shape: &[usize]| Array::floats(Dtype::F32, shape, &[]);
        let along = |axis: i64| Options { axes: Some(vec![axis]), ..Options::default() };
        assert!(run("max", &empty(&[0]), &Options::default()).is_err());
        assert!(run("argmin", &empty(&[3, 0]), &along(1)).is_err());
        assert_eq!(run("max", &empty(&[3, 0]), &along(0)).expect("an empty result")[0].shape, [0]);
    }

    #[test]
    fn the_largest_come_first_and_lower_indices_before_equal_ones() {
        let k = |k| Options { k: Some(k), ..Options::default() };
        gives("topk", &[1.0, 5.0, 2.0, 5.0], &k(3), Dtype::I64, &[1.0, 3.0, 2.0]);
        gives("topk", &[1.0, INF, NAN], &k(2), Dtype::I64, &[2.0, 1.0]);
        let x = Array::ints(Dtype::I32, &[3, 2], &[1, 6, 5, 4, 3, 2]);
        let outputs = run("topk", &x, &Options { axes: Some(vec![0]), ..k(2) }).expect("a result");
        assert_eq!(outputs[0].check(&Array::ints(Dtype::I32, &[2, 2], &[5, 6, 3, 4])), Ok(()));
        assert_eq!(outputs[1].check(&Array::ints(Dtype::I64, &[2, 2], &[1, 0, 2, 1])), Ok(()));
        assert!(run("topk", &x, &k(3)).is_err());
    }

    #[test]
    fn the_lowest_integer_has_no_magnitude() {
        assert_eq!(abs_max(Dtype::I8, &[Value::Int(-128)]).int(), -128);
        assert_eq!(abs_max(Dtype::I8, &[Value::Int(-127), Value::Int(3)]).int(), 127);
    }
}
