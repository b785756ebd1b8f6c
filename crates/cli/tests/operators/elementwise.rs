//! Functions of one, two and three inputs, element by element.

use warpfold_conformance::reference::array::Array;
use warpfold_conformance::reference::call::Options;
use warpfold_conformance::reference::dtype::Dtype;
use warpfold_conformance::reference::dtype::Dtype::{Bool, F16, F32, F64, I8, I32, I64, U8, U64};
use warpfold_conformance::reference::{binary, ternary, unary};

use crate::data::Fill;
use crate::shapes::{LENGTHS, SHAPES};
use crate::suite::Suite;

/// Functions that integers have.
const OF_INTEGERS: [&str; 5] = ["abs", "neg", "relu", "sign", "square"];

#[test]
fn functions_of_one_input() {
    let mut suite = Suite::new("unary");
    let mut turn = 0;
    let fills = [Fill::Even, Fill::Special, Fill::Small, Fill::Wide, Fill::Zeros, Fill::Positive];
    for op in unary::NAMES.iter().copied().filter(|op| *op != "not") {
        for dtype in Dtype::FLOATS {
            let edges =
                [-20.5, -10.0, -5.0, -2.5, -1.5, -0.5, -1e-4, -0.0, 0.0, 1e-4, 0.5, 1.5, 2.5, 5.0, 10.0, 20.5, 80.0];
            let edges = suite.store(Array::floats(dtype, &[edges.len()], &edges), "edges");
            suite.add(op, &[&edges], Options::default());
            for len in LENGTHS {
                turn += 1;
                let x = suite.input(dtype, &[len], fills[turn % 6], 1);
                // Where the argument has hundreds of turns, nobody promises digits.
                if !(matches!(op, "sin" | "cos" | "tan") && fills[turn % 6] == Fill::Wide) {
                    suite.add(op, &[&x], Options::default());
                }
            }
            for shape in SHAPES.iter().skip(turn % 4).step_by(4) {
                let x = suite.input(dtype, shape, Fill::Even, 1);
                suite.add(op, &[&x], Options::default());
            }
        }
    }
    for op in OF_INTEGERS {
        for dtype in Dtype::INTEGERS {
            for fill in [Fill::Wide, Fill::Small, Fill::Lowest, Fill::Even] {
                let x = suite.input(dtype, &[257], fill, 1);
                suite.add(op, &[&x], Options::default());
            }
        }
    }
    for dtype in Dtype::INTEGERS.into_iter().chain([Bool]) {
        let x = suite.input(dtype, &[3, 33], Fill::Wide, 1);
        suite.add("not", &[&x], Options::default());
    }
    for dtype in Dtype::FLOATS {
        for (alpha, beta) in [(None, None), (Some(0.75), None), (None, Some(-2.5)), (Some(-0.375), Some(0.5))] {
            let x = suite.input(dtype, &[3, 333], Fill::Special, 1);
            suite.add("scale", &[&x], Options { alpha, beta, ..Options::default() });
        }
    }
    suite.run();
}

/// Pairs of shapes that broadcast.
const PAIRS: &[(&[usize], &[usize])] = &[
    (&[33], &[33]),
    (&[1025], &[1025]),
    (&[0], &[0]),
    (&[0], &[1]),
    (&[], &[]),
    (&[300], &[]),
    (&[], &[300]),
    (&[300], &[1]),
    (&[4, 33], &[33]),
    (&[4, 33], &[4, 1]),
    (&[4, 1], &[1, 33]),
    (&[2, 3, 5], &[3, 1]),
    (&[2, 1, 5], &[1, 3, 1]),
    (&[2, 3, 1, 17], &[3, 4, 1]),
    (&[1, 1, 1, 7], &[2, 3, 4, 7]),
];

#[test]
fn functions_of_two_inputs() {
    let mut suite = Suite::new("binary");
    let mut turn = 0;
    let fills = [Fill::Small, Fill::Even, Fill::Special, Fill::Wide, Fill::Positive];
    for op in binary::NAMES.iter().copied() {
        let types = if matches!(op, "shl" | "shr") {
            Dtype::INTEGERS.to_vec()
        } else if binary::OF_BITS.contains(&op) {
            [vec![Bool; 3], Dtype::INTEGERS.to_vec()].concat()
        } else {
            [Dtype::FLOATS.to_vec(), Dtype::INTEGERS.to_vec()].concat()
        };
        for (a, b) in PAIRS {
            for (i, &dtype) in types.iter().enumerate() {
                turn += 1;
                // Integers with all shapes would repeat the floats: every third.
                if i >= 4 && turn % 3 != 0 {
                    continue;
                }
                let fill = match op {
                    "pow" if !dtype.is_float() => Fill::NearOne,
                    "shl" | "shr" => Fill::Positive,
                    _ => fills[turn % 5],
                };
                let x = suite.input(dtype, a, fills[turn / 5 % 5], 1);
                let y = suite.input(dtype, b, fill, 2);
                suite.add(op, &[&x, &y], Options::default());
            }
        }
    }
    suite.run();
}

#[test]
fn functions_of_three_inputs() {
    let mut suite = Suite::new("ternary");
    let triples: [[&[usize]; 3]; 6] = [
        [&[257], &[257], &[257]],
        [&[257], &[], &[1]],
        [&[], &[33], &[33]],
        [&[4, 1], &[1, 33], &[33]],
        [&[2, 3, 5], &[3, 1], &[5]],
        [&[0], &[0], &[1]],
    ];
    for op in ternary::NAMES.iter().copied() {
        for dtype in [F32, F16, Dtype::Bf16, F64, I32, I8, U8, I64, U64] {
            if op == "fma" && !dtype.is_float() {
                continue;
            }
            for (turn, [a, b, c]) in triples.into_iter().enumerate() {
                let first = if op == "where" { Bool } else { dtype };
                let fill = [Fill::Small, Fill::Special, Fill::Even][turn % 3];
                let x = suite.input(first, a, fill, 1);
                let (y, z) = (suite.input(dtype, b, fill, 2), suite.input(dtype, c, Fill::Positive, 3));
                suite.add(op, &[&x, &y, &z], Options::default());
            }
        }
    }
    suite.run();
}
