//! Products by `mma.sync`, on tensor cores of every architecture: every tile, layout, type and end,
//! around every boundary.

use warpfold_device::{Counters, Device, Profile};
use warpfold_kernels::Dtype;
use warpfold_kernels::matmul::{Activation, Algorithm, Epilogue, F32Math, Matrix, MmaTile, Problem};

use crate::matmul::case::{self, Case, checked, choose};

/// On an A100 instead of an H200, which multiplies by WGMMA.
fn on_every_device(test: impl Fn(&Device)) {
    case::on_every_device_and(Profile::A100, test);
}

#[track_caller]
fn check(device: &Device, tile: MmaTile, parts: u32, case: Case) -> Vec<Counters> {
    case::check(device, &Case { algorithm: Some((Algorithm::Mma(tile), parts)), ..case })
}

/// Rows at multiples of this many bytes, whatever their length.
fn padded(dtype: Dtype, columns: u64, bytes: u64) -> Matrix {
    Matrix::rows(dtype, columns.next_multiple_of(bytes / dtype.bytes()))
}

/// A problem with factors whose rows are padded so.
fn problem_of(bytes: u64, [dtype, to]: [Dtype; 2], (m, n, k): (u64, u64, u64)) -> Problem {
    let b = padded(dtype, k, bytes).transposed();
    let a = padded(dtype, k, bytes);
    Problem { a, b, c: Matrix::rows(to, n), f32_math: F32Math::Tf32, ..Problem::new(dtype, m, n, k) }
}

fn problem(dtype: Dtype, to: Dtype, shape: (u64, u64, u64)) -> Problem {
    problem_of(16, [dtype, to], shape)
}

const SHAPES: [(u64, u64, u64); 8] = [
    (1, 1, 1),
    (1, 130, 7),
    (63, 65, 33),
    (64, 64, 64),
    (17, 129, 65),
    (128, 256, 128),
    (129, 260, 200),
    (300, 20, 70),
];

#[test]
fn every_tile_is_exact_at_every_boundary() {
    on_every_device(|device| {
        for shape in SHAPES {
            for tile in MmaTile::ALL {
                check(device, tile, 1, Case::of(problem(Dtype::Bf16, Dtype::F32, shape)));
            }
        }
    });
}

#[test]
fn factors_of_halves_lie_either_way_and_come_in_pieces_as_large_as_they_allow() {
    on_every_device(|device| {
        for (shape, bytes) in [((100, 140, 72), 16), ((129, 65, 34), 8), ((33, 259, 70), 4)] {
            let (m, n, _) = shape;
            let plain = problem_of(bytes, [Dtype::F16, Dtype::F32], shape);
            let (at, b) = (padded(Dtype::F16, m, bytes).transposed(), padded(Dtype::F16, n, bytes));
            for (a, b) in [(plain.a, b), (at, plain.b), (at, b)] {
                for tile in [MmaTile::LARGE, MmaTile::SMALL, MmaTile::FLAT] {
                    check(device, tile, 1, Case::of(Problem { a, b, ..plain.clone() }));
                }
            }
        }
    });
}

#[test]
fn neither_copies_nor_fragments_of_a_tile_meet_in_a_bank() {
    let device = checked(Profile::A100);
    let (m, n, k) = (128, 256, 128);
    let plain = problem(Dtype::Bf16, Dtype::F32, (m, n, k));
    let turned =
        Problem { a: Matrix::rows(Dtype::Bf16, m).transposed(), b: Matrix::rows(Dtype::Bf16, n), ..plain.clone() };
    let bytes = problem(Dtype::I8, Dtype::I32, (m, n, k));
    for problem in [plain, turned, bytes] {
        for tile in MmaTile::ALL {
            let [counters] = check(&device, tile, 1, Case::of(problem.clone()))[..] else { panic!("a launch") };
            assert!(counters.shared_load_requests > 0);
            assert_eq!(
                counters.shared_load_bank_conflicts + counters.shared_store_bank_conflicts,
                0,
                "{tile}: {problem}"
            );
        }
    }
}

#[test]
fn every_type_has_its_products() {
    on_every_device(|device| {
        let types = [
            [Dtype::F16, Dtype::F16],
            [Dtype::Bf16, Dtype::Bf16],
            [Dtype::F32, Dtype::F32],
            [Dtype::I8, Dtype::I32],
            [Dtype::U8, Dtype::I32],
        ];
        for types in types {
            for (tile, bytes) in [(MmaTile::MEDIUM, 16), (MmaTile::SMALL, 4)] {
                for shape in [(70, 136, 300), (5, 9, 31)] {
                    check(device, tile, 1, Case::of(problem_of(bytes, types, shape)));
                }
            }
        }
    });
}

#[test]
fn sums_may_be_split_into_parts() {
    on_every_device(|device| {
        for parts in [2, 3, 7] {
            check(device, MmaTile::FLAT, parts, Case::of(problem(Dtype::Bf16, Dtype::Bf16, (33, 130, 600))));
            check(device, MmaTile::MEDIUM, parts, Case::of(problem(Dtype::F16, Dtype::F32, (130, 70, 449))));
        }
    });
}

#[test]
fn a_batch_has_three_dimensions_in_which_a_factor_may_repeat_or_go_backwards() {
    on_every_device(|device| {
        let (m, n, k) = (34, 72, 80);
        let plain = problem(Dtype::Bf16, Dtype::Bf16, (m, n, k));
        let (mk, kn, mn) = ((m * k) as i64, (k * n) as i64, (m * n) as i64);
        let a = plain.a.in_batch([6 * mk, 2 * mk, -mk]);
        let b = plain.b.in_batch([0, kn, 0]);
        let c = plain.c.in_batch([6 * mn, 2 * mn, mn]);
        check(device, MmaTile::SMALL, 1, Case::of(Problem { a, b, c, ..plain.clone() }.in_batch([2, 3, 2])));
        check(device, MmaTile::FLAT, 2, Case::of(Problem { a, b, c, ..plain }.in_batch([2, 3, 2])));
    });
}

#[test]
fn an_epilogue_reads_its_inputs_inside_the_result_only() {
    on_every_device(|device| {
        for n in [72, 73] {
            let plain = problem(Dtype::Bf16, Dtype::Bf16, (70, n, 40));
            let bias = Matrix { row_stride: 0, ..Matrix::rows(Dtype::F32, n) };
            let residual = Matrix::rows(Dtype::Bf16, n);
            let epilogue = Epilogue::new().scale(0.5).add().activate(Activation::Relu).add();
            let finish = |sum: f64, more: &[f64]| (0.5 * sum + more[0]).max(0.0) + more[1];
            let problem = Problem { inputs: vec![bias, residual], epilogue, ..plain };
            check(device, MmaTile::MEDIUM, 1, Case { finish, ..Case::of(problem) });
        }
    });
}

#[test]
fn plans_take_warps_where_there_are_no_warpgroups() {
    let (ampere, hopper) = (checked(Profile::A100), checked(Profile::H200));
    let code = |device: &Device, problem: Problem| choose(device, problem).unwrap().algorithm;
    let large = (4096, 4096, 4096);
    for dtype in [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::I8] {
        let problem = problem(dtype, if dtype == Dtype::I8 { Dtype::I32 } else { dtype }, large);
        assert!(matches!(code(&ampere, problem.clone()), Algorithm::Mma(_)), "{problem}");
        assert!(matches!(code(&hopper, problem.clone()), Algorithm::Wgmma(_)), "{problem}");
        // Rows that do not begin at multiples of 16 bytes.
        let odd = Problem { a: Matrix { row_stride: 4100, alignment: 4, ..problem.a }, ..problem };
        assert!(matches!(code(&hopper, odd.clone()), Algorithm::Mma(_)), "{odd}");
    }
    let full = Problem { f32_math: F32Math::Ieee, ..problem(Dtype::F32, Dtype::F32, large) };
    assert!(matches!(code(&ampere, full.clone()), Algorithm::Simt(_)), "{full}");
    // Elements of 8 bits with lines side by side, and rows that begin anywhere.
    let turned = Problem { b: Matrix::rows(Dtype::I8, 4096), ..problem(Dtype::I8, Dtype::I32, large) };
    assert!(matches!(code(&ampere, turned.clone()), Algorithm::Simt(_)), "{turned}");
    let anywhere = problem(Dtype::Bf16, Dtype::Bf16, large);
    let anywhere = Problem { a: Matrix { row_stride: 4097, ..anywhere.a }, ..anywhere };
    assert!(matches!(code(&ampere, anywhere.clone()), Algorithm::Simt(_)), "{anywhere}");
    for device in [&ampere, &hopper] {
        case::check(device, &Case::of(problem(Dtype::Bf16, Dtype::Bf16, (1, 512, 512))));
    }
}
