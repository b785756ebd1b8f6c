//! The ladders of rows beyond their own data: rows of every length and of special values, in every
//! rung; and how often the bytes of a row move.

use half::f16;
use warpfold_device::{Arguments, Checks, Device, LaunchConfig, Profile, Severity};
use warpfold_kernels::AnyKernel;
use warpfold_ladders::ladder::{LADDERS, Ladder, RunOptions, Rung, run};
use warpfold_ladders::row::RowElement;
use warpfold_ladders::{norm, scale, softmax};

/// Around the width of an access, a warp, what a warp or a block holds, for `f32` and halves; more
/// than a cluster holds.
const LENGTHS: [usize; 22] =
    [0, 1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 127, 128, 129, 256, 1000, 1024, 1025, 4096, 4097, 8201];

/// Fewer and more rows than a block takes.
const NUM_ROWS: [usize; 3] = [0, 3, 9];

/// A result in double precision, and its bound. NaN has to be NaN.
type Expected = (f64, f64);

fn virtual_gpu() -> Device {
    let device = Device::virtual_gpu(Profile::H200);
    println!("on {device}");
    device.set_checks(Checks::All).expect("it is a virtual GPU");
    device
}

/// Scattered numbers from -1 to 1, of the element type.
fn scattered<T: RowElement>(len: usize, map: impl Fn(usize, f32) -> f32) -> Vec<T> {
    let number = |i: usize| (i as u32).wrapping_mul(2_654_435_761) as f32 / 2_147_483_648.0 - 1.0;
    (0..len).map(|i| T::round(map(i, number(i)))).collect()
}

fn as_f64<T: RowElement>(elements: &[T]) -> Vec<f64> {
    elements.iter().map(|x| x.as_f64()).collect()
}

#[track_caller]
fn compare<T: RowElement>(at: &str, computed: &[T], expected: impl IntoIterator<Item = Expected>) {
    let mut compared = 0;
    for (i, (computed, (value, bound))) in computed.iter().zip(expected).enumerate() {
        let computed = computed.as_f64();
        let is_same = computed == value || (computed.is_nan() && value.is_nan());
        let is_right = is_same || (computed - value).abs() <= bound;
        assert!(is_right, "{at}: {computed} at {i}, expected {value} within {bound}");
        compared += 1;
    }
    assert_eq!(compared, computed.len(), "{at}: as many results as expected ones");
}

/// No check has anything against the latest launch.
#[track_caller]
fn is_clean(device: &Device, at: &str) {
    let report = device.take_reports().pop().expect("the virtual GPU reports").report;
    let findings: Vec<_> = report.findings.iter().filter(|f| f.severity >= Severity::Warning).collect();
    assert!(findings.is_empty(), "{at}: {findings:?}");
}

/// The kernels of a ladder whose rows have `row_len` elements, with their launches for so many rows
/// of any length.
fn rungs<T: RowElement>(ladder: &Ladder, row_len: usize, num_rows: usize) -> Vec<(AnyKernel, LaunchConfig)> {
    let of_rung = |rung: &Rung| {
        let [launch] = rung.launches else { panic!("{}/{} is several launches", ladder.name, rung.name) };
        // A launch follows from how many rows there are.
        let size = (num_rows * row_len) as u64;
        (launch.kernel(T::DTYPE, size), (launch.config)(size))
    };
    ladder.rungs.iter().map(of_rung).collect()
}

fn launch(device: &Device, kernel: &AnyKernel, config: LaunchConfig, arguments: &Arguments<'_>) {
    device.default_stream().launch_raw(&kernel.prepare(device).unwrap(), config, arguments).unwrap();
}

/// Launches every rung of the softmax and compares with the formula.
#[track_caller]
fn check_softmax<T: RowElement>(device: &Device, elements: &[T], row_len: usize) {
    let num_rows = elements.len().checked_div(row_len).unwrap_or(3);
    let expected: Vec<Expected> = elements.chunks(row_len.max(1)).flat_map(softmax_of).collect();
    let input = device.upload_named("input", elements).unwrap();
    for (kernel, config) in rungs::<T>(&softmax::LADDER, softmax::ladder::ROW_LEN, num_rows) {
        let at = format!("{} of {num_rows} rows of {row_len}", kernel.name());
        let mut output = device.alloc_named::<T>("output", elements.len()).unwrap();
        let arguments = Arguments::new().input(&input).output(&mut output);
        launch(device, &kernel, config, &arguments.value(num_rows as u32).value(row_len as u32));
        is_clean(device, &at);
        compare(&at, &output.download().unwrap(), expected.iter().copied());
    }
}

fn softmax_of<T: RowElement>(row: &[T]) -> Vec<Expected> {
    let row = as_f64(row);
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, |m, x| if x.is_nan() { x } else { m.max(x) });
    let sum: f64 = row.iter().map(|x| (x - largest).exp()).sum();
    let result = |x: &f64| {
        let value = (x - largest).exp() / sum;
        (value, if value == 0.0 { 0.0 } else { softmax::error_bound::<T>(row.len(), largest - x, value) })
    };
    row.iter().map(result).collect()
}

fn every_shape(test: impl Fn(usize, usize)) {
    NUM_ROWS.iter().for_each(|num_rows| LENGTHS.iter().for_each(|row_len| test(*num_rows, *row_len)));
}

#[test]
fn softmax_is_right_for_rows_of_every_length() {
    let device = virtual_gpu();
    every_shape(|num_rows, row_len| {
        let map = |i: usize, x: f32| 10.0 * x + 50.0 * (i / row_len.max(1) % 3) as f32;
        check_softmax::<f32>(&device, &scattered(num_rows * row_len, map), row_len);
        check_softmax::<f16>(&device, &scattered(num_rows * row_len, map), row_len);
    });
}

#[test]
fn softmax_keeps_to_the_formula_at_the_edges_of_f32() {
    let device = virtual_gpu();
    let (infinity, largest) = (f32::INFINITY, f32::MAX);
    for row_len in [1, 5, 64, 1500, 8203] {
        let rows: [&dyn Fn(usize) -> f32; 9] = [
            &|_| -infinity,
            &|i| if i == row_len - 1 { f32::NAN } else { 1.0 },
            &|i| if i == row_len / 2 { infinity } else { -1.0 },
            &|i| if i.is_multiple_of(3) { -infinity } else { i as f32 / 100.0 },
            &|i| if i.is_multiple_of(2) { largest } else { -largest },
            &|_| -largest,
            &|i| if i == row_len - 1 { 1000.0 } else { f32::from_bits(i as u32) },
            &|i| i as f32,
            &|i| -(i as f32),
        ];
        let elements: Vec<f32> = rows.iter().flat_map(|row| (0..row_len).map(row)).collect();
        check_softmax(&device, &elements, row_len);
    }
}

/// Launches every rung of the layer norm and compares with the formula.
#[track_caller]
fn check_layer_norm<T: RowElement>(device: &Device, elements: &[T], row_len: usize) {
    let num_rows = elements.len().checked_div(row_len).unwrap_or(3);
    let (scale, bias) = (scattered::<T>(row_len, |_, x| 2.0 * x), scattered::<T>(row_len, |i, x| x + (i % 5) as f32));
    let eps = 1e-5_f32;
    let (mut expected, mut means, mut rstds) = (Vec::new(), Vec::new(), Vec::new());
    for row in (0..num_rows).map(|row| as_f64(&elements[row * row_len..][..row_len])) {
        let len = row_len as f64;
        let mean = row.iter().sum::<f64>() / len;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / len;
        let rstd = 1.0 / (variance + f64::from(eps)).sqrt();
        let relative = norm::rstd_error_bound(row_len, mean * mean / (variance + f64::from(eps)));
        means.push((mean, relative / rstd));
        rstds.push((rstd, relative * rstd));
        expected.extend(row.iter().zip(&scale).zip(&bias).map(|((x, scale), bias)| {
            let (product, scale, bias) = ((x - mean) * rstd * scale.as_f64(), scale.as_f64(), bias.as_f64());
            (product + bias, norm::error_bound::<T>(relative, product, scale, bias))
        }));
    }
    let [input, scale, bias] = [elements, &scale, &bias].map(|data| device.upload(data).unwrap());
    for (kernel, config) in rungs::<T>(&norm::LADDER, norm::ladder::ROW_LEN, num_rows) {
        let at = format!("{} of {num_rows} rows of {row_len}", kernel.name());
        let mut output = device.alloc_named::<T>("output", elements.len()).unwrap();
        let [mut mean, mut rstd] = ["mean", "rstd"].map(|name| device.alloc_named::<f32>(name, num_rows).unwrap());
        let arguments = Arguments::new().input(&input).input(&scale).input(&bias);
        let arguments = arguments.output(&mut output).output(&mut mean).output(&mut rstd);
        let arguments = arguments.value(num_rows as u32).value(row_len as u32).value(eps);
        launch(device, &kernel, config, &arguments);
        is_clean(device, &at);
        compare(&at, &output.download().unwrap(), expected.iter().copied());
        compare(&format!("{at}: mean"), &mean.download().unwrap(), means.iter().copied());
        compare(&format!("{at}: rstd"), &rstd.download().unwrap(), rstds.iter().copied());
    }
}

#[test]
fn layer_norm_is_right_for_rows_of_every_length() {
    let device = virtual_gpu();
    every_shape(|num_rows, row_len| {
        check_layer_norm::<f32>(&device, &scattered(num_rows * row_len, |_, x| x + 2.0), row_len);
        check_layer_norm::<f16>(&device, &scattered(num_rows * row_len, |_, x| x + 2.0), row_len);
    });
}

#[test]
fn layer_norm_tells_a_small_spread_from_a_large_mean() {
    let device = virtual_gpu();
    for row_len in [5, 1024, 4097, 9000] {
        check_layer_norm::<f32>(&device, &scattered(3 * row_len, |_, x| x + 3000.0), row_len);
        check_layer_norm::<f32>(&device, &scattered(3 * row_len, |_, x| 1e-3 * x - 1.0), row_len);
        check_layer_norm::<f32>(&device, &scattered(3 * row_len, |_, _| 7.0), row_len);
    }
    let with_nan = |i: usize, x: f32| if i == 700 { f32::NAN } else { x };
    check_layer_norm::<f32>(&device, &scattered(2 * 1024, with_nan), 1024);
}

/// Launches every rung of the RMS norm and compares with the formula.
#[track_caller]
fn check_rms_norm<T: RowElement>(device: &Device, elements: &[T], row_len: usize) {
    let num_rows = elements.len().checked_div(row_len).unwrap_or(3);
    let scale = scattered::<T>(row_len, |_, x| 2.0 * x);
    let eps = 1e-6_f32;
    let relative = norm::rstd_error_bound(row_len, 0.0);
    let (mut expected, mut rstds) = (Vec::new(), Vec::new());
    for row in (0..num_rows).map(|row| as_f64(&elements[row * row_len..][..row_len])) {
        let square = row.iter().map(|x| x * x).sum::<f64>() / row_len as f64;
        let rstd = 1.0 / (square + f64::from(eps)).sqrt();
        rstds.push((rstd, relative * rstd));
        let values = row.iter().zip(&scale).map(|(x, scale)| x * rstd * scale.as_f64());
        expected.extend(values.map(|value| (value, norm::error_bound::<T>(relative, value, 0.0, 0.0))));
    }
    let [input, scale] = [elements, &scale].map(|data| device.upload(data).unwrap());
    for (kernel, config) in rungs::<T>(&norm::RMS, norm::ladder::ROW_LEN, num_rows) {
        let at = format!("{} of {num_rows} rows of {row_len}", kernel.name());
        let mut output = device.alloc_named::<T>("output", elements.len()).unwrap();
        let mut rstd = device.alloc_named::<f32>("rstd", num_rows).unwrap();
        let arguments = Arguments::new().input(&input).input(&scale).output(&mut output).output(&mut rstd);
        let arguments = arguments.value(num_rows as u32).value(row_len as u32).value(eps);
        launch(device, &kernel, config, &arguments);
        is_clean(device, &at);
        compare(&at, &output.download().unwrap(), expected.iter().copied());
        compare(&format!("{at}: rstd"), &rstd.download().unwrap(), rstds.iter().copied());
    }
}

#[test]
fn rms_norm_is_right_for_rows_of_every_length() {
    let device = virtual_gpu();
    every_shape(|num_rows, row_len| {
        check_rms_norm::<f32>(&device, &scattered(num_rows * row_len, |_, x| 3.0 * x), row_len);
        check_rms_norm::<f16>(&device, &scattered(num_rows * row_len, |_, x| 3.0 * x), row_len);
    });
}

/// Launches every rung of the scaling and compares with the formula.
#[track_caller]
fn check_scale<T: RowElement>(device: &Device, elements: &[T], row_len: usize) {
    let num_rows = elements.len().checked_div(row_len).unwrap_or(3);
    let (mut expected, mut scales) = (Vec::new(), Vec::new());
    for row in (0..num_rows).map(|row| as_f64(&elements[row * row_len..][..row_len])) {
        let largest =
            row.iter().fold(0.0, |m: f64, x| if x.is_nan() || m.is_nan() { f64::NAN } else { m.max(x.abs()) });
        scales.push((largest, 0.0));
        let divisor = if largest == 0.0 { 1.0 } else { largest };
        expected.extend(row.iter().map(|x| (x / divisor, scale::error_bound::<T>(x / divisor))));
    }
    let input = device.upload(elements).unwrap();
    for (kernel, config) in rungs::<T>(&scale::LADDER, scale::ladder::ROW_LEN, num_rows) {
        let at = format!("{} of {num_rows} rows of {row_len}", kernel.name());
        let mut output = device.alloc_named::<T>("output", elements.len()).unwrap();
        let mut divisors = device.alloc_named::<f32>("scales", num_rows).unwrap();
        let arguments = Arguments::new().input(&input).output(&mut output).output(&mut divisors);
        launch(device, &kernel, config, &arguments.value(num_rows as u32).value(row_len as u32));
        is_clean(device, &at);
        compare(&at, &output.download().unwrap(), expected.iter().copied());
        compare(&format!("{at}: scales"), &divisors.download().unwrap(), scales.iter().copied());
    }
}

#[test]
fn scaling_is_right_for_rows_of_every_length_and_magnitude() {
    let device = virtual_gpu();
    every_shape(|num_rows, row_len| {
        let map = |i: usize, x: f32| x * [1.0, 1e30, 1e-42, 0.0][i / row_len.max(1) % 4];
        check_scale::<f32>(&device, &scattered(num_rows * row_len, map), row_len);
        check_scale::<f16>(&device, &scattered(num_rows * row_len, |_, x| 100.0 * x), row_len);
    });
    for special in [f32::NAN, f32::NEG_INFINITY, -0.0] {
        let map = |i: usize, x: f32| if i % 300 == 150 { special } else { x };
        check_scale::<f32>(&device, &scattered(900, map), 300);
    }
}

/// A ladder of rows, and what its rungs move.
struct OfRows {
    ladder: &'static Ladder,
    row_len: usize,
    /// Vectors along a row that are read for each row: scale, bias.
    vectors: u64,
    /// Results of a row beside its elements.
    statistics: u64,
    /// From this rung on every one holds at least the first 1,024 elements of a row.
    first_on_chip: &'static str,
}

#[test]
fn rows_that_fit_on_chip_are_read_once_and_written_once_by_whole_accesses() {
    let of = |ladder, row_len, of_row: u64, first_on_chip| OfRows {
        ladder,
        row_len,
        vectors: of_row,
        statistics: of_row,
        first_on_chip,
    };
    let ladders = [
        of(&softmax::LADDER, softmax::ladder::ROW_LEN, 0, "warp"),
        of(&norm::LADDER, norm::ladder::ROW_LEN, 2, "vec4"),
        of(&norm::RMS, norm::ladder::ROW_LEN, 1, "rms_vec4"),
        OfRows { statistics: 1, ..of(&scale::LADDER, scale::ladder::ROW_LEN, 0, "warp") },
    ];
    for ladder in &ladders {
        for dtype in ladder.ladder.dtypes {
            check_traffic(ladder, ladder.row_len.min(1024), 1, *dtype);
            check_traffic(ladder, ladder.row_len, 40, *dtype);
        }
    }
}

/// Rungs read rows once from the first on that has them on chip: the one that says so for short
/// rows, the last one at the latest for rows as the ladder has them.
#[track_caller]
fn check_traffic(of_rows: &OfRows, row_len: usize, num_rows: usize, dtype: warpfold_kernels::Dtype) {
    let OfRows { ladder, vectors, statistics, first_on_chip, .. } = *of_rows;
    let device = Device::virtual_gpu(Profile::H200);
    let report = run(&device, ladder, (num_rows * row_len) as u64, dtype, &RunOptions::default()).unwrap();
    assert!(report.is_ok(), "{} of {num_rows} rows of {row_len} {dtype}", ladder.name);
    let (rows, bytes) = (num_rows as u64, (num_rows * row_len) as u64 * dtype.bytes());
    let mut is_on_chip = false;
    for (i, rung) in report.rungs.iter().enumerate() {
        let c = rung.counters.expect("the virtual GPU counts");
        let is_first = num_rows == 1 && rung.name == first_on_chip;
        is_on_chip |= is_first || i + 1 == report.rungs.len() || c.global_load_bytes == bytes * (1 + vectors);
        if !is_on_chip {
            continue;
        }
        let at = format!("{}/{} of {num_rows} rows of {row_len} {dtype}", ladder.name, rung.name);
        assert_eq!(c.global_load_bytes, bytes * (1 + vectors), "{at}: bytes loaded");
        assert_eq!(c.global_load_sectors, bytes * (1 + vectors) / 32, "{at}: sectors loaded");
        assert_eq!(c.global_store_bytes, bytes + 4 * rows * statistics, "{at}: bytes stored");
        assert_eq!(c.global_store_sectors, bytes / 32 + rows * statistics, "{at}: sectors stored");
        assert_eq!(c.shared_load_bank_conflicts + c.shared_store_bank_conflicts, 0, "{at}: bank conflicts");
        assert_eq!(c.local_requests, 0, "{at}: local memory");
    }
    let has_first = ladder.rungs.iter().any(|rung| rung.name == first_on_chip);
    assert!(has_first, "{} has a rung {first_on_chip}", ladder.name);
}

#[test]
fn every_ladder_of_rows_runs_in_f32_and_in_halves() {
    use warpfold_kernels::Dtype::{Bf16, F16, F32};
    let names = ["softmax", "softmax-vector", "norm", "rms-norm", "scale"];
    for ladder in LADDERS.iter().filter(|ladder| names.contains(&ladder.name)) {
        assert_eq!(ladder.dtypes, [F32, F16, Bf16], "{}", ladder.name);
    }
}
