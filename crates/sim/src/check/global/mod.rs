//! Global memory: the last accesses to each word, and races with them.
//!
//! - [`shadow`]: the state of one allocation. Its cells name accesses by numbers: [`records`] is
//!   the table that the workers of a launch share, [`numbers`] allocates from it for one block, and
//!   [`readers`] chains the readers of a word.
//! - [`judge`]: judges an access, [`record`] records it; [`quick`]: the frequent cases, by the cell
//!   alone.
//! - [`observed`]: which strong writes were observed, so that what follows comes after them.
//! - [`cluster`]: the shared memory of a cluster's other blocks, judged the same way.
//! - [`dependence`]: what a programmatic launch does before it waits for the launch before it.

pub(super) mod cluster;
pub(super) mod dependence;
pub(super) mod judge;
pub(super) mod numbers;
pub(super) mod observed;
mod quick;
pub(super) mod readers;
mod record;
pub(super) mod records;
pub(super) mod shadow;
