//! Shared memory: the last accesses to each word, and races with them.
//!
//! - [`shadow`]: the state of one block's shared memory, and the frequent accesses, which need no
//!   closer look; `rows` has those of whole rows, in vectors. [`packed`] is a record of it,
//!   [`lines`] has words that go together, [`split`] those whose bytes have different histories,
//!   [`marks`] a set of records.
//! - [`judge`]: the general case, lane by lane; [`visit`]: the rule that an access breaks.

mod judge;
pub(super) mod lines;
pub(super) mod marks;
mod packed;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "the hottest loop of checked runs, in vectors")]
mod rows;
pub(super) mod shadow;
mod split;
mod visit;
