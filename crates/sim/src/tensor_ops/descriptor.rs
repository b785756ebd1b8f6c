//! Matrix descriptors: layout of a `wgmma` operand in shared memory (PTX ISA, "Matrix Descriptor
//! Format" and "Canonical Layouts").
//!
//! Everything is counted in units of 16 bytes. K-major, a unit holds neighbours along K of one row
//! (of A; column of B); MN-major, it holds eight neighbours along M or N of one k. Swizzling
//! exchanges units inside a line of 128 bytes.

use warpfold_ptx::Major;

/// A matrix in shared memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    start: u32,
    major: Major,
    /// Bytes from a row of a pattern of eight to the next.
    row: u32,
    /// Bytes from eight rows to the next eight.
    eight: u32,
    /// Contiguous units in a row.
    run: u32,
    /// Bytes from a run of units to the next.
    next_run: u32,
    /// Bits of the line's number that are added to the unit's number.
    swizzle: u32,
    /// The number of the line where the pattern starts.
    base: u32,
}

impl Layout {
    /// Decodes a descriptor.
    pub(crate) fn new(descriptor: u64, major: Major) -> Self {
        let field = |at: u32| (descriptor >> at) as u32 & 0x3fff;
        let (start, leading, stride) = (field(0) << 4, field(16) << 4, field(32) << 4);
        let units: u32 = match descriptor >> 62 {
            0 => 1,
            1 => 8,
            2 => 4,
            _ => 2,
        };
        let base = if units == 1 { 0 } else { (descriptor >> 49) as u32 & 7 };
        let (eight, run, next_run) = match (major, units) {
            (Major::K, 1) => (stride, 1, leading),
            // A row of a K-major pattern is never left: an instruction reads two units of it.
            (Major::K, _) => (stride, u32::MAX, 0),
            (Major::Mn, 1) => (leading, 1, stride),
            (Major::Mn, _) => (stride, units, leading),
        };
        Self { start, major, row: units * 16, eight, run, next_run, swizzle: units - 1, base }
    }

    /// Major dimension of the matrix.
    pub(crate) fn major(&self) -> Major {
        self.major
    }

    /// The address of a unit: `row` counts along M or N (K-major) or along K (MN-major), `unit`
    /// along the other.
    #[inline(always)]
    pub(crate) fn unit(&self, row: u32, unit: u32) -> u32 {
        let in_run = if self.run == u32::MAX { unit } else { unit % self.run };
        let run = if self.run == u32::MAX { 0 } else { unit / self.run };
        let linear = self.start + row % 8 * self.row + row / 8 * self.eight + in_run * 16 + run * self.next_run;
        let line = (linear >> 7).wrapping_sub(self.base);
        linear ^ (line & self.swizzle) << 4
    }

    /// An upper bound of the addresses of `rows` by `units` units: swizzling stays within lines of
    /// 128 bytes.
    pub(crate) fn end(&self, rows: u32, units: u32) -> u32 {
        let last_run = if self.run == u32::MAX { 0 } else { (units - 1) / self.run };
        let in_run = units.min(self.run) - 1;
        let rows_end = (rows - 1).min(7) * self.row + (rows - 1) / 8 * self.eight;
        (self.start + rows_end + last_run * self.next_run + in_run * 16 + 16).next_multiple_of(128)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(start: u64, leading: u64, stride: u64, base: u64, mode: u64) -> u64 {
        start >> 4 | (leading >> 4) << 16 | (stride >> 4) << 32 | base << 49 | mode << 62
    }

    #[test]
    fn the_end_is_beyond_every_unit() {
        for mode in 0..4 {
            for (major, rows, units) in [(Major::K, 64, 2), (Major::Mn, 16, 32), (Major::Mn, 16, 1), (Major::K, 8, 2)] {
                let layout = Layout::new(descriptor(0x430, 0x800, 0x400, 3, mode), major);
                let end = layout.end(rows, units);
                let last = (0..rows).flat_map(|r| (0..units).map(move |u| layout.unit(r, u) + 16)).max();
                assert!(last.is_some_and(|last| last <= end), "mode {mode}, {major:?}");
            }
        }
    }
}
