//! Reference results of the operators of [cases](super::cases), by formula, for sampled results.

use warpfold_kernels::fold::{Cumulative, scan_of};
use warpfold_kernels::operations::{Operation, map_of};
use warpfold_kernels::reductions::{self, Reduction};
use warpfold_kernels::rowwise::operators::{RowOp, Types, operator_of};
use warpfold_kernels::{Dtype, Error};

use super::cases::{Along, Case, Work, segment_end};
use super::check::{Sample, of_sum, spread};
use super::data::Elements;

/// Results of a case, and what they must be.
pub(super) fn samples(case: &Case) -> Result<Vec<Sample>, Error> {
    let Case { dtype, rows, len, work, .. } = *case;
    let x = Elements::new(dtype, rows * len);
    Ok(match work {
        Work::Copy => spread(len, 64).map(|at| Sample::new(dtype, at, x.at(at), 0.0)).collect(),
        Work::Atomics => {
            let [sum, magnitudes] = x.sums(len);
            vec![Sample::new(dtype, 0, sum, 4.0 * of_sum(dtype, magnitudes))]
        }
        Work::Reduce { reduction, along } => {
            let fold = reductions::fold_of(reduction, &[dtype], reductions::Options::default())?;
            let results = if along == Along::Rows { rows } else { len };
            let sample = |at| {
                let (value, error) = reduced(reduction, &items(&x, case, along, at), dtype);
                Sample::new(fold.outputs()[0], at, value, error)
            };
            spread(results, 5).map(sample).collect()
        }
        Work::Rows(op, vectors) => {
            let types = vec![dtype; vectors as usize];
            let operator = operator_of(op, Types { rows: &[dtype], columns: &types })?;
            let result = operator.results()[0];
            spread(rows, 3).flat_map(|row| of_row(&x, [row, len], op, vectors, result)).collect()
        }
        Work::CrossEntropy => {
            let sample = |row: u64| {
                let loss = (0..len).map(|j| x.at(row * len + j).exp()).sum::<f64>().ln() - x.at(row * len);
                Sample::new(dtype, row, loss, 1e-4)
            };
            spread(rows, 3).map(sample).collect()
        }
        Work::Scan(Along::Rows) => {
            let result = scan_of(Cumulative::Sum, dtype, None)?.outputs()[0];
            let places = spread(rows, 3).flat_map(|row| spread(len, 16).map(move |j| [row * len, row * len + j]));
            places.map(|[first, at]| of_range(&x, result, at, [first, at + 1])).collect()
        }
        Work::Scan(Along::Columns) => {
            let result = scan_of(Cumulative::Sum, dtype, None)?.outputs()[0];
            let places = spread(len, 4).flat_map(|column| spread(rows, 6).map(move |row| [row, column]));
            let sample = |[row, column]: [u64; 2]| {
                let terms = (0..=row).map(|i| x.at(i * len + column));
                let [sum, magnitudes] = terms.fold([0.0; 2], |[sum, all], term| [sum + term, all + term.abs()]);
                Sample::new(result, row * len + column, sum, of_sum(dtype, magnitudes))
            };
            places.map(sample).collect()
        }
        Work::Segments { skewed } => {
            let fold = reductions::fold_of(Reduction::Sum, &[dtype], reductions::Options::default())?;
            let end = |i| segment_end([rows, len], skewed, i);
            spread(rows, 16).map(|i| of_range(&x, fold.outputs()[0], i, [end(i), end(i + 1)])).collect()
        }
        Work::Map(operation) => {
            let result = map_of(operation, &vec![dtype; operation.inputs()], &Default::default())?.outputs()[0];
            spread(rows * len, 64).map(|at| Sample::new(result, at, mapped(operation, x.at(at)), 1e-6)).collect()
        }
        Work::Transpose => {
            let sample = |at: u64| Sample::new(dtype, at, x.at(at % rows * len + at / rows), 0.0);
            spread(rows * len, 64).map(sample).collect()
        }
        Work::Gemv => {
            let sample = |row: u64| {
                let terms = (0..len).map(|j| x.at(row * len + j) * x.at(j));
                let [sum, magnitudes] = terms.fold([0.0; 2], |[sum, all], term| [sum + term, all + term.abs()]);
                Sample::new(dtype, row, sum, of_sum(dtype, magnitudes))
            };
            spread(rows, 8).map(sample).collect()
        }
        Work::Histogram { bins } => {
            let mut counts = vec![0.0; bins as usize];
            for (value, count) in x.counted() {
                counts.get_mut(value as usize).into_iter().for_each(|bin| *bin += count);
            }
            (0..).zip(counts).map(|(bin, count)| Sample::new(Dtype::I32, bin, count, 0.0)).collect()
        }
    })
}

/// The sum of a range.
fn of_range(x: &Elements, result: Dtype, at: u64, [first, end]: [u64; 2]) -> Sample {
    let ([before, all_before], [sum, all]) = (x.sums(first), x.sums(end));
    // The prefixes themselves are doubles.
    Sample::new(
        result,
        at,
        sum - before,
        of_sum(result, all - all_before) + if result.is_float() { all * 1e-15 } else { 0.0 },
    )
}

/// Returns the inputs of a result, with their multiplicities.
fn items(x: &Elements, case: &Case, along: Along, at: u64) -> Vec<(f64, f64)> {
    let Case { rows, len, .. } = *case;
    match along {
        Along::Rows if rows == 1 => x.counted().collect(),
        Along::Rows => (0..len).map(|j| (x.at(at * len + j), 1.0)).collect(),
        Along::Columns => (0..rows).map(|i| (x.at(i * len + at), 1.0)).collect(),
    }
}

/// A reduction and what it may be off by.
fn reduced(reduction: Reduction, items: &[(f64, f64)], dtype: Dtype) -> (f64, f64) {
    let sum = |of: &dyn Fn(f64) -> f64| items.iter().map(|(value, count)| of(*value) * count).sum::<f64>();
    let max = items.iter().map(|(value, _)| *value).fold(f64::NEG_INFINITY, f64::max);
    match reduction {
        Reduction::Sum | Reduction::ReproducibleSum => (sum(&|x| x), of_sum(dtype, sum(&f64::abs))),
        Reduction::Max => (max, 0.0),
        Reduction::ArgMax => (items.iter().position(|(value, _)| *value == max).unwrap_or(0) as f64, 0.0),
        Reduction::Variance => {
            let num = sum(&|_| 1.0);
            let mean = sum(&|x| x) / num;
            (sum(&|x| (x - mean).powi(2)) / num, 1e-5)
        }
        Reduction::LogSumExp => (sum(&|x| (x - max).exp()).ln() + max, 1e-5),
        // Nothing passes.
        _ => (f64::NAN, 0.0),
    }
}

/// Some elements of a row of a result. Vectors along the row begin as the input does.
fn of_row(x: &Elements, [row, len]: [u64; 2], op: RowOp, vectors: u64, result: Dtype) -> Vec<Sample> {
    let values: Vec<f64> = (0..len).map(|j| x.at(row * len + j)).collect();
    let mean_of = |of: &dyn Fn(f64) -> f64| values.iter().map(|x| of(*x)).sum::<f64>() / len as f64;
    let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let top = values.iter().map(|x| x.abs()).fold(0.0, f64::max);
    let mean = mean_of(&|x| x);
    let with_vectors = |normed: f64, j: u64| match vectors {
        0 => normed,
        1 => normed * x.at(j),
        _ => normed * x.at(j) + x.at(j),
    };
    let sample = |j: u64| {
        let value = values[j as usize];
        let (value, error) = match op {
            RowOp::Softmax { scale } => {
                let sum: f64 = values.iter().map(|x| ((x - max) * scale).exp()).sum();
                (((value - max) * scale).exp() / sum, 1e-7)
            }
            RowOp::LayerNorm(norm) => {
                let variance = mean_of(&|x| (x - mean).powi(2));
                (with_vectors((value - mean) / (variance + norm.eps).sqrt(), j), 1e-4)
            }
            RowOp::RmsNorm(norm) => (with_vectors(value / (mean_of(&|x| x * x) + norm.eps).sqrt(), j), 1e-4),
            RowOp::AbsMaxScale => (value / top, 1e-5),
            // A half is rounded away, and the quotient has its own rounding.
            RowOp::Quantize { .. } => {
                return Sample {
                    off: 0.51,
                    value: value / top * 127.0,
                    ..Sample::new(result, row * len + j, 0.0, 0.0)
                };
            }
            // Nothing passes.
            _ => (f64::NAN, 0.0),
        };
        Sample::new(result, row * len + j, value, error)
    };
    spread(len, 16).map(sample).collect()
}

fn mapped(operation: Operation, x: f64) -> f64 {
    match operation {
        Operation::Copy => x,
        Operation::Exp => x.exp(),
        // Both inputs are alike.
        Operation::Add => x + x,
        Operation::Gelu => 0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2)),
        // Nothing passes.
        _ => f64::NAN,
    }
}

/// The error function by its series, for magnitudes up to 1.
fn erf(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..30 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}
