//! The files of exercises: each to start from fails, each solution passes.
#![allow(unreachable_pub, reason = "a reader's file is a module of a program that takes its items")]

use warpfold_device::{Device, LaunchConfig, Profile};
use warpfold_ladders::exercise::{EXERCISES, exercise};

#[path = "../../src/exercise/files/attention_solution.rs"]
mod attention_solution;
#[path = "../../src/exercise/files/attention_start.rs"]
mod attention_start;
#[path = "../../src/exercise/files/blocks_solution.rs"]
mod blocks_solution;
#[path = "../../src/exercise/files/blocks_start.rs"]
mod blocks_start;
#[path = "../../src/exercise/files/clamp_solution.rs"]
mod clamp_solution;
#[path = "../../src/exercise/files/clamp_start.rs"]
mod clamp_start;
#[path = "../../src/exercise/files/convolution_solution.rs"]
mod convolution_solution;
#[path = "../../src/exercise/files/convolution_start.rs"]
mod convolution_start;
#[path = "../../src/exercise/files/gemv_solution.rs"]
mod gemv_solution;
#[path = "../../src/exercise/files/gemv_start.rs"]
mod gemv_start;
#[path = "../../src/exercise/files/guard_solution.rs"]
mod guard_solution;
#[path = "../../src/exercise/files/guard_start.rs"]
mod guard_start;
#[path = "../../src/exercise/files/index_solution.rs"]
mod index_solution;
#[path = "../../src/exercise/files/index_start.rs"]
mod index_start;
#[path = "../../src/exercise/files/neighbours_solution.rs"]
mod neighbours_solution;
#[path = "../../src/exercise/files/neighbours_start.rs"]
mod neighbours_start;
#[path = "../../src/exercise/files/norm_solution.rs"]
mod norm_solution;
#[path = "../../src/exercise/files/norm_start.rs"]
mod norm_start;
#[path = "../../src/exercise/files/prefix_solution.rs"]
mod prefix_solution;
#[path = "../../src/exercise/files/prefix_start.rs"]
mod prefix_start;
#[path = "../../src/exercise/files/product_solution.rs"]
mod product_solution;
#[path = "../../src/exercise/files/product_start.rs"]
mod product_start;
#[path = "../../src/exercise/files/reverse_solution.rs"]
mod reverse_solution;
#[path = "../../src/exercise/files/reverse_start.rs"]
mod reverse_start;
#[path = "../../src/exercise/files/rows_solution.rs"]
mod rows_solution;
#[path = "../../src/exercise/files/rows_start.rs"]
mod rows_start;
#[path = "../../src/exercise/files/softmax_solution.rs"]
mod softmax_solution;
#[path = "../../src/exercise/files/softmax_start.rs"]
mod softmax_start;
#[path = "../../src/exercise/files/stride_solution.rs"]
mod stride_solution;
#[path = "../../src/exercise/files/stride_start.rs"]
mod stride_start;
#[path = "../../src/exercise/files/sum_solution.rs"]
mod sum_solution;
#[path = "../../src/exercise/files/sum_start.rs"]
mod sum_start;
#[path = "../../src/exercise/files/transpose_solution.rs"]
mod transpose_solution;
#[path = "../../src/exercise/files/transpose_start.rs"]
mod transpose_start;
#[path = "../../src/exercise/files/twice_solution.rs"]
mod twice_solution;
#[path = "../../src/exercise/files/twice_start.rs"]
mod twice_start;
#[path = "../../src/exercise/files/warp_sum_solution.rs"]
mod warp_sum_solution;
#[path = "../../src/exercise/files/warp_sum_start.rs"]
mod warp_sum_start;
#[path = "../../src/exercise/files/window_solution.rs"]
mod window_solution;
#[path = "../../src/exercise/files/window_start.rs"]
mod window_start;

#[test]
fn every_start_runs_and_fails_and_every_solution_passes() {
    let mut judged = Vec::new();
    macro_rules! judge {
        ($start:ident, $solution:ident, $name:literal) => {
            let exercise = exercise($name).expect("there is one");
            let start = exercise.judge($start::solution(), LaunchConfig::new($start::GRID, $start::BLOCK));
            let start = start.expect("the start is judged");
            assert!(!start.is_passed(), "{start}");
            let config = LaunchConfig::new($solution::GRID, $solution::BLOCK);
            let built = $solution::solution().build(&Device::virtual_gpu(Profile::H200).target()).expect("it builds");
            let solution = exercise.judge($solution::solution(), config).expect("the solution is judged");
            assert!(solution.is_passed(), "{solution}");
            // From text the same kernel costs the same.
            let of_ptx = exercise.judge_ptx(&built.ptx(), &built.entry, config).expect("its PTX is judged");
            assert_eq!((of_ptx.goals, of_ptx.result), (solution.goals, solution.result), "{}", exercise.name);
            assert!(!exercise.hints.is_empty() && exercise.start.contains("pub fn solution()"));
            judged.push($name);
        };
    }
    judge!(index_start, index_solution, "index");
    judge!(blocks_start, blocks_solution, "blocks");
    judge!(guard_start, guard_solution, "guard");
    judge!(clamp_start, clamp_solution, "clamp");
    judge!(stride_start, stride_solution, "stride");
    judge!(twice_start, twice_solution, "twice");
    judge!(neighbours_start, neighbours_solution, "neighbours");
    judge!(reverse_start, reverse_solution, "reverse");
    judge!(warp_sum_start, warp_sum_solution, "warp-sum");
    judge!(rows_start, rows_solution, "rows");
    judge!(sum_start, sum_solution, "sum");
    judge!(prefix_start, prefix_solution, "prefix");
    judge!(gemv_start, gemv_solution, "gemv");
    judge!(norm_start, norm_solution, "norm");
    judge!(convolution_start, convolution_solution, "convolution");
    judge!(softmax_start, softmax_solution, "softmax");
    judge!(transpose_start, transpose_solution, "transpose");
    judge!(product_start, product_solution, "product");
    judge!(window_start, window_solution, "window");
    judge!(attention_start, attention_solution, "attention");
    assert_eq!(judged, EXERCISES.iter().map(|exercise| exercise.name).collect::<Vec<_>>());
}
