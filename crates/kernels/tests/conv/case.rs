//! A convolution with its data, its reference, and the bound that it is held to.

use warpfold_device::{Checks, Device, Profile};
use warpfold_kernels::conv::{Algorithm, Choice, Conv, Layout, Problem, Window};
use warpfold_kernels::matmul::{Epilogue, F32Math};
use warpfold_kernels::plan::{KernelCache, Plan, Planner, Workspace};
use warpfold_kernels::{Dtype, Error};

/// Whole numbers small enough that every product and sum is exact, scattered enough that a swapped
/// index shows.
pub(crate) fn element(seed: usize, i: usize) -> f64 {
    ((i * 7919 + seed * 104_729) % 7) as f64 - 3.0
}

pub(crate) fn bytes_of(dtype: Dtype, values: &[f64]) -> Vec<u8> {
    let one = |value: &f64| match dtype {
        Dtype::F16 => half::f16::from_f64(*value).to_le_bytes().to_vec(),
        Dtype::Bf16 => half::bf16::from_f64(*value).to_le_bytes().to_vec(),
        Dtype::F32 => (*value as f32).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    };
    values.iter().flat_map(one).collect()
}

pub(crate) fn values_of(dtype: Dtype, bytes: &[u8]) -> Vec<f64> {
    let one = |bytes: &[u8]| match dtype {
        Dtype::F16 => half::f16::from_le_bytes(bytes.try_into().unwrap()).to_f64(),
        Dtype::Bf16 => half::bf16::from_le_bytes(bytes.try_into().unwrap()).to_f64(),
        Dtype::F32 => f32::from_le_bytes(bytes.try_into().unwrap()).into(),
        _ => f64::from_le_bytes(bytes.try_into().unwrap()),
    };
    bytes.chunks(dtype.bytes() as usize).map(one).collect()
}

/// The position of an element of an image, a filter or the result, given its sizes.
pub(crate) fn place(layout: Layout, [channels, height, width]: [u64; 3], [i, c, y, x]: [u64; 4]) -> usize {
    let position = match layout {
        Layout::Nchw => ((i * channels + c) * height + y) * width + x,
        Layout::Nhwc => ((i * height + y) * width + x) * channels + c,
    };
    position as usize
}

/// The exact result, in the order of the result's memory.
pub(crate) fn reference(
    problem: &Problem,
    images: &[f64],
    filters: &[f64],
    finish: impl Fn(f64, u64, usize) -> f64,
) -> Vec<f64> {
    let Problem { layout, channels, size: [h, w], filters: k, filter: [r, s], groups, window, .. } = *problem;
    let [p, q] = problem.result_size();
    let mut result = vec![0.0; problem.num_results() as usize];
    let of_group = channels / groups;
    for index in 0..problem.num_results() {
        let [image, filter, row, column] = [index / q / p / k, index / q / p % k, index / q % p, index % q];
        let mut sum = 0.0;
        for l in 0..of_group * r * s {
            let (c, y, x) = (l / s / r, l / s % r, l % s);
            let at = |i: usize, place: u64, tap: u64| {
                let from = place * u64::from(window.stride[i]) + tap * u64::from(window.dilation[i]);
                from.checked_sub(window.padding[i].into())
            };
            let (Some(y_in), Some(x_in)) = (at(0, row, y), at(1, column, x)) else { continue };
            if y_in >= h || x_in >= w {
                continue;
            }
            let channel = filter / (k / groups) * of_group + c;
            let value = images[place(layout, [channels, h, w], [image, channel, y_in, x_in])];
            sum += value * filters[place(layout, [of_group, r, s], [filter, c, y, x])];
        }
        let position = place(layout, [k, p, q], [image, filter, row, column]);
        result[position] = finish(sum, filter, position);
    }
    result
}

pub(crate) struct Case {
    pub(crate) problem: Problem,
    pub(crate) algorithm: Option<Algorithm>,
}

impl Case {
    #[track_caller]
    pub(crate) fn choice(&self, device: &Device) -> Choice {
        let Self { problem, algorithm } = self;
        match algorithm {
            None => choose(device, problem.clone()),
            Some(algorithm) => Choice::with(problem.clone(), device.limits(), *algorithm),
        }
        .unwrap_or_else(|e| panic!("{problem}: {e}"))
    }
}

/// What the cost model takes.
pub(crate) fn choose(device: &Device, problem: Problem) -> Result<Choice, Error> {
    Choice::new(problem, device.target().arch, device.limits())
}

pub(crate) fn plan(device: &Device, choice: &Choice) -> Plan {
    let (target, kernels) = (device.target(), KernelCache::default());
    Conv.plan_with(choice, &Planner::new(&target, device.limits(), &kernels))
}

/// The result on a device, under whose checks the launches are clean.
#[track_caller]
pub(crate) fn run(device: &Device, choice: &Choice, [images, filters, bias, residual]: [&[f64]; 4]) -> Vec<f64> {
    let problem = &choice.problem;
    let upload = |dtype: Dtype, values: &[f64]| device.upload(&bytes_of(dtype, values)).unwrap();
    let (on_images, on_filters) = (upload(problem.dtype, images), upload(problem.dtype, filters));
    let more = [upload(problem.result, bias), upload(problem.result, residual)];
    let mut result = device.alloc::<u8>((problem.num_results() * problem.result.bytes()) as usize).unwrap();
    result.fill_bytes(0xff).unwrap();
    let more = &more[..problem.epilogue.num_inputs()];
    let inputs: Vec<_> = [&on_images, &on_filters].into_iter().chain(more).map(|view| Some(view.as_view())).collect();
    let ready = plan(device, choice).ready(device).unwrap();
    let launched = ready.launch(&device.default_stream(), &inputs, &mut [result.as_view_mut()], &mut Workspace::new());
    launched.unwrap_or_else(|e| panic!("{choice}: {e}"));
    for report in device.take_reports() {
        let findings: Vec<_> = report.report.findings.iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{choice}: {}", findings.join("\n"));
    }
    values_of(problem.result, &result.download().unwrap())
}

/// Runs a case and compares every element. With two inputs the epilogue is `relu(sum + bias) +
/// residual`.
#[track_caller]
pub(crate) fn check(device: &Device, case: &Case) {
    let (problem, choice) = (&case.problem, case.choice(device));
    let some = |seed: usize, len: u64| (0..len as usize).map(|i| element(seed, i)).collect::<Vec<f64>>();
    let images = some(1, problem.images * problem.channels * problem.size[0] * problem.size[1]);
    let filters = some(2, problem.filters * problem.depth());
    let (bias, residual) = (some(3, problem.filters), some(4, problem.num_results()));
    let expected = reference(problem, &images, &filters, |sum, filter, position| match problem.epilogue.num_inputs() {
        0 => sum,
        1 => sum + bias[filter as usize],
        _ => (sum + bias[filter as usize]).max(0.0) + residual[position],
    });
    let found = run(device, &choice, [&images, &filters, &bias, &residual]);
    for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
        // As the result's type has it.
        let expected = &values_of(problem.result, &bytes_of(problem.result, &[*expected]))[0];
        assert!(found == expected, "{choice}, {:?}: {found} at {i}, not {expected}", problem.window);
    }
}

/// Runs a case on numbers that no type has exactly, one of them infinite, and compares with the
/// error's bound.
#[track_caller]
pub(crate) fn check_bounds(device: &Device, problem: &Problem, algorithm: Algorithm) {
    let case = Case { problem: problem.clone(), algorithm: Some(algorithm) };
    let (dtype, choice) = (problem.dtype, case.choice(device));
    let some = |seed: usize, len: u64| {
        let values: Vec<_> = (0..len as usize).map(|i| ((i * 7919 + seed) as f64).sin() + 0.01).collect();
        values_of(dtype, &bytes_of(dtype, &values))
    };
    let mut images = some(1, problem.images * problem.channels * problem.size[0] * problem.size[1]);
    let filters = some(2, problem.filters * problem.depth());
    let middle = images.len() / 2;
    images[middle] = f64::INFINITY;
    let absolute = |values: &[f64]| values.iter().map(|value| value.abs()).collect::<Vec<_>>();
    let expected = reference(problem, &images, &filters, |sum, _, _| sum);
    let magnitudes = reference(problem, &absolute(&images), &absolute(&filters), |sum, _, _| sum);
    let found = run(device, &choice, [&images, &filters, &[], &[]]);
    // What the low bits of both factors are worth, then sums that tensor cores may truncate, then
    // the result's type.
    let of_factors = if dtype == Dtype::F32 { 2.0_f64.powi(-9) } else { 0.0 };
    let of_sums = 2.0 * problem.depth() as f64 * f64::from(f32::EPSILON);
    let of_result = if problem.result == Dtype::Bf16 { 2.0_f64.powi(-8) } else { 0.0 };
    for (i, ((found, expected), magnitude)) in found.iter().zip(&expected).zip(magnitudes).enumerate() {
        let bound = (of_factors + of_sums * 1.01 + of_result) * magnitude;
        let is_right = if expected.is_finite() { (found - expected).abs() <= bound } else { !found.is_finite() };
        assert!(is_right, "{choice}, {:?}: {found} at {i}, not {expected}", problem.window);
    }
}

/// The device that the environment names, or the virtual H200 under all checks and every GPU there
/// is.
pub(crate) fn on_every_device(test: impl Fn(&Device)) {
    on_every_device_and(Profile::H200, test);
}

/// The same with a profile of one's choice for the virtual GPU.
pub(crate) fn on_every_device_and(profile: Profile, test: impl Fn(&Device)) {
    if std::env::var_os("WARPFOLD_DEVICE").is_some() {
        return test(&Device::from_env().expect("the device that WARPFOLD_DEVICE names is there"));
    }
    let checked = Device::virtual_gpu(profile);
    checked.set_checks(Checks::All).unwrap();
    test(&checked);
    Device::all().into_iter().filter(|device| !device.is_virtual()).for_each(|device| test(&device));
}

pub(crate) fn problem(layout: Layout, channels: u64, size: [u64; 2], filters: u64, filter: [u64; 2]) -> Problem {
    Problem {
        dtype: Dtype::F32,
        result: Dtype::F32,
        layout,
        images: 2,
        channels,
        size,
        filters,
        filter,
        groups: 1,
        window: Window::default(),
        f32_math: F32Math::Ieee,
        epilogue: Epilogue::new(),
    }
}
