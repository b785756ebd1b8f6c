//! Products with weights of few bits: equal, bit by bit, to those with the weights as a matrix.

use half::{bf16, f16};
use warpfold_device::{Device, Profile};
use warpfold_kernels::matmul::quantized::{
    Dequantize, GatherProblem, GatherRows, Offset, PackedShape, Piece, Problem, Quantized, Scale, Scheme,
};
use warpfold_kernels::matmul::{self, Activation, BatchInvariance, Epilogue, Matmul, Matrix};
use warpfold_kernels::plan::{Family, KernelCache, Plan, Planner, Workspace};
use warpfold_kernels::{Dtype, ErrorKind};

use super::case::{checked, on_every_device};

const Q4_0: Scheme = Scheme::symmetric(4, 8);
const Q4_1: Scheme = Scheme { zero: 0, offset: Offset::Half, ..Q4_0 };
const Q4_K: Scheme = Scheme { zero: 0, scale: Scale::Byte, offset: Offset::Byte, ..Q4_0 };
const Q6_K: Scheme = Scheme { bits: 6, group: 16, zero: 32, scale: Scale::SignedByte, ..Q4_0 };

const IQ4: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
const E2M1: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Every way in which codes, scales and offsets are stored.
const SCHEMES: [Scheme; 16] = [
    Q4_0,
    Q4_1,
    Q4_K,
    Q6_K,
    Scheme::symmetric(8, 128),
    Scheme::symmetric(5, 16),
    Scheme { zero: 0, bits: 5, offset: Offset::Half, ..Q4_0 },
    Scheme { bits: 5, ..Q4_K },
    Scheme { bits: 2, group: 16, ..Q4_K },
    Scheme { bits: 3, zero: 4, ..Q6_K },
    Scheme { zero: 0, table: Some(IQ4), ..Q4_0 },
    Scheme { zero: 0, scale: Scale::SignedByte, table: Some(IQ4), ..Q4_0 },
    Scheme { zero: 0, scale: Scale::Exponent, table: Some(E2M1), ..Q4_0 },
    Scheme { group: 128, offset: Offset::Byte, ..Q4_0 },
    Scheme { zero: 0, group: 128, offset: Offset::Zero, ..Q4_0 },
    Scheme { bits: 8, zero: 0, offset: Offset::Zero, ..Q4_0 },
];

fn random(seed: u64) -> u64 {
    let x = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) >> 7
}

/// Some piece of a row.
fn fill(scheme: Scheme, row: usize, number: usize, piece: &mut Piece) {
    let word = |i: usize| random((row * 1_000_003 + number * 4099 + i) as u64);
    piece.codes = std::array::from_fn(|i| (word(i) % (1 << scheme.bits)) as u8);
    // Of many sizes, with and without a sign.
    let half = |i: usize, size: f32| f16::from_f32(size * (word(i) % 4096) as f32 / 4096.0 - size / 3.0).to_bits();
    piece.scales = std::array::from_fn(|i| match scheme.scale {
        Scale::Half => half(200 + i, 0.02),
        Scale::Byte => (word(200 + i) % 64) as u16,
        Scale::SignedByte => (word(200 + i) % 256) as u16,
        Scale::Exponent => (115 + word(200 + i) % 12) as u16,
    });
    piece.offsets = std::array::from_fn(|i| match scheme.offset {
        Offset::Half => half(300 + i, 0.3),
        _ => (word(300 + i) % 64) as u16,
    });
    piece.shared = [half(400, 0.003), half(401, 0.004)];
}

/// What a weight is, in `f32`, by its definition.
fn weight(scheme: Scheme, piece: &Piece, i: usize) -> f32 {
    let of_bits = |bits: u16| f16::from_bits(bits).to_f32();
    let group = i / scheme.group as usize;
    let [of_scales, of_offsets] = piece.shared.map(of_bits);
    let scale = match scheme.scale {
        Scale::Half => of_bits(piece.scales[group]),
        Scale::Byte => of_scales * f32::from(piece.scales[group] as u8),
        Scale::SignedByte => of_scales * f32::from(piece.scales[group] as i8),
        Scale::Exponent => 2_f32.powi(i32::from(piece.scales[group]) - 128),
    };
    let number = match scheme.table {
        Some(table) => f32::from(table[usize::from(piece.codes[i])]),
        None => f32::from(piece.codes[i]) - f32::from(scheme.zero),
    };
    match scheme.offset {
        Offset::None => scale * number,
        Offset::Half => scale * number + of_bits(piece.offsets[group]),
        Offset::Byte => scale * number - of_offsets * f32::from(piece.offsets[group] as u8),
        Offset::Zero => scale * (number - f32::from(piece.offsets[group] as u8)),
    }
}

fn encoded(dtype: Dtype, value: f32) -> Vec<u8> {
    match dtype {
        Dtype::F16 => f16::from_f32(value).to_le_bytes().to_vec(),
        Dtype::Bf16 => bf16::from_f32(value).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    }
}

/// The weights as kernels read them, and as a matrix.
fn weights(scheme: Scheme, shape: PackedShape, dtype: Dtype) -> [Vec<u8>; 2] {
    let packed = scheme.pack(shape, |row, number, piece| {
        assert!(number < (shape.columns as usize).div_ceil(Piece::LEN), "a row of {shape:?} has no piece {number}");
        fill(scheme, row, number, piece);
    });
    let mut matrix = Vec::new();
    for row in 0..shape.rows as usize {
        for first in (0..shape.columns as usize).step_by(Piece::LEN) {
            let mut piece = Piece::default();
            fill(scheme, row, first / Piece::LEN, &mut piece);
            let own = (shape.columns as usize - first).min(Piece::LEN);
            matrix.extend((0..own).flat_map(|i| encoded(dtype, weight(scheme, &piece, i))));
        }
    }
    [packed, matrix]
}

fn plan<F: Family>(family: &F, problem: &F::Problem, device: &Device) -> Plan {
    let (target, kernels) = (device.target(), KernelCache::default());
    family.plan(problem, &Planner::new(&target, device.limits(), &kernels)).unwrap()
}

fn run(plan: Plan, device: &Device, inputs: &[&[u8]], bytes: usize) -> Vec<u8> {
    let inputs: Vec<_> = inputs.iter().map(|bytes| device.upload(bytes).unwrap()).collect();
    let views: Vec<_> = inputs.iter().map(|buffer| Some(buffer.as_view())).collect();
    let mut output = device.upload(&vec![0xa5_u8; bytes]).unwrap();
    let (stream, mut workspace) = (device.default_stream(), Workspace::new());
    plan.ready(device).unwrap().launch(&stream, &views, &mut [output.as_view_mut()], &mut workspace).unwrap();
    let findings: Vec<_> = device.take_reports().into_iter().flat_map(|report| report.report.findings).collect();
    assert!(findings.is_empty(), "{findings:?}");
    output.download().unwrap()
}

fn rows(dtype: Dtype, m: u64, k: u64) -> Vec<u8> {
    let value = |i: u64| (random(i ^ 0x5555) % 2001) as f32 / 1000.0 - 1.0;
    (0..m * k).flat_map(|i| encoded(dtype, value(i))).collect()
}

/// What a product is beside its sizes.
#[derive(Clone, Copy)]
struct Kind {
    dtype: Dtype,
    to: Dtype,
    gate: bool,
    residual: bool,
    /// Parts of K that are added in a tree.
    parts: u64,
}

impl Kind {
    const PLAIN: Self = Self { dtype: Dtype::Bf16, to: Dtype::Bf16, gate: false, residual: false, parts: 1 };

    fn product(self, [m, n, k]: [u64; 3]) -> matmul::Problem {
        let Self { dtype, to, gate, residual, parts } = self;
        let epilogue = match (gate, residual) {
            (true, _) => Epilogue::new().gate(Activation::Silu),
            (_, true) => Epilogue::new().add(),
            _ => Epilogue::new(),
        };
        let c = Matrix::rows(to, if gate { n / 2 } else { n });
        let b = Matrix::rows(dtype, k).transposed();
        let inputs = if residual { vec![c] } else { Vec::new() };
        let batch_invariance = BatchInvariance::On;
        matmul::Problem {
            b,
            c,
            epilogue,
            inputs,
            weights: true,
            batch_invariance,
            k_parts: parts,
            ..matmul::Problem::new(dtype, m, n, k)
        }
    }
}

/// Compares a product with that of the matrix, bit by bit.
#[track_caller]
fn check(device: &Device, scheme: Scheme, kind: Kind, [m, n, k]: [u64; 3]) {
    let (product, shape) = (kind.product([m, n, k]), PackedShape { rows: n, columns: k });
    let [packed, matrix] = weights(scheme, shape, kind.dtype);
    let x = rows(kind.dtype, m, k);
    let residual = rows(kind.to, m, n);
    let bytes = (m * product.result_columns() * kind.to.bytes()) as usize;
    let inputs = |weights| {
        let all: [&[u8]; 3] = [&x, weights, &residual];
        if kind.residual { all.to_vec() } else { all[..2].to_vec() }
    };
    let expected = run(plan(&Matmul, &product, device), device, &inputs(&matrix), bytes);
    let found = run(plan(&Quantized, &Problem::new(product, scheme), device), device, &inputs(&packed), bytes);
    let first = found.iter().zip(&expected).position(|(found, expected)| found != expected);
    assert_eq!(first, None, "{scheme:?}, {m} x {n} x {k}: byte");
}

#[test]
fn every_scheme_gives_the_bits_of_its_matrix_for_any_number_of_rows() {
    on_every_device(|device| {
        for (i, scheme) in SCHEMES.into_iter().enumerate() {
            for m in [1, 2, 7, 8, 9, 16, 17, 64, 128] {
                // Larger ones for some, so that all come by.
                if m < 9 || (m as usize + i).is_multiple_of(3) {
                    check(device, scheme, Kind::PLAIN, [m, 96, 256]);
                }
            }
        }
    });
}

#[test]
fn sizes_need_not_be_whole_blocks() {
    on_every_device(|device| {
        for [m, n, k] in
            [[1, 1, 32], [3, 63, 96], [5, 65, 160], [9, 130, 64], [33, 72, 288], [70, 200, 128], [1, 64, 4096]]
        {
            for scheme in [Q4_0, Q6_K, Q4_1] {
                check(device, scheme, Kind::PLAIN, [m, n, k]);
            }
        }
    });
}

#[test]
fn rows_may_be_halves_of_either_type_and_results_wider() {
    on_every_device(|device| {
        for scheme in [Q4_0, Q4_K] {
            check(device, scheme, Kind { dtype: Dtype::F16, to: Dtype::F16, ..Kind::PLAIN }, [5, 80, 256]);
            check(device, scheme, Kind { to: Dtype::F32, ..Kind::PLAIN }, [5, 80, 256]);
        }
    });
}

#[test]
fn gates_and_residuals_end_the_product() {
    on_every_device(|device| {
        for m in [1, 20] {
            for scheme in [Q4_1, Q6_K] {
                check(device, scheme, Kind { gate: true, ..Kind::PLAIN }, [m, 96, 256]);
                check(device, scheme, Kind { residual: true, ..Kind::PLAIN }, [m, 96, 256]);
            }
        }
    });
}

#[test]
fn parts_of_k_are_a_tree_by_one_launch_of_blocks_or_decoded() {
    on_every_device(|device| {
        // Parts of whole stages, of one and of three; no whole stages; more rows than are decoded in registers.
        let sizes = [(1, 1024, 8), (20, 1024, 8), (70, 768, 2), (3, 576, 8), (257, 512, 4)];
        for (scheme, (m, k, parts)) in [Q4_0, Q4_K, Q6_K, Q4_1, Q4_0].into_iter().zip(sizes) {
            check(device, scheme, Kind { parts, residual: true, ..Kind::PLAIN }, [m, 96, k]);
            check(device, scheme, Kind { parts, to: Dtype::F32, ..Kind::PLAIN }, [m, 96, k]);
        }
    });
}

#[test]
fn few_rows_take_one_launch_and_more_a_matrix() {
    on_every_device(|device| {
        let launches = |m| plan(&Quantized, &Problem::new(Kind::PLAIN.product([m, 96, 128]), Q4_0), device).steps.len();
        assert_eq!([1, Quantized::MOST_ROWS, Quantized::MOST_ROWS + 1].map(launches), [1, 1, 2]);
        for m in [Quantized::MOST_ROWS, Quantized::MOST_ROWS + 1, 300] {
            check(device, Q4_0, Kind::PLAIN, [m, 96, 128]);
        }
    });
}

#[test]
fn few_outputs_are_shared_by_twice_as_many_blocks() {
    on_every_device(|device| {
        let blocks =
            |n| plan(&Quantized, &Problem::new(Kind::PLAIN.product([1, n, 128]), Q4_0), device).steps[0].config.grid[0];
        assert_eq!([64, 64 * 132, 64 * 133].map(blocks), [2, 264, 133]);
        for n in [64 * 132, 64 * 133] {
            check(device, Q4_0, Kind::PLAIN, [1, n, 128]);
        }
    });
}

#[test]
fn devices_without_warpgroups_and_rows_of_singles_decode_first() {
    let device = checked(Profile::A100);
    for kind in [Kind::PLAIN, Kind { dtype: Dtype::F32, to: Dtype::F32, ..Kind::PLAIN }] {
        for scheme in [Q4_0, Q4_K] {
            check(&device, scheme, kind, [3, 72, 160]);
            check(&device, scheme, Kind { gate: true, ..kind }, [3, 96, 160]);
        }
    }
}

#[test]
fn every_scheme_is_written_as_the_matrix_that_it_stands_for_and_row_by_row() {
    on_every_device(|device| {
        let shape = PackedShape { rows: 75, columns: 160 };
        for scheme in SCHEMES {
            for dtype in [Dtype::Bf16, Dtype::F16, Dtype::F32] {
                let [packed, matrix] = weights(scheme, shape, dtype);
                let all = plan(&Dequantize, &(scheme, shape, dtype), device);
                assert_eq!(run(all, device, &[&packed], matrix.len()), matrix, "{scheme:?} as {dtype}");
                let indices = [74_i32, 0, -1, 9, 75, 40];
                let problem = GatherProblem { indices: Dtype::I32, count: 6, scheme, shape, dtype };
                let bytes = matrix.len() / 75;
                let found = run(
                    plan(&GatherRows, &problem, device),
                    device,
                    &[bytemuck::cast_slice(&indices), &packed],
                    6 * bytes,
                );
                let row = |i: usize| matrix[i * bytes..(i + 1) * bytes].to_vec();
                let expected = [row(74), row(0), row(74), row(9), vec![0; bytes], row(40)].concat();
                assert_eq!(found, expected, "{scheme:?} as {dtype}, rows by index");
            }
        }
    });
}

#[test]
fn what_no_kernel_decodes_is_refused() {
    let device = Device::virtual_gpu(Profile::H200);
    let (target, kernels) = (device.target(), KernelCache::default());
    let planner = Planner::new(&target, device.limits(), &kernels);
    let wrong = [Scheme { bits: 7, ..Q4_0 }, Scheme { group: 48, ..Q4_0 }, Scheme { table: Some(IQ4), ..Q6_K }];
    for scheme in wrong {
        let problem = Problem::new(Kind::PLAIN.product([1, 64, 128]), scheme);
        assert!(matches!(Quantized.plan(&problem, &planner).unwrap_err().kind(), ErrorKind::Operand { .. }));
    }
    let odd = Problem::new(Kind::PLAIN.product([1, 64, 120]), Q4_0);
    assert!(Quantized.plan(&odd, &planner).unwrap_err().to_string().contains("groups of 16"));
}
