//! Attention of few queries over a cache of 8-bit floats, on the tensor cores of Hopper: keys and
//! values are converted in registers, on the way to the product.
//!
//! WGMMA takes A from registers and B from shared memory. So operands are swapped: scores are
//! `S^T = K Q^T`, where keys are the 64 rows and queries the 8 to 32 columns, and results
//! `O^T = V^T P^T`. What TMA has brought is loaded as matrices (`ldmatrix`, of values transposed),
//! whose words become fragments of A by shifts and one multiplication; nothing converted is stored.
//!
//! The bits are those of `wgmma`: a product of 16 elements of `k` is one exact sum, in whatever
//! order, rounded once (`CALIBRATION.md`), the sums of weights are folded in the same order, and
//! the rest has no order.
//!
//! `kernel` has the roles, `load` the first, `attend` the other; `widen` converts.

mod attend;
mod kernel;
mod load;
mod softmax;
mod tile;
mod widen;

pub(super) use kernel::{SwappedArgs, SwappedConfig, attend_swapped};
pub use tile::SwappedTile;
