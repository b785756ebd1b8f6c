//! The exercises, in the order of the book.

use super::{Exercise, Goal};
use crate::ladder::{Arrays, Metric, samples};

/// Every exercise.
pub const EXERCISES: &[Exercise] = &[
    Exercise {
        name: "twice",
        task: "Write twice each of n numbers",
        n: 100_003,
        goals: &[Goal::at_most(Metric::GlobalLoads, 800.0), Goal::at_most(Metric::LoadSectors, 12_600.0)],
        problem: |n| {
            let x = samples::<f32>(1, n as usize);
            let expected = x.iter().map(|x| 2.0 * x).collect();
            Arrays { inputs: vec![x], expected, tolerance: 0.0 }
        },
    },
    Exercise {
        name: "reverse",
        task: "Write n numbers in the opposite order, by one block, through shared memory",
        n: 256,
        goals: &[Goal::at_most(Metric::StoreSectors, 32.0), Goal::at_most(Metric::Barriers, 8.0)],
        problem: |n| {
            let x = samples::<f32>(2, n as usize);
            let expected = x.iter().rev().copied().collect();
            Arrays { inputs: vec![x], expected, tolerance: 0.0 }
        },
    },
    Exercise {
        name: "sum",
        task: "Write the sum of n numbers, by one block of 256 threads",
        n: 4096,
        goals: &[
            Goal::at_most(Metric::Barriers, 16.0),
            Goal::at_most(Metric::LoadConflicts, 0.0),
            Goal::at_most(Metric::SharedAccesses, 32.0),
        ],
        problem: |n| {
            let x = samples::<f32>(3, n as usize);
            let sum: f64 = x.iter().map(|x| f64::from(*x)).sum();
            Arrays { inputs: vec![x], expected: vec![sum as f32], tolerance: 1e-2 }
        },
    },
    Exercise {
        name: "prefix",
        task: "Write for each of n numbers the sum up to it, itself included, by one block of n threads",
        n: 256,
        goals: &[Goal::at_most(Metric::Barriers, 16.0), Goal::at_most(Metric::SharedAccesses, 64.0)],
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
    Exercise {
        name: "softmax",
        task: "Write the softmax of each of 64 rows of n numbers",
        n: 1000,
        goals: &[Goal::at_most(Metric::LoadBytes, 256_000.0)],
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
        problem: |n| {
            let n = n as usize;
            let x = samples::<f32>(6, n * n);
            let expected = (0..n * n).map(|i| x[i % n * n + i / n]).collect();
            Arrays { inputs: vec![x], expected, tolerance: 0.0 }
        },
    },
    Exercise {
        name: "product",
        task: "Write the product of two matrices of n rows and n columns",
        n: 64,
        goals: &[Goal::at_most(Metric::LoadBytes, 131_072.0), Goal::at_most(Metric::SharedLoadsPerOutput, 64.0)],
        problem: |n| {
            let n = n as usize;
            let (a, b) = (samples::<f32>(7, n * n), samples::<f32>(8, n * n));
            let of = |i: usize| (0..n).map(|k| f64::from(a[i / n * n + k]) * f64::from(b[k * n + i % n])).sum::<f64>();
            let expected = (0..n * n).map(|i| of(i) as f32).collect();
            Arrays { inputs: vec![a, b], expected, tolerance: 1e-3 }
        },
    },
    Exercise {
        name: "window",
        task: "Write the convolution of an image of n rows and columns with a filter of 3 by 3, without padding",
        n: 64,
        goals: &[Goal::at_most(Metric::LoadBytes, 24_000.0), Goal::at_most(Metric::LoadConflicts, 0.0)],
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
];

/// Elements of a head of the exercise on attention.
const HEAD: usize = 16;

fn softmax(row: &[f32]) -> Vec<f32> {
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f64> = row.iter().map(|x| f64::from(x - most).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|power| (power / sum) as f32).collect()
}
