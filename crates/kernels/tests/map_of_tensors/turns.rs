//! Maps whose inputs lie the other way round than their output: they turn in shared memory, tile by
//! tile.

use warpfold_device::{Device, Profile};
use warpfold_kernels::Dtype;
use warpfold_kernels::elements::{Sink, Source};
use warpfold_kernels::layout::Layout;
use warpfold_kernels::map::{Algorithm, Map};
use warpfold_kernels::plan::{Family, KernelCache, Planner};
use warpfold_lang::{Arch, Target};

use super::{Bench, Placed, contiguous, device, launch, layout, problem, scattered};

#[test]
fn inputs_that_lie_the_other_way_round_turn_in_shared_memory() {
    let bench = Bench::new();
    for (rows, columns) in [(16, 16), (31, 33), (32, 32), (33, 31), (64, 96), (100, 70), (16, 300)] {
        let turned = Placed::new(layout(&[rows, columns], &[1, rows as isize]), 0);
        let plain = Placed::new(contiguous(&[rows, columns]), 0);
        let wide = Placed::new(layout(&[rows, columns], &[1, rows as isize + 5]), 1);
        for (input, output) in [(&turned, &plain), (&plain, &turned), (&wide, &plain)] {
            let (plan, _) = bench.copies(input, output);
            assert!(matches!(&plan.algorithm, Algorithm::Tiles(tiles) if tiles.staged[0]), "{plan:?}");
        }
        let row = Placed::new(contiguous(&[columns]), 0);
        let (plan, _) = bench.maps_three(&[plain.clone(), turned.clone(), row], &plain);
        assert!(matches!(&plan.algorithm, Algorithm::Tiles(tiles) if tiles.staged == [false, true, false]), "{plan:?}");
        bench.maps_three(&[turned.clone(), wide.clone(), plain.clone()], &plain);
    }
    let inner = Placed::new(layout(&[3, 40, 50], &[2000, 1, 40]), 0);
    let outer = Placed::new(layout(&[40, 3, 50], &[1, 40, 120]), 0);
    for input in [inner, outer] {
        let (plan, _) = bench.copies(&input, &Placed::new(contiguous(input.layout.shape()), 0));
        assert!(matches!(plan.algorithm, Algorithm::Tiles(_)), "{plan:?}");
    }
}

#[test]
fn short_sides_do_not_turn_in_shared_memory() {
    let bench = Bench::new();
    for (rows, columns) in [(15, 40), (16, 40), (40, 15), (40, 16)] {
        let turned = Placed::new(layout(&[rows, columns], &[1, rows as isize]), 0);
        let plain = Placed::new(contiguous(&[rows, columns]), 0);
        let (plan, _) = bench.copies(&turned, &plain);
        assert_eq!(matches!(plan.algorithm, Algorithm::Tiles(_)), rows.min(columns) == 16, "{plan:?}");
    }
}

#[test]
fn narrow_elements_turn_by_words_where_they_are_aligned() {
    let device = device();
    let shapes =
        [(128, 128, 0, 0), (256, 160, 0, 0), (132, 260, 4, 0), (130, 300, 3, 0), (200, 140, 0, 1), (64, 64, 0, 2)];
    for dtype in [Dtype::U8, Dtype::U16, Dtype::U32, Dtype::U64] {
        let bytes = dtype.bytes() as usize;
        let two = Source::one::<u64>(dtype).zip(Source::one::<u64>(dtype)).map(|(x, y)| x * 3 + y);
        let map = Map::new("turn", two, Sink::one::<u64>(dtype));
        for (rows, columns, gap, first) in shapes {
            let pitch = rows + gap;
            let memory =
                |seed: usize| -> Vec<u64> { (0..columns * pitch + 8).map(|i| scattered(i + seed).into()).collect() };
            let bytes_of =
                |x: &[u64]| -> Vec<u8> { x.iter().flat_map(|x| x.to_le_bytes()[..bytes].to_vec()).collect() };
            let (x, y) = (memory(0), memory(1000));
            let (turned, plain) = (layout(&[rows, columns], &[1, pitch as isize]), contiguous(&[rows, columns]));
            let (a, b) = (device.upload(&bytes_of(&x)).unwrap(), device.upload(&bytes_of(&y)).unwrap());
            let mut output = device.alloc::<u8>(rows * columns * bytes).unwrap();
            for (other, is_row) in [(plain.clone(), false), (contiguous(&[columns]), true)] {
                let (from, and) = (a.view(first * bytes..).unwrap(), b.as_view());
                let addresses = [from.address(), and.address(), output.address()];
                let problem = problem(&map, &[&turned, &other], &[&plain], &addresses);
                let plan = problem.choose().unwrap();
                let Algorithm::Tiles(tiles) = &plan.algorithm else { panic!("{plan:?}") };
                let are_words = [pitch, columns, first].iter().all(|n| (n * bytes).is_multiple_of(4));
                assert_eq!(
                    tiles.vector,
                    if are_words && (rows * bytes).is_multiple_of(4) && bytes < 4 { 4 / bytes as u32 } else { 1 },
                    "{plan:?}"
                );
                launch(&device, &map, &problem, &[Some(from), Some(and)], &mut [output.as_view_mut()]);
                for report in device.take_reports() {
                    assert!(report.report.findings.is_empty(), "{plan:?}: {:?}", report.report.findings);
                }
                let expected = |i: usize| {
                    let (row, column) = (i / columns, i % columns);
                    let y = y[if is_row { column } else { i }];
                    x[first + column * pitch + row].wrapping_mul(3).wrapping_add(y)
                };
                let expected: Vec<u64> = (0..rows * columns).map(expected).collect();
                assert!(output.download().unwrap() == bytes_of(&expected), "{plan:?}");
            }
        }
    }
}

#[test]
fn tiles_of_any_type_and_number_fit_shared_memory() {
    let side = 1 << 14;
    let (turned, plain) = (layout(&[side, side], &[1, side as isize]), contiguous(&[side, side]));
    for dtype in [Dtype::U8, Dtype::F16, Dtype::F32, Dtype::F64] {
        for shift in [0, dtype.bytes()] {
            let one = || Source::one::<f64>(dtype);
            let most = |map: &Map, inputs: &[&Layout], addresses: &[u64]| {
                let (target, limits, kernels) =
                    (Target::new(Arch::SM_80, (7, 4)), Profile::A100.limits(), KernelCache::default());
                let planner = Planner::new(&target, &limits, &kernels);
                let plan = map.plan(&problem(map, inputs, &[&plain], addresses), &planner).unwrap();
                let built = plan.steps[0].kernel.build(&target).unwrap();
                assert!((1..=48 << 10).contains(&built.static_shared_bytes), "{dtype} {}", built.static_shared_bytes);
            };
            let map = Map::new("one", one(), Sink::one::<f64>(dtype));
            most(&map, &[&turned], &[shift, 0]);
            let two = Map::new("two", one().zip(one()).map(|(x, y)| x + y), Sink::one::<f64>(dtype));
            most(&two, &[&turned; 2], &[shift, 0, 0]);
            let three = one().zip(one()).zip(one()).map(|((x, y), z)| x + y + z);
            let three = Map::new("three", three, Sink::one::<f64>(dtype));
            most(&three, &[&turned; 3], &[shift, 0, 0, 0]);
        }
    }
}

#[test]
fn large_matrices_turn_in_large_tiles() {
    let bench = Bench::new();
    for (rows, columns) in [(64 * 32, 64 * 16), (64 * 32 - 3, 64 * 16 + 5)] {
        let turned = Placed::new(layout(&[rows, columns], &[1, rows as isize]), 0);
        let plain = Placed::new(contiguous(&[rows, columns]), 0);
        let (plan, counters) = bench.copies(&turned, &plain);
        assert!(matches!(&plan.algorithm, Algorithm::Tiles(tiles) if tiles.side == 64), "{plan:?}");
        assert_eq!(counters.shared_load_bank_conflicts + counters.shared_store_bank_conflicts, 0);
    }
}

#[test]
fn a_transpose_has_no_bank_conflicts_and_touches_each_sector_once() {
    let device = Device::virtual_gpu(Profile::H200);
    for dtype in [Dtype::U8, Dtype::F16, Dtype::F32, Dtype::F64] {
        let map = Map::new("turn", Source::one::<f64>(dtype), Sink::one::<f64>(dtype));
        let bytes = dtype.bytes() as usize;
        let input = device.upload(&vec![0_u8; 256 * 128 * bytes]).unwrap();
        let mut output = device.alloc::<u8>(256 * 128 * bytes).unwrap();
        let (turned, plain) = (layout(&[256, 128], &[1, 256]), contiguous(&[256, 128]));
        for (from, to) in [(&turned, &plain), (&plain, &turned)] {
            let problem = problem(&map, &[from], &[to], &[input.address(), output.address()]);
            launch(&device, &map, &problem, &[Some(input.as_view())], &mut [output.as_view_mut()]);
            let counters = device.take_reports()[0].report.counters;
            assert_eq!(counters.shared_load_bank_conflicts + counters.shared_store_bank_conflicts, 0, "{dtype}");
            let sectors = (256 * 128 * bytes / 32) as u64;
            assert_eq!((counters.global_load_sectors, counters.global_store_sectors), (sectors, sectors), "{dtype}");
            assert_eq!(counters.divergent_branches, 0, "{dtype}");
        }
    }
}
