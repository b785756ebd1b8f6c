//! Histogram and non-maximum suppression.

use warpfold_conformance::instructions::Random;
use warpfold_conformance::reference::array::Array;
use warpfold_conformance::reference::call::Options;
use warpfold_conformance::reference::dtype::Dtype;
use warpfold_conformance::reference::dtype::Dtype::{F32, I32};
use warpfold_conformance::reference::nms::overlap;

use crate::data::Fill;
use crate::shapes::{LENGTHS, LONG};
use crate::suite::Suite;

#[test]
fn histograms_count_exactly() {
    let mut suite = Suite::new("histogram");
    for bins in [1, 2, 8, 17, 255, 256, 257, 4096, 20_000, 70_001] {
        for len in LENGTHS.into_iter().chain(LONG) {
            let x = suite.input(I32, &[len], if len % 2 == 0 { Fill::Small } else { Fill::Wide }, 1);
            suite.add("histogram", &[&x], Options { bins: Some(bins), ..Options::default() });
        }
        let mut random = Random::new(bins as u64);
        for len in [1000, 5000] {
            let values: Vec<_> = (0..len).map(|_| random.below(bins + bins / 8 + 1) as i128 - 1).collect();
            let x = suite.store(Array::ints(I32, &[len], &values), "around the bins");
            suite.add("histogram", &[&x], Options { bins: Some(bins), ..Options::default() });
        }
    }
    let x = suite.input(I32, &[7, 30], Fill::Small, 1);
    suite.add("histogram", &[&x], Options { bins: Some(5), ..Options::default() });
    suite.run();
}

/// Boxes with whole corners.
fn any_boxes(num: usize, seed: u64) -> Array {
    let mut random = Random::new(seed);
    let mut corners = Vec::new();
    for _ in 0..num {
        let (x, y) = (random.below(60) as f64, random.below(60) as f64);
        corners.extend([x, y, x + random.below(30) as f64, y + random.below(30) as f64]);
    }
    Array::floats(F32, &[num, 4], &corners)
}

/// Boxes whose overlaps stay clear of a threshold by more than the rounding of an f32. (Thresholds
/// around the golden ratio help: no quotient of small areas comes close to them.)
fn boxes(num: usize, threshold: f64, seed: u64) -> Array {
    let is_clear = |boxes: &Array| {
        let mut pairs = (0..num).flat_map(|left| (0..left).map(move |right| (left, right)));
        pairs.all(|(left, right)| (overlap(boxes, left, right) - threshold).abs() > 4e-7)
    };
    let mut candidates = (0..50).map(|round| any_boxes(num, seed + 1000 * round));
    candidates.find(is_clear).expect("one of fifty sets stays clear")
}

#[test]
fn boxes_are_suppressed_one_by_one() {
    let mut suite = Suite::new("nms");
    for num in [0, 1, 2, 31, 32, 33, 63, 64, 65, 100, 257, 600] {
        for (i, threshold) in [0.236_068, 0.381_966, 0.618_034, 0.763_932].into_iter().enumerate() {
            let boxes = suite.store(boxes(num, threshold, 1 + i as u64), "boxes");
            for fill in [Fill::Positive, Fill::Small, Fill::Equal] {
                let scores = suite.input(F32, &[num], fill, 7);
                suite.add("nms", &[&boxes, &scores], Options { threshold: Some(threshold), ..Options::default() });
            }
        }
    }
    // Every box covers every other: the best one alone is left.
    let same = suite.store(Array::floats(F32, &[300, 4], &[0.0, 0.0, 9.0, 9.0].repeat(300)), "one box");
    let scores = suite.input(F32, &[300], Fill::Even, 7);
    for threshold in [0.0, 0.5, 1.0] {
        suite.add("nms", &[&same, &scores], Options { threshold: Some(threshold), ..Options::default() });
    }
    suite.run();
}

#[test]
fn histograms_of_every_integer_type() {
    let mut suite = Suite::new("histogram_types");
    for dtype in Dtype::INTEGERS {
        let x = suite.input(dtype, &[500], Fill::Wide, 1);
        suite.add("histogram", &[&x], Options { bins: Some(100), ..Options::default() });
    }
    suite.run();
}
