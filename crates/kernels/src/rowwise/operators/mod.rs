//! The row operators that are built in, by name and element type.

mod abs_max;
mod float;
mod layer_norm;
mod parts;
mod rms_norm;
mod shipped;
mod softmax;
mod table;

pub use abs_max::{AbsMax, AbsMaxScale, Quantize};
pub use float::{Exponentials, RowFloat};
pub use layer_norm::LayerNorm;
pub use rms_norm::RmsNorm;
pub(crate) use shipped::kernels;
pub use softmax::{LogSoftmax, Softmax};
pub use table::{Norm, RowOp, Types, operator_of};
