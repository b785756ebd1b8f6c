//! The files of exercises: each to start from fails, each solution passes.
#![allow(unreachable_pub, reason = "a reader's file is a module of a program that takes its items")]

use warpfold_device::{Device, LaunchConfig, Profile};
use warpfold_kernels::Dtype;
use warpfold_ladders::exercise::{EXERCISES, Exercise, Judgement, exercise};
use warpfold_ladders::ladder::{RunOptions, ladder, run};

#[path = "../../src/exercise/files/accumulate_solution.rs"]
mod accumulate_solution;
#[path = "../../src/exercise/files/accumulate_start.rs"]
mod accumulate_start;
#[path = "../../src/exercise/files/argmax_solution.rs"]
mod argmax_solution;
#[path = "../../src/exercise/files/argmax_start.rs"]
mod argmax_start;
#[path = "../../src/exercise/files/async_copy_solution.rs"]
mod async_copy_solution;
#[path = "../../src/exercise/files/async_copy_start.rs"]
mod async_copy_start;
#[path = "../../src/exercise/files/attention_solution.rs"]
mod attention_solution;
#[path = "../../src/exercise/files/attention_start.rs"]
mod attention_start;
#[path = "../../src/exercise/files/blocks_solution.rs"]
mod blocks_solution;
#[path = "../../src/exercise/files/blocks_start.rs"]
mod blocks_start;
#[path = "../../src/exercise/files/bulk_solution.rs"]
mod bulk_solution;
#[path = "../../src/exercise/files/bulk_start.rs"]
mod bulk_start;
#[path = "../../src/exercise/files/clamp_solution.rs"]
mod clamp_solution;
#[path = "../../src/exercise/files/clamp_start.rs"]
mod clamp_start;
#[path = "../../src/exercise/files/cluster_sum_solution.rs"]
mod cluster_sum_solution;
#[path = "../../src/exercise/files/cluster_sum_start.rs"]
mod cluster_sum_start;
#[path = "../../src/exercise/files/compact_solution.rs"]
mod compact_solution;
#[path = "../../src/exercise/files/compact_start.rs"]
mod compact_start;
#[path = "../../src/exercise/files/convolution_solution.rs"]
mod convolution_solution;
#[path = "../../src/exercise/files/convolution_start.rs"]
mod convolution_start;
#[path = "../../src/exercise/files/first_solution.rs"]
mod first_solution;
#[path = "../../src/exercise/files/first_start.rs"]
mod first_start;
#[path = "../../src/exercise/files/fuse_solution.rs"]
mod fuse_solution;
#[path = "../../src/exercise/files/fuse_start.rs"]
mod fuse_start;
#[path = "../../src/exercise/files/gemv_solution.rs"]
mod gemv_solution;
#[path = "../../src/exercise/files/gemv_start.rs"]
mod gemv_start;
#[path = "../../src/exercise/files/guard_solution.rs"]
mod guard_solution;
#[path = "../../src/exercise/files/guard_start.rs"]
mod guard_start;
#[path = "../../src/exercise/files/histogram_solution.rs"]
mod histogram_solution;
#[path = "../../src/exercise/files/histogram_start.rs"]
mod histogram_start;
#[path = "../../src/exercise/files/index_solution.rs"]
mod index_solution;
#[path = "../../src/exercise/files/index_start.rs"]
mod index_start;
#[path = "../../src/exercise/files/layer_norm_solution.rs"]
mod layer_norm_solution;
#[path = "../../src/exercise/files/layer_norm_start.rs"]
mod layer_norm_start;
#[path = "../../src/exercise/files/log_sum_exp_solution.rs"]
mod log_sum_exp_solution;
#[path = "../../src/exercise/files/log_sum_exp_start.rs"]
mod log_sum_exp_start;
#[path = "../../src/exercise/files/matrix_solution.rs"]
mod matrix_solution;
#[path = "../../src/exercise/files/matrix_start.rs"]
mod matrix_start;
#[path = "../../src/exercise/files/mma_solution.rs"]
mod mma_solution;
#[path = "../../src/exercise/files/mma_start.rs"]
mod mma_start;
#[path = "../../src/exercise/files/neighbours_solution.rs"]
mod neighbours_solution;
#[path = "../../src/exercise/files/neighbours_start.rs"]
mod neighbours_start;
#[path = "../../src/exercise/files/norm_solution.rs"]
mod norm_solution;
#[path = "../../src/exercise/files/norm_start.rs"]
mod norm_start;
#[path = "../../src/exercise/files/outer_solution.rs"]
mod outer_solution;
#[path = "../../src/exercise/files/outer_start.rs"]
mod outer_start;
#[path = "../../src/exercise/files/pairs_solution.rs"]
mod pairs_solution;
#[path = "../../src/exercise/files/pairs_start.rs"]
mod pairs_start;
#[path = "../../src/exercise/files/pool_solution.rs"]
mod pool_solution;
#[path = "../../src/exercise/files/pool_start.rs"]
mod pool_start;
#[path = "../../src/exercise/files/prefix_solution.rs"]
mod prefix_solution;
#[path = "../../src/exercise/files/prefix_start.rs"]
mod prefix_start;
#[path = "../../src/exercise/files/private_solution.rs"]
mod private_solution;
#[path = "../../src/exercise/files/private_start.rs"]
mod private_start;
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
#[path = "../../src/exercise/files/shares_solution.rs"]
mod shares_solution;
#[path = "../../src/exercise/files/shares_start.rs"]
mod shares_start;
#[path = "../../src/exercise/files/softmax_solution.rs"]
mod softmax_solution;
#[path = "../../src/exercise/files/softmax_start.rs"]
mod softmax_start;
#[path = "../../src/exercise/files/streams_solution.rs"]
mod streams_solution;
#[path = "../../src/exercise/files/streams_start.rs"]
mod streams_start;
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
#[path = "../../src/exercise/files/two_stages_solution.rs"]
mod two_stages_solution;
#[path = "../../src/exercise/files/two_stages_start.rs"]
mod two_stages_start;
#[path = "../../src/exercise/files/vote_solution.rs"]
mod vote_solution;
#[path = "../../src/exercise/files/vote_start.rs"]
mod vote_start;
#[path = "../../src/exercise/files/warp_sum_solution.rs"]
mod warp_sum_solution;
#[path = "../../src/exercise/files/warp_sum_start.rs"]
mod warp_sum_start;
#[path = "../../src/exercise/files/wgmma_solution.rs"]
mod wgmma_solution;
#[path = "../../src/exercise/files/wgmma_start.rs"]
mod wgmma_start;
#[path = "../../src/exercise/files/wide_solution.rs"]
mod wide_solution;
#[path = "../../src/exercise/files/wide_start.rs"]
mod wide_start;
#[path = "../../src/exercise/files/window_solution.rs"]
mod window_solution;
#[path = "../../src/exercise/files/window_start.rs"]
mod window_start;

/// Ladders with the problem of an exercise, and their size.
const LADDERS: [(&str, &str, usize, Option<usize>); 6] = [
    ("blocks", "vector-add", 10_240, None),
    ("clamp", "relu", 4096, None),
    ("sum", "reduce", 4096, None),
    ("prefix", "scan", 256, None),
    ("gemv", "gemv", 64 * 64, Some(64)),
    ("product", "sgemm", 0, None),
];

/// Lines of what a right attempt costs by each goal; one that is wrong has no place.
fn record(exercise: &str, rung: &str, judgement: &Judgement) -> String {
    let is_right = judgement.result.is_ok() && !judgement.findings.iter().any(|finding| finding.is_failure(&[]));
    let lines = judgement.goals.iter().filter(|_| is_right);
    lines.map(|(goal, value)| format!("{exercise}\t{}\t{rung}\t{value}\n", goal.metric)).collect()
}

/// Lines of what the rungs of the ladder with the same problem cost.
fn rungs(exercise: &Exercise) -> String {
    let Some((_, name, elements, columns)) = LADDERS.into_iter().find(|row| row.0 == exercise.name) else {
        return String::new();
    };
    let ladder = ladder(name).expect("there is one");
    let size = match columns {
        Some(columns) => ladder.with_option(elements as u64, "columns", columns).expect("a size"),
        None if elements == 0 => ladder.parse_size("64").expect("a size"),
        None => elements as u64,
    };
    let device = Device::virtual_gpu(Profile::H200);
    let report = run(&device, ladder, size, Dtype::F32, &RunOptions::default()).expect("it runs");
    let mut lines = String::new();
    for rung in report.rungs.iter().filter(|rung| rung.is_ok()) {
        let measured = rung.measured().expect("the virtual GPU counts");
        for goal in exercise.goals {
            let value = goal.metric.of(&measured);
            lines += &format!("{}\t{}\t{name}/{}\t{value}\n", exercise.name, goal.metric, rung.name);
        }
    }
    lines
}

#[test]
fn every_start_runs_and_fails_and_every_solution_passes() {
    let (mut judged, mut records) = (Vec::new(), String::new());
    let target = Device::virtual_gpu(Profile::H200).target();
    macro_rules! judge {
        ($start:ident, $solution:ident, $name:literal) => {
            judge!($start, $solution, $name, "", "");
        };
        ($start:ident, $solution:ident, $name:literal, $plan_of_start:expr, $plan:expr) => {
            let exercise = exercise($name).expect("there is one");
            let of_start = $start::solution().build(&target).expect("it builds");
            let config =
                LaunchConfig::new($start::GRID, $start::BLOCK).dynamic_shared(of_start.dynamic_shared_bytes as u32);
            let start = exercise.judge_plan($start::solution(), config, $plan_of_start).expect("it is judged");
            assert!(!start.is_passed(), "{start}");
            let built = $solution::solution().build(&target).expect("it builds");
            let config =
                LaunchConfig::new($solution::GRID, $solution::BLOCK).dynamic_shared(built.dynamic_shared_bytes as u32);
            let solution = exercise.judge_plan($solution::solution(), config, $plan).expect("it is judged");
            assert!(solution.is_passed(), "{solution}");
            // From text the same kernel costs the same.
            let of_ptx = exercise.judge_ptx(&built.ptx(), &built.entry, config, $plan).expect("its PTX is judged");
            assert_eq!((&of_ptx.goals, &of_ptx.result), (&solution.goals, &solution.result), "{}", exercise.name);
            assert!(!exercise.hints.is_empty() && exercise.start.contains("pub fn solution()"));
            judged.push($name);
            records += &record($name, "the start", &start);
            records += &record($name, "the solution", &solution);
            records += &rungs(exercise);
        };
    }
    judge!(index_start, index_solution, "index");
    judge!(blocks_start, blocks_solution, "blocks");
    judge!(guard_start, guard_solution, "guard");
    judge!(clamp_start, clamp_solution, "clamp");
    judge!(stride_start, stride_solution, "stride");
    judge!(matrix_start, matrix_solution, "matrix");
    judge!(outer_start, outer_solution, "outer");
    judge!(twice_start, twice_solution, "twice");
    judge!(pairs_start, pairs_solution, "pairs");
    judge!(fuse_start, fuse_solution, "fuse");
    judge!(pool_start, pool_solution, "pool");
    judge!(neighbours_start, neighbours_solution, "neighbours");
    judge!(reverse_start, reverse_solution, "reverse");
    judge!(warp_sum_start, warp_sum_solution, "warp-sum");
    judge!(first_start, first_solution, "first");
    judge!(vote_start, vote_solution, "vote");
    judge!(compact_start, compact_solution, "compact");
    judge!(rows_start, rows_solution, "rows");
    judge!(wide_start, wide_solution, "wide");
    judge!(sum_start, sum_solution, "sum");
    judge!(argmax_start, argmax_solution, "argmax");
    judge!(prefix_start, prefix_solution, "prefix");
    judge!(histogram_start, histogram_solution, "histogram");
    judge!(private_start, private_solution, "private");
    judge!(gemv_start, gemv_solution, "gemv");
    judge!(norm_start, norm_solution, "norm");
    judge!(layer_norm_start, layer_norm_solution, "layer-norm");
    judge!(log_sum_exp_start, log_sum_exp_solution, "log-sum-exp");
    judge!(shares_start, shares_solution, "shares");
    judge!(streams_start, streams_solution, "streams", streams_start::PLAN, streams_solution::PLAN);
    judge!(convolution_start, convolution_solution, "convolution");
    judge!(softmax_start, softmax_solution, "softmax");
    judge!(transpose_start, transpose_solution, "transpose");
    judge!(async_copy_start, async_copy_solution, "async-copy");
    judge!(two_stages_start, two_stages_solution, "two-stages");
    judge!(bulk_start, bulk_solution, "bulk");
    judge!(cluster_sum_start, cluster_sum_solution, "cluster-sum");
    judge!(product_start, product_solution, "product");
    judge!(mma_start, mma_solution, "mma");
    judge!(window_start, window_solution, "window");
    judge!(attention_start, attention_solution, "attention");
    judge!(wgmma_start, wgmma_solution, "wgmma");
    judge!(accumulate_start, accumulate_solution, "accumulate");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/exercise/records.tsv");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(path, &records).expect("the records can be written");
    }
    let recorded = std::fs::read_to_string(path).expect("the records");
    assert!(recorded == records, "other costs than recorded: UPDATE_SNAPSHOTS=1 records them\n{records}");
    assert_eq!(judged, EXERCISES.iter().map(|exercise| exercise.name).collect::<Vec<_>>());
}
