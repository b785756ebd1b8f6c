//! The exercises, each a step from the one before: threads, a grid, a warp, a block, rows, tiles.

use super::{Exercise, Goal, Host, steps, tiles};
use crate::ladder::{Arrays, Metric, samples};

/// Every exercise.
pub const EXERCISES: &[Exercise] = &[
    Exercise {
        name: "index",
        task: "Write its own position to each of n places, by one block of n threads",
        n: 256,
        goals: &[],
        hints: &[
            "`thread_idx().x` is a thread's position in its block: 0 to 255.",
            "`y.at(i)` is the i-th place; `i.cast::<f32>()` the number i as a float.",
        ],
        start: include_str!("files/index_start.rs"),
        solution: include_str!("files/index_solution.rs"),
        host: Host::Launch,
        problem: |n| Arrays { inputs: Vec::new(), expected: (0..n).map(|i| i as f32).collect(), tolerance: 0.0 },
    },
    Exercise {
        name: "blocks",
        task: "Write the sums of two lists of n numbers, by blocks of 256 threads",
        n: 10_240,
        goals: &[Goal::at_most(Metric::GlobalLoads, 640.0)],
        hints: &[
            "`block_idx().x` is the position of a block in the grid, `block_dim().x` its number of threads.",
            "The place of a thread among all of them: block_idx().x * block_dim().x + thread_idx().x.",
        ],
        start: include_str!("files/blocks_start.rs"),
        solution: include_str!("files/blocks_solution.rs"),
        host: Host::Launch,
        problem: |n| {
            let (a, b) = (samples::<f32>(12, n as usize), samples::<f32>(13, n as usize));
            let expected = a.iter().zip(&b).map(|(a, b)| a + b).collect();
            Arrays { inputs: vec![a, b], expected, tolerance: 0.0 }
        },
    },
    Exercise {
        name: "guard",
        task: "Add 1 to each of n numbers, by 4 blocks of 256 threads",
        n: 1000,
        goals: &[Goal::at_most(Metric::GlobalStores, 32.0)],
        hints: &[
            "4 blocks of 256 are 1,024 threads: 24 of them have no number.",
            "`when(i.lt(n), || …)` does what it holds in the threads whose i is less than n.",
        ],
        start: include_str!("files/guard_start.rs"),
        solution: include_str!("files/guard_solution.rs"),
        host: Host::Launch,
        problem: |n| {
            let x = samples::<f32>(14, n as usize);
            let expected = x.iter().map(|x| x + 1.0).collect();
            Arrays { inputs: vec![x], expected, tolerance: 0.0 }
        },
    },
    Exercise {
        name: "clamp",
        task: "Write each of n numbers, or 0 where it is negative, without a divergent branch",
        n: 4096,
        goals: &[Goal::at_most(Metric::DivergentBranches, 0.0)],
        hints: &[
            "A branch diverges where lanes of one warp go different ways; the warp then goes both ways, one after the other.",
            "`value.max(0.0)` is one instruction, which every lane executes.",
        ],
        start: include_str!("files/clamp_start.rs"),
        solution: include_str!("files/clamp_solution.rs"),
        host: Host::Launch,
        problem: |n| {
            let x: Vec<f32> = samples::<f32>(15, n as usize)
                .into_iter()
                .enumerate()
                .map(|(i, x)| if i % 3 == 0 { -x } else { x })
                .collect();
            let expected = x.iter().map(|x| x.max(0.0)).collect();
            Arrays { inputs: vec![x], expected, tolerance: 0.0 }
        },
    },
    Exercise {
        name: "stride",
        task: "Write three times each of n numbers, by 8 blocks of 256 threads",
        n: 100_000,
        goals: &[Goal::at_most(Metric::Blocks, 8.0), Goal::at_most(Metric::LoadSectors, 12_600.0)],
        hints: &[
            "A load of a warp takes whole sectors of 32 bytes: 32 neighbouring floats are 4 sectors, 32 distant ones 32.",
            "Let thread 0 take the numbers 0, 2048, 4096, …, thread 1 the numbers 1, 2049, …: `range(first, n, step, |i| …)`.",
            "The step is the number of all threads: grid_dim().x * block_dim().x.",
        ],
        start: include_str!("files/stride_start.rs"),
        solution: include_str!("files/stride_solution.rs"),
        host: Host::Launch,
        problem: |n| {
            let x = samples::<f32>(16, n as usize);
            let expected = x.iter().map(|x| 3.0 * x).collect();
            Arrays { inputs: vec![x], expected, tolerance: 0.0 }
        },
    },
    steps::MATRIX,
    steps::OUTER,
    Exercise {
        name: "twice",
        task: "Write twice each of n numbers",
        n: 100_003,
        goals: &[Goal::at_most(Metric::GlobalLoads, 800.0), Goal::at_most(Metric::LoadSectors, 12_600.0)],
        hints: &[
            "A load of a warp can bring 16 bytes for each lane: four floats, if they are neighbours.",
            "`x.at(4 * i).get_vec::<4>()` loads four at once, `set_vec` stores them; what is left of n goes one by one.",
            "Neighbouring threads take neighbouring groups, so that a warp touches each sector once.",
        ],
        start: include_str!("files/twice_start.rs"),
        solution: include_str!("files/twice_solution.rs"),
        host: Host::Launch,
        problem: |n| {
            let x = samples::<f32>(1, n as usize);
            let expected = x.iter().map(|x| 2.0 * x).collect();
            Arrays { inputs: vec![x], expected, tolerance: 0.0 }
        },
    },
    steps::PAIRS,
    steps::FUSE,
    steps::POOL,
    Exercise {
        name: "neighbours",
        task: "Write for each of n numbers the sum of it and its two neighbours (0 outside), by one block of n threads",
        n: 256,
        goals: &[Goal::at_most(Metric::GlobalLoads, 8.0)],
        hints: &[
            "8 warps may load once each: each thread its own number. The neighbours come from shared memory.",
            "`let tile = shared::<f32>(258)` is memory that all threads of a block see; `sync_threads()` waits until all have stored.",
            "Store number i at i + 1, and 0 at both ends.",
        ],
        start: include_str!("files/neighbours_start.rs"),
        solution: include_str!("files/neighbours_solution.rs"),
        host: Host::Launch,
        problem: |n| {
            let (x, n) = (samples::<f32>(17, n as usize), n as usize);
            let at = |i: usize| if (1..=n).contains(&i) { x[i - 1] } else { 0.0 };
            let expected = (1..=n).map(|i| at(i - 1) + at(i) + at(i + 1)).collect();
            Arrays { inputs: vec![x], expected, tolerance: 1e-5 }
        },
    },
    Exercise {
        name: "reverse",
        task: "Write n numbers in the opposite order, by one block, through shared memory",
        n: 256,
        goals: &[Goal::at_most(Metric::StoreSectors, 32.0), Goal::at_most(Metric::Barriers, 8.0)],
        hints: &[
            "A thread reads what another one has written: who says that it has been?",
            "`sync_threads()` between the store to shared memory and the load from it.",
        ],
        start: include_str!("files/reverse_start.rs"),
        solution: include_str!("files/reverse_solution.rs"),
        host: Host::Launch,
        problem: |n| {
            let x = samples::<f32>(2, n as usize);
            let expected = x.iter().rev().copied().collect();
            Arrays { inputs: vec![x], expected, tolerance: 0.0 }
        },
    },
    Exercise {
        name: "warp-sum",
        task: "Write the sum of n numbers, by one warp, without shared memory",
        n: 32,
        goals: &[Goal::at_most(Metric::GlobalLoads, 1.0), Goal::at_most(Metric::SharedAccesses, 0.0)],
        hints: &[
            "One load of a warp brings all 32 numbers: lane i loads number i.",
            "`shfl_xor(value, 16)` is the value of the lane whose number differs in the bit 16.",
            "After 16, 8, 4, 2 and 1 every lane has the sum of all.",
        ],
        start: include_str!("files/warp_sum_start.rs"),
        solution: include_str!("files/warp_sum_solution.rs"),
        host: Host::Launch,
        problem: |n| {
            let x = samples::<f32>(18, n as usize);
            let sum: f64 = x.iter().map(|x| f64::from(*x)).sum();
            Arrays { inputs: vec![x], expected: vec![sum as f32], tolerance: 1e-4 }
        },
    },
    steps::FIRST,
    steps::VOTE,
    steps::COMPACT,
    Exercise {
        name: "rows",
        task: "Write the sum of each row of a matrix of n rows and n columns",
        n: 64,
        goals: &[Goal::at_most(Metric::LoadSectors, 512.0)],
        hints: &[
            "The lanes of a warp that read one column of 32 rows touch 32 sectors, and use 4 bytes of each.",
            "Give each row to a warp: lane i takes the columns i and i + 32.",
            "Then fold the 32 sums by shuffles, as in warp-sum; `warp_id()` is the warp in its block.",
        ],
        start: include_str!("files/rows_start.rs"),
        solution: include_str!("files/rows_solution.rs"),
        host: Host::Launch,
        problem: |n| {
            let n = n as usize;
            let x = samples::<f32>(19, n * n);
            let expected = x.chunks(n).map(|row| row.iter().sum()).collect();
            Arrays { inputs: vec![x], expected, tolerance: 1e-3 }
        },
    },
    steps::WIDE,
    Exercise {
        name: "sum",
        task: "Write the sum of n numbers, by one block of 256 threads",
        n: 4096,
        goals: &[
            Goal::at_most(Metric::Barriers, 16.0),
            Goal::at_most(Metric::LoadConflicts, 0.0),
            Goal::at_most(Metric::SharedAccesses, 32.0),
        ],
        hints: &[
            "A tree over 256 threads has 8 levels, and a barrier each, for 8 warps: 64. Within a warp no barrier is needed.",
            "Let each thread add up its numbers first, each warp by `shfl_xor`, and one lane of each warp store its sum.",
            "8 sums of warps: one barrier, and one thread adds them.",
        ],
        start: include_str!("files/sum_start.rs"),
        solution: include_str!("files/sum_solution.rs"),
        host: Host::Launch,
        problem: |n| {
            let x = samples::<f32>(3, n as usize);
            let sum: f64 = x.iter().map(|x| f64::from(*x)).sum();
            Arrays { inputs: vec![x], expected: vec![sum as f32], tolerance: 1e-2 }
        },
    },
    steps::ARGMAX,
    Exercise {
        name: "prefix",
        task: "Write for each of n numbers the sum up to it, itself included, by one block of n threads",
        n: 256,
        goals: &[Goal::at_most(Metric::Barriers, 16.0), Goal::at_most(Metric::SharedAccesses, 64.0)],
        hints: &[
            "Within a warp `shfl_up(value, d)` is the value of the lane d below; lanes below d keep theirs.",
            "Then each warp adds the totals of the warps before it: they are stored by lane 31.",
        ],
        start: include_str!("files/prefix_start.rs"),
        solution: include_str!("files/prefix_solution.rs"),
        host: Host::Launch,
        problem: |n| {
            let x = samples::<f32>(4, n as usize);
            let mut sum = 0.0;
            let upto = x.iter().map(|x| {
                sum += f64::from(*x);
                sum as f32
            });
            let expected = upto.collect();
            Arrays { inputs: vec![x], expected, tolerance: 1e-3 }
        },
    },
    steps::HISTOGRAM,
    steps::PRIVATE,
    Exercise {
        name: "gemv",
        task: "Write the product of a matrix of n rows and n columns and a vector",
        n: 64,
        goals: &[Goal::at_most(Metric::LoadSectors, 1024.0)],
        hints: &[
            "It is rows, with a product: the matrix is read once, and its lanes must be neighbours in a row.",
            "`a.mul_add(b, c)` is a * b + c, rounded once.",
        ],
        start: include_str!("files/gemv_start.rs"),
        solution: include_str!("files/gemv_solution.rs"),
        host: Host::Launch,
        problem: |n| {
            let n = n as usize;
            let (a, x) = (samples::<f32>(20, n * n), samples::<f32>(21, n));
            let dot = |row: &[f32]| row.iter().zip(&x).map(|(a, x)| f64::from(a * x)).sum::<f64>() as f32;
            let expected = a.chunks(n).map(dot).collect();
            Arrays { inputs: vec![a, x], expected, tolerance: 1e-3 }
        },
    },
    Exercise {
        name: "norm",
        task: "Write each of 16 rows of n numbers divided by the root of the mean of its squares",
        n: 1024,
        goals: &[Goal::at_most(Metric::LoadBytes, 65_536.0)],
        hints: &[
            "Both passes need the row; the second one should not load it again.",
            "256 threads and 1,024 numbers: four each. An array of four values stays in registers.",
        ],
        start: include_str!("files/norm_start.rs"),
        solution: include_str!("files/norm_solution.rs"),
        host: Host::Launch,
        problem: |n| {
            let x = samples::<f32>(22, 16 * n as usize);
            let row = |row: &[f32]| {
                let squares: f64 = row.iter().map(|x| f64::from(x * x)).sum();
                let root = (squares / row.len() as f64).sqrt();
                row.iter().map(|x| (f64::from(*x) / root) as f32).collect::<Vec<_>>()
            };
            let expected = x.chunks(n as usize).flat_map(row).collect();
            Arrays { inputs: vec![x], expected, tolerance: 1e-4 }
        },
    },
    steps::LAYER_NORM,
    steps::LOG_SUM_EXP,
    steps::SHARES,
    steps::STREAMS,
    Exercise {
        name: "convolution",
        task: "Write the convolution of n numbers with 5 weights: for each place the sum of weight t times number i + t - 2 (0 outside)",
        n: 1024,
        goals: &[Goal::at_most(Metric::GlobalLoads, 48.0)],
        hints: &[
            "Each number is loaded five times, and each weight by each thread.",
            "A block of 256 needs 260 numbers: 256 and two on either side. Bring them and the weights to shared memory first.",
            "A barrier stands between the last store to shared memory and the first load.",
        ],
        start: include_str!("files/convolution_start.rs"),
        solution: include_str!("files/convolution_solution.rs"),
        host: Host::Launch,
        problem: |n| {
            let (x, w) = (samples::<f32>(23, n as usize), samples::<f32>(24, 5));
            let at =
                |i: usize, t: usize| (i + t).checked_sub(2).and_then(|place| x.get(place)).map_or(0.0, |x| x * w[t]);
            let expected = (0..n as usize).map(|i| (0..5).map(|t| at(i, t)).sum()).collect();
            Arrays { inputs: vec![x, w], expected, tolerance: 1e-3 }
        },
    },
    Exercise {
        name: "softmax",
        task: "Write the softmax of each of 64 rows of n numbers",
        n: 1000,
        goals: &[Goal::at_most(Metric::LoadBytes, 256_000.0)],
        hints: &[
            "256 threads and 1,000 numbers: four each, which stay in registers.",
            "`get_or(f32::NEG_INFINITY, i.lt(n))` is what changes nothing where there is no number.",
        ],
        start: include_str!("files/softmax_start.rs"),
        solution: include_str!("files/softmax_solution.rs"),
        host: Host::Launch,
        problem: |n| {
            let x = samples::<f32>(5, 64 * n as usize);
            let expected = x.chunks(n as usize).flat_map(softmax).collect();
            Arrays { inputs: vec![x], expected, tolerance: 1e-5 }
        },
    },
    Exercise {
        name: "transpose",
        task: "Write the transpose of a matrix of n rows and n columns",
        n: 128,
        goals: &[
            Goal::at_most(Metric::LoadSectors, 2048.0),
            Goal::at_most(Metric::StoreSectors, 2048.0),
            Goal::at_most(Metric::LoadConflicts, 0.0),
        ],
        hints: &[
            "32 words apart is the same bank: the lanes that read a column of the tile wait for one another.",
            "With 33 words a row, a column lies in 32 banks.",
        ],
        start: include_str!("files/transpose_start.rs"),
        solution: include_str!("files/transpose_solution.rs"),
        host: Host::Launch,
        problem: |n| {
            let n = n as usize;
            let x = samples::<f32>(6, n * n);
            let expected = (0..n * n).map(|i| x[i % n * n + i / n]).collect();
            Arrays { inputs: vec![x], expected, tolerance: 0.0 }
        },
    },
    tiles::ASYNC_COPY,
    tiles::TWO_STAGES,
    tiles::BULK,
    tiles::CLUSTER_SUM,
    Exercise {
        name: "product",
        task: "Write the product of two matrices of n rows and n columns",
        n: 64,
        goals: &[Goal::at_most(Metric::LoadBytes, 131_072.0), Goal::at_most(Metric::SharedLoadsPerOutput, 64.0)],
        hints: &[
            "Each output takes 2 loads from shared memory per step. A thread with 2 x 2 outputs takes 4 loads for 4 products.",
            "Let a block compute 32 x 32, and a thread the outputs at distance 16.",
        ],
        start: include_str!("files/product_start.rs"),
        solution: include_str!("files/product_solution.rs"),
        host: Host::Launch,
        problem: |n| {
            let n = n as usize;
            let (a, b) = (samples::<f32>(7, n * n), samples::<f32>(8, n * n));
            let of = |i: usize| (0..n).map(|k| f64::from(a[i / n * n + k]) * f64::from(b[k * n + i % n])).sum::<f64>();
            let expected = (0..n * n).map(|i| of(i) as f32).collect();
            Arrays { inputs: vec![a, b], expected, tolerance: 1e-3 }
        },
    },
    tiles::MMA,
    Exercise {
        name: "window",
        task: "Write the convolution of an image of n rows and columns with a filter of 3 by 3, without padding",
        n: 64,
        goals: &[Goal::at_most(Metric::LoadBytes, 24_000.0), Goal::at_most(Metric::LoadConflicts, 0.0)],
        hints: &[
            "Each pixel is read by nine threads. A block of 8 rows of 32 outputs needs 10 rows of 34 pixels.",
            "Bring the pixels and the filter to shared memory first, with a barrier between the last store and the first load.",
        ],
        start: include_str!("files/window_start.rs"),
        solution: include_str!("files/window_solution.rs"),
        host: Host::Launch,
        problem: |n| {
            let n = n as usize;
            let (x, filter) = (samples::<f32>(12, n * n), samples::<f32>(13, 9));
            let of = |row: usize, column: usize| -> f32 {
                (0..9).map(|i| x[(row + i / 3) * n + column + i % 3] * filter[i]).sum()
            };
            let places = (0..n - 2).flat_map(|row| (0..n - 2).map(move |column| (row, column)));
            let expected = places.map(|(row, column)| of(row, column)).collect();
            Arrays { inputs: vec![x, filter], expected, tolerance: 1e-4 }
        },
    },
    Exercise {
        name: "attention",
        task: "Write the attention of one head: n queries, n keys and n values of 16 numbers, scaled by 1/4",
        n: 64,
        goals: &[Goal::at_most(Metric::StoreBytes, 4096.0), Goal::at_most(Metric::LoadBytes, 20_480.0)],
        hints: &[
            "All threads of a block read the same keys and values: bring them to shared memory once.",
            "One pass: where a larger score comes, what was summed so far is rescaled by exp(old - new).",
        ],
        start: include_str!("files/attention_start.rs"),
        solution: include_str!("files/attention_solution.rs"),
        host: Host::Launch,
        problem: |n| {
            let n = n as usize;
            let [q, k, v] = [9, 10, 11].map(|seed| samples::<f32>(seed, n * HEAD));
            let row = |query: &[f32]| -> Vec<f32> {
                let dot = |key: &[f32]| query.iter().zip(key).map(|(a, b)| a * b).sum::<f32>() / 4.0;
                let weights = softmax(&k.chunks(HEAD).map(dot).collect::<Vec<_>>());
                (0..HEAD).map(|d| weights.iter().zip(v.chunks(HEAD)).map(|(w, v)| w * v[d]).sum()).collect()
            };
            let expected = q.chunks(HEAD).flat_map(row).collect();
            Arrays { inputs: vec![q, k, v], expected, tolerance: 1e-4 }
        },
    },
    tiles::WGMMA,
    tiles::ACCUMULATE,
];

/// Elements of a head of the exercise on attention.
const HEAD: usize = 16;

fn softmax(row: &[f32]) -> Vec<f32> {
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f64> = row.iter().map(|x| f64::from(x - most).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|power| (power / sum) as f32).collect()
}

/// A problem of these inputs.
pub(super) fn problem(inputs: Vec<Vec<f32>>, expected: Vec<f32>, tolerance: f64) -> Arrays<f32> {
    Arrays { inputs, expected, tolerance }
}

/// The product of `rows` rows and a matrix of `columns` columns, both row-major.
pub(super) fn product(a: &[f32], b: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let depth = a.len() / rows;
    let of = |row: usize, column: usize| {
        (0..depth).map(|k| f64::from(a[row * depth + k] * b[k * columns + column])).sum::<f64>() as f32
    };
    (0..rows * columns).map(|i| of(i / columns, i % columns)).collect()
}

/// The transpose of rows of `len` numbers.
pub(super) fn lines(rows: &[f32], len: usize) -> Vec<f32> {
    (0..len).flat_map(|k| rows.chunks(len).map(move |row| row[k])).collect()
}
