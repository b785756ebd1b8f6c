//! Plans on both sides of sizes that grids and kernels take: nothing is launched.

use warpfold_device::{Device, Profile};
use warpfold_kernels::attention::{Attention, Keys, MaskLayout, Queries};
use warpfold_kernels::experts::{self, Experts, Weights};
use warpfold_kernels::plan::{Family, KernelCache, Plan, Planner};
use warpfold_kernels::{Dtype, Error, ErrorKind, attention, conv, gather, matmul, sort, unique};

use crate::grid::{MAX_BLOCKS_Y, grid_size, grid_size_y, within_limit};

/// A plan for an H200.
pub(crate) fn plan<F: Family>(family: &F, problem: &F::Problem) -> Result<Plan, Error> {
    let device = Device::virtual_gpu(Profile::H200);
    let (target, kernels) = (device.target(), KernelCache::default());
    family.plan(problem, &Planner::new(&target, device.limits(), &kernels))
}

#[track_caller]
pub(crate) fn too_large<T: std::fmt::Debug>(planned: Result<T, Error>) {
    let error = planned.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooLarge { .. }), "{error}");
}

#[test]
fn grids_take_as_many_blocks_as_gpus_do() {
    let device = Device::virtual_gpu(Profile::H200);
    let [x, y, _] = device.limits().max_grid.map(u64::from);
    assert_eq!(MAX_BLOCKS_Y, y);
    assert_eq!((grid_size(x).unwrap(), grid_size_y(y).unwrap()), (x as u32, y as u32));
    assert_eq!(within_limit("a size", x).unwrap(), x as u32);
    too_large(grid_size(x + 1));
    too_large(grid_size_y(y + 1));
    too_large(within_limit("a size", x + 1));
}

#[test]
fn sizes_that_attention_takes_as_32_bits_are_refused_beyond_them() {
    let of = |len: u64, mask_keys: u64, heads: u64| {
        let of = |len: u64| [(len * heads * 64) as i64, 64, (heads * 64) as i64, 1];
        let strides @ [batch, head, position, _] = of(1);
        let queries = Queries::Dense { batch: 1, len: 1, strides, out_strides: [batch, head, position] };
        let keys = Keys::Dense { len, k_strides: of(len), v_strides: of(len) };
        let mask = MaskLayout { dtype: Dtype::Bool, keys: mask_keys, strides: [0; 4] };
        let plain = attention::Problem::new(Dtype::Bf16, [heads; 2], [64; 2], queries, keys);
        plan(&Attention, &attention::Problem { mask: Some(mask), ..plain })
    };
    for (len, mask_keys, heads) in
        [(1 << 10, 1 << 10, 2), (1 << 29, 1 << 29, 2), (16, (1 << 31) - 1, 2), (1, 1, 1 << 20)]
    {
        of(len, mask_keys, heads).unwrap();
    }
    // A mask of one key, repeated: 2^32 of them would be none as 32 bits.
    for (len, mask_keys, heads) in [(16, 1 << 32, 2), (16, 1 << 31, 2), ((1 << 29) + 1, 1, 2), (1, 1, (1 << 29) + 1)] {
        too_large(of(len, mask_keys, heads));
    }
}

#[test]
fn experts_wider_than_a_grid_are_refused() {
    let of = |hidden: u64| {
        let problem = experts::Problem {
            dtype: Dtype::Bf16,
            rows: 1,
            hidden,
            inner: 8,
            experts: 2,
            first: 0,
            own: 2,
            sums: true,
            chosen: 1,
            weights: Weights::Share,
            gating: experts::Gating::Silu,
            format: experts::ExpertFormat::Plain,
            packed: false,
            alignment: 16,
        };
        plan(&Experts, &problem)
    };
    let columns = |plan: &Plan| plan.steps.iter().map(|step| step.config.grid[1]).max().unwrap();
    let per_block = (1 << 16) / u64::from(columns(&of(1 << 16).unwrap()));
    assert_eq!(u64::from(columns(&of(per_block * MAX_BLOCKS_Y).unwrap())), MAX_BLOCKS_Y);
    too_large(of(per_block * MAX_BLOCKS_Y + 1));
}

#[test]
fn long_rows_are_gathered_by_no_more_blocks_than_fill_a_gpu() {
    for (count, row_bytes) in [(1, 1_u64 << 20), (1, 1 << 34), (1, 1 << 44), (1000, 1 << 40), (1 << 20, 1 << 30)] {
        let problem = gather::Problem {
            indices: Dtype::I64,
            count,
            rows: 1,
            row_bytes,
            row_stride: row_bytes as i64,
            alignment: 16,
        };
        let [x, y, _] = problem.choose().unwrap().launch.unwrap().grid;
        assert!(y <= 1024 && u64::from(x) * u64::from(y) <= 1024.max(2 * u64::from(x)), "{problem:?}: {x} x {y}");
    }
}

#[test]
fn images_beyond_32_bits_go_to_kernels_that_count_in_64() {
    let device = Device::virtual_gpu(Profile::A100);
    // Two pixels of the result a side, however large the image.
    let of = |side: u32| {
        let problem = conv::Problem {
            dtype: Dtype::Bf16,
            result: Dtype::Bf16,
            layout: conv::Layout::Nhwc,
            images: 1,
            channels: 8,
            size: [u64::from(side); 2],
            filters: 64,
            filter: [1, 1],
            groups: 1,
            window: conv::Window { stride: [side / 2; 2], padding: [0, 0], dilation: [1, 1] },
            f32_math: matmul::F32Math::Ieee,
            epilogue: matmul::Epilogue::new(),
        };
        conv::Choice::with(problem, device.limits(), conv::Algorithm::Mma(matmul::MmaTile::SMALL))
    };
    // 8 channels of 2^14 pixels a side are 2^31 elements.
    of((1 << 14) - 64).unwrap();
    let error = of(1 << 14).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Operand { .. }), "{error}");
}

#[test]
fn results_of_a_gate_are_counted_in_32_bits() {
    let of = |n: u64| {
        let problem = matmul::Problem {
            b: matmul::Matrix::rows(Dtype::F32, 8).transposed(),
            c: matmul::Matrix::rows(Dtype::F32, n / 2),
            epilogue: matmul::Epilogue::new().gate(matmul::Activation::Relu),
            ..matmul::Problem::new(Dtype::F32, 1 << 16, n, 8)
        };
        plan(&matmul::Matmul, &problem)
    };
    assert_eq!(of((1 << 16) - 16).unwrap().steps.len(), 2, "the gate is a launch by itself");
    too_large(of(1 << 16));
}

#[test]
fn tables_of_different_elements_beyond_all_addresses_are_refused() {
    let words = |row_len| unique::Problem { dtype: Dtype::F64, rows: 1, row_len }.words_per_row();
    assert_eq!(words(1 << 58).unwrap(), (1 << 59) + 1);
    too_large(words((1 << 58) + 1));
}

#[test]
fn rows_that_are_too_long_to_be_sorted_are_refused() {
    let of = |rows, len| plan(&sort::Sort, &sort::Problem { dtype: Dtype::U8, rows, len, descending: false });
    for (rows, len) in [(1, 1 << 30), (1 << 10, 1 << 30), (1 << 39, 2)] {
        of(rows, len).unwrap();
    }
    for (rows, len) in [(1, (1 << 30) + 1), ((1 << 10) + 1, 1 << 30), ((1 << 39) + 1, 2)] {
        too_large(of(rows, len));
    }
}
