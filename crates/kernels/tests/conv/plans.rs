//! Which kernel a plan takes, and what none does.

use warpfold_device::{Device, Profile};
use warpfold_kernels::conv::PROBLEMS;
use warpfold_kernels::conv::{Algorithm, Choice, Layout, PatchTile, Problem, Window};
use warpfold_kernels::matmul::{Epilogue, F32Math, Tile};
use warpfold_kernels::{Dtype, ErrorKind};

use crate::conv::case::{choose, plan, problem};

#[test]
fn plans_lay_large_images_for_tensor_cores_and_keep_singles_whole_unless_told() {
    let device = Device::virtual_gpu(Profile::H200);
    let layer = |layout, dtype, f32_math| {
        let problem = problem(layout, 64, [56, 56], 64, [3, 3]);
        let problem = Problem { images: 32, dtype, result: dtype, f32_math, ..problem };
        choose(&device, problem).unwrap()
    };
    let is_wgmma = |choice: &Choice| matches!(choice.algorithm, Algorithm::Wgmma(_));
    let whole = layer(Layout::Nhwc, Dtype::F32, F32Math::Ieee);
    assert!(!is_wgmma(&whole), "{whole}");
    for (layout, dtype) in
        [(Layout::Nchw, Dtype::F32), (Layout::Nhwc, Dtype::F32), (Layout::Nchw, Dtype::F16), (Layout::Nhwc, Dtype::F16)]
    {
        let choice = layer(layout, dtype, F32Math::Tf32);
        assert!(is_wgmma(&choice), "{choice}");
        assert_eq!(plan(&device, &choice).steps.len() == 2, layout == Layout::Nchw, "{choice}");
    }
}

#[test]
fn plans_take_tensor_cores_where_they_can() {
    let (ampere, hopper) = (Device::virtual_gpu(Profile::A100), Device::virtual_gpu(Profile::H200));
    let code = |device: &Device, problem: Problem| choose(device, problem).unwrap().algorithm;
    let of = |dtype, channels| Problem { dtype, ..problem(Layout::Nhwc, channels, [56, 56], 64, [3, 3]) };
    for problem in [of(Dtype::Bf16, 64), of(Dtype::F16, 6), Problem { f32_math: F32Math::Tf32, ..of(Dtype::F32, 3) }] {
        assert!(matches!(code(&ampere, problem.clone()), Algorithm::Mma(_)), "{problem}");
    }
    for problem in [of(Dtype::Bf16, 64), of(Dtype::Bf16, 6)] {
        assert!(matches!(code(&hopper, problem.clone()), Algorithm::Mma(_) | Algorithm::Wgmma(_)), "{problem}");
    }
    for problem in [of(Dtype::F32, 64), Problem { layout: Layout::Nchw, ..of(Dtype::Bf16, 64) }] {
        assert!(matches!(code(&ampere, problem.clone()), Algorithm::Implicit(_)), "{problem}");
    }
    let few = of(Dtype::Bf16, 3);
    assert!(matches!(code(&ampere, few.clone()), Algorithm::Patches(_)), "{few}");
}

#[test]
fn groups_of_few_filters_have_a_thread_for_each_output() {
    let device = Device::virtual_gpu(Profile::H200);
    for layout in [Layout::Nchw, Layout::Nhwc] {
        let is_direct = |filters: u64, groups: u64| {
            let problem = Problem { groups, ..problem(layout, 8 * groups, [14, 14], filters, [3, 3]) };
            choose(&device, problem).unwrap().algorithm == Algorithm::Direct
        };
        for groups in [1, 8] {
            assert_eq!([1, 3, 4, 64].map(|filters| is_direct(filters * groups, groups)), [true, true, false, false]);
        }
    }
}

#[test]
fn plans_of_the_catalogues_problems_are_the_fastest_that_were_timed() {
    let device = Device::virtual_gpu(Profile::H200);
    let code = |number: usize, dtype: Dtype, f32_math: F32Math, layout: Layout| {
        let [n, c, h, w, k, r, s, u, v, ..] = PROBLEMS[number - 1].map(u64::from);
        let window = Window { stride: [u as u32, v as u32], ..Window::default() };
        let problem = problem(layout, c, [h, w], k, [r, s]);
        let problem = Problem { images: n, dtype, result: dtype, f32_math, window, ..problem };
        choose(&device, problem).unwrap().algorithm
    };
    let (few, deep) = (Algorithm::Patches(PatchTile::SQUARE), Algorithm::Patches(PatchTile::DEEP));
    let wide = Algorithm::Patches(PatchTile::ROW);
    let [medium, large] = [Tile::MEDIUM, Tile::LARGE].map(Algorithm::Planes);
    for (number, expected) in [(1, few), (2, medium), (3, medium), (4, deep), (5, deep), (6, large), (7, wide)] {
        assert_eq!(code(number, Dtype::F32, F32Math::Ieee, Layout::Nchw), expected, "f32, {number}");
    }
    for (number, expected) in [(1, Some(few)), (2, None), (3, None), (4, None), (5, None), (6, None), (7, Some(wide))] {
        let found = code(number, Dtype::F32, F32Math::Tf32, Layout::Nchw);
        assert!(
            expected.map_or(matches!(found, Algorithm::Wgmma(_)), |code| code == found),
            "tf32, {number}: {found:?}"
        );
    }
    let behind = Algorithm::Patches(PatchTile::BEHIND);
    for (number, expected) in [(1, Some(few)), (4, None), (5, None), (7, Some(behind))] {
        let found = code(number, Dtype::Bf16, F32Math::Ieee, Layout::Nhwc);
        assert!(
            expected.map_or(matches!(found, Algorithm::Wgmma(_)), |code| code == found),
            "bf16, {number}: {found:?}"
        );
    }
}

#[test]
fn what_no_kernel_does_is_refused() {
    let limits = Device::virtual_gpu(Profile::H200);
    let refused = |problem: Problem| match choose(&limits, problem) {
        Ok(plan) => panic!("{plan}"),
        Err(error) => error.kind().clone(),
    };
    let plain = problem(Layout::Nchw, 4, [6, 5], 12, [2, 2]);
    for bad in [
        Problem { groups: 3, ..plain.clone() },
        Problem { groups: 0, ..plain.clone() },
        Problem { filter: [7, 1], ..plain.clone() },
        Problem { window: Window { stride: [0, 1], ..Window::default() }, ..plain.clone() },
        Problem { epilogue: Epilogue::new().add().add().add(), ..plain.clone() },
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
        (&far, Algorithm::Planes(Tile::SMALL)),
        (&many, Algorithm::Planes(Tile::SMALL)),
        (&tall, Algorithm::Patches(PatchTile::SQUARE)),
        (&plain, Algorithm::Patches(no_tile)),
    ] {
        let plan = Choice::with(problem.clone(), limits.limits(), code);
        assert!(matches!(plan.map_err(|error| error.kind().clone()), Err(ErrorKind::Operand { .. })), "{code:?}");
    }
    assert!(matches!(refused(Problem { dtype: Dtype::I32, ..plain }), ErrorKind::Unsupported { .. }));
}
