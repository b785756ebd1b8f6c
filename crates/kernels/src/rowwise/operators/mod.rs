//! The row operators that are built in, by name and element type.

mod abs_max;
mod float;
mod kernels;
mod layer_norm;
mod parts;
mod rms_norm;
mod softmax;
mod table;

pub use abs_max::AbsMaxScale;
pub(crate) use abs_max::Quantize;
pub use float::{Exponentials, RowFloat};
pub(crate) use kernels::kernels;
pub(crate) use layer_norm::LayerNorm;
pub(crate) use rms_norm::RmsNorm;
pub(crate) use softmax::LogSoftmax;
pub use softmax::Softmax;
pub use table::{Norm, RowOp, Types, operator_of};
