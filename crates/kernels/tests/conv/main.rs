//! Convolution, on every device at hand and under every check: layouts, windows, groups, types,
//! epilogues.

mod case;
mod plans;

use case::{Case, check, check_bounds, on_every_device, on_every_device_and, problem};
use warpfold_device::Profile;
use warpfold_kernels::Dtype;
use warpfold_kernels::conv::{Algorithm, Choice, Layout, PatchTile, Problem, Window};
use warpfold_kernels::matmul::{Activation, Epilogue, F32Math, MmaTile, Tile, WgmmaTile};

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
                    check(device, &Case { problem, algorithm: None });
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
                let codes = [
                    Some(Algorithm::Direct),
                    Some(Algorithm::Implicit(Tile::SMALL)),
                    Some(Algorithm::Implicit(Tile::LARGE)),
                    None,
                ];
                for code in codes {
                    check(device, &Case { problem: problem.clone(), algorithm: code });
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
        let mut tiles = PatchTile::ALL.into_iter().map(Algorithm::Patches).cycle();
        for (stride, padding, dilation, filter) in windows {
            for layout in LAYOUTS {
                for (dtype, channels, filters) in
                    [(Dtype::F32, 3, 32), (Dtype::F32, 5, 17), (Dtype::Bf16, 3, 40), (Dtype::F16, 1, 70)]
                {
                    let window = Window { stride, padding, dilation };
                    let problem = problem(layout, channels, [19, 35], filters, filter);
                    let problem = Problem { window, dtype, ..problem };
                    // The widest has no room for everything.
                    let plan = |code| Choice::with(problem.clone(), device.limits(), code);
                    let code = tiles.find(|code| plan(*code).is_ok());
                    check(device, &Case { problem, algorithm: code });
                }
            }
        }
        let layer = Epilogue::new().add().activate(Activation::Relu).add();
        for layout in LAYOUTS {
            // More tiles than blocks.
            let problem = Problem { epilogue: layer.clone(), images: 600, ..problem(layout, 2, [3, 4], 12, [2, 3]) };
            check(device, &Case { problem, algorithm: tiles.next() });
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
        let mut tiles = tiles.into_iter().map(Algorithm::Planes).cycle();
        for (stride, padding, dilation, filter) in windows {
            for (channels, filters) in [(16, 17), (32, 40), (48, 3)] {
                let window = Window { stride, padding, dilation };
                let problem =
                    Problem { window, images: 3, ..problem(Layout::Nchw, channels, [9, 11], filters, filter) };
                check(device, &Case { problem, algorithm: tiles.next() });
            }
        }
        let layer = Epilogue::new().add().activate(Activation::Relu).add();
        for size in [[5, 5], [7, 6]] {
            let problem = Problem { epilogue: layer.clone(), images: 7, ..problem(Layout::Nchw, 16, size, 12, [2, 3]) };
            check(device, &Case { problem, algorithm: tiles.next() });
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
                let with = |epilogue: &Epilogue| Problem { epilogue: epilogue.clone(), ..problem.clone() };
                check(device, &Case { problem: with(&Epilogue::new().add()), algorithm: None });
                check(device, &Case { problem: with(&layer), algorithm: None });
                check(device, &Case { problem: with(&layer), algorithm: Some(Algorithm::Direct) });
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
                        let code = Some(Algorithm::Wgmma(tile));
                        check(device, &Case { problem: problem.clone(), algorithm: code });
                    }
                }
            }
        }
        let layer = Epilogue::new().add().activate(Activation::Relu).add();
        let problem = problem(Layout::Nhwc, 16, [12, 10], 40, [3, 3]);
        let problem = Problem { dtype: Dtype::Bf16, epilogue: layer.clone(), ..problem };
        check(device, &Case { problem, algorithm: Some(Algorithm::Wgmma(WgmmaTile::FLAT)) });
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
        let mut tiles = tiles.map(|tile| Some(Algorithm::Wgmma(tile)));
        for (stride, padding, dilation, filter) in WINDOWS {
            for layout in LAYOUTS {
                for (dtype, result) in [(Dtype::F32, Dtype::F32), (Dtype::Bf16, Dtype::Bf16), (Dtype::F16, Dtype::F32)]
                {
                    for (channels, filters) in [(3, 17), (1, 64), (20, 65), (40, 3)] {
                        let window = Window { stride, padding, dilation };
                        let problem = problem(layout, channels, [9, 11], filters, filter);
                        let problem = Problem { dtype, result, window, f32_math: F32Math::Tf32, ..problem };
                        let code = tiles.next().expect("they repeat");
                        check(device, &Case { problem, algorithm: code });
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
                let problem = Problem { dtype, result: dtype, window, f32_math: F32Math::Tf32, ..problem };
                check_bounds(device, &problem, Algorithm::Wgmma(WgmmaTile::FLAT));
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
            let problem =
                Problem { dtype, result: dtype, images, epilogue: layer.clone(), f32_math: F32Math::Tf32, ..plain };
            let code = Some(Algorithm::Wgmma(WgmmaTile::MEDIUM));
            check(device, &Case { problem, algorithm: code });
        }
    });
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
                let problem = Problem { dtype, result, window, f32_math: F32Math::Tf32, ..problem };
                check(device, &Case { problem, algorithm: Some(Algorithm::Mma(tile)) });
            }
        }
        let layer = Epilogue::new().add().activate(Activation::Relu).add();
        for groups in [1, 2, 4] {
            let problem = problem(Layout::Nhwc, 16, [12, 10], 40, [3, 3]);
            let problem = Problem { dtype: Dtype::Bf16, groups, epilogue: layer.clone(), ..problem };
            check(device, &Case { problem, algorithm: Some(Algorithm::Mma(MmaTile::SMALL)) });
        }
    });
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
                check(device, &Case { problem, algorithm: None });
            }
        }
    });
}
