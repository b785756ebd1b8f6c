//! Softmax, norms, cross-entropy, and rows scaled and rounded to eight bits.

use warpfold_conformance::instructions::Random;
use warpfold_conformance::reference::array::Array;
use warpfold_conformance::reference::call::Options;
use warpfold_conformance::reference::dtype::Dtype;
use warpfold_conformance::reference::dtype::Dtype::{F8E4M3, F8E5M2, F32, I64};

use crate::data::Fill;
use crate::shapes::{ROWS, SHAPES};
use crate::suite::Suite;

#[test]
fn softmax_of_every_row_length_type_and_axis() {
    let mut suite = Suite::new("softmax");
    let fills = [Fill::Small, Fill::Even, Fill::Infinite, Fill::Offset, Fill::Special, Fill::Wide, Fill::Lowest];
    let mut turn = 0;
    for op in ["softmax", "log-softmax"] {
        for shape in ROWS {
            for dtype in Dtype::FLOATS {
                for _ in 0..3 {
                    turn += 1;
                    let x = suite.input(dtype, shape, fills[turn % fills.len()], 1 + turn as u64 % 2);
                    suite.add(op, &[&x], Options::default());
                }
            }
        }
        for shape in SHAPES {
            for axis in -(shape.len() as i64)..shape.len() as i64 {
                turn += 1;
                let dtype = Dtype::FLOATS[turn % 4];
                let x = suite.input(dtype, shape, fills[turn % fills.len()], 1);
                suite.add(op, &[&x], Options { axes: Some(vec![axis]), ..Options::default() });
            }
        }
        let x = suite.input(F32, &[1, 131_072], Fill::Even, 1);
        suite.add(op, &[&x], Options::default());
    }
    suite.run();
}

#[test]
fn softmax_of_scaled_and_masked_scores() {
    let mut suite = Suite::new("softmax_masked");
    for op in ["softmax", "log-softmax"] {
        for dtype in Dtype::FLOATS {
            for (x, mask) in [
                (&[7][..], &[7][..]),
                (&[3, 40], &[3, 40]),
                (&[3, 40], &[40]),
                (&[2, 3, 100], &[3, 100]),
                (&[2, 3, 100], &[2, 1, 100]),
                (&[2, 1500], &[1, 1500]),
            ] {
                for (fill, alpha) in [(Fill::Small, None), (Fill::Infinite, None), (Fill::Even, Some(0.125))] {
                    // Seed 1 gives minus infinity: what it masks counts for nothing.
                    let (x, mask) = (suite.input(dtype, x, Fill::Even, 1), suite.input(dtype, mask, fill, 1));
                    let options = Options { alpha, ..Options::default() };
                    suite.add(op, &[&x, &mask], options.clone());
                    suite.add(op, &[&x], options);
                }
            }
        }
    }
    suite.run();
}

#[test]
fn norms_of_every_row_length_and_type() {
    let mut suite = Suite::new("norms");
    let mut turn = 0;
    for shape in ROWS {
        let len = *shape.last().expect("a row");
        for dtype in Dtype::FLOATS {
            for fill in Fill::TAME {
                turn += 1;
                let x = suite.input(dtype, shape, fill, 1);
                let (scale, bias) =
                    (suite.input(dtype, &[len], Fill::Even, 2), suite.input(dtype, &[len], Fill::Small, 3));
                let options = Options { eps: [None, Some(1e-3), Some(0.5)][turn % 3], ..Options::default() };
                suite.add("rms-norm", &[&x], options.clone());
                suite.add("rms-norm", &[&x, &scale], options.clone());
                suite.add("rms-norm", &[&x, &scale, &bias], options.clone());
                suite.add("layer-norm", &[&x, &scale, &bias], options.clone());
                suite.add("layer-norm", &[&x, &scale], options.clone());
                suite.add_with_outputs("layer-norm", &[&x], options.clone(), Some(1));
                suite.add_with_outputs("rms-norm", &[&x, &scale], options, Some(1));
            }
        }
    }
    for dtype in Dtype::FLOATS {
        let x = suite.input(dtype, &[5, 70], Fill::Even, 1);
        let (all, one) = (suite.input(dtype, &[70], Fill::Even, 2), suite.input(dtype, &[], Fill::Positive, 3));
        suite.add("layer-norm", &[&x, &one, &all], Options::default());
        suite.add("rms-norm", &[&x, &all, &one], Options::default());
        for fill in [Fill::Special, Fill::Zeros, Fill::Infinite, Fill::Denormal] {
            let x = suite.input(dtype, &[5, 70], fill, 1);
            suite.add("layer-norm", &[&x], Options::default());
            suite.add("rms-norm", &[&x], Options::default());
        }
    }
    suite.run();
}

#[test]
fn norms_over_the_last_axes_together() {
    let mut suite = Suite::new("norms_axes");
    for shape in [&[3, 4, 5][..], &[2, 3, 33], &[2, 2, 3, 40]] {
        for last in 1..=shape.len() {
            let axes: Vec<i64> = (1..=last as i64).map(|axis| -axis).rev().collect();
            for dtype in Dtype::FLOATS {
                let x = suite.input(dtype, shape, Fill::Even, 1);
                for op in ["layer-norm", "rms-norm"] {
                    suite.add(op, &[&x], Options { axes: Some(axes.clone()), ..Options::default() });
                }
            }
        }
    }
    suite.run();
}

#[test]
fn cross_entropy_of_every_number_of_classes() {
    let mut suite = Suite::new("cross_entropy");
    let mut random = Random::new(1);
    for classes in [1, 2, 31, 32, 33, 100, 257, 1024, 1025, 5000] {
        for dtype in Dtype::FLOATS {
            for fill in [Fill::Small, Fill::Even, Fill::Offset, Fill::Wide] {
                for ignored in [None, Some(0)] {
                    let mut label = |i: usize| if i % 5 == 4 { -100 } else { random.below(classes) as i128 };
                    let labels: Vec<_> = (0..9).map(|i| if ignored.is_some() { label(0) } else { label(i) }).collect();
                    let labels = suite.store(Array::ints(I64, &[9], &labels), "labels");
                    let x = suite.input(dtype, &[9, classes], fill, 1);
                    suite.add("cross-entropy", &[&x, &labels], Options { ignore_index: ignored, ..Options::default() });
                }
            }
        }
    }
    let outside = suite.store(Array::ints(I64, &[4], &[0, 9, -1, 5]), "labels outside");
    let x = suite.input(F32, &[4, 5], Fill::Small, 1);
    suite.add("cross-entropy", &[&x, &outside], Options::default());
    suite.run();
}

#[test]
fn rows_are_scaled_and_rounded_by_their_largest_magnitude() {
    let mut suite = Suite::new("scaled_rows");
    let fills = [Fill::Small, Fill::Even, Fill::Wide, Fill::Zeros, Fill::Offset, Fill::Positive];
    for shape in ROWS {
        for dtype in Dtype::FLOATS {
            for fill in fills {
                let x = suite.input(dtype, shape, fill, 1);
                suite.add("abs-max-scale", &[&x], Options::default());
                for to in [None, Some(F8E4M3), Some(F8E5M2)] {
                    suite.add("quantize", &[&x], Options { dtype: to, ..Options::default() });
                }
            }
        }
    }
    for dtype in Dtype::FLOATS {
        let x = suite.input(dtype, &[5, 70], Fill::Special, 1);
        suite.add("abs-max-scale", &[&x], Options::default());
        suite.add_with_outputs("abs-max-scale", &[&x], Options::default(), Some(1));
    }
    suite.run();
}
