//! Every reduction of every element type, over sizes around every boundary, against plain loops.

use warpfold_kernels::Dtype;
use warpfold_kernels::fold::{Cumulative, scan_of};
use warpfold_kernels::layout::Layout;
use warpfold_kernels::reductions::{self, Options, Reduction};

use crate::reductions::bench::{Bench, tiled};
use crate::reductions::host::{Value, decode, encode, limits, scattered, values, wrapped};

/// Numbers that every type has, multiples of 1/4 for floats, and the limits for integers.
fn elements(dtype: Dtype, n: usize) -> Vec<Value> {
    let element = |i: usize| {
        let random = scattered(i);
        if dtype.is_float() {
            return Value::Float((random % 15) as f64 / 4.0 - 1.75);
        }
        let (low, high) = limits(dtype);
        Value::Int(match random % 7 {
            0 => low,
            1 => high,
            _ => wrapped(dtype, i128::from(random >> 8)),
        })
    };
    (0..n).map(element).collect()
}

/// What a reduction has to give.
enum Expected {
    Exactly(Value),
    Near(f64),
}

fn is_less(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a < b,
        (a, b) => a.float() < b.float(),
    }
}

fn first_largest(x: &[Value]) -> usize {
    (0..x.len()).fold(0, |best, i| if is_less(&x[best], &x[i]) { i } else { best })
}

fn first_smallest(x: &[Value]) -> usize {
    (0..x.len()).fold(0, |best, i| if is_less(&x[i], &x[best]) { i } else { best })
}

/// A sum of products (or of terms) in the type of the result.
fn total(to: Dtype, terms: impl Iterator<Item = Value>) -> Expected {
    if to.is_float() {
        // Multiples of 1/16 below 2^24: exact up to the last rounding.
        return Expected::Exactly(Value::Float(terms.map(Value::float).sum()));
    }
    Expected::Exactly(Value::Int(terms.fold(0, |sum, term| wrapped(to, sum + wrapped(to, term.int())))))
}

fn times(to: Dtype, a: Value, b: Value) -> Value {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Value::Int(wrapped(to, wrapped(to, a).wrapping_mul(wrapped(to, b)))),
        (a, b) => Value::Float(a.float() * b.float()),
    }
}

fn magnitude(x: &Value) -> Value {
    match *x {
        Value::Int(i) => Value::Int(i.abs()),
        Value::Float(x) => Value::Float(x.abs()),
    }
}

fn expected(reduction: Reduction, from: Dtype, to: &[Dtype], x: &[Value], y: &[Value]) -> Vec<Expected> {
    let n = x.len() as f64;
    let floats = || x.iter().map(|value| value.float());
    let sum = floats().sum::<f64>();
    let mean = sum / n;
    let variance = floats().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
    let is_true = |value: &&Value| value.float() != 0.0;
    let int = |i: usize| vec![Expected::Exactly(Value::Int(i as i128))];
    let wrapped_magnitude = |x: &Value| match magnitude(x) {
        Value::Int(i) => Value::Int(wrapped(from, i)),
        float => float,
    };
    match reduction {
        Reduction::Sum | Reduction::ReproducibleSum => vec![total(to[0], x.iter().copied())],
        Reduction::Product if to[0].is_float() => vec![Expected::Near(floats().product())],
        Reduction::Product => {
            vec![Expected::Exactly(x.iter().fold(Value::Int(1), |product, x| times(to[0], product, *x)))]
        }
        Reduction::Mean => vec![Expected::Near(mean)],
        Reduction::Min => vec![Expected::Exactly(x[first_smallest(x)])],
        Reduction::Max => vec![Expected::Exactly(x[first_largest(x)])],
        Reduction::MinMax => [x[first_smallest(x)], x[first_largest(x)]].map(Expected::Exactly).into(),
        Reduction::Any => int(x.iter().any(|x| is_true(&x)).into()),
        Reduction::All => int(x.iter().all(|x| is_true(&x)).into()),
        Reduction::CountNonzero => int(x.iter().filter(is_true).count()),
        Reduction::ArgMin => int(first_smallest(x)),
        Reduction::ArgMax => int(first_largest(x)),
        Reduction::L1 => vec![total(to[0], x.iter().map(magnitude))],
        Reduction::L2 => vec![Expected::Near(floats().map(|x| x * x).sum::<f64>().sqrt())],
        Reduction::LInf | Reduction::AbsMax => {
            let magnitudes: Vec<_> = x.iter().map(wrapped_magnitude).collect();
            vec![Expected::Exactly(magnitudes[first_largest(&magnitudes)])]
        }
        Reduction::SumSquares => vec![total(to[0], x.iter().map(|x| times(to[0], *x, *x)))],
        Reduction::LogSum => vec![Expected::Near(sum.ln())],
        Reduction::LogSumExp => {
            let largest = floats().fold(f64::NEG_INFINITY, f64::max);
            vec![Expected::Near(largest + floats().map(|x| (x - largest).exp()).sum::<f64>().ln())]
        }
        Reduction::MaxSumExp => {
            let largest = floats().fold(f64::NEG_INFINITY, f64::max);
            vec![Expected::Near(largest), Expected::Near(floats().map(|x| (x - largest).exp()).sum())]
        }
        Reduction::Variance => vec![Expected::Near(variance)],
        Reduction::StandardDeviation => vec![Expected::Near(variance.sqrt())],
        Reduction::MeanVariance => vec![Expected::Near(mean), Expected::Near(variance)],
        Reduction::Dot => vec![total(to[0], x.iter().zip(y).map(|(x, y)| times(to[0], *x, *y)))],
        Reduction::TopK => unreachable!("lists have a test of their own"),
    }
}

fn check(reduction: Reduction, to: Dtype, got: Value, expected: &Expected) -> bool {
    match expected {
        Expected::Exactly(value) => {
            let stored = decode(to, &encode(to, &[*value]))[0];
            got == stored || stored.float() == 0.0 && got.float() == 0.0
        }
        Expected::Near(value) => {
            let epsilon = match to {
                Dtype::F64 => 1e-13,
                Dtype::F32 => 1e-5,
                Dtype::F16 => f64::exp2(-11.0) * 1.01,
                _ => f64::exp2(-8.0) * 1.01,
            };
            let absolute = if reduction == Reduction::LogSum { 1e-5 } else { 1e-30 };
            let got = got.float();
            got == *value || got.is_nan() && value.is_nan() || (got - value).abs() <= epsilon * value.abs() + absolute
        }
    }
}

#[test]
fn every_reduction_of_every_type_is_what_a_plain_loop_gives() {
    let bench = &mut Bench::new();
    let mut combinations = 0;
    for reduction in Reduction::ALL.iter().copied().filter(|reduction| *reduction != Reduction::TopK) {
        for dtype in Dtype::ALL {
            let inputs = reduction.inputs();
            let Ok(to) = reductions::outputs(reduction, &vec![dtype; inputs], Options::default()) else {
                assert!(reduction == Reduction::ReproducibleSum && !dtype.is_float(), "{reduction} of {dtype}");
                continue;
            };
            combinations += 1;
            for (n, copies, across) in [
                (1, 1, false),
                (2, 40, true),
                (31, 9, false),
                (33, 40, true),
                (100, 33, false),
                (1037, 1, false),
                (1037, 40, true),
            ] {
                let (x, y) = (elements(dtype, n), elements(dtype, 2 * n)[n..].to_vec());
                let wanted = expected(reduction, dtype, &to, &x, &y);
                let (all, layout, axis) = tiled(&x, copies, across);
                let (others, ..) = tiled(&y, copies, across);
                let inputs = &[&all[..], &others][..inputs];
                let case = (reduction, Options::default());
                let got = bench.reduce(case, dtype, inputs, (&layout, 0), &[axis]);
                for ((got, to), wanted) in got.iter().zip(&to).zip(&wanted) {
                    assert_eq!(got.0, *to, "{reduction} of {dtype}");
                    let is_right = got.1.iter().all(|got| check(reduction, *to, *got, wanted));
                    assert!(is_right, "{reduction} of {n} {dtype} in {layout:?}: {:?} of {x:?}", got.1);
                }
            }
        }
    }
    assert_eq!(combinations, 23 * 15 + 6, "reductions and types");
}

#[test]
fn types_of_results_are_those_of_numpy() {
    use Dtype::{Bool, F32, F64, I64};
    use Reduction as R;
    // Of truths, of integers, of 8-bit floats, of other floats; where nothing stands, the type of
    // the elements.
    let table: [(&[R], [Option<Dtype>; 4]); 7] = [
        (&[R::Sum, R::Product, R::L1, R::SumSquares], [Some(I64), None, Some(F32), None]),
        (&[R::Dot], [Some(I64), None, Some(F32), None]),
        (&[R::Mean, R::L2, R::LogSum, R::LogSumExp, R::MaxSumExp], [Some(F64), Some(F64), Some(F32), None]),
        (&[R::Variance, R::StandardDeviation, R::MeanVariance], [Some(F64), Some(F64), Some(F32), None]),
        (&[R::Min, R::Max, R::MinMax, R::LInf, R::AbsMax, R::TopK], [None; 4]),
        (&[R::Any, R::All], [Some(Bool); 4]),
        (&[R::CountNonzero, R::ArgMin, R::ArgMax], [Some(I64); 4]),
    ];
    assert_eq!(table.iter().map(|row| row.0.len()).sum::<usize>(), R::ALL.len() - 1, "all but the reproducible sum");
    let column = |dtype: Dtype| match dtype {
        Bool => 0,
        _ if !dtype.is_float() => 1,
        _ => 2 + usize::from(dtype.bytes() > 1),
    };
    // Integers are added up in 64 bits.
    let sums = |dtype: Dtype| match dtype {
        Dtype::I8 | Dtype::I16 | Dtype::I32 => I64,
        Dtype::U8 | Dtype::U16 | Dtype::U32 => Dtype::U64,
        _ => table[0].1[column(dtype)].unwrap_or(dtype),
    };
    for (reduction, row) in table.iter().flat_map(|(reductions, row)| reductions.iter().map(move |r| (*r, row))) {
        let options = Options { k: (reduction == R::TopK).then_some(1), ..Options::default() };
        for dtype in Dtype::ALL {
            let is_sum = table[0].0.contains(&reduction);
            let first = if is_sum { sums(dtype) } else { row[column(dtype)].unwrap_or(dtype) };
            let expected = match reduction {
                R::TopK => vec![first, I64],
                R::MinMax | R::MeanVariance | R::MaxSumExp => vec![first; 2],
                _ => vec![first],
            };
            let outputs = reductions::outputs(reduction, &vec![dtype; reduction.inputs()], options).unwrap();
            assert_eq!(outputs, expected, "{reduction} of {dtype}");
        }
    }
    for dtype in Dtype::ALL {
        let of = |scan| scan_of(scan, dtype, None).unwrap().outputs().to_vec();
        let sums = sums(dtype);
        assert_eq!([of(Cumulative::Sum), of(Cumulative::Product)], [[sums], [sums]], "of {dtype}");
        assert_eq!([of(Cumulative::Max), of(Cumulative::Min)], [[dtype], [dtype]], "of {dtype}");
    }
}

#[test]
fn lists_of_every_type_are_what_sorting_gives() {
    let bench = &mut Bench::new();
    for dtype in Dtype::ALL {
        for (n, k) in [(1, 1), (40, 5), (333, 16), (333, 2)] {
            let x = elements(dtype, n);
            let mut order: Vec<_> = (0..n).collect();
            order.sort_by(|a, b| {
                if is_less(&x[*b], &x[*a]) {
                    std::cmp::Ordering::Less
                } else if is_less(&x[*a], &x[*b]) {
                    std::cmp::Ordering::Greater
                } else {
                    a.cmp(b)
                }
            });
            let values: Vec<_> = order[..k].iter().map(|i| x[*i]).collect();
            let positions: Vec<_> = order[..k].iter().map(|i| Value::Int(*i as i128)).collect();
            let case = (Reduction::TopK, Options { k: Some(k), ..Options::default() });
            for (copies, across) in [(1, false), (9, false), (40, true)] {
                let (all, layout, axis) = tiled(&x, copies, across);
                let got = bench.reduce(case, dtype, &[&all], (&layout, 0), &[axis]);
                assert_eq!(got[0], (dtype, values.repeat(copies)), "{k} of {n} {dtype}");
                assert_eq!(got[1], (Dtype::I64, positions.repeat(copies)), "{k} of {n} {dtype}");
            }
        }
    }
}

#[test]
fn a_result_type_may_be_chosen_where_something_is_computed() {
    let bench = &mut Bench::new();
    let layout = Layout::contiguous(&[300]).unwrap();
    let ones = |dtype, x: f64| values(dtype, &[x; 300]);
    for (reduction, from, x, to, expected) in [
        (Reduction::Sum, Dtype::I8, 100.0, Dtype::I64, Value::Int(30_000)),
        (Reduction::Sum, Dtype::U8, 200.0, Dtype::U16, Value::Int(60_000)),
        (Reduction::Sum, Dtype::I8, 100.0, Dtype::I16, Value::Int(30_000)),
        (Reduction::Sum, Dtype::U32, 4e9, Dtype::U64, Value::Int(1_200_000_000_000)),
        (Reduction::Sum, Dtype::I32, -2e9, Dtype::F64, Value::Float(-6e11)),
        (Reduction::Sum, Dtype::F16, 1000.0, Dtype::F32, Value::Float(300_000.0)),
        (Reduction::Sum, Dtype::F32, 0.5, Dtype::I32, Value::Int(150)),
        (Reduction::L1, Dtype::I8, -128.0, Dtype::I32, Value::Int(38_400)),
        (Reduction::SumSquares, Dtype::I8, -128.0, Dtype::I64, Value::Int(4_915_200)),
        (Reduction::SumSquares, Dtype::I16, -32768.0, Dtype::F64, Value::Float(322_122_547_200.0)),
        (Reduction::Mean, Dtype::I8, 3.0, Dtype::F32, Value::Float(3.0)),
        (Reduction::LogSumExp, Dtype::U8, 0.0, Dtype::F32, Value::Float(f64::from(300_f32.ln()))),
        (Reduction::Mean, Dtype::I8, -3.0, Dtype::I32, Value::Int(-3)),
        (Reduction::Mean, Dtype::I64, 3e9, Dtype::I64, Value::Int(3_000_000_000)),
        (Reduction::Mean, Dtype::U32, 4e9, Dtype::U8, Value::Int(255)),
        (Reduction::L2, Dtype::U8, 2.0, Dtype::U16, Value::Int(34)),
        (Reduction::LogSum, Dtype::I16, 3.0, Dtype::I64, Value::Int(6)),
        (Reduction::Mean, Dtype::F32, 3.0, Dtype::F16, Value::Float(3.0)),
        (Reduction::Product, Dtype::I8, 1.0, Dtype::I64, Value::Int(1)),
        (Reduction::Variance, Dtype::F16, 3.0, Dtype::F64, Value::Float(0.0)),
        (Reduction::LogSum, Dtype::I32, 3.0, Dtype::F32, Value::Float(f64::from(900_f32.ln()))),
        (Reduction::ReproducibleSum, Dtype::F32, 0.1_f32.into(), Dtype::F64, Value::Float(300.0 * f64::from(0.1_f32))),
    ] {
        let options = Options { dtype: Some(to), ..Options::default() };
        let got = bench.reduce((reduction, options), from, &[&ones(from, x)], (&layout, 0), &[0]).swap_remove(0);
        assert_eq!(got, (to, vec![expected]), "{reduction} of {from} {x} as {to}");
    }
}
