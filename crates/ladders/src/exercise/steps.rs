//! Exercises on places, warps, counting and rows.

use super::list::{problem, product};
use super::{Exercise, Goal, Host};
use crate::ladder::{Metric, samples};

pub(super) const MATRIX: Exercise = Exercise {
    name: "matrix",
    task: "Add 10 to each element of a matrix of n rows and columns, by blocks of 16 by 16",
    n: 50,
    goals: &[Goal::at_most(Metric::LoadSectors, 1_000.0)],
    hints: &[
        "Rows lie one after the other: the element of a row and a column is at row * n + column.",
        "Threads with neighbouring x are neighbours in a warp: let x be the column.",
    ],
    start: include_str!("files/matrix_start.rs"),
    solution: include_str!("files/matrix_solution.rs"),
    host: Host::Launch,
    problem: |n| {
        let n = n as usize;
        let x = samples::<f32>(30, n * n);
        let expected = x.iter().map(|x| x + 10.0).collect();
        problem(vec![x], expected, 0.0)
    },
};

pub(super) const OUTER: Exercise = Exercise {
    name: "outer",
    task: "Write the sums of every number of a list of n (down the rows) with every one of another (along them)",
    n: 64,
    goals: &[],
    hints: &["The output is a matrix of n rows and n columns; which list does the row choose?"],
    start: include_str!("files/outer_start.rs"),
    solution: include_str!("files/outer_solution.rs"),
    host: Host::Launch,
    problem: |n| {
        let n = n as usize;
        let (a, b) = (samples::<f32>(31, n), samples::<f32>(32, n));
        let expected = a.iter().flat_map(|a| b.iter().map(move |b| a + b)).collect();
        problem(vec![a, b], expected, 0.0)
    },
};

pub(super) const PAIRS: Exercise = Exercise {
    name: "pairs",
    task: "Write the sum of each pair of neighbours: n sums of 2 n numbers",
    n: 1024,
    goals: &[Goal::at_most(Metric::GlobalLoads, 32.0)],
    hints: &[
        "Number 2 i and number 2 i + 1 are 8 bytes that lie together.",
        "`x.at(2 * i).get_vec::<2>()` loads both at once.",
    ],
    start: include_str!("files/pairs_start.rs"),
    solution: include_str!("files/pairs_solution.rs"),
    host: Host::Launch,
    problem: |n| {
        let n = n as usize;
        let x = samples::<f32>(33, 2 * n);
        let expected = x.chunks(2).map(|pair| pair[0] + pair[1]).collect();
        problem(vec![x], expected, 0.0)
    },
};

pub(super) const FUSE: Exercise = Exercise {
    name: "fuse",
    task: "Write the positive part of each number less the bias of its column: a matrix of n rows and n columns",
    n: 64,
    goals: &[Goal::at_most(Metric::LoadBytes, 32_768.0), Goal::at_most(Metric::StoreBytes, 16_384.0)],
    hints: &[
        "What one step stores and the next one loads can stay in a register.",
        "Two operators that are fused read and write memory once.",
    ],
    start: include_str!("files/fuse_start.rs"),
    solution: include_str!("files/fuse_solution.rs"),
    host: Host::Launch,
    problem: |n| {
        let n = n as usize;
        let (x, bias) = (samples::<f32>(34, n * n), samples::<f32>(35, n));
        let expected = x.iter().enumerate().map(|(i, x)| (x - bias[i % n]).max(0.0)).collect();
        problem(vec![x, bias], expected, 0.0)
    },
};

pub(super) const POOL: Exercise = Exercise {
    name: "pool",
    task: "Write the largest of each 2 by 2 pixels of an image of 2 n rows and 2 n columns",
    n: 32,
    goals: &[Goal::at_most(Metric::GlobalLoads, 64.0)],
    hints: &["The two pixels of a row lie together.", "Two loads of 8 bytes bring all four."],
    start: include_str!("files/pool_start.rs"),
    solution: include_str!("files/pool_solution.rs"),
    host: Host::Launch,
    problem: |n| {
        let n = n as usize;
        let x = samples::<f32>(36, 4 * n * n);
        let at = |row: usize, column: usize| x[row * 2 * n + column];
        let most = |r: usize, c: usize| at(r, c).max(at(r, c + 1)).max(at(r + 1, c)).max(at(r + 1, c + 1));
        let expected = (0..n * n).map(|i| most(i / n * 2, i % n * 2)).collect();
        problem(vec![x], expected, 0.0)
    },
};

pub(super) const FIRST: Exercise = Exercise {
    name: "first",
    task: "Write each of n numbers less the first one of its 32, with one load for each warp",
    n: 256,
    goals: &[Goal::at_most(Metric::GlobalLoads, 8.0)],
    hints: &[
        "Every lane has loaded its own number; lane 0 has what all lanes need.",
        "`shfl(value, 0)` is the value of lane 0.",
    ],
    start: include_str!("files/first_start.rs"),
    solution: include_str!("files/first_solution.rs"),
    host: Host::Launch,
    problem: |n| {
        let n = n as usize;
        let x = samples::<f32>(37, n);
        let expected = x.iter().enumerate().map(|(i, v)| v - x[i / 32 * 32]).collect();
        problem(vec![x], expected, 0.0)
    },
};

pub(super) const VOTE: Exercise = Exercise {
    name: "vote",
    task: "Write for each of n numbers how many of its 32 are positive",
    n: 256,
    goals: &[Goal::at_most(Metric::WarpSyncs, 8.0)],
    hints: &[
        "A sum by shuffles takes five steps; one bit per lane is enough here.",
        "`ballot(condition)` has a bit for each lane in which it holds; `.popc()` counts them.",
    ],
    start: include_str!("files/vote_start.rs"),
    solution: include_str!("files/vote_solution.rs"),
    host: Host::Launch,
    problem: |n| {
        let n = n as usize;
        let x: Vec<f32> = samples::<f32>(38, n)
            .into_iter()
            .enumerate()
            .map(|(i, x)| if i % 3 == 0 { -1.0 - x.abs() } else { 1.0 + x.abs() })
            .collect();
        let count = |group: &[f32]| group.iter().filter(|x| **x > 0.0).count() as f32;
        let expected = x.chunks(32).flat_map(|group| [count(group); 32]).collect();
        problem(vec![x], expected, 0.0)
    },
};

pub(super) const COMPACT: Exercise = Exercise {
    name: "compact",
    task: "Write the positive ones of n numbers in their order, and 0 after them, by one warp",
    n: 32,
    goals: &[Goal::at_most(Metric::GlobalLoads, 1.0)],
    hints: &[
        "The place of a number is how many positive ones are before it.",
        "`ballot(condition) & lanes_before()` has the lanes before this one in which it holds.",
    ],
    start: include_str!("files/compact_start.rs"),
    solution: include_str!("files/compact_solution.rs"),
    host: Host::Launch,
    problem: |n| {
        let n = n as usize;
        let x: Vec<f32> = samples::<f32>(39, n)
            .into_iter()
            .enumerate()
            .map(|(i, x)| if i % 3 == 0 { -1.0 - x.abs() } else { 1.0 + x.abs() })
            .collect();
        let mut expected: Vec<f32> = x.iter().copied().filter(|x| *x > 0.0).collect();
        expected.resize(n, 0.0);
        problem(vec![x], expected, 0.0)
    },
};

pub(super) const WIDE: Exercise = Exercise {
    name: "wide",
    task: "Write the product of a matrix of 8 rows and n columns and a vector of n numbers, with loads of 16 bytes",
    n: 1024,
    goals: &[Goal::at_most(Metric::GlobalLoads, 128.0)],
    hints: &[
        "A warp takes a row; a lane takes four neighbouring columns at a time.",
        "`get_vec::<4>()` of the row and of the vector, at the same columns.",
    ],
    start: include_str!("files/wide_start.rs"),
    solution: include_str!("files/wide_solution.rs"),
    host: Host::Launch,
    problem: |n| {
        let n = n as usize;
        let (a, x) = (samples::<f32>(40, 8 * n), samples::<f32>(41, n));
        let expected = product(&a, &x, 8, 1);
        problem(vec![a, x], expected, 1e-2)
    },
};

pub(super) const ARGMAX: Exercise = Exercise {
    name: "argmax",
    task: "Write the position of the largest of n numbers, by one block of n threads",
    n: 256,
    goals: &[Goal::at_most(Metric::GlobalLoads, 8.0), Goal::at_most(Metric::Barriers, 8.0)],
    hints: &[
        "A pair of a value and its position folds like a sum: of two pairs the one with the larger value stays.",
        "Shuffle both of them; then one lane of each warp stores its pair, and one thread folds 8 pairs.",
    ],
    start: include_str!("files/argmax_start.rs"),
    solution: include_str!("files/argmax_solution.rs"),
    host: Host::Launch,
    problem: |n| {
        let n = n as usize;
        let x = samples::<f32>(42, n);
        let most = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let first = x.iter().position(|x| *x == most).unwrap_or(0);
        problem(vec![x], vec![first as f32], 0.0)
    },
};

pub(super) const HISTOGRAM: Exercise = Exercise {
    name: "histogram",
    task: "Count how often each of 0 to 15 is among n numbers, by one block of 256 threads",
    n: 2048,
    goals: &[Goal::at_most(Metric::GlobalLoads, 64.0)],
    hints: &[
        "Two threads that add to one place lose an addition: load, add and store are three steps.",
        "`counts.at(bin).atomic().add(1)` is one step that nobody comes between.",
    ],
    start: include_str!("files/histogram_start.rs"),
    solution: include_str!("files/histogram_solution.rs"),
    host: Host::Launch,
    problem: |n| {
        let n = n as usize;
        let x: Vec<f32> = (0..n).map(|i| (i * 7 % 31 % 16) as f32).collect();
        let mut expected = vec![0.0; 16];
        for bin in &x {
            expected[*bin as usize] += 1.0;
        }
        problem(vec![x], expected, 0.0)
    },
};

pub(super) const PRIVATE: Exercise = Exercise {
    name: "private",
    task: "Count as in histogram, where nearly all numbers are 3, without a turn that lanes wait for",
    n: 2048,
    goals: &[Goal::at_most(Metric::AtomicConflicts, 0.0)],
    hints: &[
        "Lanes that add to one place take turns: 32 of them where all numbers are the same.",
        "Give each lane a copy of the counts, at bin * 32 + lane: 32 lanes, 32 banks.",
        "Then a warp adds up the 32 copies of a bin.",
    ],
    start: include_str!("files/private_start.rs"),
    solution: include_str!("files/private_solution.rs"),
    host: Host::Launch,
    problem: |n| {
        let n = n as usize;
        let x: Vec<f32> = (0..n).map(|i| if i % 64 == 5 { (i / 64 % 16) as f32 } else { 3.0 }).collect();
        let mut expected = vec![0.0; 16];
        for bin in &x {
            expected[*bin as usize] += 1.0;
        }
        problem(vec![x], expected, 0.0)
    },
};

pub(super) const LAYER_NORM: Exercise = Exercise {
    name: "layer-norm",
    task: "Write each of 16 rows of n numbers less their mean, divided by their standard deviation",
    n: 256,
    goals: &[Goal::at_most(Metric::LoadBytes, 16_384.0), Goal::at_most(Metric::Barriers, 0.0)],
    hints: &[
        "A warp has a row of 256 in 8 registers of each lane: no shared memory, no barrier.",
        "First the mean, by shuffles; then the squares of what is above or below it.",
    ],
    start: include_str!("files/layer_norm_start.rs"),
    solution: include_str!("files/layer_norm_solution.rs"),
    host: Host::Launch,
    problem: |n| {
        let n = n as usize;
        let x = samples::<f32>(43, 16 * n);
        let row = |row: &[f32]| -> Vec<f32> {
            let mean = row.iter().map(|x| f64::from(*x)).sum::<f64>() / n as f64;
            let variance = row.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / n as f64;
            row.iter().map(|x| ((f64::from(*x) - mean) / variance.sqrt()) as f32).collect()
        };
        let expected = x.chunks(n).flat_map(row).collect();
        problem(vec![x], expected, 1e-4)
    },
};

pub(super) const LOG_SUM_EXP: Exercise = Exercise {
    name: "log-sum-exp",
    task: "Write the logarithm of the sum of the exponentials of each of 8 rows of n numbers, in one pass",
    n: 512,
    goals: &[Goal::at_most(Metric::LoadBytes, 16_384.0)],
    hints: &[
        "The largest number so far is enough: where a larger one comes, the sum so far is multiplied by exp(old - new).",
        "Two pairs of maximum and sum fold into one in the same way, also across lanes.",
    ],
    start: include_str!("files/log_sum_exp_start.rs"),
    solution: include_str!("files/log_sum_exp_solution.rs"),
    host: Host::Launch,
    problem: |n| {
        let n = n as usize;
        let x = samples::<f32>(44, 8 * n);
        let row = |row: &[f32]| row.iter().map(|x| f64::from(*x).exp()).sum::<f64>().ln() as f32;
        let expected = x.chunks(n).map(row).collect();
        problem(vec![x], expected, 1e-4)
    },
};

pub(super) const SHARES: Exercise = Exercise {
    name: "shares",
    task: "Write on each of four GPUs the sum of the four lists of n numbers that they have, with loads of 16 bytes",
    n: 4096,
    goals: &[Goal::at_most(Metric::GlobalLoads, 512.0), Goal::at_most(Metric::GlobalStores, 128.0)],
    hints: &[
        "An all-reduce of one step: all four launch the kernel, each with its own y; a, b, c and d point to the memory of one GPU each.",
        "A wide load asks a link less often: four numbers at once.",
    ],
    start: include_str!("files/shares_start.rs"),
    solution: include_str!("files/shares_solution.rs"),
    host: Host::Gpus(4),
    problem: |n| {
        let n = n as usize;
        let shares = [45, 46, 47, 48].map(|seed| samples::<f32>(seed, n));
        let expected = (0..n).map(|i| shares.iter().map(|share| share[i]).sum()).collect();
        problem(shares.into(), expected, 1e-5)
    },
};

pub(super) const STREAMS: Exercise = Exercise {
    name: "streams",
    task: "Write three times each number of 4 parts of n, in a plan whose copies run while kernels do",
    n: 1024,
    goals: &[Goal::at_most(Metric::Steps, 6.0)],
    hints: &[
        "A stream does its work in order; work of two streams may overlap. One engine copies in, one copies out, one runs kernels.",
        "Step by step: in 0; in 1 and run 0; in 2, run 1 and out 0; … Six steps are enough for four parts.",
        "What a part needs is in order if it is all in one stream. A stream that still copies part 0 out keeps part 2 waiting: take more streams.",
    ],
    start: include_str!("files/streams_start.rs"),
    solution: include_str!("files/streams_solution.rs"),
    host: Host::Plan { parts: 4 },
    problem: |n| {
        let x = samples::<f32>(53, 4 * n as usize);
        let expected = x.iter().map(|x| 3.0 * x).collect();
        problem(vec![x], expected, 0.0)
    },
};
