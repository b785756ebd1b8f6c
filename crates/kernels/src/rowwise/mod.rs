//! Operators on rows: what a row's elements become depends on the whole row. Softmax, norms, scaling, quantising.
//!
//! A [`RowOperator`] says how; [`RowWise`] gives it inputs, vectors along the row (a scale, a bias), outputs and
//! statistics, and plans it. A row that fits the registers or the shared memory of its threads is read once and
//! written once (`on_chip`); a longer one is folded over the grid, and then mapped with what the fold gave (`long`).
//! [`operators`] has those that are built in.

mod body;
mod choice;
mod dealing;
mod erased;
mod family;
mod fold_step;
mod held;
mod long;
mod on_chip;
mod operator;
pub mod operators;
mod pieces;
mod stage;
mod threads;

pub use choice::{Algorithm, Choice, Problem};
pub use family::RowWise;
pub(crate) use family::Types as OperandTypes;
pub(crate) use fold_step::add_fold;
pub use held::{Columns, Held};
pub use on_chip::{Dealing, Home, OnChip, Way};
pub use operator::{Cost, RowOperator};
