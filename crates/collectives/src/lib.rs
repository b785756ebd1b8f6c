//! Several devices that work together: collectives, and folds across devices.
//!
//! Start with [`Group`] (devices of one process, a thread each) and [`Communicator`] (what ranks do
//! together). [`Combine`] is a monoid that is folded over the ranks.
//!
//! Inside, `channel` is memory that ranks exchange through, `kernels` has the kernels that do it,
//! and `hall` is what the ranks of one process share.
//!
//! **Virtual GPUs.** The ranks' launches meet, and run as one launch of the simulator, under whose
//! checks blocks of two devices are judged as two blocks of a grid are.

mod channel;
mod combine;
mod communicator;
mod error;
mod group;
mod hall;
mod kernels;

pub use channel::PeerOptions;
pub use combine::{Combine, Reduce};
pub use communicator::Communicator;
pub use error::{Error, ErrorKind};
pub use group::Group;

pub(crate) use kernels::MAX_RANKS;
