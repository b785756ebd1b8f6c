//! What a problem knows of a tensor: all of it but its address.

use super::{OperandSpec, alignment_of};
use crate::layout::Layout;
use crate::{Dtype, Error};

/// Element type, shape, strides and alignment of a tensor.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TensorSpec {
    /// The element type.
    pub dtype: Dtype,
    /// Shape and strides.
    pub layout: Layout,
    /// The address of the first element modulo 16, the bytes of the widest access.
    pub address_mod_16: u8,
}

impl TensorSpec {
    /// A tensor whose first element has this address.
    #[must_use]
    pub const fn new(dtype: Dtype, layout: Layout, address: u64) -> Self {
        Self { dtype, layout, address_mod_16: (address % 16) as u8 }
    }

    /// A tensor of scratch memory, in C order.
    ///
    /// # Errors
    /// Those of [`Layout::contiguous`].
    pub fn contiguous(dtype: Dtype, shape: &[usize]) -> Result<Self, Error> {
        Ok(Self::new(dtype, Layout::contiguous(shape)?, 0))
    }

    /// The largest power of two up to 16 that the address of the first element is a multiple of.
    #[must_use]
    pub fn alignment(&self) -> u64 {
        alignment_of([self.address_mod_16.into()])
    }

    /// Bytes from the first element to the end of the one with the highest address. With negative
    /// strides other elements are at lower addresses than the first.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        if self.layout.is_empty() {
            return 0;
        }
        let reach = |(size, stride): (&usize, &isize)| (*size as u64 - 1).saturating_mul((*stride).max(0) as u64);
        let dims = self.layout.shape().iter().zip(self.layout.strides());
        dims.map(reach).fold(1, u64::saturating_add).saturating_mul(self.dtype.bytes())
    }

    /// As an operand of a plan.
    #[must_use]
    pub fn operand(&self, name: &'static str) -> OperandSpec {
        OperandSpec::new(name, self.bytes(), self.alignment())
    }
}
