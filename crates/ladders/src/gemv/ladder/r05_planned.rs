//! Rung 5: as many lanes per row as it has work for, several rows per lane.
//! Changed: a plan chooses lanes, rows, accesses under way and their width; rows side by side share loads of the vector.
//! Removes: half of the loads of the vector, and idle lanes in front of short rows.
//! Measured: see `LADDER` (generated).
//! Limit now: memory; a plan shares few long rows out to several blocks, by another kernel.

/// The kernel that ships: some lanes leave the products of some rows.
pub use warpfold_kernels::gemv::rows as planned;
