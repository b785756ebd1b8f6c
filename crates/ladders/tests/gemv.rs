//! The rungs of the product of a matrix and a vector end where the library begins.

use warpfold_device::{Device, Profile};
use warpfold_kernels::Dtype;
use warpfold_kernels::gemv::{Algorithm, Choice, Problem, Product};
use warpfold_ladders::gemv::ladder::{COLUMNS, LADDER, PLANNED};

#[test]
fn the_ladder_ends_with_what_its_plan_chooses() {
    let device = Device::virtual_gpu(Profile::H200);
    let problem = Problem {
        product: Product::MatrixVector,
        dtype: Dtype::F32,
        rows: (LADDER.default_size / COLUMNS) as u64,
        columns: COLUMNS as u64,
        row_stride: COLUMNS as i64,
        alignment: 16,
    };
    let choice = Choice::new(problem, device.limits()).unwrap();
    assert_eq!(choice.algorithm, Algorithm::Rows(PLANNED));
}
