//! Elements between memory and registers: what type they have there, and what type is computed in.
//!
//! Memory holds any [`Dtype`](crate::Dtype), known when a kernel is built; a kernel computes in one
//! of six [`Compute`] types. [`Source`] loads: accesses up to 16 bytes wide, conversions, and the
//! maps that are fused before a fold or an operator; [`Sink`] stores. So a monoid is compiled for
//! the types it computes in, not for those it reads.

mod compute;
mod load;
mod sink;
mod source;
mod spill;
mod store;

pub use compute::Compute;
pub(crate) use sink::Destination;
pub use sink::Sink;
pub(crate) use source::Origin;
pub use source::{Place, Run, Source};

pub(crate) use load::{load, load_position, of_word};
pub(crate) use spill::spill;
pub(crate) use store::store;
