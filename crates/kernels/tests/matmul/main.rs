//! Products of matrices, on every device at hand and under every check: layouts, batches, splits,
//! types, epilogues.

mod case;
mod gate;
mod mma;
mod quantized;
mod tree;
mod wgmma;

use case::{Case, check, choose, on_every_device};
use warpfold_device::{Device, Profile};
use warpfold_kernels::matmul::{Activation, Algorithm, BatchInvariance, Epilogue, Matmul, Matrix, Problem, Tile};
use warpfold_kernels::plan::{Family, Workspace};
use warpfold_kernels::{Dtype, ErrorKind};

const SHAPES: [(u64, u64, u64); 13] = [
    (1, 1, 1),
    (1, 130, 7),
    (130, 1, 16),
    (16, 128, 16),
    (17, 129, 15),
    (63, 65, 33),
    (64, 64, 16),
    (128, 256, 8),
    (129, 260, 20),
    (5, 7, 300),
    (3, 4, 0),
    (0, 4, 3),
    (4, 0, 3),
];

#[test]
fn every_tile_is_exact_at_every_boundary() {
    on_every_device(|device| {
        for (m, n, k) in SHAPES {
            for tile in Tile::ALL {
                let algorithm = Some((Algorithm::Simt(tile), 1));
                check(device, &Case { algorithm, ..Case::of(Problem::new(Dtype::F32, m, n, k)) });
            }
            check(device, &Case::of(Problem::new(Dtype::F32, m, n, k)));
        }
    });
}

#[test]
fn either_matrix_may_lie_transposed_strided_or_reversed() {
    on_every_device(|device| {
        for (m, n, k) in [(20, 36, 28), (33, 35, 31), (64, 64, 64)] {
            let plain = Problem::new(Dtype::F32, m, n, k);
            let (at, bt) = (Matrix::rows(Dtype::F32, m).transposed(), Matrix::rows(Dtype::F32, k).transposed());
            for (a, b) in [(plain.a, bt), (at, plain.b), (at, bt)] {
                check(device, &Case::of(Problem { a, b, ..plain.clone() }));
            }
            // Every second column of rows in reverse order, into every third element.
            let a = Matrix { row_stride: -(2 * k as i64), column_stride: 2, ..plain.a };
            let c = Matrix { row_stride: 3 * n as i64, column_stride: 3, ..plain.c };
            check(device, &Case::of(Problem { a, c, ..plain.clone() }));
            // Not at a multiple of 16 bytes.
            let a = Matrix { alignment: 4, ..plain.a };
            let c = Matrix { alignment: 4, ..plain.c };
            check(device, &Case::of(Problem { a, c, ..plain }));
        }
    });
}

#[test]
fn a_batch_has_three_dimensions_in_which_a_matrix_may_repeat() {
    on_every_device(|device| {
        let (m, n, k) = (9, 12, 20);
        let plain = Problem::new(Dtype::F32, m, n, k);
        let batch = [2, 3, 2];
        let (mk, kn, mn) = ((m * k) as i64, (k * n) as i64, (m * n) as i64);
        let a = plain.a.in_batch([6 * mk, 2 * mk, mk]);
        let b = plain.b.in_batch([0, kn, 0]);
        let c = plain.c.in_batch([6 * mn, 2 * mn, mn]);
        check(device, &Case::of(Problem { a, b, c, ..plain.clone() }.in_batch(batch)));
        check(
            device,
            &Case {
                algorithm: Some((Algorithm::Simt(Tile::SMALL), 2)),
                ..Case::of(Problem { a, b, c, ..plain.clone() }.in_batch(batch))
            },
        );
        check(device, &Case::of(plain.in_batch([2, 0, 1])));
    });
}

#[test]
fn matrices_of_a_batch_of_more_dimensions_are_repacked() {
    on_every_device(|device| {
        let (m, n, k) = (9, 12, 20);
        let plain = Problem::new(Dtype::F32, m, n, k);
        let (mk, kn, mn) = ((m * k) as i64, (k * n) as i64, (m * n) as i64);
        // No two dimensions are walked like one by both factors, one of which goes backwards.
        let (a, b) = (plain.a.in_batch([0, mk, 0, 2 * mk]), plain.b.in_batch([kn, 0, -2 * kn, 0]));
        let c = plain.c.in_batch([12 * mn, 6 * mn, 2 * mn, mn]);
        let bias = Matrix { row_stride: 0, batch_strides: a.batch_strides.map(|stride| stride.min(1)), ..plain.c };
        for (input, launches) in [(c, 3), (bias, 4)] {
            let epilogue = Epilogue::new().add();
            let problem = Problem { a, b, c, inputs: vec![input], epilogue, ..plain.clone() }.in_batch([2, 2, 3, 2]);
            let finish = |sum: f64, more: &[f64]| sum + more[0];
            let counters = check(device, &Case { problem, algorithm: None, finish });
            assert!(!device.is_virtual() || counters.len() == launches, "{} launches", counters.len());
        }
    });
}

#[test]
fn sums_may_be_split_into_parts() {
    on_every_device(|device| {
        for (m, n, k) in [(5, 8, 300), (33, 35, 129), (16, 128, 64), (2, 2, 3)] {
            for (tile, parts) in [(Tile::FLAT, 3), (Tile::SMALL, 4), (Tile::MEDIUM, 2), (Tile::LARGE, 64)] {
                let algorithm = Some((Algorithm::Simt(tile), parts));
                check(device, &Case { algorithm, ..Case::of(Problem::new(Dtype::F32, m, n, k)) });
            }
        }
    });
}

#[test]
fn other_types_are_added_up_in_theirs() {
    on_every_device(|device| {
        for (from, to) in [
            (Dtype::F16, Dtype::F32),
            (Dtype::Bf16, Dtype::F32),
            (Dtype::F64, Dtype::F64),
            (Dtype::I32, Dtype::I32),
            (Dtype::I8, Dtype::I32),
            (Dtype::F32, Dtype::F64),
        ] {
            for (m, n, k) in [(20, 36, 24), (7, 9, 11)] {
                let plain = Problem::new(from, m, n, k);
                let c = Matrix::rows(to, n);
                check(device, &Case::of(Problem { c, ..plain.clone() }));
                let (a, b) = (Matrix::rows(from, m).transposed(), Matrix::rows(from, k).transposed());
                check(device, &Case::of(Problem { a, b, c, ..plain }));
            }
        }
    });
}

#[test]
fn an_epilogue_scales_adds_activates_and_adds_again() {
    on_every_device(|device| {
        let (m, n, k) = (18, 20, 12);
        let plain = Problem::new(Dtype::F32, m, n, k);
        let column = Matrix { row_stride: 0, ..plain.c };
        let row = Matrix { row_stride: 1, column_stride: 0, ..plain.c };
        let epilogue = Epilogue::new().scale(0.5).add().activate(Activation::Relu).add_scaled(-2.0);
        let finish = |sum: f64, more: &[f64]| (0.5 * sum + more[0]).max(0.0) - 2.0 * more[1];
        for bias in [column, row, Matrix { dtype: Dtype::Bf16, ..column }] {
            for algorithm in [None, Some((Algorithm::Simt(Tile::SMALL), 2))] {
                let (inputs, epilogue) = (vec![bias, plain.c], epilogue.clone());
                let problem = Problem { inputs, epilogue, ..plain.clone() };
                check(device, &Case { problem, algorithm, finish });
            }
        }
    });
}

#[test]
fn an_epilogue_may_be_a_function_of_ones_own() {
    on_every_device(|device| {
        let (m, n, k) = (18, 21, 12);
        let plain = Problem::new(Dtype::F32, m, n, k);
        let epilogue = Epilogue::new()
            .with_inputs(1)
            .apply("gate", |x, at, inputs| at.column.le(at.row).select(x * inputs[0], at.batch.cast::<f32>()));
        // On the diagonal and below; the host's function does not know the place, so both sides are
        // tried apart.
        for (m, finish) in [(1, (|_, _| 0.0) as fn(f64, &[f64]) -> f64), (m, |sum, more| sum * more[0])] {
            let n = if m == 1 { n } else { 1 };
            let problem = Problem::new(Dtype::F32, m, n, k);
            if m == 1 {
                // Column 0 is on the diagonal: leave it out.
                let b = Matrix { alignment: 4, ..plain.b };
                let c = Matrix { alignment: 4, ..plain.c };
                let shifted = Epilogue::new().with_inputs(1).apply("gate_shifted", |x, at, inputs| {
                    (at.column + 1).le(at.row).select(x * inputs[0], at.batch.cast::<f32>())
                });
                let problem = Problem { b, c, inputs: vec![problem.c], epilogue: shifted, n: n - 1, ..problem };
                check(device, &Case { problem, algorithm: None, finish });
            } else {
                let problem = Problem { inputs: vec![problem.c], epilogue: epilogue.clone(), ..problem };
                check(device, &Case { problem, algorithm: None, finish });
            }
        }
    });
}

/// The rows of a product of arbitrary floats, as bits.
fn bits(device: &Device, rows: u64, mode: BatchInvariance) -> Vec<u32> {
    let (n, k) = (40, 2000);
    let problem = Problem { batch_invariance: mode, ..Problem::new(Dtype::F32, rows, n, k) };
    let float = |i: u64| ((i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f32 / 16_777_216.0).sin();
    let a: Vec<u8> = (0..rows * k).flat_map(|i| float(i).to_le_bytes()).collect();
    let b: Vec<u8> = (0..k * n).flat_map(|i| float(i + 77).to_le_bytes()).collect();
    let (a, b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
    let mut c = device.alloc::<u8>((rows * n * 4) as usize).unwrap();
    let inputs = [Some(a.as_view()), Some(b.as_view())];
    let ready = Matmul.ready(device, &problem).unwrap();
    ready.launch(&device.default_stream(), &inputs, &mut [c.as_view_mut()], &mut Workspace::new()).unwrap();
    c.download().unwrap().chunks(4).map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

#[test]
fn the_bits_of_a_row_do_not_depend_on_the_rows_beside_it_where_that_is_asked_for() {
    on_every_device(|device| {
        let many = bits(device, 200, BatchInvariance::On);
        for rows in [1, 16, 65] {
            let few = bits(device, rows, BatchInvariance::On);
            assert_eq!(few, many[..few.len()], "{rows} rows");
            assert_eq!(bits(device, rows, BatchInvariance::Off), bits(device, rows, BatchInvariance::Off));
        }
        assert_ne!(
            bits(device, 1, BatchInvariance::Off),
            many[..40],
            "a split changes bits, or this test shows nothing"
        );
    });
}

#[track_caller]
fn refused(problem: Problem, epilogue: Epilogue) -> ErrorKind {
    let device = Device::virtual_gpu(Profile::H200);
    choose(&device, Problem { epilogue, ..problem }).unwrap_err().kind().clone()
}

#[test]
fn what_no_kernel_does_is_refused() {
    let of = |dtype| Problem::new(dtype, 4, 4, 4);
    assert!(matches!(refused(of(Dtype::Bool), Epilogue::new()), ErrorKind::Unsupported { .. }));
    let mixed = Problem { b: Matrix::rows(Dtype::F16, 4), ..of(Dtype::F32) };
    assert!(matches!(refused(mixed, Epilogue::new()), ErrorKind::DtypeMismatch { .. }));
    assert!(matches!(refused(of(Dtype::F32), Epilogue::new().add()), ErrorKind::Operand { .. }));
    let gelu = Epilogue::new().activate(Activation::Gelu);
    assert!(matches!(refused(of(Dtype::I32), gelu), ErrorKind::Unsupported { .. }));
    assert!(matches!(refused(of(Dtype::I32), Epilogue::new().multiply()), ErrorKind::Unsupported { .. }));
    for (epilogue, name) in [
        (Epilogue::new().scale(0.5), "alpha"),
        (Epilogue::new().scale(2.0).add().add_scaled(f64::INFINITY), "beta"),
        (Epilogue::new().add_scaled(-1.5).scale(2.0), "beta"),
    ] {
        let kind = refused(of(Dtype::I8), epilogue);
        assert!(matches!(kind, ErrorKind::OptionOutOfRange { option, .. } if option == name), "{kind:?}");
    }
    let own = Epilogue::new().apply("twice", |x, _, _| x * 2.0);
    assert!(matches!(refused(of(Dtype::F64), own), ErrorKind::Unsupported { .. }));
    let huge = Problem { m: 1 << 40, ..of(Dtype::F32) };
    assert!(matches!(refused(huge, Epilogue::new()), ErrorKind::Operand { .. }));
}
