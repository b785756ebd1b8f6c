//! Several devices that work together: collectives, and folds across devices.
//!
//! Start with [`Group`] (devices of one process, a thread each) and [`Communicator`] (what ranks do
//! together). [`Launch`] is what torchrun or Slurm tells a process, for one process a rank.
//! [`Combine`] is a monoid that is folded over the ranks, and [`Sharded`] a tensor whose axis is
//! split over them: the last level of a fold.
//!
//! Inside, `channel` is memory that ranks exchange through, `kernels` has the kernels that do it,
//! and `hall` is what the ranks of one process share; `remote` is a rank in a process of its own,
//! over NCCL or over the connections in `mesh`; `links` measures how GPUs reach one another.
//!
//! **Virtual GPUs.** The ranks' launches meet, and run as one launch of the simulator, under whose
//! checks blocks of two devices are judged as two blocks of a grid are.

mod channel;
mod combine;
mod communicator;
mod environment;
mod error;
mod group;
mod hall;
mod kernels;
mod links;
mod mesh;
mod parts;
mod remote;
mod sharded;

pub use channel::{DirectOptions, PeerOptions};
pub use combine::{Combine, Reduce};
pub use communicator::Communicator;
pub use environment::Launch;
pub use error::{Error, ErrorKind};
pub use group::Group;
pub use links::{LinkSpeed, link_speed};
pub use sharded::Sharded;

pub(crate) use kernels::MAX_RANKS;
