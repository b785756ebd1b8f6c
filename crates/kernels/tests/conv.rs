//! Convolution, on every device at hand and under every check: layouts, windows, groups, types, epilogues.

use warpfold_device::{Checks, Device, Profile};
use warpfold_kernels::conv::ladder::PROBLEMS;
use warpfold_kernels::conv::{Code, Layout, Operands, PatchTile, Plan, Problem, Window, launch};
use warpfold_kernels::matmul::{Activation, Epilogue, MmaTile, Singles, Tile, WgmmaTile};
use warpfold_kernels::{Dtype, ErrorKind, Workspace};

/// Whole numbers small enough that every product and sum is exact, scattered enough that a swapped index shows.
fn element(seed: usize, i: usize) -> f64 {
    ((i * 7919 + seed * 104_729) % 7) as f64 - 3.0
}

fn bytes_of(dtype: Dtype, values: &[f64]) -> Vec<u8> {
    let one = |value: &f64| match dtype {
        Dtype::F16 => half::f16::from_f64(*value).to_le_bytes().to_vec(),
        Dtype::Bf16 => half::bf16::from_f64(*value).to_le_bytes().to_vec(),
        Dtype::F32 => (*value as f32).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    };
    values.iter().flat_map(one).collect()
}

fn values_of(dtype: Dtype, bytes: &[u8]) -> Vec<f64> {
    let one = |bytes: &[u8]| match dtype {
        Dtype::F16 => half::f16::from_le_bytes(bytes.try_into().unwrap()).to_f64(),
        Dtype::Bf16 => half::bf16::from_le_bytes(bytes.try_into().unwrap()).to_f64(),
        Dtype::F32 => f32::from_le_bytes(bytes.try_into().unwrap()).into(),
        _ => f64::from_le_bytes(bytes.try_into().unwrap()),
    };
    bytes.chunks(dtype.bytes() as usize).map(one).collect()
}

/// The position of an element of an image, a filter or the result, given its sizes.
fn place(layout: Layout, [channels, height, width]: [u64; 3], [i, c, y, x]: [u64; 4]) -> usize {
    let position = match layout {
        Layout::Nchw => ((i * channels + c) * height + y) * width + x,
        Layout::Nhwc => ((i * height + y) * width + x) * channels + c,
    };
    position as usize
}

/// The exact result, in the order of the result's memory.
fn reference(problem: &Problem, images: &[f64], filters: &[f64], finish: impl Fn(f64, u64, usize) -> f64) -> Vec<f64> {
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

struct Case {
    problem: Problem,
    epilogue: Epilogue,
    code: Option<Code>,
}

impl Case {
    #[track_caller]
    fn plan(&self, device: &Device) -> Plan {
        let Self { problem, epilogue, code } = self;
        match code {
            None => Plan::new(problem.clone(), epilogue.clone(), device.limits()),
            Some(code) => Plan::with(problem.clone(), epilogue.clone(), device.limits(), *code),
        }
        .unwrap_or_else(|e| panic!("{problem}: {e}"))
    }
}

/// The result on a device, under whose checks the launches are clean.
#[track_caller]
fn run(device: &Device, plan: &Plan, [images, filters, bias, residual]: [&[f64]; 4]) -> Vec<f64> {
    let problem = &plan.problem;
    let upload = |dtype: Dtype, values: &[f64]| device.upload(&bytes_of(dtype, values)).unwrap();
    let (on_images, on_filters) = (upload(problem.dtype, images), upload(problem.dtype, filters));
    let more = [upload(problem.result, bias), upload(problem.result, residual)];
    let mut result = device.alloc::<u8>((problem.num_results() * problem.result.bytes()) as usize).unwrap();
    result.fill_bytes(0xff).unwrap();
    let operands = Operands {
        images: on_images.as_view(),
        filters: on_filters.as_view(),
        inputs: more[..problem.num_inputs].iter().map(|buffer| buffer.as_view()).collect(),
        result: result.as_view_mut(),
    };
    launch(&device.default_stream(), plan, operands, &mut Workspace::new()).unwrap_or_else(|e| panic!("{plan}: {e}"));
    for report in device.take_reports() {
        let findings: Vec<_> = report.report.findings.iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{plan}: {}", findings.join("\n"));
    }
    values_of(problem.result, &result.download().unwrap())
}

/// Runs a case and compares every element. With two inputs the epilogue is `relu(sum + bias) + residual`.
#[track_caller]
fn check(device: &Device, case: &Case) {
    let (problem, plan) = (&case.problem, case.plan(device));
    let some = |seed: usize, len: u64| (0..len as usize).map(|i| element(seed, i)).collect::<Vec<f64>>();
    let images = some(1, problem.images * problem.channels * problem.size[0] * problem.size[1]);
    let filters = some(2, problem.filters * problem.depth());
    let (bias, residual) = (some(3, problem.filters), some(4, problem.num_results()));
    let expected = reference(problem, &images, &filters, |sum, filter, position| match problem.num_inputs {
        0 => sum,
        1 => sum + bias[filter as usize],
        _ => (sum + bias[filter as usize]).max(0.0) + residual[position],
    });
    let found = run(device, &plan, [&images, &filters, &bias, &residual]);
    for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
        // As the result's type has it.
        let expected = &values_of(problem.result, &bytes_of(problem.result, &[*expected]))[0];
        assert!(found == expected, "{plan}, {:?}: {found} at {i}, not {expected}", problem.window);
    }
}

/// Runs a case on numbers that no type has exactly, one of them infinite, and compares with the error's bound.
#[track_caller]
fn check_bounds(device: &Device, problem: &Problem, code: Code) {
    let case = Case { problem: problem.clone(), epilogue: Epilogue::new(), code: Some(code) };
    let (dtype, plan) = (problem.dtype, case.plan(device));
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
    let found = run(device, &plan, [&images, &filters, &[], &[]]);
    // What the low bits of both factors are worth, then sums that tensor cores may truncate, then the result's type.
    let of_factors = if dtype == Dtype::F32 { 2.0_f64.powi(-9) } else { 0.0 };
    let of_sums = 2.0 * problem.depth() as f64 * f64::from(f32::EPSILON);
    let of_result = if problem.result == Dtype::Bf16 { 2.0_f64.powi(-8) } else { 0.0 };
    for (i, ((found, expected), magnitude)) in found.iter().zip(&expected).zip(magnitudes).enumerate() {
        let bound = (of_factors + of_sums * 1.01 + of_result) * magnitude;
        let is_right = if expected.is_finite() { (found - expected).abs() <= bound } else { !found.is_finite() };
        assert!(is_right, "{plan}, {:?}: {found} at {i}, not {expected}", problem.window);
    }
}

/// The device that the environment names, or the virtual H200 under all checks and every GPU there is.
fn on_every_device(test: impl Fn(&Device)) {
    on_every_device_and(Profile::H200, test);
}

/// The same with a profile of one's choice for the virtual GPU.
fn on_every_device_and(profile: Profile, test: impl Fn(&Device)) {
    if std::env::var_os("WARPFOLD_DEVICE").is_some() {
        return test(&Device::from_env().expect("the device that WARPFOLD_DEVICE names is there"));
    }
    let checked = Device::virtual_gpu(profile);
    checked.set_checks(Checks::All).unwrap();
    test(&checked);
    Device::all().into_iter().filter(|device| !device.is_virtual()).for_each(|device| test(&device));
}

fn problem(layout: Layout, channels: u64, size: [u64; 2], filters: u64, filter: [u64; 2]) -> Problem {
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
        singles: Singles::Full,
        num_inputs: 0,
    }
}

const LAYOUTS: [Layout; 2] = [Layout::Nchw, Layout::Nhwc];

#[test]
fn every_window_is_exact_in_both_layouts() {
    let windows =
        [([1, 1], [0, 0], [1, 1]), ([2, 2], [1, 1], [1, 1]), ([1, 3], [2, 0], [1, 2]), ([2, 1], [4, 5], [3, 2])];
    on_every_device(|device| {
        for layout in LAYOUTS {
            for (stride, padding, dilation) in windows {
                for (channels, filters, filter) in [(3, 5, [3, 3]), (4, 8, [1, 2]), (8, 17, [2, 3]), (1, 1, [1, 1])] {
                    let window = Window { stride, padding, dilation };
                    let problem = Problem { window, ..problem(layout, channels, [9, 11], filters, filter) };
                    check(device, &Case { problem, epilogue: Epilogue::new(), code: None });
                }
            }
        }
    });
}

#[test]
fn every_kernel_gives_the_same_in_groups_and_without() {
    on_every_device(|device| {
        for layout in LAYOUTS {
            for (channels, filters, groups) in [(12, 8, 1), (12, 8, 4), (6, 6, 6), (6, 12, 6), (8, 20, 2)] {
                let window = Window { padding: [1, 1], ..Window::default() };
                let problem = Problem { groups, window, ..problem(layout, channels, [7, 6], filters, [3, 3]) };
                let codes =
                    [Some(Code::Direct), Some(Code::Implicit(Tile::SMALL)), Some(Code::Implicit(Tile::LARGE)), None];
                for code in codes {
                    check(device, &Case { problem: problem.clone(), epilogue: Epilogue::new(), code });
                }
            }
        }
    });
}

#[test]
fn patches_serve_every_row_of_the_filters() {
    let windows = [
        ([1, 1], [0, 0], [1, 1], [3, 3]),
        ([2, 2], [1, 1], [1, 1], [3, 3]),
        ([1, 3], [2, 0], [1, 2], [2, 4]),
        ([2, 1], [4, 5], [3, 2], [1, 1]),
        ([2, 2], [3, 3], [1, 1], [7, 7]),
    ];
    on_every_device(|device| {
        let mut tiles = PatchTile::ALL.into_iter().map(Code::Patches).cycle();
        for (stride, padding, dilation, filter) in windows {
            for layout in LAYOUTS {
                for (dtype, channels, filters) in
                    [(Dtype::F32, 3, 32), (Dtype::F32, 5, 17), (Dtype::Bf16, 3, 40), (Dtype::F16, 1, 70)]
                {
                    let window = Window { stride, padding, dilation };
                    let problem = problem(layout, channels, [19, 35], filters, filter);
                    let problem = Problem { window, dtype, ..problem };
                    // The widest has no room for everything.
                    let plan = |code| Plan::with(problem.clone(), Epilogue::new(), device.limits(), code);
                    let code = tiles.find(|code| plan(*code).is_ok());
                    check(device, &Case { problem, epilogue: Epilogue::new(), code });
                }
            }
        }
        let layer = Epilogue::new().add().activate(Activation::Relu).add();
        for layout in LAYOUTS {
            // More tiles than blocks.
            let problem = Problem { num_inputs: 2, images: 600, ..problem(layout, 2, [3, 4], 12, [2, 3]) };
            check(device, &Case { problem, epilogue: layer.clone(), code: tiles.next() });
        }
    });
}

#[test]
fn planes_are_walked_one_element_of_the_filters_after_the_other() {
    let windows = [
        ([1, 1], [0, 0], [1, 1], [3, 3]),
        ([2, 2], [1, 1], [1, 1], [3, 3]),
        ([1, 3], [2, 0], [1, 2], [2, 4]),
        ([2, 1], [4, 5], [3, 2], [1, 1]),
    ];
    on_every_device(|device| {
        let tiles = [Tile::MEDIUM, Tile::SMALL, Tile::LARGE];
        let mut tiles = tiles.into_iter().map(Code::Planes).cycle();
        for (stride, padding, dilation, filter) in windows {
            for (channels, filters) in [(16, 17), (32, 40), (48, 3)] {
                let window = Window { stride, padding, dilation };
                let problem =
                    Problem { window, images: 3, ..problem(Layout::Nchw, channels, [9, 11], filters, filter) };
                check(device, &Case { problem, epilogue: Epilogue::new(), code: tiles.next() });
            }
        }
        let layer = Epilogue::new().add().activate(Activation::Relu).add();
        for size in [[5, 5], [7, 6]] {
            let problem = Problem { num_inputs: 2, images: 7, ..problem(Layout::Nchw, 16, size, 12, [2, 3]) };
            check(device, &Case { problem, epilogue: layer.clone(), code: tiles.next() });
        }
    });
}

#[test]
fn bias_activation_and_residual_are_part_of_the_launch() {
    on_every_device(|device| {
        let layer = Epilogue::new().add().activate(Activation::Relu).add();
        for layout in LAYOUTS {
            for (groups, dtype) in
                [(1, Dtype::F32), (4, Dtype::F32), (1, Dtype::Bf16), (1, Dtype::F16), (1, Dtype::F64)]
            {
                let problem = problem(layout, 4, [6, 5], 12, [2, 2]);
                let problem = Problem { groups, dtype, result: dtype, ..problem };
                let with = |num_inputs| Problem { num_inputs, ..problem.clone() };
                check(device, &Case { problem: with(1), epilogue: Epilogue::new().add(), code: None });
                check(device, &Case { problem: with(2), epilogue: layer.clone(), code: None });
                check(device, &Case { problem: with(2), epilogue: layer.clone(), code: Some(Code::Direct) });
            }
        }
    });
}

#[test]
fn tensor_cores_take_halves_with_their_channels_last() {
    let windows = [
        ([1, 1], [0, 0], [1, 1], [3, 3]),
        ([2, 2], [1, 1], [1, 1], [3, 3]),
        ([1, 3], [2, 0], [1, 2], [2, 3]),
        ([2, 1], [4, 5], [3, 2], [2, 3]),
        ([1, 1], [0, 0], [1, 1], [1, 1]),
    ];
    on_every_device(|device| {
        if !device.limits().has_wgmma {
            return;
        }
        for (stride, padding, dilation, filter) in windows {
            for (dtype, result) in [(Dtype::Bf16, Dtype::F32), (Dtype::F16, Dtype::F16)] {
                for (channels, filters) in [(8, 17), (64, 24), (72, 130)] {
                    let window = Window { stride, padding, dilation };
                    let problem = problem(Layout::Nhwc, channels, [9, 11], filters, filter);
                    let problem = Problem { dtype, result, window, ..problem };
                    for tile in [WgmmaTile::SMALL, WgmmaTile::MEDIUM, WgmmaTile::LARGE] {
                        let code = Some(Code::Wgmma(tile));
                        check(device, &Case { problem: problem.clone(), epilogue: Epilogue::new(), code });
                    }
                }
            }
        }
        let layer = Epilogue::new().add().activate(Activation::Relu).add();
        let problem = problem(Layout::Nhwc, 16, [12, 10], 40, [3, 3]);
        let problem = Problem { dtype: Dtype::Bf16, num_inputs: 2, ..problem };
        check(device, &Case { problem, epilogue: layer, code: Some(Code::Wgmma(WgmmaTile::FLAT)) });
    });
}

/// Windows whose rows count as one element where channels are few, and others.
const WINDOWS: [([u32; 2], [u32; 2], [u32; 2], [u64; 2]); 5] = [
    ([1, 1], [0, 0], [1, 1], [3, 3]),
    ([2, 2], [1, 1], [1, 1], [3, 3]),
    ([2, 4], [0, 3], [2, 1], [2, 7]),
    ([1, 3], [2, 1], [1, 2], [2, 3]),
    ([1, 1], [0, 0], [1, 1], [1, 1]),
];

#[test]
fn tensor_cores_take_any_channels_in_both_layouts() {
    on_every_device(|device| {
        if !device.limits().has_wgmma {
            return;
        }
        let tiles = [WgmmaTile::NARROW, WgmmaTile::SMALL, WgmmaTile::MEDIUM].into_iter().cycle();
        let mut tiles = tiles.map(|tile| Some(Code::Wgmma(tile)));
        for (stride, padding, dilation, filter) in WINDOWS {
            for layout in LAYOUTS {
                for (dtype, result) in [(Dtype::F32, Dtype::F32), (Dtype::Bf16, Dtype::Bf16), (Dtype::F16, Dtype::F32)]
                {
                    for (channels, filters) in [(3, 17), (1, 64), (20, 65), (40, 3)] {
                        let window = Window { stride, padding, dilation };
                        let problem = problem(layout, channels, [9, 11], filters, filter);
                        let problem = Problem { dtype, result, window, singles: Singles::Tf32, ..problem };
                        let code = tiles.next().expect("they repeat");
                        check(device, &Case { problem, epilogue: Epilogue::new(), code });
                    }
                }
            }
        }
    });
}

#[test]
fn tensor_cores_stay_within_the_bound_and_see_nothing_beside_the_filter() {
    on_every_device(|device| {
        if !device.limits().has_wgmma {
            return;
        }
        for (stride, padding, dilation, filter) in WINDOWS {
            for (layout, channels, dtype) in [
                (Layout::Nchw, 3, Dtype::F32),
                (Layout::Nhwc, 3, Dtype::Bf16),
                (Layout::Nhwc, 8, Dtype::Bf16),
                (Layout::Nchw, 36, Dtype::Bf16),
            ] {
                let window = Window { stride, padding, dilation };
                let problem = problem(layout, channels, [10, 13], 66, filter);
                let problem = Problem { dtype, result: dtype, window, singles: Singles::Tf32, ..problem };
                check_bounds(device, &problem, Code::Wgmma(WgmmaTile::FLAT));
            }
        }
    });
}

#[test]
fn epilogues_follow_tensor_cores_into_planes() {
    on_every_device(|device| {
        if !device.limits().has_wgmma {
            return;
        }
        let layer = Epilogue::new().add().activate(Activation::Relu).add();
        for (dtype, images, filters) in [(Dtype::F32, 3, 40), (Dtype::Bf16, 5, 7)] {
            let plain = problem(Layout::Nchw, 5, [9, 8], filters, [3, 2]);
            let problem = Problem { dtype, result: dtype, images, num_inputs: 2, singles: Singles::Tf32, ..plain };
            let code = Some(Code::Wgmma(WgmmaTile::MEDIUM));
            check(device, &Case { problem, epilogue: layer.clone(), code });
        }
    });
}

#[test]
fn plans_lay_large_images_for_tensor_cores_and_keep_singles_whole_unless_told() {
    let device = Device::virtual_gpu(Profile::H200);
    let layer = |layout, dtype, singles| {
        let problem = problem(layout, 64, [56, 56], 64, [3, 3]);
        let problem = Problem { images: 32, dtype, result: dtype, singles, ..problem };
        Plan::new(problem, Epilogue::new(), device.limits()).unwrap()
    };
    let is_wgmma = |plan: &Plan| matches!(plan.code, Code::Wgmma(_));
    let whole = layer(Layout::Nhwc, Dtype::F32, Singles::Full);
    assert!(!is_wgmma(&whole), "{whole}");
    for (layout, dtype) in
        [(Layout::Nchw, Dtype::F32), (Layout::Nhwc, Dtype::F32), (Layout::Nchw, Dtype::F16), (Layout::Nhwc, Dtype::F16)]
    {
        let plan = layer(layout, dtype, Singles::Tf32);
        assert!(is_wgmma(&plan), "{plan}");
        assert_eq!(plan.workspace_bytes() > 0, layout == Layout::Nchw, "{plan}");
    }
}

#[test]
fn warps_gather_pixels_in_pieces_as_large_as_channels_allow() {
    let windows = [
        ([1, 1], [0, 0], [1, 1], [3, 3]),
        ([2, 2], [1, 1], [1, 1], [3, 3]),
        ([1, 3], [2, 0], [1, 2], [2, 3]),
        ([2, 1], [4, 5], [3, 2], [2, 3]),
        ([1, 1], [0, 0], [1, 1], [1, 1]),
    ];
    on_every_device_and(Profile::A100, |device| {
        for (stride, padding, dilation, filter) in windows {
            for (dtype, result, channels, filters, tile) in [
                (Dtype::Bf16, Dtype::F32, 8, 17, MmaTile::SMALL),
                (Dtype::F16, Dtype::F16, 72, 130, MmaTile::LARGE),
                (Dtype::Bf16, Dtype::Bf16, 6, 40, MmaTile::FLAT),
                (Dtype::F32, Dtype::F32, 3, 20, MmaTile::MEDIUM),
            ] {
                let window = Window { stride, padding, dilation };
                let problem = problem(Layout::Nhwc, channels, [9, 11], filters, filter);
                let problem = Problem { dtype, result, window, singles: Singles::Tf32, ..problem };
                check(device, &Case { problem, epilogue: Epilogue::new(), code: Some(Code::Mma(tile)) });
            }
        }
        let layer = Epilogue::new().add().activate(Activation::Relu).add();
        for groups in [1, 2, 4] {
            let problem = problem(Layout::Nhwc, 16, [12, 10], 40, [3, 3]);
            let problem = Problem { dtype: Dtype::Bf16, groups, num_inputs: 2, ..problem };
            check(device, &Case { problem, epilogue: layer.clone(), code: Some(Code::Mma(MmaTile::SMALL)) });
        }
    });
}

#[test]
fn plans_take_tensor_cores_where_they_can() {
    let (ampere, hopper) = (Device::virtual_gpu(Profile::A100), Device::virtual_gpu(Profile::H200));
    let code = |device: &Device, problem: Problem| Plan::new(problem, Epilogue::new(), device.limits()).unwrap().code;
    let of = |dtype, channels| Problem { dtype, ..problem(Layout::Nhwc, channels, [56, 56], 64, [3, 3]) };
    for problem in [of(Dtype::Bf16, 64), of(Dtype::F16, 6), Problem { singles: Singles::Tf32, ..of(Dtype::F32, 3) }] {
        assert!(matches!(code(&ampere, problem.clone()), Code::Mma(_)), "{problem}");
    }
    for problem in [of(Dtype::Bf16, 64), of(Dtype::Bf16, 6)] {
        assert!(matches!(code(&hopper, problem.clone()), Code::Mma(_) | Code::Wgmma(_)), "{problem}");
    }
    for problem in [of(Dtype::F32, 64), Problem { layout: Layout::Nchw, ..of(Dtype::Bf16, 64) }] {
        assert!(matches!(code(&ampere, problem.clone()), Code::Implicit(_)), "{problem}");
    }
    let few = of(Dtype::Bf16, 3);
    assert!(matches!(code(&ampere, few.clone()), Code::Patches(_)), "{few}");
}

#[test]
fn plans_of_the_catalogues_problems_are_the_fastest_that_were_timed() {
    let device = Device::virtual_gpu(Profile::H200);
    let code = |number: usize, dtype: Dtype, singles: Singles, layout: Layout| {
        let [n, c, h, w, k, r, s, u, v, ..] = PROBLEMS[number - 1].map(u64::from);
        let window = Window { stride: [u as u32, v as u32], ..Window::default() };
        let problem = problem(layout, c, [h, w], k, [r, s]);
        let problem = Problem { images: n, dtype, result: dtype, singles, window, ..problem };
        Plan::new(problem, Epilogue::new(), device.limits()).unwrap().code
    };
    let (few, deep) = (Code::Patches(PatchTile::SQUARE), Code::Patches(PatchTile::DEEP));
    let wide = Code::Patches(PatchTile::ROW);
    let [medium, large] = [Tile::MEDIUM, Tile::LARGE].map(Code::Planes);
    for (number, expected) in [(1, few), (2, medium), (3, medium), (4, deep), (5, deep), (6, large), (7, wide)] {
        assert_eq!(code(number, Dtype::F32, Singles::Full, Layout::Nchw), expected, "f32, {number}");
    }
    for (number, expected) in [(1, Some(few)), (2, None), (3, None), (4, None), (5, None), (6, None), (7, Some(wide))] {
        let found = code(number, Dtype::F32, Singles::Tf32, Layout::Nchw);
        assert!(expected.map_or(matches!(found, Code::Wgmma(_)), |code| code == found), "tf32, {number}: {found:?}");
    }
    let behind = Code::Patches(PatchTile::BEHIND);
    for (number, expected) in [(1, Some(few)), (4, None), (5, None), (7, Some(behind))] {
        let found = code(number, Dtype::Bf16, Singles::Full, Layout::Nhwc);
        assert!(expected.map_or(matches!(found, Code::Wgmma(_)), |code| code == found), "bf16, {number}: {found:?}");
    }
}

#[test]
fn no_images_no_channels_and_no_filters_are_sizes_as_well() {
    on_every_device(|device| {
        for layout in LAYOUTS {
            let plain = problem(layout, 4, [6, 5], 12, [2, 2]);
            for problem in [
                Problem { images: 0, ..plain.clone() },
                Problem { channels: 0, ..plain.clone() },
                Problem { filters: 0, ..plain.clone() },
            ] {
                check(device, &Case { problem, epilogue: Epilogue::new(), code: None });
            }
        }
    });
}

#[test]
fn what_no_kernel_does_is_refused() {
    let limits = Device::virtual_gpu(Profile::H200);
    let refused = |problem: Problem| match Plan::new(problem, Epilogue::new(), limits.limits()) {
        Ok(plan) => panic!("{plan}"),
        Err(error) => error.kind().clone(),
    };
    let plain = problem(Layout::Nchw, 4, [6, 5], 12, [2, 2]);
    for bad in [
        Problem { groups: 3, ..plain.clone() },
        Problem { groups: 0, ..plain.clone() },
        Problem { filter: [7, 1], ..plain.clone() },
        Problem { window: Window { stride: [0, 1], ..Window::default() }, ..plain.clone() },
        Problem { num_inputs: 1, ..plain.clone() },
        // Places beside the image, and bytes of a filter, that 32 bits do not count.
        Problem {
            window: Window { padding: [1 << 31, 0], stride: [1 << 31, 1], ..Window::default() },
            ..plain.clone()
        },
        Problem { dtype: Dtype::F64, result: Dtype::F64, ..problem(Layout::Nchw, 1 << 29, [1, 1], 1, [1, 1]) },
    ] {
        assert!(matches!(refused(bad), ErrorKind::Operand { .. }));
    }
    let window = Window { padding: [1 << 18, 0], dilation: [1 << 18, 1], ..Window::default() };
    let far = Problem { window, ..problem(Layout::Nchw, 16, [2, 1 << 14], 12, [3, 1]) };
    let many = Problem { images: (1 << 20) + 1, ..problem(Layout::Nchw, 1 << 12, [1, 1], 12, [1, 1]) };
    let tall = problem(Layout::Nchw, 1, [99, 99], 12, [33, 1]);
    let no_tile = PatchTile { lanes_across: 0, ..PatchTile::SQUARE };
    for (problem, code) in [
        (&far, Code::Planes(Tile::SMALL)),
        (&many, Code::Planes(Tile::SMALL)),
        (&tall, Code::Patches(PatchTile::SQUARE)),
        (&plain, Code::Patches(no_tile)),
    ] {
        let plan = Plan::with(problem.clone(), Epilogue::new(), limits.limits(), code);
        assert!(matches!(plan.map_err(|error| error.kind().clone()), Err(ErrorKind::Operand { .. })), "{code:?}");
    }
    assert!(matches!(refused(Problem { dtype: Dtype::I32, ..plain }), ErrorKind::Unsupported { .. }));
}
