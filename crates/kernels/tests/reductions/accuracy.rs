//! Sums against their exact values: |error| <= c · log2(n) · eps · Σ|x| on inputs that are made to
//! fail.

use warpfold_kernels::Dtype;
use warpfold_kernels::layout::Layout;
use warpfold_kernels::reductions::{Options, Reduction};

use crate::reductions::bench::{Bench, tiled};
use crate::reductions::exact::Exact;
use crate::reductions::host::{Value, decode, encode, scattered, uniform, values};

/// `c` of the bound.
const C: f64 = 2.0;

/// Distance from one to the next number, in the type that sums of a type are carried in, and in the
/// type itself.
fn epsilons(dtype: Dtype) -> (f64, f64) {
    match dtype {
        Dtype::F64 => (f64::EPSILON, f64::EPSILON),
        Dtype::F32 => (f32::EPSILON.into(), f32::EPSILON.into()),
        Dtype::F16 => (f32::EPSILON.into(), half::f16::EPSILON.to_f64()),
        _ => (f32::EPSILON.into(), half::bf16::EPSILON.to_f64()),
    }
}

/// Numbers as a type has them.
fn rounded(dtype: Dtype, numbers: &[f64]) -> Vec<Value> {
    decode(dtype, &encode(dtype, &values(dtype, numbers)))
}

/// The inputs, each with a name.
fn inputs(dtype: Dtype, n: usize) -> Vec<(&'static str, Vec<Value>)> {
    let of = |f: &dyn Fn(usize) -> f64| (0..n).map(f).collect::<Vec<_>>();
    let large = if dtype == Dtype::F16 { 1e4 } else { 1e20 };
    let tiny = match dtype {
        Dtype::F64 => f64::from_bits(1),
        Dtype::F16 => f64::exp2(-24.0),
        Dtype::Bf16 => f64::exp2(-133.0),
        _ => f64::exp2(-149.0),
    };
    let spread = if dtype == Dtype::F16 { 10 } else { 60 };
    let mut all = vec![
        ("all equal, and no dyadic fraction", of(&|_| 1.0 / 3.0)),
        ("large ones that cancel, and small ones", of(&|i| [1e-20, large, -large, 1e-20, 1e-20][i % 5])),
        ("the small ones first", of(&|i| if i + 2 < n { 1e-20 } else { large * if i + 1 < n { 1.0 } else { -1.0 } })),
        ("alternating signs", of(&|i| (1.0 + uniform(i) / 8.0) * if i % 2 == 0 { 1.0 } else { -1.0 })),
        ("growing", of(&|i| i as f64 / n as f64)),
        ("of every size", of(&|i| uniform(i) * f64::exp2((scattered(3 * i) % spread) as f64 - spread as f64 / 2.0))),
        ("subnormal", of(&|i| (scattered(i) % 1000) as f64 * tiny * if i % 3 == 0 { -1.0 } else { 1.0 })),
        ("one that is large", of(&|i| if i == n / 2 { 2_f64.powi(15) } else { 2_f64.powi(-14) })),
    ]
    .into_iter()
    .map(|(name, numbers)| (name, rounded(dtype, &numbers)))
    .collect::<Vec<_>>();
    all.push(("ill-conditioned", ill_conditioned(dtype, n)));
    all
}

/// Numbers of many sizes whose second half takes away, number by number, what the sum has come to
/// (after Ogita, Rump, Oishi: Accurate sum and dot product, 2005, GenDot).
fn ill_conditioned(dtype: Dtype, n: usize) -> Vec<Value> {
    let spread = if dtype == Dtype::F16 { 12.0 } else { 40.0 };
    let first = |i: usize| uniform(i) * f64::exp2(spread * (uniform(i + 7) / 2.0));
    let mut all = rounded(dtype, &(0..n / 2).map(first).collect::<Vec<_>>());
    let mut sum = Exact::sum(all.iter().map(|value| value.float()));
    for i in n / 2..n {
        let size = f64::exp2(spread / 2.0 * (1.0 - 2.0 * (i - n / 2) as f64 / (n / 2) as f64));
        let next = rounded(dtype, &[uniform(i) * size - sum.value()])[0];
        sum.add(next.float(), 1.0);
        all.push(next);
    }
    all
}

struct Case<'a> {
    reduction: Reduction,
    dtype: Dtype,
    inputs: &'a [&'a [Value]],
    name: &'a str,
}

/// The exact result, the sum of magnitudes, and by what the result is smaller than the sum.
fn expected(case: &Case<'_>) -> (Exact, f64, f64) {
    let x = || case.inputs[0].iter().map(|value| value.float());
    let mut products = Exact::new();
    match case.reduction {
        Reduction::L1 => (Exact::sum(x().map(f64::abs)), x().map(f64::abs).sum(), 1.0),
        Reduction::SumSquares => {
            x().for_each(|x| products.add(x, x));
            (products, x().map(|x| x * x).sum(), 1.0)
        }
        Reduction::Dot => {
            let y = || case.inputs[1].iter().map(|value| value.float());
            x().zip(y()).for_each(|(x, y)| products.add(x, y));
            (products, x().zip(y()).map(|(x, y)| (x * y).abs()).sum(), 1.0)
        }
        Reduction::Mean => (Exact::sum(x()), x().map(f64::abs).sum(), case.inputs[0].len() as f64),
        _ => (Exact::sum(x()), x().map(f64::abs).sum(), 1.0),
    }
}

#[track_caller]
fn check(bench: &mut Bench, case: &Case<'_>, layout: &Layout, axis: usize) {
    let n = layout.shape()[axis];
    let mut inputs: Vec<_> = case.inputs.iter().map(|input| input.to_vec()).collect();
    if layout.rank() == 2 {
        inputs = inputs.iter().map(|input| tiled(input, layout.shape()[1 - axis], axis == 0).0).collect();
    }
    let inputs: Vec<_> = inputs.iter().map(|input| &input[..]).collect();
    let options = (case.reduction, Options::default());
    let (to, results) = bench.reduce(options, case.dtype, &inputs, (layout, 0), &[axis]).swap_remove(0);
    let (eps, eps_of_result) = epsilons(to);
    let (exact, magnitude, divisor) = expected(case);
    let value = exact.value();
    let smallest = match to {
        Dtype::F64 => f64::from_bits(1),
        Dtype::F16 => f64::exp2(-24.0),
        Dtype::Bf16 => f64::exp2(-133.0),
        _ => f64::exp2(-149.0),
    };
    // Products round once before they are added, and the result is rounded to its type.
    let terms = C * (n as f64).log2() * eps * magnitude + n as f64 * smallest;
    let bound = terms / divisor + 0.75 * eps_of_result * (value / divisor).abs() + smallest;
    for result in results {
        let error = (result.float() - value / divisor).abs();
        let Case { reduction, dtype, name, .. } = case;
        assert!(error <= bound, "{reduction} of {dtype}, {name}, {layout:?}: {result:?} is {error} off, not {bound}");
    }
}

#[test]
fn sums_err_by_no_more_than_a_tree_does() {
    let bench = &mut Bench::new();
    for dtype in [Dtype::F32, Dtype::F64, Dtype::F16, Dtype::Bf16] {
        for n in [1000, 20_011] {
            for (name, input) in inputs(dtype, n) {
                let long = Layout::contiguous(&[n]).unwrap();
                for reduction in [Reduction::Sum, Reduction::Mean, Reduction::ReproducibleSum] {
                    let case = Case { reduction, dtype, inputs: &[&input], name };
                    check(bench, &case, &long, 0);
                }
            }
        }
    }
}

#[test]
fn sums_of_rows_and_columns_err_by_no_more_either() {
    let bench = &mut Bench::new();
    for dtype in [Dtype::F32, Dtype::F64, Dtype::Bf16] {
        let n = 1003;
        for (name, input) in inputs(dtype, n) {
            let case = Case { reduction: Reduction::Sum, dtype, inputs: &[&input], name };
            check(bench, &case, &Layout::contiguous(&[n, 33]).unwrap(), 0);
            check(bench, &case, &Layout::contiguous(&[3, n]).unwrap(), 1);
        }
    }
}

#[test]
fn sums_of_products_err_by_no_more_either() {
    let bench = &mut Bench::new();
    let n = 5003;
    let layout = Layout::contiguous(&[n]).unwrap();
    for dtype in [Dtype::F32, Dtype::F64] {
        let scale = |input: &[Value]| -> Vec<Value> {
            // Squares of the largest would overflow.
            let small = input.iter().map(|value| value.float().clamp(-1e15, 1e15)).collect::<Vec<_>>();
            rounded(dtype, &small)
        };
        for (name, input) in inputs(dtype, n) {
            let (x, y) = (scale(&input), rounded(dtype, &(0..n).map(|i| uniform(5 * i)).collect::<Vec<_>>()));
            for (reduction, inputs) in
                [(Reduction::L1, &[&x[..]][..]), (Reduction::SumSquares, &[&x]), (Reduction::Dot, &[&x, &y])]
            {
                check(bench, &Case { reduction, dtype, inputs, name }, &layout, 0);
            }
        }
    }
}

#[test]
fn reproducible_sums_err_by_no_more_than_they_promise() {
    let bench = &mut Bench::new();
    for (dtype, item, last) in
        [(Dtype::F32, f64::exp2(-67.0), f64::from(f32::EPSILON)), (Dtype::F64, f64::exp2(-85.0), f64::EPSILON)]
    {
        let n = 4099;
        for (name, input) in inputs(dtype, n) {
            let layout = Layout::contiguous(&[n]).unwrap();
            let case = (Reduction::ReproducibleSum, Options::default());
            let result = bench.reduce(case, dtype, &[&input], (&layout, 0), &[0])[0].1[0].float();
            // The distance to the exact sum, without rounding.
            let numbers = input.iter().map(|value| value.float());
            let error = Exact::sum(numbers.clone().chain([-result])).value().abs();
            let largest = numbers.map(f64::abs).fold(0.0, f64::max);
            let bound = n as f64 * item * largest + last / 2.0 * result.abs();
            assert!(error <= bound, "{dtype}, {name}: {result} is {error} off, not {bound}");
        }
    }
}

#[test]
fn variances_far_from_zero_and_of_huge_numbers_are_right() {
    let bench = &mut Bench::new();
    let case = (Reduction::MeanVariance, Options::default());
    for n in [100, 1003, 20_011] {
        for (scale, mean) in [(1.0, 0.0), (0.25, 1e4), (1e19, 0.0), (1e19, 3e19), (1e-18, 0.0), (1.0, 1e6)] {
            for dtype in [Dtype::F32, Dtype::F64] {
                let numbers: Vec<_> = (0..n).map(|i| mean + scale * uniform(i)).collect();
                let input = rounded(dtype, &numbers);
                let x = || input.iter().map(|value| value.float());
                let exact_mean = Exact::sum(x()).value() / n as f64;
                let exact_var = x().map(|x| (x - exact_mean) * (x - exact_mean)).sum::<f64>() / n as f64;
                for (all, layout, axis) in [
                    (input.clone(), Layout::contiguous(&[n]).unwrap(), 0),
                    tiled(&input, 33, true),
                    tiled(&input, 3, false),
                ] {
                    let got = bench.reduce(case, dtype, &[&all], (&layout, 0), &[axis]);
                    let (got_mean, got_var) = (got[0].1[0].float(), got[1].1[0].float());
                    // Means are rounded, and what they are off goes into distances from them.
                    let of_means = 4.0 * f64::EPSILON * exact_mean.abs() / exact_var.sqrt();
                    let relative = of_means + if dtype == Dtype::F32 { 1e-5 } else { 1e-12 };
                    let mean_error = (got_mean - exact_mean).abs();
                    let eps = epsilons(dtype).1;
                    let mean_bound = relative * exact_var.sqrt() + eps * exact_mean.abs();
                    assert!(mean_error <= mean_bound, "{dtype} {n} {mean} ± {scale}: {got_mean}, not {exact_mean}");
                    let fits = dtype == Dtype::F64 || (exact_var > 1e-36 && exact_var < 3e38);
                    let var_error = (got_var - exact_var).abs();
                    if fits {
                        let is_right = var_error <= relative * exact_var;
                        assert!(is_right, "{dtype} {n} {mean} ± {scale}: variance {got_var}, not {exact_var}");
                    }
                    let deviation = (Reduction::StandardDeviation, Options::default());
                    let got = bench.reduce(deviation, dtype, &[&all], (&layout, 0), &[axis])[0].1[0].float();
                    let is_right = (got - exact_var.sqrt()).abs() <= relative * exact_var.sqrt();
                    assert!(is_right, "{dtype} {n} {mean} ± {scale}: deviation {got}, not {}", exact_var.sqrt());
                }
            }
        }
    }
}

#[test]
fn the_euclidean_norm_of_huge_and_of_tiny_numbers_is_right() {
    let bench = &mut Bench::new();
    let layout = Layout::contiguous(&[1000]).unwrap();
    for dtype in [Dtype::F32, Dtype::Bf16] {
        for scale in [1e25, 1.0, 1e-30] {
            let input = rounded(dtype, &(0..1000).map(|i| scale * uniform(i)).collect::<Vec<_>>());
            let exact = input.iter().map(|x| x.float() * x.float()).sum::<f64>().sqrt();
            let got = bench.reduce((Reduction::L2, Options::default()), dtype, &[&input], (&layout, 0), &[0]);
            let got = got[0].1[0].float();
            assert!((got - exact).abs() <= epsilons(dtype).1 * exact, "{dtype} {scale}: {got}, not {exact}");
        }
    }
}

#[test]
fn logarithms_of_sums_of_exponentials_are_near() {
    let bench = &mut Bench::new();
    let n = 3001;
    for dtype in [Dtype::F32, Dtype::F64] {
        for (scale, shift) in [(1.0, 0.0), (20.0, 0.0), (3.0, 1000.0), (1.0, -5000.0)] {
            let input = rounded(dtype, &(0..n).map(|i| shift + scale * uniform(i)).collect::<Vec<_>>());
            let largest = input.iter().map(|x| x.float()).fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = input.iter().map(|x| (x.float() - largest).exp()).sum();
            let exact = largest + sum.ln();
            for (all, layout, axis) in [tiled(&input, 33, true), tiled(&input, 3, false)] {
                let got =
                    bench.reduce((Reduction::LogSumExp, Options::default()), dtype, &[&all], (&layout, 0), &[axis]);
                let got = got[0].1[0].float();
                let (eps, _) = epsilons(dtype);
                let bound = eps * (2.0 * (n as f64).log2() + 8.0 + 2.0 * largest.abs());
                assert!((got - exact).abs() <= bound, "{dtype} {scale} {shift}: {got}, not {exact}");
            }
        }
    }
}
