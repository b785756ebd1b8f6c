//! Tensor cores, asynchronous copies, barriers and clusters of sm_80 and up.

use half::f16;

use crate::foreign::expect::{EPS32, Outcome, close, exact, sum_error, wide};
use crate::foreign::run::Run;

fn halves(bits: &[u16]) -> Vec<f64> {
    bits.iter().map(|&b| f16::from_bits(b).to_f64()).collect()
}

/// `m` by `n` sums of `k` products, and the sums of the magnitudes; `b` gives an element by row and
/// column.
fn product(a: &[f64], b: impl Fn(usize, usize) -> f64, (m, n, k): (usize, usize, usize)) -> (Vec<f64>, Vec<f64>) {
    let dot = |at: usize, f: fn(f64) -> f64| (0..k).map(|i| f(a[at / n * k + i] * b(i, at % n))).sum();
    ((0..m * n).map(|at| dot(at, |p| p)).collect(), (0..m * n).map(|at| dot(at, f64::abs)).collect())
}

/// `(a, b, c, m, n, k, …)`, of f16: c = a b, summed in f32 and rounded once more.
pub(super) fn triton_matmul(run: &Run<'_>) -> Outcome {
    let (a, b) = (halves(&run.before::<u16>(0)), halves(&run.before::<u16>(1)));
    let (m, n, k) = (run.size(3), run.size(4), run.size(5));
    let (want, absolute) = product(&a, |i, j| b[i * n + j], (m, n, k));
    close("c", &halves(&run.after::<u16>(2)), &want, |i| {
        sum_error(k + 1, absolute[i]) + 2f64.powi(-11) * want[i].abs() + 2f64.powi(-25)
    })
}

/// `(q, k, v, o, scale, length, …)`, of f16 and 64 dimensions: o = softmax(scale q kᵀ) v for each
/// head.
///
/// The kernel rounds its weights (at most 1 before the division by their sum, which is at least 1)
/// to f16 before the second product, and its scores pass through an exponential that turns an
/// absolute error into a relative one.
pub(super) fn triton_attention(run: &Run<'_>) -> Outcome {
    const DIM: usize = 64;
    let [q, k, v] = [0, 1, 2].map(|arg| halves(&run.before::<u16>(arg)));
    let (scale, length, causal) = (f64::from(run.f32(4)), run.size(5), run.with("causal") == 1);
    let row = |of: &[f64], at: usize| of[at * DIM..][..DIM].to_vec();
    let (mut want, mut allowed) = (Vec::new(), Vec::new());
    for at in 0..q.len() / DIM {
        let first = at / length * length;
        let keys = first..if causal { at + 1 } else { first + length };
        let query = row(&q, at);
        let score = |key: usize| scale * query.iter().zip(row(&k, key)).map(|(a, b)| a * b).sum::<f64>();
        let scores: Vec<f64> = keys.clone().map(score).collect();
        let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|s| (s - largest).exp()).collect();
        let total: f64 = weights.iter().sum();
        for d in 0..DIM {
            let terms = || weights.iter().zip(keys.clone()).map(|(w, key)| w / total * v[key * DIM + d]);
            let (sum, absolute) = (terms().sum::<f64>(), terms().map(f64::abs).sum::<f64>());
            want.push(sum);
            allowed.push(2f64.powi(-10) * absolute + 2f64.powi(-11) * sum.abs() + 2f64.powi(-25));
        }
    }
    close("o", &halves(&run.after::<u16>(3)), &want, |i| allowed[i])
}

/// `(a, b, c)`: c = a b with b by columns; a has 16 rows and columns, c as many columns as fit.
pub(super) fn one_tile(run: &Run<'_>) -> Outcome {
    let (a, b) = (halves(&run.before::<u16>(0)), halves(&run.before::<u16>(1)));
    let n = b.len() / 16;
    let (want, absolute) = product(&a, |i, j| b[j * 16 + i], (16, n, 16));
    close("c", &wide(&run.after::<f32>(2)), &want, |i| sum_error(17, absolute[i]) + EPS32 * want[i].abs())
}

/// `(input, output, tiles)`: one is added to every fourth number.
pub(super) fn every_fourth_plus_one(run: &Run<'_>) -> Outcome {
    let input = run.before::<f32>(0);
    let want: Vec<u32> =
        input.iter().enumerate().map(|(i, x)| (if i % 4 == 0 { x + 1.0 } else { *x }).to_bits()).collect();
    let got: Vec<u32> = run.after::<f32>(1).iter().map(|x| x.to_bits()).collect();
    exact("output", &got, &want)
}

/// `(input, output)`: in reverse order.
pub(super) fn reversed(run: &Run<'_>) -> Outcome {
    let want: Vec<i32> = run.before::<i32>(0).into_iter().rev().collect();
    exact("output", &run.after::<i32>(1), &want)
}

/// `(input, output)`: each block of 128 adds what its neighbour in a cluster of two has.
pub(super) fn cluster_neighbour(run: &Run<'_>) -> Outcome {
    let input = run.before::<i32>(0);
    let want: Vec<i32> = (0..input.len()).map(|i| input[i] + input[i ^ 128]).collect();
    exact("output", &run.after::<i32>(1), &want)
}

/// `(input, output)`: one more.
pub(super) fn plus_one(run: &Run<'_>) -> Outcome {
    let want: Vec<i32> = run.before::<i32>(0).into_iter().map(|x| x + 1).collect();
    exact("output", &run.after::<i32>(1), &want)
}

/// `(output)`: ones.
pub(super) fn ones(run: &Run<'_>) -> Outcome {
    let found = run.after::<i32>(0);
    exact("output", &found, &vec![1; found.len()])
}
