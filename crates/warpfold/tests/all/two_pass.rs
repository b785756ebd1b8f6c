//! Variances in two passes, against plain loops in double precision; under every check.

use warpfold::by_name::{self, Options as Chosen};
use warpfold::reductions::{Options, Reduction};
use warpfold::{Axes, Device, Dtype, ErrorKind, Profile, Tensor};
use warpfold_device::Checks;

fn device() -> Device {
    let device = Device::virtual_gpu(Profile::H200);
    device.configure(|options| options.checks = Checks::All).unwrap();
    device
}

fn sample(i: usize) -> f64 {
    f64::from((i as u32).wrapping_mul(2_654_435_761) >> 8) / 8_388_608.0 - 1.0
}

/// Mean and variance of some numbers.
fn moments(numbers: &[f64], ddof: usize) -> (f64, f64) {
    let n = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / n;
    let squares: f64 = numbers.iter().map(|x| (x - mean) * (x - mean)).sum();
    (mean, squares / numbers.len().saturating_sub(ddof) as f64)
}

#[track_caller]
fn near(got: f64, expected: f64, bound: f64) {
    let is_same = got == expected || got.is_nan() && expected.is_nan();
    assert!(is_same || (got - expected).abs() <= bound * expected.abs(), "{got} instead of {expected}");
}

#[test]
fn rows_columns_and_all_of_a_matrix_are_folded_about_their_means() {
    let device = device();
    for (rows, columns) in [(1, 1), (3, 100), (33, 65), (7, 3001), (1, 70_000)] {
        for (shift, ddof) in [(0.0, 0), (1e6, 1)] {
            let numbers: Vec<f64> = (0..rows * columns).map(|i| sample(i) + shift).collect();
            let x = Tensor::from_slice(&numbers, &[rows, columns], &device).unwrap();
            let options = Options { ddof: Some(ddof), ..Options::default() };
            let lines = |axes: &[isize]| -> Vec<Vec<f64>> {
                match axes {
                    [0] => (0..columns).map(|c| numbers.iter().skip(c).step_by(columns).copied().collect()).collect(),
                    [1] => numbers.chunks(columns).map(<[f64]>::to_vec).collect(),
                    _ => vec![numbers.clone()],
                }
            };
            for axes in [&[0][..], &[1], &[0, 1]] {
                let got = x.reduce_in_two_passes(Reduction::MeanVariance, Axes::Of(axes), options).unwrap();
                let [means, variances] = [0, 1].map(|i| got[i].to_vec::<f64>().unwrap());
                let of = Reduction::StandardDeviation;
                let deviations =
                    x.reduce_in_two_passes(of, Axes::Of(axes), options).unwrap()[0].to_vec::<f64>().unwrap();
                let lines = lines(axes);
                assert_eq!(variances.len(), lines.len());
                for (i, line) in lines.iter().enumerate() {
                    let (mean, variance) = moments(line, ddof as usize);
                    near(means[i], mean, 1e-12);
                    near(variances[i], variance, 1e-9);
                    near(deviations[i], variance.sqrt(), 1e-9);
                }
            }
        }
    }
    for report in device.take_reports() {
        assert!(report.report.findings.is_empty(), "{}: {:?}", report.kernel, report.report.findings);
    }
}

#[test]
fn what_the_mean_was_rounded_by_is_taken_back() {
    let device = device();
    // Half of them a unit in the last place above the other half, so that the mean cannot be told
    // from one of them.
    let (low, high) = (2.0_f64.powi(52), 2.0_f64.powi(52) + 1.0);
    let numbers: Vec<f64> = (0..4096).map(|i| if i % 2 == 0 { low } else { high }).collect();
    let x = Tensor::from_slice(&numbers, &[4096], &device).unwrap();
    let got = x.reduce_in_two_passes(Reduction::Variance, Axes::All, Options::default()).unwrap();
    assert_eq!(got[0].to_vec::<f64>().unwrap(), [0.25]);
}

#[test]
fn types_of_results_are_those_of_one_pass() {
    let device = device();
    let numbers: Vec<f32> = (0..600).map(|i| (i % 17) as f32).collect();
    let (mean, variance) = moments(&numbers.iter().map(|x| f64::from(*x)).collect::<Vec<_>>(), 0);
    for dtype in [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::I8, Dtype::U16, Dtype::I64, Dtype::F8E4M3] {
        let x = Tensor::from_slice(&numbers, &[600], &device).unwrap().cast(dtype).unwrap();
        let once = x.reduce(Reduction::MeanVariance, Axes::All, Options::default()).unwrap();
        let twice = x.reduce_in_two_passes(Reduction::MeanVariance, Axes::All, Options::default()).unwrap();
        for ((once, twice), expected) in once.iter().zip(&twice).zip([mean, variance]) {
            assert_eq!(once.dtype(), twice.dtype(), "{dtype}");
            near(twice.cast(Dtype::F64).unwrap().to_vec::<f64>().unwrap()[0], expected, 0.005);
        }
    }
}

#[test]
fn of_nothing_the_variance_is_nan_and_of_too_little_it_is_infinite_or_nan() {
    let device = device();
    let of = |numbers: &[f64], ddof| {
        let x = Tensor::from_slice(numbers, &[numbers.len()], &device).unwrap();
        let options = Options { ddof: Some(ddof), ..Options::default() };
        [
            x.reduce(Reduction::Variance, Axes::All, options).unwrap(),
            x.reduce_in_two_passes(Reduction::Variance, Axes::All, options).unwrap(),
        ]
        .map(|results| results[0].to_vec::<f64>().unwrap()[0])
    };
    for (numbers, ddof) in
        [(&[][..], 0), (&[3.0], 1), (&[1.0, 2.0], 2), (&[1.0, f64::NAN], 0), (&[f64::INFINITY, 1.0], 0)]
    {
        let [once, twice] = of(numbers, ddof);
        near(twice, once, 0.0);
    }
}

#[test]
fn by_name_variances_take_the_option_and_nothing_else_does() {
    let device = device();
    let x = Tensor::from_slice(&[1.0_f64, 2.0, 6.0, 9.0], &[2, 2], &device).unwrap();
    let options = Chosen { two_pass: Some(true), axes: Some(vec![1]), keepdims: Some(true), ..Chosen::default() };
    let got = by_name::run("var", std::slice::from_ref(&x), &options).unwrap();
    assert_eq!((got[0].shape(), got[0].to_vec::<f64>().unwrap()), (&[2, 1][..], vec![0.25, 2.25]));
    let refused = by_name::run("sum", std::slice::from_ref(&x), &options).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::OptionNotTaken { option: "two-pass", .. }), "{refused}");
    let refused = x.reduce_in_two_passes(Reduction::Sum, Axes::All, Options::default()).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::OptionNotTaken { option: "two-pass", .. }), "{refused}");
}
