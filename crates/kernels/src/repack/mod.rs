//! Repacking: a launch before a product or a convolution that brings a tensor to scratch memory, in a layout that the next
//! kernel can read.
//!
//! There are two kernels: [`strided`] copies elements from any strides to any others by the map of the library, and
//! [`ChannelsLast`] transposes images and filters, adds channels and the zeros of a padding.

mod channels_last;
mod strided;

pub(crate) use channels_last::{ChannelsLast, Configuration};
pub(crate) use strided::{Strided, strided};
