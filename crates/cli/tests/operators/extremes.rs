//! Extremes and their places, the largest k, any, all and counts.

use warpfold_conformance::reference::call::Options;
use warpfold_conformance::reference::dtype::Dtype;
use warpfold_conformance::reference::dtype::Dtype::{Bool, F16, F32, F64, I8, I32, I64, U8, U32, U64};

use crate::data::Fill;
use crate::shapes::{LENGTHS, LONG, SHAPES, axes_of};
use crate::suite::Suite;

const OPS: [&str; 11] =
    ["min", "max", "min-max", "argmin", "argmax", "any", "all", "count-nonzero", "unique-count", "linf", "abs-max"];

fn types_of(op: &str) -> Vec<Dtype> {
    let mut types = [Dtype::INTEGERS.to_vec(), Dtype::FLOATS.to_vec()].concat();
    if !matches!(op, "linf" | "abs-max") {
        types.push(Bool);
    }
    types
}

/// Whether the operator's answer for no elements is left open.
fn is_open(op: &str, shape: &[usize]) -> bool {
    matches!(op, "linf" | "abs-max") && shape.contains(&0)
}

#[test]
fn all_elements_of_every_length_and_type() {
    let mut suite = Suite::new("extremes_lengths");
    let mut turn = 0;
    for op in OPS {
        for dtype in types_of(op) {
            for len in LENGTHS {
                turn += 1;
                if !is_open(op, &[len]) {
                    let x = suite.input(dtype, &[len], Fill::ALL[turn % Fill::ALL.len()], 1 + turn as u64 % 2);
                    suite.add(op, &[&x], Options::default());
                }
            }
        }
    }
    suite.run();
}

#[test]
fn every_subset_of_axes() {
    let mut suite = Suite::new("extremes_axes");
    let mut turn = 0;
    for op in OPS {
        let types = types_of(op);
        for shape in SHAPES.iter().filter(|shape| !is_open(op, shape)) {
            for axes in axes_of(shape.len()) {
                turn += 1;
                for dtype in [F32, types[turn % types.len()]] {
                    let x = suite.input(dtype, shape, Fill::ALL[turn % Fill::ALL.len()], 3);
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
fn ties_and_nan_by_option() {
    let mut suite = Suite::new("extremes_ties");
    let last = Options { last: true, ..Options::default() };
    let ignoring = Options { ignore_nan: true, ..Options::default() };
    for dtype in types_of("argmax") {
        for op in ["argmin", "argmax"] {
            for len in [1, 2, 33, 257, 1025, 5000] {
                for fill in [Fill::Small, Fill::Equal, Fill::Special, Fill::Zeros, Fill::Lowest] {
                    let x = suite.input(dtype, &[len], fill, 21);
                    suite.add(op, &[&x], last.clone());
                }
            }
            let x = suite.input(dtype, &[9, 40], Fill::Small, 22);
            for axis in [0, 1] {
                suite.add(op, &[&x], Options { axes: Some(vec![axis]), ..last.clone() });
            }
        }
    }
    for dtype in Dtype::FLOATS {
        for op in ["min", "max", "min-max", "argmin", "argmax"] {
            for len in [2, 33, 257, 1025] {
                let x = suite.input(dtype, &[len], Fill::Special, 23);
                suite.add(op, &[&x], ignoring.clone());
            }
            for axis in [0, 1] {
                let x = suite.input(dtype, &[60, 61], Fill::Special, 24);
                suite.add(op, &[&x], Options { axes: Some(vec![axis]), ..ignoring.clone() });
            }
        }
        for op in ["min", "max"] {
            let x = suite.input(dtype, &[40], Fill::NotANumber, 1);
            suite.add(op, &[&x], ignoring.clone());
        }
    }
    suite.run();
}

#[test]
fn long_arrays_that_several_blocks_share() {
    let mut suite = Suite::new("extremes_long");
    for op in OPS {
        for len in LONG {
            for (dtype, fill) in [(F32, Fill::Even), (I8, Fill::Wide), (I64, Fill::Even), (F16, Fill::Equal)] {
                let x = suite.input(dtype, &[len], fill, 5);
                suite.add(op, &[&x], Options::default());
            }
        }
        let (wide, tall) =
            (suite.input(F32, &[2, 60_001], Fill::Small, 1), suite.input(F32, &[60_001, 2], Fill::Small, 1));
        for axis in [0, 1] {
            for x in [&wide, &tall] {
                suite.add(op, &[x], Options { axes: Some(vec![axis]), ..Options::default() });
            }
        }
    }
    suite.run();
}

#[test]
fn the_largest_k_of_every_length_and_type() {
    let mut suite = Suite::new("topk");
    let fills = [Fill::Small, Fill::Even, Fill::Wide, Fill::Special, Fill::Equal, Fill::Lowest, Fill::Zeros];
    let mut turn = 0;
    for dtype in [F32, F16, Dtype::Bf16, F64, I8, I32, I64, U8, U32, U64] {
        for len in [1, 2, 7, 31, 32, 33, 100, 256, 1025] {
            for k in [1, 2, 5, 8, 16] {
                turn += 1;
                let x = suite.input(dtype, &[3, len], fills[turn % 7], 1);
                suite.add("topk", &[&x], Options { k: Some(k), ..Options::default() });
            }
        }
    }
    for shape in [&[40, 3][..], &[4, 33, 5], &[5, 4, 33], &[33]] {
        for axis in 0..shape.len() {
            let x = suite.input(F32, shape, Fill::Small, 1);
            let options = Options { k: Some(3), axes: Some(vec![axis as i64]), ..Options::default() };
            suite.add("topk", &[&x], options.clone());
            suite.add_with_outputs("topk", &[&x], options, Some(1));
        }
    }
    suite.run();
}
