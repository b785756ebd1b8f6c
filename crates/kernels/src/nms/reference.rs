//! What non-maximum suppression is: box by box.

use std::cmp::Ordering;

/// The indices of the boxes that are kept, in descending order of their scores.
#[must_use]
pub fn nms(boxes: &[[f32; 4]], scores: &[f32], threshold: f32) -> Vec<i64> {
    let mut order: Vec<usize> = (0..boxes.len()).collect();
    // A stable sort keeps the lower index first.
    order.sort_by(|a, b| descending(scores[*a], scores[*b]));
    let mut kept: Vec<usize> = Vec::new();
    for i in order {
        if kept.iter().all(|before| !suppresses(boxes[*before], boxes[i], threshold)) {
            kept.push(i);
        }
    }
    kept.into_iter().map(|i| i as i64).collect()
}

/// The higher score first, NaN last.
fn descending(a: f32, b: f32) -> Ordering {
    b.partial_cmp(&a).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

fn suppresses(a: [f32; 4], b: [f32; 4], threshold: f32) -> bool {
    let area = |[x1, y1, x2, y2]: [f32; 4]| (x2 - x1 + 1.0) * (y2 - y1 + 1.0);
    let width = (a[2].min(b[2]) - a[0].max(b[0]) + 1.0).max(0.0);
    let height = (a[3].min(b[3]) - a[1].max(b[1]) + 1.0).max(0.0);
    let common = width * height;
    common / (area(a) + area(b) - common) > threshold
}
