//! Row operators: softmax, norms, scaling, quantisation. What an element becomes depends on its
//! whole row.
//!
//! A [`RowOperator`] says how; [`RowWise`] gives it inputs, vectors along the row (a scale, a
//! bias), outputs and statistics, and is the family that plans it. A row that fits in registers or
//! shared memory is read once and written once (`on_chip`); a longer one is folded by one launch
//! and mapped by the next (`long`). `placement` and `tuning` choose threads and storage for a row,
//! `body` is what all kernels for rows on chip record. [`operators`] has the built-in ones.

mod body;
mod choice;
mod erased;
mod family;
mod fold_step;
mod long;
mod on_chip;
mod on_chip_row;
mod operator;
pub mod operators;
mod partition;
mod placement;
mod smem_load;
mod tuning;

pub use choice::{Algorithm, Choice, Problem};
pub use family::RowWise;
pub(crate) use family::Types as OperandTypes;
pub(crate) use fold_step::add_fold;
pub use on_chip::{OnChip, RowPartition, RowStorage, StoreVia};
pub use on_chip_row::{Columns, OnChipRow};
pub use operator::{Cost, RowOperator};
