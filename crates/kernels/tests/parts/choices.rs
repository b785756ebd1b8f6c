//! Which way a plan takes on both sides of a number: nothing is launched.

use warpfold_device::{Device, Limits, Profile};
use warpfold_kernels::attention::{self, Attention, Keys, Queries};
use warpfold_kernels::elements::{Sink, Source};
use warpfold_kernels::fold::{self, Fold, Scan, ScanAlgorithm, ScanOrder, Sum};
use warpfold_kernels::heads::{self, Heads, Pairs, Rotary};
use warpfold_kernels::layout::Layout;
use warpfold_kernels::matmul::{self, Matmul, Matrix};
use warpfold_kernels::plan::{KernelCache, Planner, TensorSpec};
use warpfold_kernels::rowwise::operators::{Norm, RowOp, Types, operator_of};
use warpfold_kernels::rowwise::{Algorithm, OnChip, RowStorage};
use warpfold_kernels::sampling::{self, Sample};
use warpfold_kernels::sort::{self, Sort};
use warpfold_kernels::{Dtype, Error, gemv};

use crate::plans::{plan, too_large};

fn h200() -> Device {
    Device::virtual_gpu(Profile::H200)
}

#[test]
fn parts_of_keys_have_no_more_segments_than_are_compared() {
    let device = h200();
    let (target, kernels) = (device.target(), KernelCache::default());
    let planner = Planner::new(&target, device.limits(), &kernels);
    let of = |len: u64| {
        let strides = [0, 128, 128, 1];
        let queries = Queries::Dense { batch: 1, len: 1, strides, out_strides: [0, 128, 128] };
        let keys = Keys::Dense { len, k_strides: strides, v_strides: strides };
        let problem = attention::Problem::new(Dtype::Bf16, [1; 2], [128; 2], queries, keys);
        let choice = Attention.choose(&problem, &planner);
        let segments = choice.segments * choice.splits;
        assert!((len / 1024..=len / 1024 + choice.segments).contains(&segments), "{len}: {choice}");
        choice.segments
    };
    // Lengths from which a share of each multiprocessor has fewer segments than 64, and more.
    assert_eq!([20, 22, 24].map(|log| of(1 << log)), [4, 16, 25]);
    for log in 26..=29 {
        assert!((33..=64).contains(&of(1 << log)), "2^{log} keys");
    }
}

#[test]
fn rows_of_enough_warps_are_folded_by_warps_though_they_are_longer() {
    let (source, sink) = (Source::one::<u32>(Dtype::U32), Sink::one::<u32>(Dtype::U32));
    let sum = Fold::new("sum", Sum::<u32>::new(), source, sink);
    let of = |rows: usize, vectors: usize| {
        let spec = TensorSpec::contiguous(Dtype::U32, &[rows, 4 * vectors]).unwrap();
        let choice = sum.choose(&sum.problem(vec![spec], &[1])).unwrap();
        let fold::Algorithm::Rows(rows) = choice.algorithm else { panic!("{choice:?}") };
        rows
    };
    for (rows, most) in [(16_383, 32 * 8), (16_384, 32 * 32)] {
        let (warp, block) = (of(rows, most), of(rows, most + 1));
        assert_eq!((warp.lanes, block.lanes), (32, 256), "{rows} rows");
        assert_eq!(warp, of(16_384, 32 * 8), "a warp's kernel is the same however long its row is");
    }
}

#[test]
fn a_thread_of_a_shared_scan_takes_no_more_vectors_than_registers_last() {
    let device = h200();
    let (target, kernels) = (device.target(), KernelCache::default());
    let (source, sink) = (Source::one::<u32>(Dtype::U32), Sink::one::<u32>(Dtype::U32));
    let scan = Scan::new("sum", Sum::<u32>::new(), source, sink);
    // Single elements, of which a tile has room for 32 a thread.
    for (len, unroll) in [(1 << 20, 8), (1 << 21, 16), (1 << 22, 16), (1 << 26, 16)] {
        let layout = Layout::contiguous(&[len]).unwrap();
        let [from, to] = [TensorSpec::new(Dtype::U32, layout.clone(), 4), TensorSpec::new(Dtype::U32, layout, 0)];
        let problem = scan.problem(vec![from], vec![to], 0, ScanOrder::default());
        let choice = scan.choose(&problem).unwrap();
        let ScanAlgorithm::Rows(rows) = &choice.algorithm else { panic!("{choice:?}") };
        assert_eq!((rows.unroll, rows.vector), (unroll, 1), "{len}");
        assert_eq!(u64::from(choice.launch.unwrap().grid[0] * 512 * unroll), len as u64);
        let plan = scan.plan_with(&problem, &choice, &Planner::new(&target, device.limits(), &kernels));
        let built = plan.steps[0].kernel.build(&target).unwrap();
        assert!(built.static_shared_bytes <= 48 << 10, "{} bytes", built.static_shared_bytes);
    }
}

/// The choice for a matrix of `f32` times a vector.
fn matrix_vector(limits: &Limits, rows: u64, columns: u64) -> Result<gemv::Choice, Error> {
    let (dtype, row_stride) = (Dtype::F32, columns as i64);
    let product = gemv::Product::MatrixVector;
    gemv::Choice::new(gemv::Problem { product, dtype, rows, columns, row_stride, alignment: 16 }, limits)
}

#[test]
fn a_thread_counts_the_columns_of_a_matrix_in_32_bits() {
    let limits = Profile::H200.limits();
    // Lanes take whole rows, and blocks parts of them.
    let whole = matrix_vector(&limits, 1 << 20, 1 << 31).unwrap();
    assert_eq!((whole.part, whole.num_parts), (1 << 31, 1));
    assert!(matrix_vector(&limits, 1 << 20, (1 << 31) + 1).is_err());
    for columns in [1 << 32, 1 << 40] {
        assert!(matrix_vector(&limits, 1, columns).unwrap().part <= 1 << 31);
    }
    assert!(matrix_vector(&limits, 1, 1 << 41).is_err());
}

#[test]
fn a_row_is_shared_by_no_more_blocks_than_one_launch_adds_the_sums_of() {
    let of = |num_sms: u32, columns: u64| {
        let choice = matrix_vector(&Limits { num_sms, ..Profile::H200.limits() }, 1, columns).unwrap();
        assert!(choice.part * u64::from(choice.num_parts) >= columns && choice.part.is_multiple_of(4096));
        choice.num_parts
    };
    // As many as two rounds of blocks of the device, up to 1,024.
    assert_eq!([170, 171].map(|num_sms| of(num_sms, 1 << 40)), [1020, 1024]);
    assert_eq!([of(512, 1023 * 4096), of(512, 1024 * 4096), of(512, 4096 * 4096)], [1023, 1024, 1024]);
}

#[test]
fn sums_are_split_into_few_parts_of_enough_products() {
    let device = h200();
    let of = |k: u64| {
        let problem = matmul::Problem::new(Dtype::F32, 4, 4, k);
        let choice = matmul::Choice::new(problem, device.target().arch, device.limits()).unwrap();
        assert!(u64::from(choice.num_parts) * choice.part >= k, "{choice}");
        (choice.num_parts, choice.part)
    };
    for k in 1..256 {
        assert_eq!(of(k).0, 1, "no part has fewer than 128 products, of which there are {k}");
    }
    assert_eq!([of(512), of(1 << 13), of(1 << 14), of(1 << 24)], [(4, 128), (64, 128), (64, 256), (64, 1 << 18)]);
}

#[test]
fn factors_of_large_products_are_repacked_for_tma() {
    for (k, is_large) in [(1023, false), (1024, true)] {
        // 512 x 512 results; rows of the left factor begin at odd places.
        let a = Matrix { alignment: 2, ..Matrix::rows(Dtype::Bf16, k + 1) };
        let problem = matmul::Problem { a, ..matmul::Problem::new(Dtype::Bf16, 512, 512, k) };
        let plan = plan(&Matmul, &problem).unwrap();
        assert_eq!(plan.choice.contains("tensor cores"), is_large, "{k}: {plan}");
        assert_eq!(plan.steps[0].kernel.name().contains("matmul"), !is_large, "{k}: {plan}");
    }
}

#[test]
fn units_of_a_rotary_embedding_and_rows_of_its_tables_are_counted_in_32_bits() {
    let of = |len: usize, rows: usize| {
        // Tokens that are all the same one, so that no memory is too large.
        let repeated = |dtype, shape: Vec<usize>, strides: Vec<isize>| {
            TensorSpec::new(dtype, Layout::new(shape, strides).unwrap(), 2)
        };
        let tokens = repeated(Dtype::Bf16, vec![1, len, 1, 2], vec![0, 0, 2, 1]);
        let table = || repeated(Dtype::Bf16, vec![rows, 1], vec![0, 1]);
        let rotary = Rotary {
            pairs: Pairs::Halves,
            dim: 2,
            tables: [table(), table()],
            positions: Some(repeated(Dtype::I32, vec![1, len], vec![0, 0])),
        };
        plan(&Heads, &heads::Problem::rotary(heads::Queries::InPlace(tokens), rotary))
    };
    for (len, rows) in [(1 << 31, 1), (1, 1 << 31)] {
        of(len, rows).unwrap();
    }
    for (len, rows) in [((1 << 31) + 1, 1), (1, (1 << 31) + 1), (1 << 61, 1)] {
        too_large(of(len, rows));
    }
}

#[test]
fn vocabularies_and_rows_of_a_draw_are_those_that_a_grid_reaches() {
    let of = |rows, vocab| {
        plan(&Sample, &sampling::Problem { rows, vocab, edited: 1, top: 4, filtered: true, alignment: 16 })
    };
    for (rows, vocab) in [(1, 1 << 24), (65_535, 1 << 24)] {
        of(rows, vocab).unwrap();
    }
    for (rows, vocab) in [(1, (1 << 24) + 1), (65_536, 1)] {
        too_large(of(rows, vocab));
    }
}

#[test]
fn rows_are_held_where_there_is_room_for_them() {
    let device = h200();
    let norm = Norm { eps: 1e-5, keep_sum: false };
    let (rms, layer, softmax) = (RowOp::RmsNorm(norm), RowOp::LayerNorm(norm), RowOp::Softmax { scale: 1.0 });
    let of = |op: RowOp, num_columns: usize, [rows, len]: [usize; 2]| {
        let columns = vec![Dtype::F32; num_columns];
        let operator = operator_of(op, Types { rows: &[Dtype::F32], columns: &columns }).unwrap();
        let x = TensorSpec::contiguous(Dtype::F32, &[rows, len]).unwrap();
        let columns = columns.iter().map(|dtype| TensorSpec::contiguous(*dtype, &[len]).unwrap()).collect();
        match operator.choose(&operator.problem(vec![x], columns, 1), &device.target()).unwrap().algorithm {
            Algorithm::OnChip(OnChip { cluster, block, storage, vector, .. }) => match storage {
                RowStorage::Registers { groups, early_columns: true, .. } => {
                    format!("{} items with columns, {cluster} x {block}", groups * vector)
                }
                RowStorage::Registers { groups, .. } => format!("{} items, {cluster} x {block}", groups * vector),
                RowStorage::Partitioned(part) => format!("{} groups, {cluster} x {block}", part.register_groups),
                RowStorage::Smem { .. } => "shared memory".to_owned(),
            },
            Algorithm::Long(_) => "long".to_owned(),
        }
    };
    for (op, columns, rows, [below, above], expected) in [
        // Items and columns that a thread holds together; items where columns come with them.
        (layer, 2, 1, [640, 768], ["20 items with columns, 1 x 128", "24 items, 1 x 128"]),
        (layer, 2, 1, [24_576, 24_580], ["24 items, 4 x 256", "16 items, 8 x 256"]),
        // Short rows; groups in registers beside shared memory; blocks of a cluster.
        (rms, 1, 100, [1536, 1540], ["12 items with columns, 1 x 128", "0 groups, 1 x 256"]),
        (layer, 2, 17, [40_960, 40_964], ["8 groups, 1 x 512", "0 groups, 1 x 1024"]),
        (layer, 2, 1, [196_608, 196_612], ["24 items, 8 x 1024", "0 groups, 4 x 1024"]),
        (softmax, 0, 1, [262_144, 262_148], ["32 items with columns, 8 x 1024", "0 groups, 8 x 512"]),
    ] {
        assert_eq!([below, above].map(|len| of(op, columns, [rows, len])), expected, "{} {below}", op.name());
    }
}

#[test]
fn long_rows_are_sorted_digit_by_digit() {
    let of = |dtype, rows, len| {
        plan(&Sort, &sort::Problem { dtype, rows, len, descending: false }).map(|plan| (plan.choice, plan.steps.len()))
    };
    let network = ("3 bitonic networks of 8192".to_owned(), 10);
    assert_eq!(of(Dtype::F32, 3, 8192).unwrap(), network);
    for (dtype, digits) in [
        (Dtype::U8, 1),
        (Dtype::F8E5M2, 2),
        (Dtype::Bf16, 2),
        (Dtype::I16, 2),
        (Dtype::F16, 3),
        (Dtype::F32, 4),
        (Dtype::I64, 8),
    ] {
        let expected = (format!("{digits} digits of 3 rows in 3 tiles"), 3 * digits);
        assert_eq!(of(dtype, 3, 8193).unwrap(), expected, "{dtype}");
    }
    assert_eq!(of(Dtype::F64, 0, 8193).unwrap().1, 0);
}
