//! Tensor maps: descriptors of tensors in device memory for TMA (sm_90).

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use warpfold_lang::{self as lang, Argument};
use warpfold_sim::{Fill, Interleave, L2Promotion, MapMode, MapSwizzle, TensorMap as Description, TensorType};

use crate::api::arguments::Arguments;
use crate::api::buffer::{View, ViewMut};
use crate::api::element::Element;
use crate::api::memory::{Access, Allocation};
use crate::api::typed::Packet;
use crate::{Error, ErrorKind};

/// The layout of a tensor in a view, and the box that one TMA copy moves. Dimensions are in the
/// order of memory: the innermost first, whose elements are contiguous. The rules are those of the
/// driver's `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col`, on every device.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TensorLayout {
    /// Elements in each dimension: one to five.
    pub dims: Vec<u64>,
    /// Strides in elements of each dimension but the innermost: multiples of 16 bytes.
    pub strides: Vec<u64>,
    /// Mode of the map: tiled or im2col.
    pub mode: MapMode,
    /// Traversal stride of each dimension, in elements.
    pub element_strides: Vec<u32>,
    /// Interleaved layout of the channels.
    pub interleave: Interleave,
    /// The swizzle of shared memory.
    pub swizzle: MapSwizzle,
    /// Size of the L2 promotion.
    pub l2_promotion: L2Promotion,
    /// The value of elements out of bounds.
    pub fill: Fill,
}

impl TensorLayout {
    /// A tiled layout: one copy moves a box of the tensor, swizzled; zeros out of bounds.
    #[must_use]
    pub fn tiled(dims: &[u64], strides: &[u64], box_dims: &[u32], swizzle: MapSwizzle) -> Self {
        Self {
            dims: dims.to_vec(),
            strides: strides.to_vec(),
            mode: MapMode::Tile { box_dims: box_dims.to_vec() },
            element_strides: vec![1; dims.len()],
            interleave: Interleave::None,
            swizzle,
            l2_promotion: L2Promotion::Bytes256,
            fill: Fill::Zero,
        }
    }

    /// A row-major matrix with leading dimension `pitch`; one copy moves `box_rows` rows of
    /// `box_columns`.
    #[must_use]
    pub fn matrix(rows: u64, columns: u64, pitch: u64, box_rows: u32, box_columns: u32, swizzle: MapSwizzle) -> Self {
        Self::tiled(&[columns, rows], &[pitch], &[box_columns, box_rows], swizzle)
    }
}

/// A tensor map over a view: the argument for a kernel's [`lang::TensorMap`]. It holds the view, so
/// that the memory outlives the launch.
///
/// ```
/// use half::bf16;
/// use warpfold_device::{Device, MapSwizzle, Profile, TensorLayout};
///
/// let device = Device::virtual_gpu(Profile::H200);
/// let weights = device.alloc_zeroed::<bf16>(100 * 64)?;
/// let layout = TensorLayout::matrix(100, 60, 64, 128, 64, MapSwizzle::Bytes128);
/// let map = weights.as_view().tensor_map(&layout)?;
/// assert!(weights.as_view().tensor_map(&TensorLayout::matrix(200, 60, 64, 128, 64, MapSwizzle::Bytes128)).is_err());
/// # Ok::<(), warpfold_device::Error>(())
/// ```
pub struct TensorMap<'a, T: Element> {
    bytes: [u8; 128],
    memory: Arc<Allocation>,
    access: Access,
    view: PhantomData<View<'a, T>>,
}

/// The tensor map's type for an element type.
fn type_of<T: lang::Element>() -> TensorType {
    use lang::Type;
    match T::TYPE {
        Type::Bool | Type::U8 | Type::I8 | Type::F8E4M3 | Type::F8E5M2 => TensorType::U8,
        Type::U16 | Type::I16 => TensorType::U16,
        Type::F16 => TensorType::F16,
        Type::Bf16 => TensorType::Bf16,
        Type::U32 | Type::F16x2 | Type::Bf16x2 => TensorType::U32,
        Type::I32 => TensorType::I32,
        Type::F32 => TensorType::F32,
        Type::U64 => TensorType::U64,
        Type::I64 => TensorType::I64,
        Type::F64 => TensorType::F64,
    }
}

fn encode<T: Element + lang::Element>(
    layout: &TensorLayout,
    (address, num_bytes): (u64, usize),
    first: u64,
    memory: &Arc<Allocation>,
) -> Result<[u8; 128], Error> {
    let (start, limit) = (address, address + num_bytes as u64);
    let address = start.saturating_add(first);
    let description = Description {
        element: type_of::<T>(),
        address,
        dims: layout.dims.clone(),
        strides: layout.strides.iter().map(|stride| stride.saturating_mul(u64::from(T::BYTES))).collect(),
        mode: layout.mode.clone(),
        element_strides: layout.element_strides.clone(),
        interleave: layout.interleave,
        swizzle: layout.swizzle,
        l2_promotion: layout.l2_promotion,
        fill: layout.fill,
    };
    description.check().map_err(ErrorKind::TensorMap)?;
    let (_, end) = description.extent();
    if end > limit {
        return Err(ErrorKind::TensorTooLarge { needed: end - start, found: num_bytes as u64 }.into());
    }
    memory.device().backend().encode_tensor_map(&description)
}

impl<'a, T: Element + lang::Element> View<'a, T> {
    /// Encodes a map for kernels that read the tensor.
    ///
    /// # Errors
    /// [`ErrorKind::TensorMap`] for a layout that the driver would not take,
    /// [`ErrorKind::TensorTooLarge`] for one that reaches beyond the view.
    pub fn tensor_map(&self, layout: &TensorLayout) -> Result<TensorMap<'a, T>, Error> {
        let bytes = encode::<T>(layout, (self.address(), self.num_bytes()), 0, self.memory())?;
        Ok(TensorMap { bytes, memory: self.memory().clone(), access: Access::Read, view: PhantomData })
    }
}

impl<'a> View<'a, u8> {
    /// Encodes a map of elements of another type, which begin `first` bytes after the view's start.
    ///
    /// # Errors
    /// As [`View::tensor_map`].
    pub fn tensor_map_of<T: lang::Element + Element>(
        &self,
        first: u64,
        layout: &TensorLayout,
    ) -> Result<TensorMap<'a, T>, Error> {
        let bytes = encode::<T>(layout, (self.address(), self.num_bytes()), first, self.memory())?;
        Ok(TensorMap { bytes, memory: self.memory().clone(), access: Access::Read, view: PhantomData })
    }
}

impl<'a> ViewMut<'a, u8> {
    /// Encodes like [`View::tensor_map_of`], for kernels that write.
    ///
    /// # Errors
    /// As [`View::tensor_map`].
    pub fn into_tensor_map_of<T: lang::Element + Element>(
        self,
        first: u64,
        layout: &TensorLayout,
    ) -> Result<TensorMap<'a, T>, Error> {
        let bytes = encode::<T>(layout, (self.address(), self.num_bytes()), first, self.memory())?;
        Ok(TensorMap { bytes, memory: self.memory().clone(), access: Access::Write, view: PhantomData })
    }
}

impl<'a, T: Element + lang::Element> ViewMut<'a, T> {
    /// Encodes a map for kernels that write the tensor, or read and write it.
    ///
    /// # Errors
    /// As [`View::tensor_map`].
    pub fn into_tensor_map(self, layout: &TensorLayout) -> Result<TensorMap<'a, T>, Error> {
        let bytes = encode::<T>(layout, (self.address(), self.num_bytes()), 0, self.memory())?;
        Ok(TensorMap { bytes, memory: self.memory().clone(), access: Access::Write, view: PhantomData })
    }
}

impl<T: Element> TensorMap<'_, T> {
    /// The encoded map, for a launch that keeps the memory alive by other arguments.
    #[must_use]
    pub fn bytes(&self) -> &[u8; 128] {
        &self.bytes
    }

    pub(crate) fn memory(&self) -> (Arc<Allocation>, Access) {
        (self.memory.clone(), self.access)
    }
}

impl<T: Element + lang::Element> Argument<lang::TensorMap<T>, Packet> for &TensorMap<'_, T> {
    fn pass(self, packet: &mut Packet) -> Result<(), Error> {
        packet.arguments_mut().push_tensor_map(self);
        Ok(())
    }
}

impl<'a> Arguments<'a> {
    /// Adds a tensor map to the arguments.
    #[must_use]
    pub fn tensor_map<T: Element>(mut self, map: &TensorMap<'a, T>) -> Self {
        self.push_tensor_map(map);
        self
    }
}

impl<T: Element> fmt::Debug for TensorMap<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TensorMap").field("access", &self.access).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
