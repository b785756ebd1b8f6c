//! Tensors of others as ours: CUDA memory in place, memory of the CPU by a copy.

use std::sync::Arc;

use warpfold_device::{Buffer, DeviceKind};
use warpfold_kernels::layout::Layout;
use warpfold_kernels::{Dtype, Error, ErrorKind};

use super::Exported;
use super::abi::{self, Form};
use crate::arena::Memory;
use crate::tensor::walk;
use crate::{Queue, Tensor};

impl Tensor {
    /// A tensor of somebody else's: its memory where the queue's device has it, else a copy. See
    /// the [module](crate::dlpack).
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for an element type, a version or a device that we do not take, and
    /// for memory that is not aligned to its elements; [`ErrorKind::TooManyDimensions`]; what the
    /// device says.
    pub fn from_dlpack<F: Form>(theirs: Exported<F>, at: impl Into<Queue>) -> Result<Self, Error> {
        let queue = at.into();
        let found = Found::of(&theirs)?;
        match (found.device.kind, queue.device().kind()) {
            (abi::CPU | abi::CUDA_HOST | abi::CUDA_MANAGED, _) => found.copied(&queue),
            (abi::CUDA, DeviceKind::Cuda { ordinal }) if found.device.id == ordinal as i32 => {
                Ok(found.in_place(&queue, Box::new(theirs)))
            }
            (kind, _) => {
                let (id, ours) = (found.device.id, queue.device());
                Err(refuse(format!("its memory is on device {id} of DLPack's kind {kind}, the queue is on {ours}")))
            }
        }
    }
}

fn refuse(reason: String) -> Error {
    ErrorKind::Operand { operator: "from_dlpack", reason }.into()
}

/// The content of an imported structure in our types.
struct Found {
    device: abi::Device,
    dtype: Dtype,
    layout: Layout,
    /// The address of the first element.
    first: *const u8,
    /// Elements before the first one.
    before: usize,
    /// Elements from the lowest to the highest address.
    span: usize,
}

impl Found {
    fn of<F: Form>(theirs: &Exported<F>) -> Result<Self, Error> {
        if let Some(version) = theirs.form().version()
            && version.major != abi::VERSION.major
        {
            let (found, expected) = (version.major, abi::VERSION.major);
            return Err(refuse(format!("it has version {found} of DLPack, expected {expected}")));
        }
        let tensor = theirs.tensor();
        let dtype = tensor.dtype.dtype().ok_or_else(|| {
            let abi::DataType { code, bits, lanes } = tensor.dtype;
            refuse(format!("elements of code {code}, {bits} bits and {lanes} lane(s) are none of ours"))
        })?;
        let size = |size: &i64| usize::try_from(*size).map_err(|_| refuse(format!("a size of {size}")));
        let shape = theirs.shape().iter().map(size).collect::<Result<Vec<_>, _>>()?;
        let layout = match theirs.strides() {
            None => Layout::contiguous(&shape)?,
            Some(strides) => Layout::new(shape, strides.iter().map(|stride| *stride as isize).collect())?,
        };
        let first = tensor.data.cast_const().cast::<u8>().wrapping_add(tensor.byte_offset as usize);
        if !layout.is_empty() && (first.is_null() || !first.addr().is_multiple_of(dtype.bytes() as usize)) {
            return Err(refuse(format!("memory at {first:p} is not aligned to elements of type {dtype}")));
        }
        let (mut before, mut after) = (0, 0);
        if !layout.is_empty() {
            for (size, stride) in layout.shape().iter().zip(layout.strides()) {
                let reach = (size - 1) * stride.unsigned_abs();
                *if *stride < 0 { &mut before } else { &mut after } += reach;
            }
        }
        let span = if layout.is_empty() { 0 } else { before + after + 1 };
        Ok(Self { device: tensor.device, dtype, layout, first, before, span })
    }

    fn lowest(&self) -> *const u8 {
        self.first.wrapping_sub(self.before * self.dtype.bytes() as usize)
    }

    fn copied(self, queue: &Queue) -> Result<Tensor, Error> {
        let scale = self.dtype.bytes() as usize;
        let span: &[u8] = match self.span {
            0 => &[],
            // SAFETY: who called `Exported::from_raw` promised memory for every element that the
            // layout names, which lie between these two, and that nobody writes it.
            span => unsafe { std::slice::from_raw_parts(self.lowest(), span * scale) },
        };
        if self.layout.is_contiguous() {
            return Tensor::from_bytes(queue, self.dtype, span, self.layout.shape());
        }
        let mut bytes = Vec::with_capacity(self.layout.len() * scale);
        let mut copy = |position: usize| bytes.extend_from_slice(&span[position * scale..][..scale]);
        walk(self.layout.shape(), self.layout.strides(), self.before as isize, &mut copy);
        Tensor::from_bytes(queue, self.dtype, &bytes, self.layout.shape())
    }

    fn in_place(self, queue: &Queue, owner: Box<dyn Send + Sync>) -> Tensor {
        let bytes = self.span * self.dtype.bytes() as usize;
        // SAFETY: who called `Exported::from_raw` promised the memory until the owner is dropped,
        // which the tensor's memory does once the device is done with it.
        let buffer = unsafe { Buffer::<u8>::from_raw(queue.stream(), self.lowest().addr() as u64, bytes) };
        let memory = Arc::new(Memory::owned_by(buffer, owner));
        Tensor { queue: queue.clone(), memory, first: self.before, layout: self.layout, dtype: self.dtype }
    }
}
