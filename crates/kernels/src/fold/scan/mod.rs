//! Scans: for every item the fold of all items up to it, over any [`Monoid`](super::Monoid), along
//! one axis, in one launch (single pass).
//!
//! A [`Scan`] is what users hold: the family that plans it. A [`ScanChoice`] says how it is carried
//! out. `rows` maps its threads along the axis: groups of lanes take short rows, blocks long ones;
//! `columns` maps them along a kept dimension. Blocks share what is longer: by `pipeline` each
//! takes tile after tile, by `stage` the next tiles are copied to shared memory meanwhile, and by
//! `look_back` it learns the prefix before a tile. `warp.rs` is the level of a warp.
//! [`Cumulative`] has the scans that users expect, by name.
//!
//! **Order.** The order of every prefix is fixed by shape and plan, so its bits never depend on
//! timing. Decoupled look-back as published (Merrill and Garland, 2016) adds up whatever its
//! predecessors have ready, which differs from run to run; waiting for the predecessor's prefix
//! would be fixed but slow, one hop through memory a tile. Here tiles form a tree of radix 32: a
//! tile adds the aggregates before it in its group, those of the groups before in its group of
//! groups, and a prefix that is handed on once in 1024 tiles. Only where columns are so many that a
//! tile comes long after the one before it, prefixes are handed on from tile to tile.
//!
//! **Accuracy.** A sum of floats is off by at most a rounding of all magnitudes in it for each step
//! that leads to it, and [`ScanChoice::depth`] counts those: some thirty, and one for each tile
//! that hands a prefix on or for each 1024 tiles of a tree. A prefix of nothing but -0 is a zero of
//! either sign.

mod choice;
mod columns;
mod cumulative;
mod family;
mod geometry;
mod look_back;
mod pipeline;
mod rows;
mod stage;
mod warp;

pub use choice::{ScanAlgorithm, ScanChoice};
pub(crate) use columns::ScanColumns;
pub(crate) use cumulative::kernels;
pub use cumulative::{Cumulative, scan_of};
pub use family::Scan;
pub(crate) use geometry::StrideKind;
pub(crate) use look_back::num_words;
pub(crate) use rows::{ScanRows, Tiles};

/// Which items a prefix has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Prefix {
    /// The item itself and all before it.
    #[default]
    Inclusive,
    /// All before it; the first is the identity.
    Exclusive,
}

/// Where a scan begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Direction {
    /// At the first item.
    #[default]
    Forward,
    /// At the last item: as if the axis were flipped, scanned, and flipped again. Positions and
    /// counts are those of the flipped axis.
    Reverse,
}

/// What a scan gives for each item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ScanOrder {
    /// Which items a prefix has.
    pub prefix: Prefix,
    /// Where the scan begins.
    pub direction: Direction,
}

impl ScanOrder {
    /// The position in memory of the first of `n` items that come from `position` on.
    fn locate(
        self,
        len: warpfold_lang::Val<u64>,
        position: warpfold_lang::Val<u64>,
        n: u32,
    ) -> warpfold_lang::Val<u64> {
        match self.direction {
            Direction::Forward => position,
            Direction::Reverse => len - u64::from(n) - position,
        }
    }

    /// Neighbours in memory, in the order of the scan, or back.
    fn turn<T>(self, mut things: Vec<T>) -> Vec<T> {
        if self.direction == Direction::Reverse {
            things.reverse();
        }
        things
    }
}
