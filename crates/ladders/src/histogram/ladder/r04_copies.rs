//! Rung 4: several counts of each bin.
//! Changed: a bin has copies side by side, and each lane counts in one of them: with 32 copies, in a bank of its own.
//! Removes: the conflicts of the lanes of a warp, whatever the values are.
//! Measured: see `LADDER` (generated).
//! Limit now: memory. So it was before for values of four bytes, and a plan takes fewer copies; for bytes it was not.

/// The kernel that ships: it adds to counts that are zero before.
pub use warpfold_kernels::histogram::copies;
