//! The rungs of the product of a matrix and a vector end where the library begins.

use warpfold_device::{Device, Profile};
use warpfold_kernels::Dtype;
use warpfold_kernels::gemv::{Algorithm, Choice, Problem, Product};
use warpfold_ladders::gemv::ladder::{COLUMNS, LADDER, planned_for};

#[test]
fn the_ladder_ends_with_what_its_plan_chooses() {
    let device = Device::virtual_gpu(Profile::H200);
    for columns in [1, 3, 16, 17, 32, 64, 128, 1000, COLUMNS.default] {
        let problem = Problem {
            product: Product::MatrixVector,
            dtype: Dtype::F32,
            rows: LADDER.default_size / columns as u64,
            columns: columns as u64,
            row_stride: columns.next_multiple_of(4) as i64,
            alignment: 16,
        };
        let choice = Choice::new(problem, device.limits()).unwrap();
        let size = LADDER.with_option(LADDER.default_size, "columns", columns).unwrap();
        assert_eq!(choice.algorithm, Algorithm::Rows(planned_for(size)), "{columns} columns");
    }
}
