//! Non-maximum suppression of boxes, one by one from the highest score.

use super::answer::{Answer, Expected};
use super::array::Array;
use super::axes::Refused;
use super::call::Call;
use super::dtype::Dtype;
use super::extremes::descending;

/// The kept boxes in descending order of their scores.
pub(super) fn expected(call: &Call<'_>) -> Result<Vec<Expected>, Refused> {
    let (boxes, scores) = (call.input(0)?, call.input(1)?);
    call.only_floats()?;
    if boxes.shape.len() != 2 || boxes.shape[1] != 4 || scores.shape != boxes.shape[..1] {
        return Refused::because(format!("nms of boxes {:?} and scores {:?}", boxes.shape, scores.shape));
    }
    let Some(threshold) = call.options.threshold else { return Refused::because("nms without threshold") };
    let mut kept: Vec<usize> = Vec::new();
    for candidate in descending(&scores.values) {
        if kept.iter().all(|&k| overlap(boxes, k, candidate) <= threshold) {
            kept.push(candidate);
        }
    }
    Ok(vec![Expected::new(Dtype::I64, &[kept.len()], kept.iter().map(|&k| Answer::int(k as i128)).collect())])
}

/// Intersection over union of two boxes whose corners both belong to them, so that a side is one
/// longer than the difference of its ends.
#[must_use]
pub fn overlap(boxes: &Array, left: usize, right: usize) -> f64 {
    let corner = |b: usize, i: usize| boxes.values[4 * b + i].float();
    let area = |b: usize| (corner(b, 2) - corner(b, 0) + 1.0) * (corner(b, 3) - corner(b, 1) + 1.0);
    let side = |i: usize| {
        let low = corner(left, i).max(corner(right, i));
        let high = corner(left, i + 2).min(corner(right, i + 2));
        (high - low + 1.0).max(0.0)
    };
    let shared = side(0) * side(1);
    shared / (area(left) + area(right) - shared)
}

#[cfg(test)]
mod tests {
    use super::super::call::Options;
    use super::*;

    #[test]
    fn a_box_is_dropped_for_a_better_one_that_covers_it() {
        let corners = [0.0, 0.0, 9.0, 9.0, 0.0, 0.0, 9.0, 8.0, 20.0, 20.0, 29.0, 29.0, 0.0, 0.0, 9.0, 9.0];
        let boxes = Array::floats(Dtype::F32, &[4, 4], &corners);
        let scores = Array::floats(Dtype::F32, &[4], &[0.8, 0.9, 0.1, 0.8]);
        assert_eq!(overlap(&boxes, 0, 1), 0.9);
        let run = |threshold| {
            let options = Options { threshold: Some(threshold), ..Options::default() };
            expected(&Call { op: "nms", inputs: &[&boxes, &scores], options: &options }).expect("indices")
        };
        assert_eq!(run(0.5)[0].check(&Array::ints(Dtype::I64, &[2], &[1, 2])), Ok(()));
        assert_eq!(run(0.95)[0].check(&Array::ints(Dtype::I64, &[3], &[1, 0, 2])), Ok(()));
        assert_eq!(run(1.0)[0].check(&Array::ints(Dtype::I64, &[4], &[1, 0, 3, 2])), Ok(()));
    }
}
