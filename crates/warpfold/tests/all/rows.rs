//! Operators on rows of every length, against plain loops in double precision; under every check.

use half::bf16;
use warpfold::{Axes, Device, Dtype, NormInputs, Profile, Queue, Tensor, by_name};
use warpfold_device::{Checks, Severity};
use warpfold_kernels::elements::{Sink, Source};
use warpfold_kernels::fold::{Monoid, Position};
use warpfold_kernels::map::Map;
use warpfold_kernels::operations::{Operation, Options};
use warpfold_kernels::rowwise::operators::AbsMaxScale;
use warpfold_kernels::rowwise::{RowOperator, RowWise};
use warpfold_lang::{Val, launch_dependents, nanosleep};

fn device() -> Device {
    let device = Device::virtual_gpu(Profile::H200);
    device.configure(|options| options.checks = Checks::All).unwrap();
    device
}

fn is_clean(device: &Device) {
    for report in device.take_reports() {
        // Information is not an objection: of long rows of 16-bit items it says that records of
        // single bytes were too many.
        let findings: Vec<_> = report.report.findings.iter().filter(|f| f.severity > Severity::Info).collect();
        assert!(findings.is_empty(), "{}: {findings:?}", report.kernel);
    }
}

fn sample(i: usize) -> f32 {
    (((i as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / 8_388_608.0 - 1.0) * 3.0
}

/// Rows around every change of plan: lanes, groups, blocks, clusters.
const LENS: &[usize] = &[
    1, 2, 3, 31, 32, 33, 64, 100, 127, 128, 129, 255, 256, 1000, 1024, 1025, 2048, 3000, 4096, 4099, 8192, 16_384,
    33_000, 40_001, 58_004,
];

#[track_caller]
fn close(got: &[f32], expected: &[f64], bound: f64, what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        let error = (f64::from(*got) - expected).abs();
        assert!(error <= bound * expected.abs().max(1e-30) + bound * 1e-3, "{what}: {got} for {expected} at {i}");
    }
}

fn softmax(row: &[f64]) -> Vec<f64> {
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.iter().map(|x| (x - largest).exp()).sum();
    row.iter().map(|x| (x - largest).exp() / sum).collect()
}

#[test]
fn softmax_of_rows_of_every_length() {
    let device = device();
    for &len in LENS {
        for rows in [1, 3, 17] {
            let data: Vec<f32> = (0..rows * len).map(sample).collect();
            let x = Tensor::from_slice(&data, &[rows, len], &device).unwrap();
            let wide: Vec<f64> = data.iter().map(|x| f64::from(*x)).collect();
            let expected: Vec<f64> = wide.chunks(len).flat_map(softmax).collect();
            let y = x.softmax(Axes::Of(&[-1])).unwrap();
            close(&y.to_vec::<f32>().unwrap(), &expected, 1e-5, &format!("softmax {rows} x {len}"));
            let logs: Vec<f64> = expected.iter().map(|y| y.ln()).collect();
            let y = x.log_softmax(Axes::Of(&[-1])).unwrap();
            close(&y.to_vec::<f32>().unwrap(), &logs, 1e-5, &format!("log-softmax {rows} x {len}"));
            is_clean(&device);
        }
    }
}

/// Where warps share a row of halves, each thread begins with what it has found largest itself:
/// nothing, at worst.
#[test]
fn softmax_of_halves_goes_by_the_largest_of_the_row() {
    let device = device();
    for len in [4096, 8200] {
        let low = |i: usize| if i == len - 3 { 2.0 } else { -1e30 };
        let some = |i: usize| if i.is_multiple_of(5) { sample(i) } else { f32::NEG_INFINITY };
        let rows = [&sample as &dyn Fn(usize) -> f32, &low, &some];
        let data: Vec<f32> =
            rows.iter().flat_map(|row| (0..len).map(row)).map(|x| bf16::from_f32(x).to_f32()).collect();
        let wide: Vec<f64> = data.iter().map(|x| f64::from(*x)).collect();
        let expected: Vec<f64> = wide.chunks(len).flat_map(softmax).collect();
        let of = |data: &[f32]| {
            let x = Tensor::from_slice(data, &[data.len() / len, len], &device).unwrap().cast(Dtype::Bf16).unwrap();
            x.softmax(Axes::Of(&[-1])).unwrap().cast(Dtype::F32).unwrap().to_vec::<f32>().unwrap()
        };
        close(&of(&data), &expected, 5e-3, &format!("softmax of {len} halves"));
        for special in [f32::NAN, f32::INFINITY] {
            let mut row = data[..len].to_vec();
            row[len / 2] = special;
            assert!(of(&row).iter().all(|y| y.is_nan()), "{special} among {len}");
        }
        assert!(of(&vec![f32::NEG_INFINITY; len]).iter().all(|y| y.is_nan()), "nothing but -inf, {len}");
        is_clean(&device);
    }
}

#[test]
fn softmax_along_any_axes_and_of_views() {
    let device = device();
    let data: Vec<f32> = (0..4 * 6 * 10).map(sample).collect();
    let x = Tensor::from_slice(&data, &[4, 6, 10], &device).unwrap();
    let along_last = |x: &Tensor| x.softmax(Axes::Of(&[-1])).unwrap();
    let turned = x.permute(&[0, 2, 1]).unwrap();
    let expected = along_last(&turned.contiguous().unwrap()).permute(&[0, 2, 1]).unwrap();
    assert_eq!(x.softmax(Axes::Of(&[1])).unwrap().to_vec::<f32>().unwrap(), expected.to_vec::<f32>().unwrap());
    let all = x.softmax(Axes::All).unwrap();
    let flat = along_last(&x.reshape(&[240]).unwrap());
    assert_eq!(all.to_vec::<f32>().unwrap(), flat.to_vec::<f32>().unwrap());
    let part = x.slice(2, 1..10).unwrap();
    assert_eq!(
        along_last(&part).to_vec::<f32>().unwrap(),
        along_last(&part.contiguous().unwrap()).to_vec::<f32>().unwrap()
    );
    is_clean(&device);
}

#[test]
fn norms_of_rows_of_every_length() {
    let device = device();
    for &len in LENS {
        let rows = 5;
        let data: Vec<f32> = (0..rows * len).map(|i| sample(i) + 10.0).collect();
        let (scale, bias): (Vec<f32>, Vec<f32>) = (0..len).map(|i| (sample(i + 7), sample(i + 1000))).unzip();
        let x = Tensor::from_slice(&data, &[rows, len], &device).unwrap();
        let scale_of = Tensor::from_slice(&scale, &[len], &device).unwrap();
        let bias_of = Tensor::from_slice(&bias, &[len], &device).unwrap();
        let inputs = NormInputs { scale: Some(&scale_of), bias: Some(&bias_of), ..NormInputs::default() };
        let normed = x.layer_norm(Axes::Of(&[-1]), inputs).unwrap();
        let rms = x.rms_norm(Axes::Of(&[-1]), inputs).unwrap();
        let (mut y, mut means, mut rstds, mut z, mut roots) = (vec![], vec![], vec![], vec![], vec![]);
        for row in data.chunks(len) {
            let row: Vec<f64> = row.iter().map(|x| f64::from(*x)).collect();
            let mean = row.iter().sum::<f64>() / len as f64;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / len as f64;
            let rstd = 1.0 / (variance + 1e-5).sqrt();
            let root = 1.0 / (row.iter().map(|x| x * x).sum::<f64>() / len as f64 + 1e-5).sqrt();
            let columns = || scale.iter().zip(&bias).map(|(s, b)| (f64::from(*s), f64::from(*b)));
            y.extend(row.iter().zip(columns()).map(|(x, (s, b))| (x - mean) * rstd * s + b));
            z.extend(row.iter().zip(columns()).map(|(x, (s, b))| x * root * s + b));
            means.push(mean);
            rstds.push(rstd);
            roots.push(root);
        }
        // A deviation is what is left of numbers around 10: its error is relative to them, and to
        // the smallest deviation.
        let bound = if len < 8 { 0.5 } else { 2e-2 };
        close(&normed.result.to_vec::<f32>().unwrap(), &y, bound, &format!("layer norm {len}"));
        close(&normed.mean.to_vec::<f32>().unwrap(), &means, 1e-5, &format!("mean {len}"));
        close(&normed.rstd.to_vec::<f32>().unwrap(), &rstds, bound, &format!("rstd {len}"));
        close(&rms.result.to_vec::<f32>().unwrap(), &z, 1e-2, &format!("rms norm {len}"));
        close(&rms.rstd.to_vec::<f32>().unwrap(), &roots, 1e-5, &format!("root {len}"));
        assert_eq!(normed.mean.shape(), [rows, 1]);
        is_clean(&device);
    }
}

#[test]
fn statistics_of_norms_are_no_narrower_than_what_is_computed_in() {
    let device = device();
    // The mean lies between two numbers of the input's type.
    for (dtype, last, stats) in [
        (Dtype::Bf16, 1.0 + 2.0_f32.powi(-7), Dtype::F32),
        (Dtype::F16, 1.0 + 2.0_f32.powi(-10), Dtype::F32),
        (Dtype::F64, 1.0 + 2.0_f32.powi(-23), Dtype::F64),
    ] {
        let x = Tensor::from_slice(&[1.0, 1.0, 1.0, last], &[1, 4], &device).unwrap().cast(dtype).unwrap();
        let layer = x.layer_norm(Axes::Of(&[-1]), NormInputs::default()).unwrap();
        let rms = x.rms_norm(Axes::Of(&[-1]), NormInputs::default()).unwrap();
        assert_eq!([&layer.result, &rms.result].map(Tensor::dtype), [dtype; 2]);
        assert_eq!([&layer.mean, &layer.rstd, &rms.rstd].map(Tensor::dtype), [stats; 3], "{dtype}");
        let mean = layer.mean.cast(Dtype::F64).unwrap().to_vec::<f64>().unwrap();
        assert_eq!(mean, [1.0 + (f64::from(last) - 1.0) / 4.0], "{dtype}");
    }
    is_clean(&device);
}

/// Rows of which registers hold a part, that a cluster shares, or that take two launches where
/// there are no clusters, up to those that no cluster holds; few of them, and more.
#[test]
fn long_rows_come_out_the_same_with_and_without_clusters() {
    let few = [16_385, 27_000, 27_904, 31_000, 40_004, 50_257, 57_000, 65_544, 131_072, 262_145].map(|len| (2, len));
    for (rows, len) in few.into_iter().chain([(17, 57_000), (17, 65_536)]) {
        let data: Vec<f32> = (0..rows * len).map(sample).collect();
        let wide: Vec<f64> = data.iter().map(|x| f64::from(*x)).collect();
        let expected: Vec<f64> = wide.chunks(len).flat_map(softmax).collect();
        let scale: Vec<f32> = (0..len).map(|i| sample(i + 7)).collect();
        let mut normed = Vec::new();
        for profile in [Profile::H200, Profile::A100] {
            let device = Device::virtual_gpu(profile);
            device.configure(|options| options.checks = Checks::All).unwrap();
            let x = Tensor::from_slice(&data, &[rows, len], &device).unwrap();
            let y = x.softmax(Axes::Of(&[-1])).unwrap();
            close(&y.to_vec::<f32>().unwrap(), &expected, 1e-5, &format!("softmax {len} on {profile:?}"));
            let scale = Tensor::from_slice(&scale, &[len], &device).unwrap();
            let inputs = NormInputs { scale: Some(&scale), ..NormInputs::default() };
            let y = x.layer_norm(Axes::Of(&[-1]), inputs).unwrap();
            normed.push((y.result.to_vec::<f32>().unwrap(), y.mean.to_vec::<f32>().unwrap()));
            is_clean(&device);
        }
        let wide = |values: &[f32]| values.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
        close(&normed[0].0, &wide(&normed[1].0), 1e-3, &format!("layer norm {len}"));
        close(&normed[0].1, &wide(&normed[1].1), 1e-2, &format!("mean {len}"));
    }
}

/// Rows as long as registers hold, and a little longer: alone, beside vectors along the row, and
/// beside shared memory (see `choices` of the tests of the kernels).
#[test]
fn norms_on_both_sides_of_what_registers_hold() {
    let device = Device::virtual_gpu(Profile::H200);
    for (rows, len) in
        [(2, 640), (2, 768), (100, 1536), (100, 1540), (1, 24_576), (1, 24_580), (17, 40_960), (17, 40_964)]
    {
        let checks = if rows * len < 50_000 { Checks::All } else { Checks::None };
        device.configure(|options| options.checks = checks).unwrap();
        let data: Vec<f32> = (0..rows * len).map(sample).collect();
        let (scale, bias): (Vec<f32>, Vec<f32>) = (0..len).map(|i| (sample(i + 7), sample(i + 1000))).unzip();
        let x = Tensor::from_slice(&data, &[rows, len], &device).unwrap();
        let [scale_of, bias_of] = [&scale, &bias].map(|column| Tensor::from_slice(column, &[len], &device).unwrap());
        let inputs = NormInputs { scale: Some(&scale_of), bias: Some(&bias_of), ..NormInputs::default() };
        let normed = x.layer_norm(Axes::Of(&[-1]), inputs).unwrap().result.to_vec::<f32>().unwrap();
        let inputs = NormInputs { scale: Some(&scale_of), ..NormInputs::default() };
        let rms = x.rms_norm(Axes::Of(&[-1]), inputs).unwrap().result.to_vec::<f32>().unwrap();
        for (i, row) in data.chunks(len).enumerate() {
            let row: Vec<f64> = row.iter().map(|x| f64::from(*x)).collect();
            let mean = row.iter().sum::<f64>() / len as f64;
            let squares = row.iter().map(|x| x * x).sum::<f64>() / len as f64;
            let (rstd, root) = ((squares - mean * mean + 1e-5).sqrt().recip(), (squares + 1e-5).sqrt().recip());
            for (j, x) in row.iter().enumerate() {
                let (scale, bias) = (f64::from(scale[j]), f64::from(bias[j]));
                let (y, z) = (f64::from(normed[i * len + j]), f64::from(rms[i * len + j]));
                let (expected, of_root) = ((x - mean) * rstd * scale + bias, x * root * scale);
                let error = (y - expected).abs().max((z - of_root).abs());
                assert!(error < 1e-4, "{rows} x {len}: {y} for {expected}, {z} for {of_root} at {i}, {j}");
            }
        }
        is_clean(&device);
    }
}

/// Rows that blocks share in their registers, and, where there are more, in shared memory.
#[test]
fn layer_norm_of_a_long_row_tells_a_small_spread_from_a_large_mean() {
    let device = device();
    let len = 131_072;
    for rows in [1, 17] {
        let data: Vec<f32> = (0..rows * len).map(|i| 1000.0 + sample(i) / 8.0).collect();
        let x = Tensor::from_slice(&data, &[rows, len], &device).unwrap();
        let y = x.layer_norm(Axes::Of(&[-1]), NormInputs::default()).unwrap();
        let rstd = y.rstd.to_vec::<f32>().unwrap();
        for (row, rstd) in data.chunks(len).zip(rstd) {
            let mean = row.iter().map(|x| f64::from(*x)).sum::<f64>() / len as f64;
            let variance = row.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / len as f64;
            let expected = (variance + 1e-5).sqrt().recip();
            assert!((f64::from(rstd) / expected - 1.0).abs() < 1e-5, "{rstd} in place of {expected}");
        }
    }
    is_clean(&device);
}

/// In a cluster the last warps have nothing of a row of this length.
#[test]
fn layer_norm_of_large_numbers_is_finite_where_some_threads_have_nothing() {
    let (rows, len) = (17, 58_000);
    let data: Vec<f32> = (0..rows * len).map(|i| 1e20 * (1.0 + sample(i) / 1e6)).collect();
    let x = Tensor::from_slice(&data, &[rows, len], &device()).unwrap();
    let y = x.layer_norm(Axes::Of(&[-1]), NormInputs::default()).unwrap();
    let rstd = y.rstd.to_vec::<f32>().unwrap();
    assert!(rstd.iter().all(|rstd| rstd.is_finite() && *rstd > 0.0), "{rstd:?}");
}

#[test]
fn the_statistics_of_rows_without_elements_are_zeros() {
    let device = device();
    for _ in 0..2 {
        let x = Tensor::from_slice::<f32>(&[], &[3, 0], &device).unwrap();
        let layer = x.layer_norm(Axes::Of(&[-1]), NormInputs::default()).unwrap();
        let rms = x.rms_norm(Axes::Of(&[-1]), NormInputs::default()).unwrap();
        for stat in [&layer.mean, &layer.rstd, &rms.rstd] {
            assert_eq!((stat.shape(), stat.to_vec::<f32>().unwrap()), (&[3, 1][..], vec![0.0; 3]));
        }
        // What follows may have the memory of this.
        drop((layer, rms, Tensor::from_slice(&[f32::NAN; 9], &[9], &device).unwrap()));
    }
    is_clean(&device);
}

#[test]
fn quantised_rows_come_back() {
    let device = device();
    for &len in LENS {
        let data: Vec<f32> = (0..3 * len).map(sample).collect();
        let x = Tensor::from_slice(&data, &[3, len], &device).unwrap();
        let (q, scales) = x.quantize(warpfold::Dtype::I8, Axes::Of(&[-1])).unwrap();
        let (q, scales) = (q.to_vec::<i8>().unwrap(), scales.to_vec::<f32>().unwrap());
        let (y, largest) = x.abs_max_scale(Axes::Of(&[-1])).unwrap();
        let (y, largest) = (y.to_vec::<f32>().unwrap(), largest.to_vec::<f32>().unwrap());
        for (row, elements) in data.chunks(len).enumerate() {
            let expected = elements.iter().fold(0.0_f32, |m, x| m.max(x.abs()));
            assert_eq!((largest[row], scales[row]), (expected, expected / 127.0), "{len}");
            for (i, x) in elements.iter().enumerate() {
                let at = row * len + i;
                assert_eq!(f32::from(q[at]), (x / scales[row]).round_ties_even(), "{len} at {at}");
                assert_eq!(y[at], x / expected, "{len} at {at}");
            }
        }
        is_clean(&device);
    }
}

#[test]
fn a_row_operator_to_lists_is_refused() {
    let made = |lists: usize| {
        let sink = |output| match lists == output {
            true => Sink::<[Val<f32>; 2]>::list(Dtype::F32, 2).after(|x: Val<f32>| [x, x]),
            false => Sink::one::<f32>(Dtype::F32),
        };
        let source = || Source::one::<f32>(Dtype::F32);
        let sources = (source(), Source::nothing());
        drop(RowWise::new("scaled", AbsMaxScale::<f32>::new(), sources, (sink(0), sink(1))));
    };
    // The results, and the statistics; then none.
    for lists in 0..2 {
        let refused = std::panic::catch_unwind(|| made(lists)).unwrap_err();
        let text = refused.downcast_ref::<&str>().copied();
        assert_eq!(text, Some("a row operator gives one element an output, no lists"), "{lists}");
    }
    made(2);
}

/// The smallest and the largest item of a row, and how many there are: registers of three types.
#[derive(Clone, Copy)]
struct Range;

impl Monoid for Range {
    type Item = Val<f32>;
    type Acc = (Val<f32>, Val<f32>);
    type Output = (Val<f32>, Val<f64>, Val<u64>);
    const COMMUTES: bool = true;

    fn identity(self) -> Self::Acc {
        (Val::constant(f32::INFINITY), Val::constant(f32::NEG_INFINITY))
    }

    fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
        (left.0.min(right.0), left.1.max(right.1))
    }

    fn lift(self, item: Val<f32>, _: Position) -> Self::Acc {
        (item, item)
    }

    fn finish(self, (least, largest): Self::Acc, count: Val<u64>) -> Self::Output {
        (least, largest.cast(), count)
    }
}

impl RowOperator for Range {
    type Item = Val<f32>;
    type Columns = ();
    type Stats = (Val<f32>, Val<f64>, Val<u64>);
    type Out = Val<f32>;
    type Monoid = Self;

    fn monoid(self) -> Self {
        self
    }

    fn apply(self, item: Val<f32>, (least, largest, count): Self::Stats, (): ()) -> Val<f32> {
        (item - least) / (largest.cast::<f32>() - least) + count.cast::<f32>()
    }
}

#[test]
fn statistics_of_any_registers_wait_in_memory_for_the_map_of_a_long_row() {
    let device = device();
    let (source, sink) = (Source::one::<f32>(Dtype::F32), Sink::one::<f32>(Dtype::F32));
    let operator = RowWise::new("ranged", Range, (source, Source::nothing()), (sink, Sink::nothing()));
    for (rows, len) in [(3, 100), (2, 300_007)] {
        let data: Vec<f32> = (0..rows * len).map(sample).collect();
        let x = Tensor::from_slice(&data, &[rows, len], &device).unwrap();
        drop(device.take_reports());
        let y = &x.rowwise(None, &[], &operator, Axes::Of(&[-1])).unwrap().0[0];
        assert_eq!(device.take_reports().len(), if len > 100 { 2 } else { 1 }, "launches for {len}");
        let expected = data.chunks(len).flat_map(|row| {
            let (least, largest) = row.iter().fold((f32::MAX, f32::MIN), |(a, b), x| (a.min(*x), b.max(*x)));
            row.iter().map(move |x| (x - least) / (largest - least) + len as f32)
        });
        assert_eq!(y.to_vec::<f32>().unwrap(), expected.collect::<Vec<_>>(), "{rows} x {len}");
    }
    is_clean(&device);
}

/// Each element is read once and each result written once, in whole sectors.
#[test]
fn a_row_that_fits_the_chip_is_read_and_written_once() {
    let device = Device::virtual_gpu(Profile::H200);
    let operators = ["softmax", "log-softmax", "layer-norm", "rms-norm", "abs-max-scale", "quantize"];
    for len in [128, 256, 1024, 4096, 16_384, 32_768, 65_536, 131_072, 262_144] {
        let rows = if len == 65_536 {
            17
        } else if len > 32_768 {
            2
        } else {
            8
        };
        let data: Vec<f32> = (0..rows * len).map(sample).collect();
        let x = Tensor::from_slice(&data, &[rows, len], &device).unwrap();
        for (dtype, name) in [Dtype::F32, Dtype::Bf16].into_iter().flat_map(|d| operators.map(|name| (d, name))) {
            let x = x.cast(dtype).unwrap();
            drop(device.take_reports());
            let results = by_name::run(name, &[x], &by_name::Options::default()).unwrap();
            let reports = device.take_reports();
            let at = format!("{name} of {dtype} {len}");
            assert_eq!(reports.len(), 1, "one launch for {at}");
            let counters = &reports[0].report.counters;
            let sectors = |dtype: Dtype| (rows * len) as u64 * dtype.bytes() / 32;
            assert_eq!(counters.global_load_sectors, sectors(dtype), "loads of {at}");
            // Statistics are stored row by row.
            let of_stats = counters.global_store_sectors - sectors(results[0].dtype());
            assert!(of_stats <= (rows * (results.len() - 1)) as u64, "stores of {at}: {of_stats} beside the result");
            let bytes = |tensor: &Tensor| tensor.len() as u64 * tensor.dtype().bytes();
            assert_eq!(counters.global_store_bytes, results.iter().map(bytes).sum::<u64>(), "bytes stored of {at}");
            assert_eq!(counters.shared_load_bank_conflicts + counters.shared_store_bank_conflicts, 0, "{at}");
        }
    }
}

#[test]
fn logits_are_read_once_and_labels_seldom() {
    let device = Device::virtual_gpu(Profile::H200);
    for len in [128, 1024, 4096, 16_384, 131_072] {
        let rows = if len > 32_768 { 2 } else { 8 };
        let data: Vec<f32> = (0..rows * len).map(sample).collect();
        let x = Tensor::from_slice(&data, &[rows, len], &device).unwrap();
        let labels = Tensor::from_slice(&vec![1_i64; rows], &[rows], &device).unwrap();
        drop(device.take_reports());
        drop(x.cross_entropy_rows(&labels, None).unwrap());
        let reports = device.take_reports();
        assert_eq!(reports.len(), 1, "one launch for {len}");
        let (counters, sectors) = (&reports[0].report.counters, (rows * len * 4 / 32) as u64);
        // A warp asks for its row's label once for sixteen sectors of logits, and finds it in the
        // cache.
        let of_labels = counters.global_load_sectors - sectors;
        assert!(of_labels <= sectors / 15, "{of_labels} sectors of labels beside {sectors} of logits of {len}");
        assert_eq!(counters.shared_load_bank_conflicts + counters.shared_store_bank_conflicts, 0, "{len}");
    }
}

/// How the launches of a chain follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// Each when the one before is done.
    InTurn,
    /// As the stream has them.
    InLine,
    /// In turns on two streams.
    OnTwoStreams,
}

/// Goes through operators of every family round by round, each with the results of those before. A
/// launch between them lets the next one begin and writes only later, what that one has to wait
/// for. The sine of sums keeps results from settling, so that one that was read too early shows in
/// the last bits. Nothing is freed between launches.
fn chain(first: &Tensor, rounds: usize, pace: Pace) -> Vec<f32> {
    let rows: Axes<'_> = Axes::Of(&[-1]);
    let of = |operation, x: &Tensor, others: &[&Tensor]| x.elementwise(operation, others, &Options::default());
    let queues = [(); 2].map(|()| Queue::new(first.device().new_stream().unwrap()));
    let late = |x| {
        launch_dependents();
        nanosleep(20_000);
        x
    };
    let late = Map::new("late", Source::one::<f32>(Dtype::F32).map(late), Sink::one::<f32>(Dtype::F32));
    let mut kept = vec![first.clone()];
    let mut then = |x: Result<Tensor, warpfold::Error>| {
        kept.push(x.unwrap().map(&[], &late).unwrap().remove(0));
        let x = kept.last().unwrap();
        match pace {
            Pace::InTurn => x.device().synchronize().unwrap(),
            Pace::InLine => {}
            Pace::OnTwoStreams => return x.on(&queues[kept.len() % 2]),
        }
        x.clone()
    };
    let mut x = first.clone();
    for _ in 0..rounds {
        let weights = then(x.softmax(rows));
        let normed = then(x.layer_norm(rows, NormInputs::default()).map(|normed| normed.result));
        let along = then(normed.cumsum(1));
        let down = then(along.cumsum(0));
        let turned = then(down.reverse_axes().and_then(|turned| turned.contiguous()));
        let of_columns = then(turned.mean(rows));
        let products = then(weights.matmul(&of_columns));
        let square = then(weights.matmul(&turned));
        let largest = then(square.max(Axes::All));
        let mixed = then(of(Operation::Add, &down, &[&products.unsqueeze(1).unwrap()]));
        let mixed = then(of(Operation::Add, &mixed, &[&largest]));
        x = then(of(Operation::Sin, &mixed, &[]));
    }
    x.to_vec().unwrap()
}

/// On a GPU launches begin before those ahead of them in the stream have ended: a kernel that did
/// not wait would read too early.
#[test]
fn launches_that_overlap_give_the_bits_of_launches_in_turn() {
    for device in Device::all() {
        let rounds = if device.is_virtual() { 2 } else { 100 };
        // Few rows, and rows that blocks and clusters share.
        for shape in [[48, 96], [4, 40_004]] {
            for (seed, pace) in [Pace::InLine, Pace::OnTwoStreams].into_iter().enumerate() {
                let data: Vec<f32> = (0..shape[0] * shape[1]).map(|i| sample(i + seed)).collect();
                let x = Tensor::from_slice(&data, &shape, &device).unwrap();
                // First, so that memory that was used before does not hold what is to be found
                // there.
                let found = chain(&x, rounds, pace);
                assert_eq!(found, chain(&x, rounds, Pace::InTurn), "{shape:?} {pace:?} on {device}");
            }
        }
    }
}
