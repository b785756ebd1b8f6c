//! Execution: the register file, operations, warps, blocks and the grid.
//!
//! Reading order: [`row`], [`op`], [`code`], [`machine`], [`warp`], [`frame`], [`part`], [`block`],
//! [`cluster`], [`grid`].

mod asynchronous_checks;
pub(crate) mod barrier;
pub(crate) mod block;
pub(crate) mod checking;
pub(crate) mod cluster;
mod cluster_barrier;
pub(crate) mod code;
mod described;
mod flight_checks;
pub(crate) mod frame;
pub(crate) mod geometry;
pub(crate) mod grid;
mod harvest;
pub(crate) mod l1;
pub(crate) mod lanes;
mod leave;
pub(crate) mod machine;
mod mbarrier_wait;
pub(crate) mod meeting;
pub(crate) mod memory_map;
pub(crate) mod op;
pub(crate) mod part;
pub(crate) mod recording;
mod registers;
mod rendezvous;
pub(crate) mod row;
mod shared_checks;
mod sizes;
pub(crate) mod special;
mod stepping;
mod stuck;
pub(crate) mod touched;
pub(crate) mod warp;
