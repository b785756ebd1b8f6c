//! Blocks of the KV cache: who holds which, which are free, which hold a known prefix.
//!
//! A block has room for the keys and values of `block_size` positions, of all layers. [`Pool`]
//! counts references over the [`FreeList`]; the [`PrefixIndex`] finds computed blocks by what they
//! hold; a [`Table`] says where the positions of one sequence lie; `write` makes room for positions
//! (growth and copy-on-write); `swap` moves the blocks of a group between the device's pool and the
//! host's. Nothing here knows requests or policies.

mod free_list;
mod pool;
mod prefix;
mod swap;
mod table;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use free_list::FreeList;
pub(crate) use pool::Pool;
pub use prefix::PrefixChange;
pub(crate) use prefix::{Hit, Key, Parent, PrefixIndex};
pub(crate) use swap::{num_unique, swap_tables};
pub(crate) use table::Table;
pub(crate) use write::{blocks_needed, prepare};

/// The number of a block in its pool.
pub type BlockId = u32;

/// The block that padding writes to and nobody reads.
pub const NULL_BLOCK: BlockId = 0;

/// A copy of a block: from, to.
pub type BlockCopy = (BlockId, BlockId);
