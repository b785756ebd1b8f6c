//! Folds: a [`Monoid`] carried through the levels of the machine, each level written once for every monoid.
//!
//! [`monoid`](Monoid) says what is folded; [`fold_warp`] folds the lanes of a warp, [`fold_block`] the threads of a
//! block. Each takes one accumulator a thread and gives the fold in thread order, so that combines that do not commute
//! are folded rightly as well, and the order depends on the shape alone. Deliberately absent: anything that looks at
//! memory; a kernel decides how elements reach a thread.

mod block;
mod monoid;
mod monoids;
mod warp;

pub use block::fold_block;
pub use monoid::Monoid;
pub use monoids::{ArgMax, Max, Min, Product, Sum};
pub use warp::fold_warp;
