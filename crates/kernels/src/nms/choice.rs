//! How many boxes have their bits at hand at a time, and what memory that takes.

use std::fmt;

use super::GROUP;
use crate::plan::MAX_BLOCKS_Y;
use crate::{Error, ErrorKind};

/// What is launched for so many boxes: one launch that sorts them, then two for each part of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Choice {
    /// All boxes.
    pub num_boxes: u32,
    /// Boxes whose bits are at hand at a time: a multiple of 64. Any such number gives the same
    /// results.
    pub part: u32,
}

// THRESHOLD: more are refused; tested by crates/kernels/tests/nms.rs::many_boxes_come_in_parts
/// The most boxes: 65,536 launches, and some seconds of counting on a large GPU.
const MAX_BOXES: u64 = 1 << 22;

// THRESHOLD: boxes have their bits at hand in parts; tested by
// crates/kernels/tests/nms.rs::many_boxes_come_in_parts and
// crates/kernels/tests/nms.rs::parts_of_any_size_keep_the_same
/// Bytes of pairs' bits at a time; 20,000 boxes have all of theirs in them.
const BITS_BYTES: u64 = 64 << 20;

impl Choice {
    /// Chooses.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] for more than 2^22 boxes.
    pub fn new(num_boxes: u64) -> Result<Self, Error> {
        if num_boxes > MAX_BOXES {
            let what = "non-maximum suppression's number of boxes";
            return Err(ErrorKind::TooLarge { what, size: num_boxes, limit: MAX_BOXES }.into());
        }
        let num_groups = num_boxes.div_ceil(u64::from(GROUP));
        let at_a_time = BITS_BYTES / (8 * u64::from(GROUP) * num_groups.max(1));
        let groups = at_a_time.clamp(1, MAX_BLOCKS_Y).min(num_groups.max(1));
        // Both are at most 2^22 and a group.
        Ok(Self { num_boxes: num_boxes as u32, part: groups as u32 * GROUP })
    }

    /// Words of bits for all boxes.
    #[must_use]
    pub const fn num_words(&self) -> u32 {
        self.num_boxes.div_ceil(GROUP)
    }

    /// The parts: the first box of each, and the end of its boxes.
    pub fn parts(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        let Self { num_boxes, part } = *self;
        (0..num_boxes).step_by(part as usize).map(move |first| (first, first.saturating_add(part).min(num_boxes)))
    }

    /// Words of 64 bits of the sorted boxes, their indices, the bits of those that are suppressed,
    /// the pairs' bits.
    #[must_use]
    pub(super) fn scratch_words(&self) -> [u64; 4] {
        let num_boxes = u64::from(self.num_boxes);
        let num_words = u64::from(self.num_words());
        [2 * num_boxes, num_boxes.div_ceil(2), num_words, u64::from(self.part.min(self.num_boxes)) * num_words]
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { num_boxes, part } = self;
        write!(f, "{num_boxes} boxes: sorted by counting, then {} part(s) of up to {part}", self.parts().count())
    }
}
