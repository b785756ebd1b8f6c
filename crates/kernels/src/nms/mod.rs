//! Non-maximum suppression: of boxes that overlap much, only the one with the highest score is
//! kept.
//!
//! Contract: `N` boxes `x1, y1, x2, y2` and `N` scores, all `f32`, any `N`. Boxes are taken in
//! descending order of their scores; of equal scores (0 and -0 among them) the lower index comes
//! first, and NaN comes last. A box is kept unless a kept one before it overlaps it by more than
//! the threshold. The results are the indices of the kept boxes in that order, as `i64`, and their
//! number; elements of the output after them stay as they are.
//!
//! The overlap of two boxes counts pixels, so that a box from 3 to 3 is one wide:
//! `area(b) = (b.x2 - b.x1 + 1) * (b.y2 - b.y1 + 1)`,
//! `w = max(min(a.x2, b.x2) - max(a.x1, b.x1) + 1, 0)`, `h` likewise,
//! `overlap = w * h / (area(a) + area(b) - w * h)`. Every operation rounds to the nearest `f32`, in
//! this order, on every device. A comparison with NaN is false: such a pair does not suppress;
//! minimum and maximum pass over NaN.
//!
//! Start with [`Nms`]. Three kernels: `rank` finds the place of each box by counting those before
//! it, and sorts the boxes; `overlaps` leaves a bit for each pair of the sorted boxes; `sweep`
//! walks over the boxes in one block, 64 at a time. The bits of some thousand boxes are at hand at
//! a time, so that any number of boxes goes. Counting is quadratic, and still little beside the
//! bits: a comparison a pair, against some twenty operations.

mod choice;
mod family;
mod overlaps;
mod rank;
mod sweep;

pub use choice::Choice;
pub use family::{Nms, Problem};
use overlaps::overlaps;
use rank::rank;
use sweep::sweep;

use warpfold_lang::{Global, params};

use crate::Shipped;

/// Boxes of a word of bits.
const GROUP: u32 = 64;

params! {
    /// Parameters of the kernels.
    struct NmsArgs {
        boxes: Global<f32>, scores: Global<f32>,
        /// The boxes and their indices in the order of the scores.
        sorted: Global<f32>, order: Global<u32>,
        /// A bit for each box.
        suppressed: Global<u64>,
        /// A bit for each pair.
        bits: Global<u64>,
        /// The boxes that are kept.
        indices: Global<i64>, count: Global<i64>,
        /// All boxes, and words of bits for them.
        num_boxes: u32, num_words: u32,
        /// The boxes of a launch: from the first, to before the end.
        first: u32, end: u32,
        threshold: f32,
    }
}

/// Kernels as they ship, to be assembled and compared.
pub(crate) fn kernels() -> Vec<Shipped> {
    Shipped::each([rank(), overlaps(), sweep()])
}
