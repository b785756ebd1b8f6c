//! Repacking: a step before a GEMM or a convolution that copies a tensor to scratch memory, in a
//! layout that the next kernel can read.
//!
//! There are two kernels: [`strided`] copies elements from any strides to any others by the
//! library's map, and [`ChannelsLast`] transposes images and filters, and adds channels and the
//! zeros of a padding.

mod channels_last;
mod strided;

pub(crate) use channels_last::{ChannelsLast, RepackConfig};
pub(crate) use strided::{Strided, strided};
