//! Row operators and small dense algebra, in f64.

use super::erf;
use crate::foreign::expect::{EPS32, Outcome, close, exact, sum_error, ulps32, wide};
use crate::foreign::run::Run;

/// `(x, y, …)`, rows of `columns`. The exponential of a shifted value x loses |x| units, the sum a
/// few more.
pub(super) fn softmax(run: &Run<'_>) -> Outcome {
    let columns = run.with("columns");
    let input = wide(&run.before::<f32>(0));
    let mut want = Vec::new();
    let mut spread = 0f64;
    for row in input.chunks(columns) {
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = row.iter().map(|x| (x - largest).exp()).sum();
        want.extend(row.iter().map(|x| (x - largest).exp() / sum));
        spread = row.iter().fold(spread, |s, x| s.max(largest - x));
    }
    let units = spread + 8.0 + (columns as f64).log2();
    close("y", &wide(&run.after::<f32>(1)), &want, |i| ulps32(units, want[i]))
}

/// `(x, scale, bias, y, means, rstds, columns, epsilon)`.
pub(super) fn layer_norm_scaled(run: &Run<'_>) -> Outcome {
    layer_norm(run, [0, 1, 2, 3, 4, 5])
}

/// `(x, y, scale, bias, means, rstds, columns, epsilon, …)`.
pub(super) fn layer_norm_triton(run: &Run<'_>) -> Outcome {
    layer_norm(run, [0, 2, 3, 1, 4, 5])
}

fn layer_norm(run: &Run<'_>, [x, scale, bias, y, means, rstds]: [usize; 6]) -> Outcome {
    let (columns, epsilon) = (run.with("columns"), 1e-5);
    let input = wide(&run.before::<f32>(x));
    let (scale, bias) = (wide(&run.before::<f32>(scale)), wide(&run.before::<f32>(bias)));
    let (mut want, mut want_means, mut want_rstds) = (Vec::new(), Vec::new(), Vec::new());
    let mut largest = 0f64;
    for row in input.chunks(columns) {
        let n = columns as f64;
        let mean = row.iter().sum::<f64>() / n;
        let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
        let rstd = 1.0 / (variance + epsilon).sqrt();
        want.extend((0..columns).map(|i| (row[i] - mean) * rstd * scale[i] + bias[i]));
        want_means.push(mean);
        want_rstds.push(rstd);
        largest = row.iter().fold(largest, |l, v| l.max(v.abs()));
    }
    // Chains of at most 32 elements a thread before the tree; every step may lose half a unit of
    // the largest value.
    let depth = columns.div_ceil(128) + 12;
    let mean_error = sum_error(depth, largest);
    close("mean", &wide(&run.after::<f32>(means)), &want_means, |_| mean_error)?;
    let units = 2.0 * depth as f64;
    close("rstd", &wide(&run.after::<f32>(rstds)), &want_rstds, |i| ulps32(units, want_rstds[i]))?;
    close("y", &wide(&run.after::<f32>(y)), &want, |i| {
        ulps32(units + 4.0, want[i].abs() + bias[i % columns].abs())
            + mean_error * want_rstds[i / columns] * scale[i % columns].abs()
    })
}

/// `(a, x, y, m, k)`: y = a x.
pub(super) fn sgemv(run: &Run<'_>) -> Outcome {
    let (a, x) = (wide(&run.before::<f32>(0)), wide(&run.before::<f32>(1)));
    let k = run.size(4);
    let products = |row: &[f64]| row.iter().zip(&x).map(|(u, v)| u * v).collect::<Vec<f64>>();
    let want: Vec<f64> = a.chunks(k).map(|row| products(row).iter().sum()).collect();
    let bounds: Vec<f64> =
        a.chunks(k).map(|row| sum_error(k / 128 + 9, products(row).iter().map(|p| p.abs()).sum())).collect();
    close("y", &wide(&run.after::<f32>(2)), &want, |i| bounds[i])
}

/// `(a, b, c, m, n, k)`: c = a b.
pub(super) fn sgemm(run: &Run<'_>) -> Outcome {
    let (a, b) = (wide(&run.before::<f32>(0)), wide(&run.before::<f32>(1)));
    let (m, n, k) = (run.size(3), run.size(4), run.size(5));
    let cell = |f: fn(f64) -> f64| -> Vec<f64> {
        let dot = |r: usize, c: usize| (0..k).map(|i| f(a[r * k + i] * b[i * n + c])).sum();
        (0..m * n).map(|i| dot(i / n, i % n)).collect()
    };
    let (want, absolute) = (cell(|p| p), cell(f64::abs));
    close("c", &wide(&run.after::<f32>(2)), &want, |i| sum_error(k + 1, absolute[i]) + EPS32 * want[i].abs())
}

/// `(input, output, rows, columns)`.
pub(super) fn transpose(run: &Run<'_>) -> Outcome {
    let (rows, columns) = (run.size(2), run.size(3));
    let input = run.before::<f32>(0);
    let want: Vec<f32> = (0..rows * columns).map(|i| input[i % rows * columns + i / rows]).collect();
    exact("output", &run.after::<f32>(1), &want)
}

/// `(x, y, rows, columns, …)`: integer sums down the columns.
pub(super) fn column_sums(run: &Run<'_>) -> Outcome {
    let (rows, columns) = (run.size(2), run.size(3));
    let input = run.before::<i32>(0);
    let want: Vec<i32> = (0..columns).map(|c| (0..rows).map(|r| input[r * columns + c]).sum()).collect();
    exact("y", &run.after::<i32>(1), &want)
}

/// `(x, y, n, …)`: x/2 (1 + erf(x/√2)), whose last factor cancels for negative x, so the bound is
/// relative to x.
pub(super) fn gelu(run: &Run<'_>) -> Outcome {
    let input = wide(&run.before::<f32>(0));
    let want: Vec<f64> = input.iter().map(|x| 0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2))).collect();
    close("y", &wide(&run.after::<f32>(1)), &want, |i| ulps32(4.0, input[i]))
}
