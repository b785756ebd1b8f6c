//! Exercises on copies in the background, clusters and tensor cores.

use super::list::{lines, problem, product};
use super::{Exercise, Goal, Host};
use crate::ladder::{Metric, samples};

pub(super) const ASYNC_COPY: Exercise = Exercise {
    name: "async-copy",
    task: "Write n numbers in the opposite order, copied to shared memory in the background",
    n: 256,
    goals: &[Goal::at_most(Metric::Barriers, 8.0)],
    hints: &[
        "`tile.at(i).copy_async::<1>(x.at(i))` begins a copy; `commit_copies()` closes a group of them.",
        "`wait_for_copies(0)` waits for the copies of this thread; who waits for those of the others?",
    ],
    start: include_str!("files/async_copy_start.rs"),
    solution: include_str!("files/async_copy_solution.rs"),
    host: Host::Launch,
    problem: |n| {
        let n = n as usize;
        let x = samples::<f32>(49, n);
        let expected = x.iter().rev().copied().collect();
        problem(vec![x], expected, 0.0)
    },
};

pub(super) const TWO_STAGES: Exercise = Exercise {
    name: "two-stages",
    task: "Write each of 8 rows of n numbers in the opposite order, one row being copied while another is read",
    n: 256,
    goals: &[Goal::at_most(Metric::Barriers, 128.0)],
    hints: &[
        "Two stages: row k goes to stage k & 1, while the row before is read from the other.",
        "With one younger group under way, `wait_for_copies(1)` waits for the older one; the last row has none after it.",
    ],
    start: include_str!("files/two_stages_start.rs"),
    solution: include_str!("files/two_stages_solution.rs"),
    host: Host::Launch,
    problem: |n| {
        let n = n as usize;
        let x = samples::<f32>(50, 8 * n);
        let expected = x.chunks(n).flat_map(|row| row.iter().rev().copied()).collect();
        problem(vec![x], expected, 0.0)
    },
};

pub(super) const BULK: Exercise = Exercise {
    name: "bulk",
    task: "Write n numbers in the opposite order, brought by one bulk copy that a barrier in memory waits for",
    n: 256,
    goals: &[Goal::at_most(Metric::GlobalLoads, 1.0)],
    hints: &[
        "`arrive_expect(bytes)` says how many bytes the phase waits for; `copy_bulk` brings them.",
        "Every thread waits: `arrived.at(0).wait(0)`, the first phase has the parity 0.",
    ],
    start: include_str!("files/bulk_start.rs"),
    solution: include_str!("files/bulk_solution.rs"),
    host: Host::Launch,
    problem: |n| {
        let n = n as usize;
        let x = samples::<f32>(51, n);
        let expected = x.iter().rev().copied().collect();
        problem(vec![x], expected, 0.0)
    },
};

pub(super) const CLUSTER_SUM: Exercise = Exercise {
    name: "cluster-sum",
    task: "Write the sum of n numbers by a cluster of 4 blocks of 256 threads, without atomics",
    n: 1024,
    goals: &[Goal::at_most(Metric::Atomics, 0.0), Goal::at_most(Metric::StoreBytes, 4.0)],
    hints: &[
        "`shared.in_block(rank)` is the shared memory of another block of the cluster.",
        "`cluster_sync()` waits for all blocks: before the first access, and before a block that is read may end.",
    ],
    start: include_str!("files/cluster_sum_start.rs"),
    solution: include_str!("files/cluster_sum_solution.rs"),
    host: Host::Launch,
    problem: |n| {
        let n = n as usize;
        let x = samples::<f32>(52, n);
        let sum: f64 = x.iter().map(|x| f64::from(*x)).sum();
        problem(vec![x], vec![sum as f32], 1e-2)
    },
};

pub(super) const MMA: Exercise = Exercise {
    name: "mma",
    task: "Write the product of 16 rows of n numbers and the transpose of 16 others, by the tensor cores of one warp",
    n: 64,
    goals: &[Goal::at_most(Metric::Instructions, 1_500.0)],
    hints: &[
        "`mma` multiplies 16 x 16 by 16 x 8 halves at once; a tile in shared memory gives its fragments.",
        "`a.fragment_a(Major::K, 0, k)` and `b.fragments_b(Major::K, 0, k)`, which is two of 8 columns.",
        "`sums.add_product(left, right[0])`, and `sums.pairs()` for where the results lie.",
    ],
    start: include_str!("files/mma_start.rs"),
    solution: include_str!("files/mma_solution.rs"),
    host: Host::Launch,
    problem: |n| {
        let n = n as usize;
        let small =
            |seed| samples::<f32>(seed, 16 * n).into_iter().map(|x| (x * 8.0).round() / 8.0).collect::<Vec<f32>>();
        let (a, b) = (small(53), small(54));
        let expected = product(&a, &lines(&b, n), 16, 16);
        problem(vec![a, b], expected, 1e-2)
    },
};

pub(super) const WGMMA: Exercise = Exercise {
    name: "wgmma",
    task: "Write the product of n rows of 64 numbers and the transpose of n others, by one warpgroup",
    n: 64,
    goals: &[Goal::at_most(Metric::Instructions, 12_000.0)],
    hints: &[
        "Tensor cores read shared memory in the background: `fence_async()` shows them what threads have stored.",
        "Between `wgmma_commit()` and `wgmma_wait(0)` nobody may touch the sums.",
    ],
    start: include_str!("files/wgmma_start.rs"),
    solution: include_str!("files/wgmma_solution.rs"),
    host: Host::Launch,
    problem: |n| {
        let n = n as usize;
        let small =
            |seed| samples::<f32>(seed, 64 * n).into_iter().map(|x| (x * 8.0).round() / 8.0).collect::<Vec<f32>>();
        let (a, b) = (small(53), small(54));
        let expected = product(&a, &lines(&b, n), 64, 64);
        problem(vec![a, b], expected, 1e-2)
    },
};

pub(super) const ACCUMULATE: Exercise = Exercise {
    name: "accumulate",
    task: "Write the product of 64 rows of n numbers and the transpose of 64 others, in two panels of 64",
    n: 128,
    goals: &[Goal::at_most(Metric::Instructions, 24_000.0)],
    hints: &[
        "The second panel adds to the sums of the first: the last argument of `add_product` says whether they are kept.",
        "The tile may be overwritten only after `wgmma_wait(0)` and a barrier.",
    ],
    start: include_str!("files/accumulate_start.rs"),
    solution: include_str!("files/accumulate_solution.rs"),
    host: Host::Launch,
    problem: |n| {
        let n = n as usize;
        let small =
            |seed| samples::<f32>(seed, 64 * n).into_iter().map(|x| (x * 8.0).round() / 8.0).collect::<Vec<f32>>();
        let (a, b) = (small(53), small(54));
        let expected = product(&a, &lines(&b, n), 64, 64);
        problem(vec![a, b], expected, 1e-2)
    },
};
