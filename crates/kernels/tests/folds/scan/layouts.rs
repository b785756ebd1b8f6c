//! Layouts of every kind: axes, lengths, strides, narrow elements, nothing.

use warpfold_kernels::Dtype;
use warpfold_kernels::elements::{Sink, Source};
use warpfold_kernels::fold::{Scan, ScanOrder, Sum};
use warpfold_kernels::layout::Layout;

use super::bench::{Bench, expected, orders, sums};
use crate::folds::affine::scattered;

#[test]
fn every_axis_of_small_tensors_is_scanned_in_order() {
    for mut bench in Bench::all() {
        for shape in [&[1][..], &[7], &[3, 5], &[33, 4], &[4, 33], &[2, 3, 16], &[5, 1, 8, 3], &[9, 40, 2], &[1, 12]] {
            let layout = Layout::contiguous(shape).unwrap();
            for axis in 0..shape.len() {
                bench.check(&layout, 0, axis);
                bench.check(&layout, 1, axis);
            }
        }
    }
}

#[test]
fn rows_of_every_length_are_scanned() {
    for mut bench in Bench::all() {
        for len in [1, 2, 31, 32, 33, 255, 256, 257, 1023, 1024, 1025, 4095, 4096, 4097] {
            bench.check(&Layout::contiguous(&[len]).unwrap(), 0, 0);
            bench.check(&Layout::contiguous(&[3, len]).unwrap(), 0, 1);
        }
        bench.check(&Layout::contiguous(&[1025]).unwrap(), 3, 0);
    }
}

#[test]
fn strides_of_any_kind_are_walked() {
    for mut bench in Bench::all() {
        let layout = |shape: &[usize], strides: &[isize]| Layout::new(shape.to_vec(), strides.to_vec()).unwrap();
        let turned = layout(&[40, 30], &[1, 40]);
        let gaps = layout(&[6, 50], &[64, 1]);
        let second = layout(&[20, 30], &[60, 2]);
        let repeated = layout(&[5, 20, 9], &[9, 0, 1]);
        let constant = layout(&[3, 70], &[1, 0]);
        let runs = layout(&[4, 3, 64], &[256, 80, 1]);
        for layout in [turned, gaps, second, repeated, constant, runs] {
            for axis in 0..layout.rank() {
                bench.check(&layout, 0, axis);
                bench.check(&layout, 3, axis);
            }
        }
        let reversed = layout(&[11, 70], &[-70, -1]);
        bench.check(&reversed, 11 * 70 - 1, 0);
        bench.check(&reversed, 11 * 70 - 1, 1);
    }
}

#[test]
fn narrow_elements_are_scanned_as_wide_as_they_lie() {
    for mut bench in Bench::all() {
        let scan = Scan::new("narrow", Sum::<u32>::new(), Source::one(Dtype::U16), Sink::one(Dtype::U16));
        for (shape, axis) in [(&[50_007][..], 0), (&[3, 16_384], 1), (&[700, 128], 0), (&[2, 600, 64], 1)] {
            let layout = Layout::contiguous(shape).unwrap();
            let memory: Vec<u16> = (0..layout.len()).map(|i| scattered(i) as u16).collect();
            for order in orders() {
                let results = bench.run(&scan, &layout, &memory, 0, axis, order);
                let by_loop = expected(&layout, &memory, 0, axis, order.direction, |items| {
                    let wide: Vec<u32> = items.iter().map(|item| u32::from(*item)).collect();
                    sums(&wide, order.prefix).into_iter().map(|sum| sum as u16).collect()
                });
                assert!(results == by_loop, "{shape:?} {order:?}");
            }
        }
        for kind in ["block wide Split", "block narrow Split", "columns wide Split"] {
            assert!(bench.kinds.contains(kind), "no plan was {kind}: {:#?}", bench.kinds);
        }
    }
}

#[test]
fn a_scan_of_nothing_is_nothing() {
    for mut bench in Bench::all() {
        let sum = bench.sum.clone();
        for (shape, axis) in [(&[0][..], 0), (&[3, 0], 1), (&[3, 0], 0), (&[0, 3], 1)] {
            let layout = Layout::contiguous(shape).unwrap();
            assert_eq!(bench.run(&sum, &layout, &[9_u32], 0, axis, ScanOrder::default()), []);
        }
    }
}
