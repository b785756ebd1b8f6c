//! Element-wise maps: up to three tensors of any layouts, broadcast to one shape, to one or two
//! tensors of that shape.
//!
//! A [`Map`] is what users hold, and the family: a [`Source`](crate::elements::Source), a function
//! of its items, and a [`Sink`](crate::elements::Sink). [`Problem::choose`] chooses between two
//! kernels: `strips`, whose threads walk all tensors in the order of the output's memory, and
//! `tiles`, for inputs that are contiguous along another dimension than the output: a tile of them
//! is transposed in shared memory, so that both sides are coalesced. `geometry` is what a kernel
//! knows of sizes and strides, `copy` what other families use to make tensors contiguous.
//!
//! A map is one launch, or none if there are no elements. Each element is read before it is
//! written, by the same thread.

mod choice;
mod copy;
mod family;
mod geometry;
mod injective;
mod reciprocal;
mod strips;
mod tiles;

pub use choice::{Algorithm, Choice, Problem, Weight};
pub use copy::copy_of;
pub(crate) use copy::{add_contiguous, add_copy};
pub use family::Map;
pub(crate) use geometry::Scalars;
