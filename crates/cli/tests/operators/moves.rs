//! Copy, cast, transpose and gather.

use warpfold_conformance::instructions::Random;
use warpfold_conformance::reference::array::Array;
use warpfold_conformance::reference::call::Options;
use warpfold_conformance::reference::dtype::Dtype;
use warpfold_conformance::reference::dtype::Dtype::{F32, I32, I64};

use crate::data::Fill;
use crate::shapes::{LENGTHS, SHAPES};
use crate::suite::Suite;

#[test]
fn copies_and_transposes_keep_every_bit() {
    let mut suite = Suite::new("moves");
    let mut turn = 0;
    for dtype in Dtype::all() {
        let fill = if dtype.is_float() { Fill::Special } else { Fill::Wide };
        for len in LENGTHS {
            let x = suite.input(dtype, &[len], fill, 1);
            suite.add("copy", &[&x], Options::default());
        }
        for shape in SHAPES {
            let x = suite.input(dtype, shape, fill, 1);
            suite.add("copy", &[&x], Options::default());
            suite.add("transpose", &[&x], Options::default());
        }
    }
    for shape in SHAPES.iter().filter(|shape| shape.len() > 1) {
        for order in orders(shape.len()) {
            turn += 1;
            let dtype = [F32, Dtype::U8, Dtype::F16, I64][turn % 4];
            let x = suite.input(dtype, shape, Fill::Wide, 1);
            suite.add("transpose", &[&x], Options { axes: Some(order), ..Options::default() });
        }
    }
    suite.run();
}

/// Every order of some axes.
fn orders(rank: usize) -> Vec<Vec<i64>> {
    let mut orders = vec![vec![]];
    for axis in 0..rank as i64 {
        let with = |order: &Vec<i64>| {
            (0..=order.len()).map(|at| [&order[..at], &[axis], &order[at..]].concat()).collect::<Vec<_>>()
        };
        orders = orders.iter().flat_map(with).collect();
    }
    orders
}

#[test]
fn casts_between_all_types() {
    let mut suite = Suite::new("casts");
    for from in Dtype::all() {
        for to in Dtype::all() {
            for (fill, len) in
                [(Fill::Small, 33), (Fill::Wide, 300), (Fill::Special, 70), (Fill::Even, 257), (Fill::Denormal, 40)]
            {
                let x = suite.input(from, &[len], fill, 1);
                suite.add("cast", &[&x], Options { dtype: Some(to), ..Options::default() });
            }
        }
    }
    suite.run();
}

#[test]
fn rows_are_gathered_by_index() {
    let mut suite = Suite::new("gather");
    let mut random = Random::new(1);
    for dtype in Dtype::all() {
        for shape in [&[1][..], &[300], &[5, 1], &[7, 33], &[40, 3], &[9, 2, 5], &[3, 257]] {
            for index_shape in [&[0][..], &[1], &[40], &[3, 5]] {
                let index_type = [I64, I32][random.below(2)];
                let len: usize = index_shape.iter().product();
                let indices: Vec<_> = (0..len).map(|_| random.below(shape[0]) as i128).collect();
                let indices = suite.store(Array::ints(index_type, index_shape, &indices), "indices");
                let x = suite.input(dtype, shape, Fill::Wide, 1);
                suite.add("gather", &[&x, &indices], Options::default());
            }
        }
    }
    suite.run();
}
