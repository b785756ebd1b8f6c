//! Operators of a pair of tensors, against plain loops in double precision; under every check.

use warpfold::{Device, Dtype, ErrorKind, Profile, Tensor};
use warpfold_device::Checks;

fn device() -> Device {
    let device = Device::virtual_gpu(Profile::H200);
    device.configure(|options| options.checks = Checks::All).unwrap();
    device
}

fn is_clean(device: &Device) {
    for report in device.take_reports() {
        assert!(report.report.findings.is_empty(), "{}: {:?}", report.kernel, report.report.findings);
    }
}

fn sample(i: usize) -> f32 {
    (((i as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / 8_388_608.0 - 1.0) * 3.0
}

#[test]
fn cross_entropy_of_rows_of_every_length() {
    let device = device();
    for classes in [1, 2, 31, 33, 257, 1000, 5000, 40_000] {
        let rows = 6;
        let data: Vec<f32> = (0..rows * classes).map(sample).collect();
        let labels: Vec<i64> = vec![0, classes as i64 - 1, classes as i64 / 2, -100, -1, classes as i64];
        let logits = Tensor::from_slice(&data, &[rows, classes], &device).unwrap();
        let labels_of = Tensor::from_slice(&labels, &[rows], &device).unwrap();
        let (loss, log_sum) = logits.cross_entropy_rows(&labels_of, None).unwrap();
        let (loss, log_sum) = (loss.to_vec::<f32>().unwrap(), log_sum.to_vec::<f32>().unwrap());
        for (row, logits) in data.chunks(classes).enumerate() {
            let expected = logits.iter().map(|x| f64::from(*x).exp()).sum::<f64>().ln();
            assert!((f64::from(log_sum[row]) - expected).abs() < 1e-5, "{} for {expected}", log_sum[row]);
            match labels[row] {
                -100 => assert_eq!(loss[row], 0.0),
                label if (0..classes as i64).contains(&label) => {
                    let expected = expected - f64::from(logits[label as usize]);
                    assert!((f64::from(loss[row]) - expected).abs() < 2e-5, "{} for {expected}", loss[row]);
                }
                _ => assert!(loss[row].is_nan()),
            }
        }
        is_clean(&device);
    }
}

#[test]
fn softmax_times_values_of_any_sizes() {
    let device = device();
    for (batch, rows, len, width) in [
        (1, 1, 1, 1),
        (2, 3, 5, 7),
        (1, 8, 64, 32),
        (3, 9, 65, 33),
        (1, 17, 200, 64),
        (2, 8, 63, 300),
        (1, 2, 1000, 128),
    ] {
        let scores: Vec<f32> = (0..batch * rows * len).map(sample).collect();
        let values: Vec<f32> = (0..batch * len * width).map(|i| sample(i + 99)).collect();
        let of_scores = Tensor::from_slice(&scores, &[batch, rows, len], &device).unwrap();
        let of_values = Tensor::from_slice(&values, &[batch, len, width], &device).unwrap();
        let result = of_scores.softmax_v(&of_values).unwrap();
        assert_eq!(result.shape(), [batch, rows, width]);
        let result = result.to_vec::<f32>().unwrap();
        for (at, got) in result.iter().enumerate() {
            let (row, column) = (at / width, at % width);
            let product = row / rows;
            let weights: Vec<f64> = scores[row * len..][..len].iter().map(|x| f64::from(*x).exp()).collect();
            let value = |t: usize| f64::from(values[(product * len + t) * width + column]);
            let sum: f64 = weights.iter().enumerate().map(|(t, w)| w * value(t)).sum();
            let expected = sum / weights.iter().sum::<f64>();
            assert!(
                (f64::from(*got) - expected).abs() < 1e-5,
                "{got} for {expected} at {at} of {batch} {rows} {len} {width}"
            );
        }
        is_clean(&device);
    }
}

#[test]
fn softmax_times_values_of_eight_bit_floats_is_that_of_their_values() {
    let device = device();
    let (rows, len, width) = (9, 130, 40);
    for dtype in [Dtype::F8E4M3, Dtype::F8E5M2] {
        let narrow = |n: usize, shape: &[usize]| {
            let data: Vec<f32> = (0..n).map(|i| sample(i + n)).collect();
            Tensor::from_slice(&data, shape, &device).unwrap().cast(dtype).unwrap()
        };
        let (scores, values) = (narrow(rows * len, &[rows, len]), narrow(len * width, &[len, width]));
        let wide = |tensor: &Tensor| tensor.cast(Dtype::F32).unwrap();
        let got = scores.softmax_v(&values).unwrap();
        let expected = wide(&scores).softmax_v(&wide(&values)).unwrap();
        assert_eq!((got.dtype(), got.to_bytes().unwrap()), (Dtype::F32, expected.to_bytes().unwrap()), "{dtype}");
        is_clean(&device);
    }
}

#[test]
fn shapes_that_do_not_fit_are_named() {
    let device = device();
    let ones = |shape: &[usize]| Tensor::from_slice(&vec![1.0_f32; shape.iter().product()], shape, &device).unwrap();
    let error = ones(&[2, 3]).softmax_v(&ones(&[2, 4])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "softmax-v: scores [batch…, rows, positions] and values [batch…, positions, width] have [2, 3] and [2, 4]"
    );
    let labels = Tensor::from_slice(&[1_i64], &[1], &device).unwrap();
    let error = ones(&[2, 3]).cross_entropy_rows(&labels, None).unwrap_err();
    assert_eq!(error.to_string(), "cross-entropy: logits [2, 3] take labels [2], not [1]");
    let labels = ones(&[2]);
    assert!(matches!(
        ones(&[2, 3]).cross_entropy_rows(&labels, None).unwrap_err().kind(),
        ErrorKind::Unsupported { .. }
    ));
}
