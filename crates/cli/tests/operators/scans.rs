//! Scans along every axis, inclusive and exclusive, from both ends.

use warpfold_conformance::reference::call::Options;
use warpfold_conformance::reference::dtype::Dtype;
use warpfold_conformance::reference::dtype::Dtype::{F32, F64, I32, I64};

use crate::data::Fill;
use crate::shapes::{LENGTHS, LONG, SHAPES};
use crate::suite::Suite;

fn fill_of(op: &str, turn: usize) -> Fill {
    match op {
        "cumprod" => [Fill::NearOne, Fill::Small, Fill::Special][turn % 3],
        _ => Fill::ALL[turn % Fill::ALL.len()],
    }
}

/// All four ways.
fn ways() -> impl Iterator<Item = Options> {
    (0..4).map(|way| Options { exclusive: way & 1 == 1, reverse: way & 2 == 2, ..Options::default() })
}

#[test]
fn rows_of_every_length_and_type() {
    let mut suite = Suite::new("scans_lengths");
    let mut turn = 0;
    for op in ["cumsum", "cumprod"] {
        for dtype in Dtype::INTEGERS.into_iter().chain(Dtype::FLOATS) {
            for (i, len) in LENGTHS.into_iter().enumerate() {
                for way in ways().skip(i % 2).step_by(2) {
                    turn += 1;
                    let x = suite.input(dtype, &[len], fill_of(op, turn), 1);
                    suite.add(op, &[&x], way);
                }
            }
        }
    }
    suite.run();
}

#[test]
fn every_axis() {
    let mut suite = Suite::new("scans_axes");
    let mut turn = 0;
    for op in ["cumsum", "cumprod"] {
        for shape in SHAPES {
            for axis in -(shape.len() as i64)..shape.len() as i64 {
                for way in ways() {
                    turn += 1;
                    let dtype = [F32, I32, Dtype::F16, I64, F64, Dtype::U8][turn % 6];
                    let x = suite.input(dtype, shape, fill_of(op, turn), 1);
                    suite.add(op, &[&x], Options { axes: Some(vec![axis]), ..way });
                }
            }
        }
    }
    suite.run();
}

#[test]
fn long_rows_that_several_blocks_share() {
    let mut suite = Suite::new("scans_long");
    for len in LONG {
        for way in ways() {
            for dtype in [I32, F32, I64] {
                let x = suite.input(dtype, &[len], Fill::Even, 1);
                suite.add("cumsum", &[&x], way.clone());
            }
            let x = suite.input(I32, &[len], Fill::Wide, 1);
            suite.add("cumprod", &[&x], way);
        }
    }
    for shape in [&[2, 20_001][..], &[20_001, 2]] {
        for axis in [0, 1] {
            let x = suite.input(F32, shape, Fill::Small, 1);
            suite.add("cumsum", &[&x], Options { axes: Some(vec![axis]), ..Options::default() });
        }
    }
    suite.run();
}

#[test]
fn sums_into_wider_types() {
    let mut suite = Suite::new("scans_types");
    for (from, to) in [(Dtype::I8, I32), (Dtype::U8, I64), (Dtype::F16, F32), (F32, F64)] {
        let x = suite.input(from, &[3, 300], Fill::Even, 1);
        suite.add("cumsum", &[&x], Options { dtype: Some(to), ..Options::default() });
    }
    suite.run();
}
