//! Element-wise maps: up to three tensors of any layouts, broadcast to one shape, to one or two tensors of that shape.
//!
//! A [`Map`] is what users hold: a [`Source`](crate::elements::Source), a function of its items, and a
//! [`Sink`](crate::elements::Sink). [`Plan`] chooses between two kernels: `strips`, whose threads walk all tensors in the
//! order of the output's memory, and `tiles`, for inputs that lie the other way round: a tile of them turns in shared
//! memory, so that both sides are read and written in runs. `geometry` is what a kernel knows of sizes and strides, and
//! [`overlap`] says when an output may lie in the memory of an input.
//!
//! A map is one launch, or none if there are no elements. Each element is read before it is written, by the same thread.

mod any;
mod geometry;
mod overlap;
mod plan;
mod run;
mod strips;
mod tiles;

pub use any::AnyMap;
pub use geometry::Scalars;
pub use overlap::{Overlap, Region, overlap};
pub use plan::{Plan, Shape, Weight};
pub use run::Map;
pub(crate) use strips::BLOCK;
pub use strips::Strips;
pub use tiles::Tiles;
