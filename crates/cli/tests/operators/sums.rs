//! Sums, products, means, norms, logarithms of sums, variances and dots.

use warpfold_conformance::reference::call::Options;
use warpfold_conformance::reference::dtype::Dtype;
use warpfold_conformance::reference::dtype::Dtype::{Bool, F8E4M3, F8E5M2, F16, F32, F64, I8, I16, I32, I64, U8, U16};

use crate::data::Fill;
use crate::shapes::{LENGTHS, LONG, SHAPES, axes_of};
use crate::suite::Suite;

/// Operators that give numbers of the type that they are given, and those that give floats.
const OF_NUMBERS: [&str; 4] = ["sum", "prod", "l1", "sum-squares"];
const OF_FLOATS: [&str; 7] = ["mean", "l2", "log-sum", "log-sum-exp", "var", "std", "mean-var"];

fn types_of(op: &str) -> Vec<Dtype> {
    let floats = Dtype::FLOATS.to_vec();
    if OF_NUMBERS.contains(&op) { [Dtype::INTEGERS.to_vec(), floats].concat() } else { floats }
}

fn all() -> impl Iterator<Item = &'static str> {
    OF_NUMBERS.into_iter().chain(OF_FLOATS)
}

/// What suits an operator: products of large numbers leave every range.
fn fill_of(op: &str, turn: usize) -> Fill {
    match op {
        "prod" => [Fill::NearOne, Fill::Small, Fill::Special, Fill::Infinite][turn % 4],
        "log-sum" if !turn.is_multiple_of(3) => Fill::Positive,
        _ => Fill::ALL[turn % Fill::ALL.len()],
    }
}

#[test]
fn all_elements_of_every_length_and_type() {
    let mut suite = Suite::new("sums_lengths");
    // Magnitudes of these are taken as if they had a sign.
    let mut turn = 0;
    for op in all() {
        for dtype in types_of(op) {
            for len in LENGTHS {
                turn += 1;
                let x = suite.input(dtype, &[len], fill_of(op, turn), 1 + turn as u64 % 2);
                suite.add(op, &[&x], Options::default());
            }
        }
    }
    suite.run();
}

#[test]
fn every_subset_of_axes() {
    let mut suite = Suite::new("sums_axes");
    // Magnitudes of these are taken as if they had a sign.
    let mut turn = 0;
    for op in all() {
        let types = types_of(op);
        for shape in SHAPES {
            for axes in axes_of(shape.len()) {
                turn += 1;
                for dtype in [F32, types[turn % types.len()]] {
                    let x = suite.input(dtype, shape, fill_of(op, turn / 3), 3);
                    suite.add(
                        op,
                        &[&x],
                        Options { axes: Some(axes.clone()), keepdims: turn % 2 == 0, ..Options::default() },
                    );
                }
            }
            let x = suite.input(F32, shape, Fill::Small, 3);
            suite.add(op, &[&x], Options { keepdims: true, ..Options::default() });
            suite.add(op, &[&x], Options::default());
        }
    }
    suite.run();
}

#[test]
fn long_arrays_that_several_blocks_share() {
    let mut suite = Suite::new("sums_long");
    for op in all() {
        for (i, len) in LONG.into_iter().enumerate() {
            for (j, dtype) in [F32, types_of(op)[i]].into_iter().enumerate() {
                let fill = [fill_of(op, 2 + i), Fill::Cancelling][if op == "prod" { 0 } else { j }];
                let x = suite.input(dtype, &[len], fill, 5);
                suite.add(op, &[&x], Options::default());
            }
        }
        let (wide, tall) =
            (suite.input(F32, &[3, 50_001], Fill::Even, 1), suite.input(F32, &[50_001, 3], Fill::Even, 1));
        for axis in [0, 1] {
            for x in [&wide, &tall] {
                suite.add(op, &[x], Options { axes: Some(vec![axis]), ..Options::default() });
            }
        }
    }
    suite.run();
}

#[test]
fn sums_that_cancel_are_as_good_as_their_magnitudes_allow() {
    let mut suite = Suite::new("sums_adversarial");
    for op in ["sum", "mean", "var", "l1", "l2", "log-sum-exp"] {
        for dtype in Dtype::FLOATS {
            for fill in [Fill::Cancelling, Fill::Alternating, Fill::Offset, Fill::Denormal, Fill::Wide, Fill::Even] {
                for shape in [&[10][..], &[1000], &[3, 777], &[777, 3], &[20_000]] {
                    let x = suite.input(dtype, shape, fill, 11);
                    suite.add(op, &[&x], Options { axes: Some(vec![0]), ..Options::default() });
                }
            }
        }
    }
    suite.run();
}

#[test]
fn variances_with_another_divisor() {
    let mut suite = Suite::new("sums_ddof");
    for op in ["var", "std", "mean-var"] {
        for dtype in Dtype::FLOATS {
            for shape in [&[1][..], &[2], &[40], &[3, 70], &[2000]] {
                let x = suite.input(dtype, shape, Fill::Even, 1);
                suite.add(op, &[&x], Options { ddof: 1, axes: Some(vec![-1]), ..Options::default() });
            }
        }
    }
    suite.run();
}

#[test]
fn other_result_types_and_narrow_inputs() {
    let mut suite = Suite::new("sums_types");
    let widened = [(I8, I32), (I8, I64), (U8, I32), (U16, I64), (I16, I32), (I32, I64), (F16, F32), (F32, F64)];
    for op in ["sum", "prod"] {
        for (from, to) in widened {
            for shape in [&[300][..], &[5, 40]] {
                let fill = if op == "prod" { Fill::NearOne } else { Fill::Even };
                let x = suite.input(from, shape, fill, 1);
                suite.add(op, &[&x], Options { dtype: Some(to), axes: Some(vec![-1]), ..Options::default() });
            }
        }
    }
    for dtype in [F8E4M3, F8E5M2] {
        for op in ["sum", "mean", "l1"] {
            let x = suite.input(dtype, &[7, 33], Fill::Small, 1);
            suite.add(op, &[&x], Options { dtype: Some(F32), ..Options::default() });
            suite.add(op, &[&x], Options { dtype: Some(F32), axes: Some(vec![0]), ..Options::default() });
        }
    }
    for op in OF_FLOATS {
        for dtype in Dtype::INTEGERS.into_iter().chain([Bool]) {
            for fill in [Fill::Small, Fill::Positive] {
                let x = suite.input(dtype, &[3, 70], fill, 1);
                suite.add(op, &[&x], Options { axes: Some(vec![1]), ..Options::default() });
                suite.add(op, &[&x], Options { axes: Some(vec![1]), dtype: Some(F32), ..Options::default() });
            }
        }
    }
    let x = suite.input(Bool, &[3, 70], Fill::Small, 1);
    suite.add("sum", &[&x], Options { axes: Some(vec![1]), ..Options::default() });
    suite.run();
}

#[test]
fn dots_of_every_length_type_and_axis() {
    let mut suite = Suite::new("dots");
    let fills = [Fill::Small, Fill::Even, Fill::Wide, Fill::Special, Fill::Cancelling, Fill::Offset, Fill::Infinite];
    for dtype in Dtype::INTEGERS.into_iter().chain(Dtype::FLOATS) {
        for (turn, len) in LENGTHS.into_iter().enumerate() {
            let x = suite.input(dtype, &[len], fills[turn % 7], 1);
            let y = suite.input(dtype, &[len], fills[(turn + 2) % 7], 2);
            suite.add("dot", &[&x, &y], Options::default());
        }
    }
    for (turn, shape) in SHAPES.iter().enumerate() {
        for axes in axes_of(shape.len()) {
            for dtype in [F32, [F16, I32, F64, I64][turn % 4]] {
                let x = suite.input(dtype, shape, Fill::Even, 1);
                let y = suite.input(dtype, shape, Fill::Small, 2);
                suite.add(
                    "dot",
                    &[&x, &y],
                    Options { axes: Some(axes.clone()), keepdims: turn % 2 == 0, ..Options::default() },
                );
            }
        }
    }
    for len in LONG {
        let (x, y) = (suite.input(F32, &[len], Fill::Even, 1), suite.input(F32, &[len], Fill::Alternating, 2));
        suite.add("dot", &[&x, &y], Options::default());
    }
    suite.run();
}
