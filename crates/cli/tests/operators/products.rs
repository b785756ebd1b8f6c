//! Products of matrices.

use std::rc::Rc;

use warpfold_conformance::reference::call::Options;
use warpfold_conformance::reference::dtype::Dtype;
use warpfold_conformance::reference::dtype::Dtype::F32;

use crate::data::Fill;
use crate::suite::{Stored, Suite};

const FILLS: [Fill; 8] = [
    Fill::Even,
    Fill::Small,
    Fill::Wide,
    Fill::Cancelling,
    Fill::Special,
    Fill::Offset,
    Fill::Denormal,
    Fill::Infinite,
];

/// Two matrices whose product has these sizes, each as it is or transposed.
fn pair(suite: &mut Suite, dtype: Dtype, [m, n, k]: [usize; 3], options: &Options, fill: Fill) -> [Rc<Stored>; 2] {
    let a = if options.transpose_a { [k, m] } else { [m, k] };
    let b = if options.transpose_b { [n, k] } else { [k, n] };
    [suite.input(dtype, &a, fill, 1), suite.input(dtype, &b, fill, 2)]
}

#[test]
fn matmul_of_every_shape_and_layout() {
    let mut suite = Suite::new("matmul");
    let mut turn = 0;
    for m in [0, 1, 3, 16, 17, 65] {
        for n in [0, 1, 4, 63, 129] {
            for k in [0, 1, 8, 31, 200] {
                turn += 1;
                let options = Options { transpose_a: turn % 2 == 0, transpose_b: turn % 3 == 0, ..Options::default() };
                let [a, b] = pair(&mut suite, F32, [m, n, k], &options, FILLS[turn % 8]);
                suite.add("matmul", &[&a, &b], options);
            }
        }
    }
    for (m, n, k) in [(1, 1, 5000), (130, 257, 33), (2, 300, 1000)] {
        for invariant in [false, true] {
            let options = Options { batch_invariant: invariant, ..Options::default() };
            let [a, b] = pair(&mut suite, F32, [m, n, k], &options, Fill::Even);
            suite.add("matmul", &[&a, &b], options);
        }
    }
    suite.run();
}

#[test]
fn matmul_of_every_type_into_others() {
    let mut suite = Suite::new("matmul_types");
    for dtype in Dtype::all() {
        for (m, n, k) in [(5, 7, 9), (16, 32, 24), (3, 0, 2)] {
            for transpose_b in [false, true] {
                let options = Options { transpose_b, ..Options::default() };
                let [a, b] = pair(&mut suite, dtype, [m, n, k], &options, Fill::Small);
                suite.add("matmul", &[&a, &b], options.clone());
                if dtype.is_float() {
                    for to in [F32, Dtype::Bf16, Dtype::F16] {
                        suite.add("matmul", &[&a, &b], Options { dtype: Some(to), ..options.clone() });
                    }
                }
            }
        }
    }
    let (a, b) = (suite.input(F32, &[2, 3], Fill::Small, 1), suite.input(Dtype::F16, &[3, 2], Fill::Small, 2));
    suite.add("matmul", &[&a, &b], Options::default());
    suite.run();
}

#[test]
fn matmul_of_vectors_and_batches_as_in_numpy() {
    let mut suite = Suite::new("matmul_batches");
    let shapes: &[(&[usize], &[usize])] = &[
        (&[5], &[5]),
        (&[5], &[5, 3]),
        (&[4, 5], &[5]),
        (&[2, 4, 5], &[5]),
        (&[5], &[2, 5, 3]),
        (&[2, 4, 5], &[5, 3]),
        (&[4, 5], &[3, 5, 2]),
        (&[2, 1, 4, 5], &[3, 5, 2]),
        (&[2, 3, 4, 5], &[2, 3, 5, 2]),
        (&[2, 1, 3, 1, 4, 5], &[2, 1, 2, 5, 2]),
        (&[2, 1, 2, 1, 2, 4, 5], &[1, 2, 1, 2, 1, 5, 2]),
        (&[0, 4, 5], &[5, 3]),
        (&[3, 4, 0], &[0, 3]),
        (&[], &[5]),
        (&[5], &[]),
        (&[4, 5], &[4, 5]),
        (&[2, 4, 5], &[3, 5, 2]),
        (&[5], &[4]),
    ];
    for (left, right) in shapes {
        for dtype in [F32, Dtype::F64, Dtype::Bf16] {
            let (a, b) = (suite.input(dtype, left, Fill::Even, 1), suite.input(dtype, right, Fill::Even, 2));
            suite.add("matmul", &[&a, &b], Options::default());
            let bias = suite.input(dtype, &[1], Fill::Even, 3);
            suite.add("matmul", &[&a, &b, &bias], Options { bias: true, ..Options::default() });
        }
    }
    suite.run();
}

#[test]
fn matmul_with_everything_behind_it() {
    let mut suite = Suite::new("matmul_epilogues");
    let activations =
        [None, Some("relu"), Some("gelu"), Some("gelu-tanh"), Some("silu"), Some("sigmoid"), Some("tanh")];
    let mut turn = 0;
    for (m, n, k) in [(6, 8, 12), (7, 9, 11), (33, 64, 40)] {
        let biases: [Option<&[usize]>; 4] = [None, Some(&[n]), Some(&[m, 1]), Some(&[m, n])];
        for bias in biases {
            for activation in activations.into_iter().chain([Some("swish")]) {
                turn += 1;
                let options = Options {
                    bias: bias.is_some(),
                    activation: activation.map(str::to_owned),
                    alpha: [None, Some(0.75), Some(-1.5)][turn % 3],
                    beta: [None, Some(0.5), Some(-2.0), Some(1.0)][turn % 4],
                    ..Options::default()
                };
                let dtype = [F32, Dtype::F16, Dtype::Bf16, Dtype::F64, F32][turn % 5];
                let [a, b] = pair(&mut suite, dtype, [m, n, k], &options, [Fill::Even, Fill::Small][turn % 2]);
                let c = suite.input(dtype, &[[m, n], [1, n], [m, 1]][turn % 3], Fill::Even, 3);
                let bias = bias.map(|shape| suite.input(dtype, shape, Fill::Even, 4));
                // A factor of an input that is not there is refused.
                let has_c = turn % 7 != 0;
                let inputs = [Some(&a), Some(&b), has_c.then_some(&c), bias.as_ref()];
                suite.add("matmul", &inputs.into_iter().flatten().collect::<Vec<_>>(), options);
            }
        }
    }
    let [a, b] = pair(&mut suite, Dtype::I32, [5, 6, 7], &Options::default(), Fill::Small);
    let bias = suite.input(Dtype::I32, &[6], Fill::Small, 5);
    for activation in [None, Some("relu"), Some("gelu")] {
        let options = Options { bias: true, activation: activation.map(str::to_owned), ..Options::default() };
        suite.add("matmul", &[&a, &b, &bias], options);
    }
    let c = suite.input(Dtype::I32, &[5, 6], Fill::Small, 6);
    for (alpha, beta) in [(Some(2.0), None), (None, Some(-3.0)), (Some(0.5), None), (Some(2.0), Some(1.5))] {
        suite.add("matmul", &[&a, &b, &c], Options { alpha, beta, ..Options::default() });
    }
    let wrong = suite.input(Dtype::I32, &[5], Fill::Small, 5);
    suite.add("matmul", &[&a, &b, &wrong], Options { bias: true, ..Options::default() });
    suite.run();
}

#[test]
fn matmul_of_scaled_eight_bit_floats() {
    let mut suite = Suite::new("matmul_scales");
    let (m, n, k) = (17, 32, 48);
    let with = |scale_a: bool, scale_b: bool| Options { scale_a, scale_b, transpose_b: true, ..Options::default() };
    for dtype in [Dtype::F8E4M3, Dtype::F8E5M2, Dtype::Bf16] {
        let [a, b] = pair(&mut suite, dtype, [m, n, k], &with(true, true), Fill::Even);
        let mut scale = |shape: &[usize], seed| suite.input(F32, shape, Fill::Positive, seed);
        let (one, rows, columns) = (scale(&[], 3), scale(&[m, 1], 4), scale(&[n], 5));
        let (one_of_two, flat_rows, wrong) = (scale(&[1, 1], 6), scale(&[m], 7), scale(&[k], 8));
        suite.add("matmul", &[&a, &b, &one], with(true, false));
        suite.add("matmul", &[&a, &b, &one, &one_of_two], with(true, true));
        suite.add("matmul", &[&a, &b, &rows, &columns], Options { dtype: Some(Dtype::Bf16), ..with(true, true) });
        suite.add("matmul", &[&a, &b, &flat_rows, &one], with(true, true));
        // Columns' scales are not rows', and nothing fits neither.
        suite.add("matmul", &[&a, &b, &columns, &columns], with(true, true));
        suite.add("matmul", &[&a, &b, &rows], with(false, true));
        suite.add("matmul", &[&a, &b, &wrong], with(true, false));
        let c = suite.input(F32, &[m, n], Fill::Even, 9);
        let bias = suite.input(F32, &[n], Fill::Even, 10);
        let all = Options { scale_result: true, bias: true, beta: Some(-0.5), alpha: Some(3.0), ..with(true, true) };
        suite.add("matmul", &[&a, &b, &c, &rows, &columns, &one, &bias], all.clone());
        suite.add("matmul", &[&a, &b, &c, &rows, &columns, &rows, &bias], all);
        let narrow = suite.input(Dtype::Bf16, &[m], Fill::Positive, 11);
        suite.add("matmul", &[&a, &b, &narrow], with(true, false));
    }
    let (a, b) =
        (suite.input(Dtype::Bf16, &[3, 4, 5], Fill::Even, 1), suite.input(Dtype::Bf16, &[5, 6], Fill::Even, 2));
    for shape in [&[3, 4, 1][..], &[4, 1], &[3, 1, 1], &[2, 4, 1]] {
        let scale = suite.input(F32, shape, Fill::Positive, 3);
        suite.add("matmul", &[&a, &b, &scale], Options { scale_a: true, ..Options::default() });
    }
    let (a, b) = (suite.input(Dtype::I8, &[3, 4], Fill::Small, 1), suite.input(Dtype::I8, &[4, 2], Fill::Small, 2));
    let one = suite.input(F32, &[1], Fill::Positive, 3);
    suite.add("matmul", &[&a, &b, &one], Options { scale_a: true, ..Options::default() });
    suite.run();
}
