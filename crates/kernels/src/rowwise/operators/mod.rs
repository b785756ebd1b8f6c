//! The row operators that are built in, by name and element type.

mod abs_max;
mod layer_norm;
mod rms_norm;
mod softmax;
mod table;

pub use abs_max::{AbsMaxScale, Quantize};
pub use layer_norm::LayerNorm;
pub use rms_norm::RmsNorm;
pub use softmax::{LogSoftmax, Softmax};
pub use table::{Norm, RowOp, Types, operator_of};
