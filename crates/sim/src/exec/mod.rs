//! Execution: the register file, operations, warps, blocks and the grid.
//!
//! Reading order: [`row`], [`op`], [`code`], [`machine`], [`warp`], [`frame`], [`block`], [`grid`].

pub(crate) mod block;
pub(crate) mod checking;
pub(crate) mod code;
pub(crate) mod frame;
pub(crate) mod grid;
pub(crate) mod machine;
pub(crate) mod memory_map;
pub(crate) mod op;
pub(crate) mod row;
pub(crate) mod warp;
