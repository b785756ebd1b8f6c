//! Products whose parts of K are added in a balanced tree: one set of bits, however many parts a
//! launch has, with every tile and every number of rows.

use half::bf16;
use warpfold_device::{Device, Profile};
use warpfold_kernels::matmul::{Algorithm, BatchInvariance, Epilogue, Matmul, Matrix, Problem, WgmmaTile};
use warpfold_kernels::plan::{Family, KernelCache, Planner, Workspace};
use warpfold_kernels::{Dtype, ErrorKind};

use crate::matmul::case::{Case, check, checked, choose, choose_with, on_every_device, on_every_device_and};

/// `rows` of `a` times weights that lie as `[n, k]`, of halves unless said.
fn problem(rows: u64, n: u64, k: u64, parts: u64) -> Problem {
    Problem {
        b: Matrix::rows(Dtype::Bf16, k).transposed(),
        c: Matrix::rows(Dtype::F32, n),
        batch_invariance: BatchInvariance::On,
        k_parts: parts,
        ..Problem::new(Dtype::Bf16, rows, n, k)
    }
}

fn float(i: u64) -> f32 {
    ((i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f32 / 16_777_216.0).sin()
}

/// The bits of the result for elements that depend on their places alone, of the columns of `a` and
/// rows of `b` from `first` on.
fn bits(device: &Device, problem: &Problem, algorithm: Option<(Algorithm, u32)>, whole_k: u64, first: u64) -> Vec<u32> {
    let Problem { m, n, k, a, .. } = *problem;
    let bytes = |line: u64, step: u64, seed: u64| {
        let value = float((line * whole_k + first + step) * 2 + seed);
        if a.dtype == Dtype::F32 { value.to_le_bytes().to_vec() } else { bf16::from_f32(value).to_le_bytes().to_vec() }
    };
    let matrix = |lines: u64, seed: u64| -> Vec<u8> {
        (0..lines).flat_map(|line| (0..k).flat_map(move |step| bytes(line, step, seed))).collect()
    };
    let (left, right) = (device.upload(&matrix(m, 0)).unwrap(), device.upload(&matrix(n, 1)).unwrap());
    let mut result = device.alloc::<u8>((m * n * 4) as usize).unwrap();
    let (target, kernels) = (device.target(), KernelCache::default());
    let planner = Planner::new(&target, device.limits(), &kernels);
    let plan = match algorithm {
        None => Matmul.plan(problem, &planner),
        Some(algorithm) => Matmul.plan_with(&choose_with(device, problem.clone(), algorithm).unwrap(), &planner),
    };
    let ready = plan.unwrap().ready(device).unwrap();
    let inputs = [Some(left.as_view()), Some(right.as_view())];
    ready.launch(&device.default_stream(), &inputs, &mut [result.as_view_mut()], &mut Workspace::new()).unwrap();
    for launch in device.take_reports() {
        assert!(launch.report.findings.is_empty(), "{}: {:?}", ready.plan(), launch.report.findings);
    }
    result.download().unwrap().chunks(4).map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

/// The tree of the products of each part by itself.
fn expected(device: &Device, whole: &Problem) -> Vec<u32> {
    let part = whole.k / whole.k_parts;
    let of = |i: u64| {
        let (a, b) = (Matrix::rows(whole.a.dtype, part), Matrix::rows(whole.a.dtype, part).transposed());
        bits(device, &Problem { k: part, k_parts: 1, a, b, ..whole.clone() }, None, whole.k, i * part)
    };
    let mut sums: Vec<Vec<f32>> = (0..whole.k_parts).map(|i| of(i).into_iter().map(f32::from_bits).collect()).collect();
    while sums.len() > 1 {
        sums = sums.chunks(2).map(|pair| pair[0].iter().zip(&pair[1]).map(|(a, b)| a + b).collect()).collect();
    }
    sums.remove(0).into_iter().map(f32::to_bits).collect()
}

#[test]
fn the_parts_of_k_are_one_tree_in_every_tile() {
    on_every_device(|device| {
        for parts in [2, 8] {
            let whole = problem(130, 136, 1024, parts);
            let expected = expected(device, &whole);
            assert_ne!(expected, bits(device, &Problem { k_parts: 1, ..whole.clone() }, None, 1024, 0), "a chain");
            let few = WgmmaTile::few_rows([136, 1024, 1024], 2, 132, 8);
            let wave = WgmmaTile::wave(128, 96 * 132, 132, 16);
            let own = [few, WgmmaTile::DEEP, WgmmaTile::DEEP_APART, WgmmaTile::APART_NARROW, wave];
            let tiles: Vec<_> = WgmmaTile::ALL.into_iter().chain(WgmmaTile::OF_TREES).chain(own).collect();
            let mut tried = 0;
            for tile in tiles {
                let algorithm = (Algorithm::Wgmma(tile), tile.split);
                if choose_with(device, whole.clone(), algorithm).is_ok() {
                    assert_eq!(bits(device, &whole, Some(algorithm), 1024, 0), expected, "{parts} parts by {tile}");
                    tried += 1;
                }
            }
            assert!(tried >= 8, "{parts} parts by {tried} tiles");
            for rows in [1, 8, 9, 64, 65, 128, 129] {
                let few = bits(device, &Problem { m: rows, ..whole.clone() }, None, 1024, 0);
                assert_eq!(few, expected[..few.len()], "{parts} parts of {rows} rows");
            }
        }
    });
}

#[test]
fn parts_that_are_no_whole_stages_are_one_tree_in_every_tile() {
    on_every_device(|device| {
        // Stages are of 64 or more, parts of 72 and 88.
        for whole in [problem(70, 136, 576, 8), problem(70, 136, 352, 4)] {
            let expected = expected(device, &whole);
            let few = WgmmaTile::few_rows([136, whole.k / whole.k_parts, whole.k], 2, 132, 8);
            let own = [few, WgmmaTile::DEEP, WgmmaTile::APART_NARROW];
            let mut tried = 0;
            for tile in WgmmaTile::ALL.into_iter().chain(WgmmaTile::OF_TREES).chain(own) {
                let choice = choose_with(device, whole.clone(), (Algorithm::Wgmma(tile), tile.split));
                if choice.is_ok_and(|choice| choice.launch().is_some()) {
                    let found = bits(device, &whole, Some((Algorithm::Wgmma(tile), tile.split)), whole.k, 0);
                    assert_eq!(found, expected, "{whole} by {tile}");
                    tried += 1;
                }
            }
            assert!(tried >= 3, "{whole} by {tried} tiles");
            let choice = choose(device, whole.clone()).unwrap();
            assert!(matches!(choice.algorithm, Algorithm::Wgmma(_)), "{choice}");
        }
    });
}

#[test]
fn parts_that_no_kernel_adds_by_itself_are_added_by_a_second_launch() {
    // Parts of 9 no TMA loads; CUDA cores; `mma.sync`. Parts of 72 come as a batch.
    on_every_device(|device| {
        for whole in [problem(5, 40, 576, 8), problem(70, 24, 72, 8), problem(3, 8, 256, 4)] {
            assert_eq!(bits(device, &whole, None, whole.k, 0), expected(device, &whole), "{whole}");
        }
        let rows = Matrix::rows(Dtype::F32, 96);
        let whole = Problem { a: rows, b: rows.transposed(), ..problem(9, 20, 96, 4) };
        assert_eq!(bits(device, &whole, None, 96, 0), expected(device, &whole), "{whole}");
    });
    let device = checked(Profile::A100);
    let whole = problem(70, 40, 512, 8);
    assert_eq!(bits(&device, &whole, None, 512, 0), expected(&device, &whole));
    on_every_device_and(Profile::H200, |device| {
        let half = |first| bits(device, &problem(5, 40, 288, 4), None, 576, first);
        let sums = half(0).into_iter().zip(half(288)).map(|(a, b)| (f32::from_bits(a) + f32::from_bits(b)).to_bits());
        assert_eq!(sums.collect::<Vec<_>>(), bits(device, &problem(5, 40, 576, 8), None, 576, 0), "two halves");
    });
}

#[test]
fn what_follows_the_sums_follows_their_tree() {
    on_every_device(|device| {
        // By one launch and by two; of few rows, of a cluster that shares a tile, of large ones.
        for (m, n, k, parts) in [(3, 72, 576, 8), (3, 72, 512, 8), (136, 264, 512, 8), (300, 1032, 256, 4)] {
            let c = Matrix::rows(Dtype::Bf16, n);
            let bias = Matrix { row_stride: 0, ..Matrix::rows(Dtype::F32, n) };
            let epilogue = Epilogue::new().add().add();
            let problem = Problem { c, inputs: vec![bias, c], epilogue, ..problem(m, n, k, parts) };
            check(device, &Case { problem, algorithm: None, finish: |sum, more| sum + more[0] + more[1] });
        }
        let empty = Problem { m: 0, ..problem(1, 8, 64, 8) };
        check(device, &Case::of(empty));
    });
}

#[test]
fn a_tree_takes_tiles_with_room_for_it() {
    let device = checked(Profile::H200);
    for (rows, tile) in [(256, WgmmaTile::SHARED_TREE), (8192, WgmmaTile::ALONE_TREE)] {
        let choice = choose(&device, problem(rows, 4096, 12_288, 8)).unwrap();
        assert_eq!(choice.algorithm, Algorithm::Wgmma(tile), "{choice}");
    }
    // Parts of six panels: a stage has two.
    let choice = choose(&device, Problem { weights: true, ..problem(1, 1024, 3072, 8) }).unwrap();
    assert!(matches!(choice.algorithm, Algorithm::Wgmma(WgmmaTile { eight_rows: true, panels: 2, .. })), "{choice}");
}

#[test]
fn parts_that_are_no_tree_are_refused() {
    let device = checked(Profile::H200);
    for (k, parts) in [(1024, 0), (1024, 3), (1024, 16), (1020, 8)] {
        let refused = choose(&device, problem(4, 64, k, parts)).unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::Operand { .. }), "{refused}");
    }
    // Parts of parts would have another order, and parts of half a stage no kernel.
    for (tile, num_parts) in [(WgmmaTile::FLAT, 2), (WgmmaTile { panels: 2, ..WgmmaTile::SMALL }, 1)] {
        let algorithm = (Algorithm::Wgmma(tile), num_parts);
        let refused = choose_with(&device, problem(4, 64, 512, 8), algorithm).unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::Operand { .. }), "{refused}");
    }
    let choice = choose(&device, problem(4, 64, 1024, 8)).unwrap();
    assert!(choice.to_string().contains("8 parts of k in a tree"), "{choice}");
}
