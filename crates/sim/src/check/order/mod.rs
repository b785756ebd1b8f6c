//! Happens-before: which accesses the PTX memory model orders before the present one.
//!
//! - [`block`]: order inside a block, by warp syncs, fences, releases and acquires; [`barriers`]:
//!   what barriers of the block and of its cluster pass on; [`phases`]: mbarriers, bulk copies,
//!   proxy fences. The clocks are those of [`clock`]; [`flags`] says what locations carry from a
//!   release to an acquire.
//! - [`grid`]: the same between blocks. [`reach`] is a sparse vector clock over blocks,
//!   [`locations`] what locations of global memory carry.

pub(super) mod barriers;
pub(super) mod block;
pub(super) mod clock;
pub(super) mod flags;
pub(super) mod grid;
pub(super) mod locations;
pub(super) mod phases;
pub(super) mod reach;
