//! Folds (reductions): a [`Monoid`] carried through thread, warp, block, cluster and grid, each
//! level written once for every monoid.
//!
//! [`Monoid`] says what is folded. `thread` folds the items of a thread, [`fold_warp`] the lanes of
//! a warp, [`fold_block`] the threads of a block, [`fold_cluster`] those of a cluster, `grid` the
//! blocks of a launch; a [`Team`] is any of the first three. `rows` and `columns` are the two
//! kernels made of these levels, [`Choice`] picks one of them and its sizes, and a [`Fold`] is what
//! users hold: the family that plans it. `scan` has prefixes, `segments` segmented folds.
//!
//! A monoid loses its types when a fold or a scan is made of it (`erased`), so that the kernels are
//! compiled once for all monoids.
//!
//! The order of a fold is fixed by shape and choice alone, in every level; a monoid that does not
//! commute is folded in the order of its items.

mod accuracy;
mod block;
mod choice;
mod cluster;
mod columns;
mod erased;
mod family;
pub(crate) mod geometry;
mod grid;
mod monoid;
mod monoids;
mod rows;
mod scan;
mod segments;
mod team;
mod thread;
mod warp;

pub use accuracy::sum_error_bound;
pub use block::fold_block;
pub(crate) use block::fold_block_for_all;
pub use choice::{Algorithm, Choice};
pub use cluster::fold_cluster;
pub(crate) use columns::Columns;
pub use family::Fold;
pub use monoid::{Monoid, Position};
pub use monoids::{
    ArgExtreme, Binned, Both, Count, Counted, Extreme, LogSumExp, Nan, OnlineSoftmax, Product, ReproducibleSum, Side,
    Sum, Ties, TopK, Variance, Welford, pairwise_sums,
};
pub(crate) use monoids::{Deviations, InSegments, MaxSumExp};
pub use rows::Rows;
pub(crate) use scan::StrideKind;
pub(crate) use scan::kernels as scan_kernels;
pub use scan::{Cumulative, Direction, Prefix, Scan, ScanAlgorithm, ScanChoice, ScanOrder, scan_of};
pub use segments::SegmentedFold;
pub(crate) use segments::kernels as segments_kernels;
pub use team::Team;
pub use warp::fold_warp;
