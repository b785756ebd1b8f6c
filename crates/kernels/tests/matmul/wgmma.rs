//! Products by warpgroups: every tile, layout, type and end, around every boundary.

use warpfold_device::Device;
use warpfold_kernels::Dtype;
use warpfold_kernels::matmul::{Activation, Code, Epilogue, Matrix, Problem, Singles, WgmmaTile};

use crate::case::{self, Case};

/// On devices that have warpgroups' products.
fn on_every_device(test: impl Fn(&Device)) {
    case::on_every_device(|device| {
        if device.limits().has_wgmma {
            test(device);
        }
    });
}

#[track_caller]
fn check(device: &Device, tile: WgmmaTile, parts: u32, case: Case) {
    case::check(device, &Case { plan: Some((Code::Wgmma(tile), parts)), ..case });
}

/// Rows lie at multiples of 16 bytes, whatever their length.
fn padded(dtype: Dtype, columns: u64) -> Matrix {
    Matrix::rows(dtype, columns.next_multiple_of(16 / dtype.bytes()))
}

/// A problem with factors whose rows are padded.
fn problem(dtype: Dtype, to: Dtype, m: u64, n: u64, k: u64) -> Problem {
    // 8-bit and tf32 factors have steps of the sums side by side.
    let b = if dtype.bytes() == 2 { padded(dtype, n) } else { padded(dtype, k).transposed() };
    let (a, c) = (padded(dtype, k), padded(to, n));
    Problem { a, b, c, singles: Singles::Tf32, ..Problem::new(dtype, m, n, k) }
}

const SHAPES: [(u64, u64, u64); 8] = [
    (1, 1, 1),
    (1, 130, 7),
    (63, 65, 33),
    (64, 64, 64),
    (65, 129, 65),
    (128, 256, 128),
    (129, 260, 200),
    (300, 20, 70),
];

#[test]
fn every_tile_is_exact_at_every_boundary() {
    on_every_device(|device| {
        for (m, n, k) in SHAPES {
            for tile in WgmmaTile::ALL {
                check(device, tile, 1, Case::of(problem(Dtype::Bf16, Dtype::F32, m, n, k)));
            }
        }
    });
}

#[test]
fn factors_of_halves_lie_either_way() {
    on_every_device(|device| {
        for (m, n, k) in [(100, 140, 72), (129, 65, 130)] {
            let plain = problem(Dtype::F16, Dtype::F32, m, n, k);
            let (at, bt) = (padded(Dtype::F16, m).transposed(), padded(Dtype::F16, k).transposed());
            for (a, b) in [(plain.a, plain.b), (plain.a, bt), (at, plain.b), (at, bt)] {
                for tile in [WgmmaTile::LARGE, WgmmaTile::MEDIUM, WgmmaTile::FLAT] {
                    check(device, tile, 1, Case::of(Problem { a, b, ..plain.clone() }));
                }
            }
        }
    });
}

#[test]
fn every_type_has_its_products() {
    on_every_device(|device| {
        let types = [
            (Dtype::F16, Dtype::F16),
            (Dtype::Bf16, Dtype::Bf16),
            (Dtype::Bf16, Dtype::F16),
            (Dtype::F32, Dtype::F32),
            (Dtype::F8E4M3, Dtype::F32),
            (Dtype::F8E5M2, Dtype::Bf16),
            (Dtype::I8, Dtype::I32),
            (Dtype::U8, Dtype::I32),
        ];
        for (from, to) in types {
            for tile in [WgmmaTile::MEDIUM, WgmmaTile::SMALL] {
                for (m, n, k) in [(70, 136, 300), (5, 9, 31)] {
                    check(device, tile, 1, Case::of(problem(from, to, m, n, k)));
                }
            }
        }
        check(device, WgmmaTile::WIDE, 1, Case::of(problem(Dtype::F8E4M3, Dtype::Bf16, 70, 200, 300)));
    });
}

#[test]
fn results_of_halves_are_stored_by_copies_or_one_by_one() {
    on_every_device(|device| {
        for tile in WgmmaTile::ALL {
            let copied = problem(Dtype::Bf16, Dtype::Bf16, 200, 300, 64);
            check(device, tile, 1, Case::of(copied.clone()));
            // Rows that begin anywhere.
            check(device, tile, 1, Case::of(Problem { c: Matrix::rows(Dtype::Bf16, 301), n: 301, ..copied }));
        }
    });
}

#[test]
fn sums_may_be_split_into_parts() {
    on_every_device(|device| {
        for parts in [2, 3, 7] {
            check(device, WgmmaTile::FLAT, parts, Case::of(problem(Dtype::Bf16, Dtype::Bf16, 33, 130, 600)));
            check(device, WgmmaTile::MEDIUM, parts, Case::of(problem(Dtype::F16, Dtype::F32, 130, 70, 449)));
        }
    });
}

#[test]
fn a_batch_has_three_dimensions_in_which_a_factor_may_repeat() {
    on_every_device(|device| {
        let (m, n, k) = (70, 72, 80);
        let plain = problem(Dtype::Bf16, Dtype::Bf16, m, n, k);
        let (mk, kn, mn) = ((m * k) as i64, (k * n) as i64, (m * n) as i64);
        let a = Matrix { batch_strides: [6 * mk, 2 * mk, mk], ..plain.a };
        let b = Matrix { batch_strides: [0, kn, 0], ..plain.b };
        let c = Matrix { batch_strides: [6 * mn, 2 * mn, mn], ..plain.c };
        for tile in [WgmmaTile::MEDIUM, WgmmaTile::SMALL] {
            check(device, tile, 1, Case::of(Problem { batch: [2, 3, 2], a, b, c, ..plain.clone() }));
        }
        check(device, WgmmaTile::FLAT, 2, Case::of(Problem { batch: [2, 3, 2], a, b, c, ..plain }));
    });
}

#[test]
fn an_epilogue_reads_its_inputs_inside_the_result_only() {
    on_every_device(|device| {
        for n in [72, 73] {
            let plain = problem(Dtype::Bf16, Dtype::Bf16, 70, n, 40);
            let bias = Matrix { row_stride: 0, ..Matrix::rows(Dtype::F32, n) };
            let residual = Matrix::rows(Dtype::Bf16, n);
            let epilogue = Epilogue::new().scale(0.5).add().activate(Activation::Relu).add();
            let finish = |sum: f64, more: &[f64]| (0.5 * sum + more[0]).max(0.0) + more[1];
            for tile in [WgmmaTile::MEDIUM, WgmmaTile::FLAT] {
                let problem = Problem { inputs: vec![bias, residual], ..plain.clone() };
                check(device, tile, 1, Case { epilogue: epilogue.clone(), finish, ..Case::of(problem) });
            }
        }
    });
}

#[test]
fn an_epilogue_multiplies_by_scales_of_rows_columns_and_all() {
    on_every_device(|device| {
        for (m, n, to) in [(70, 72, Dtype::Bf16), (65, 73, Dtype::F32)] {
            let plain = problem(Dtype::F8E4M3, to, m, n, 64);
            let columns = Matrix { row_stride: 0, ..Matrix::rows(Dtype::F32, n) };
            let rows = Matrix { row_stride: 1, column_stride: 0, ..columns };
            let one = Matrix { column_stride: 0, ..columns };
            let epilogue = Epilogue::new().multiply().multiply().add().multiply();
            let finish = |sum: f64, more: &[f64]| (sum * more[0] * more[1] + more[2]) * more[3];
            for (tile, parts) in [(WgmmaTile::MEDIUM, 1), (WgmmaTile::FLAT, 2)] {
                let problem = Problem { inputs: vec![rows, columns, columns, one], ..plain.clone() };
                check(device, tile, parts, Case { epilogue: epilogue.clone(), finish, ..Case::of(problem) });
            }
        }
    });
}

#[test]
fn plans_take_tensor_cores_where_they_can() {
    on_every_device(|device| {
        for (m, n, k) in [(1, 4096, 4096), (256, 512, 64), (40, 40, 40)] {
            case::check(device, &Case::of(problem(Dtype::Bf16, Dtype::Bf16, m.min(64), n.min(512), k.min(512))));
        }
    });
}
