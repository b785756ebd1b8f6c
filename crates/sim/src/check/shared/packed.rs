//! Packing of a record of shared memory into 32 bits, and the records that need no closer look.
//!
//! From the top: its number in [`BlockOrder`](crate::check::order::block::BlockOrder) (19 bits, so
//! that records stay below 2^31), strong or not (1), warp or agent of an mbarrier (6), lane (5).

pub(in crate::check) const ID_SHIFT: u32 = 12;
pub(in crate::check) const STRONG: u32 = 1 << 11;
pub(in crate::check) const WARP: u32 = 0x7e0;
pub(in crate::check) const LANE: u32 = 0x1f;
/// Replacement of a writer: the bytes' records are at the split words' index in `readers`, if
/// `earlier` has the floor.
pub(in crate::check) const SPLIT: u32 = i32::MAX as u32;

pub(in crate::check) const fn warp_of(record: u32) -> u32 {
    (record & WARP) >> 5
}

pub(in crate::check) const fn same_thread(a: u32, b: u32) -> bool {
    (a ^ b) & (WARP | LANE) == 0
}

pub(in crate::check) const fn same_warp(a: u32, b: u32) -> bool {
    (a ^ b) & WARP == 0
}

/// Records that need no closer look: below `floor`, or of the same warp and below `synced`, or of
/// the same thread.
#[derive(Clone, Copy)]
pub(in crate::check) struct Settled {
    pub(in crate::check) floor: u32,
    pub(in crate::check) synced: u32,
    /// [`STRONG`] for reads: a strong writer may hide another one.
    pub(in crate::check) closer: u32,
}

impl Settled {
    /// Without branches, so that loops over words vectorise; records stay below 2^31, as signed
    /// comparisons are cheaper.
    #[inline(always)]
    pub(in crate::check) fn holds(self, record: u32, me: u32) -> bool {
        let below = |bound: u32| (record as i32) < bound as i32;
        let own = (same_warp(record, me) & below(self.synced)) | (same_thread(record, me) & (record != SPLIT));
        below(self.floor) | (own & (record & self.closer == 0))
    }

    /// [`holds`](Self::holds) for one record at a time: the usual answer first.
    #[inline(always)]
    pub(in crate::check) const fn holds_one(self, record: u32, me: u32) -> bool {
        record < self.floor
            || (same_warp(record, me)
                && record & self.closer == 0
                && (record < self.synced || (same_thread(record, me) && record != SPLIT)))
    }
}
