//! Folds: a [`Monoid`] carried through the levels of the machine, each level written once for every monoid.
//!
//! [`monoid`](Monoid) says what is folded. `thread` folds what a thread takes from a run, [`fold_warp`] the lanes of a
//! warp, [`fold_block`] the threads of a block, [`fold_cluster`] those of a cluster,
//! `grid` the blocks of a launch; a [`Team`] is any of the first three. `rows` and `columns` are the
//! two kernels made of these levels, [`Plan`] chooses between them and their sizes, and a [`Fold`]
//! is what users hold.
//!
//! The order of a fold is fixed by shape and plan alone, in every level; a monoid that does not commute is folded in
//! the order of its items.

mod accuracy;
mod any;
mod any_monoid;
mod block;
mod cluster;
mod columns;
pub(crate) mod geometry;
mod grid;
mod kernels;
mod launch;
mod monoid;
mod monoids;
mod plan;
mod rows;
mod run;
mod scan;
mod segments;
mod team;
mod thread;
mod warp;

pub use accuracy::sum_error_bound;
pub use any::AnyFold;
pub use any_monoid::{AnyMonoid, ErasedParts};
pub use block::{fold_block, fold_block_for_all};
pub use cluster::fold_cluster;
pub use columns::Columns;
pub use monoid::{Monoid, Position};
pub use monoids::{
    ArgExtreme, Binned, Both, Count, Counted, Deviations, Extreme, LogSumExp, Moments, Nan, OnlineSoftmax, Product,
    ReproducibleSum, Side, Sum, Ties, TopK, Variance, Welford,
};
pub use plan::{Plan, Shape};
pub use rows::Rows;
pub use run::Fold;
pub(crate) use scan::kernels as scan_kernels;
pub use scan::{
    AnyScan, Cumulative, Direction, Prefix, Scan, ScanColumns, ScanOrder, ScanPlan, ScanRows, ScanShape, Step, Tiles,
    scan_of, scan_warp,
};
pub(crate) use segments::kernels as segments_kernels;
pub use segments::{Segments, SegmentsPlan};
pub use team::Team;
pub use warp::fold_warp;
