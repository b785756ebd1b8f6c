//! Tensors of the CPU: copied to a device and back.

use bytemuck::{AnyBitPattern, NoUninit};
use candle_core::{CpuStorage, Layout, Shape};
use half::{bf16, f16};
use warpfold_kernels::Dtype;

use super::Op;
use super::dtype::{not_given, not_taken};
use crate::tensor::walk;
use crate::{Queue, Tensor, TensorElement};

/// Runs an operation on operands of the CPU.
pub(super) fn forward<const N: usize>(
    op: &Op<N>,
    operands: [(&CpuStorage, &Layout); N],
) -> candle_core::Result<(CpuStorage, Shape)> {
    let queue = match &op.for_cpu {
        Some(queue) => queue.clone(),
        None => default_queue()?,
    };
    let mut ours = Vec::with_capacity(N);
    for (storage, layout) in operands {
        ours.push(tensor_of(storage, layout, &queue)?);
    }
    let ours: [Tensor; N] = ours.try_into().expect("one tensor an operand");
    let result = op.run(&ours)?;
    Ok((storage_of(&result)?, Shape::from(result.shape())))
}

/// The queue of a virtual GPU that all operations share.
#[cfg(feature = "virtual-gpu")]
#[expect(clippy::unnecessary_wraps, reason = "without the virtual GPU there may be no device")]
fn default_queue() -> candle_core::Result<Queue> {
    use std::sync::LazyLock;

    static QUEUE: LazyLock<Queue> =
        LazyLock::new(|| Queue::of(&warpfold_device::Device::virtual_gpu(warpfold_device::Profile::H200)));
    Ok(QUEUE.clone())
}

/// The queue of the first GPU, as there is no virtual one.
#[cfg(not(feature = "virtual-gpu"))]
fn default_queue() -> candle_core::Result<Queue> {
    warpfold_device::Device::cuda(0).map(|device| Queue::of(&device)).map_err(candle_core::Error::wrap)
}

/// A copy of elements on a device, contiguous.
pub(super) fn tensor_of(storage: &CpuStorage, layout: &Layout, queue: &Queue) -> candle_core::Result<Tensor> {
    match storage {
        CpuStorage::U8(elements) => copied(elements, layout, queue),
        CpuStorage::U32(elements) => copied(elements, layout, queue),
        CpuStorage::I16(elements) => copied(elements, layout, queue),
        CpuStorage::I32(elements) => copied(elements, layout, queue),
        CpuStorage::I64(elements) => copied(elements, layout, queue),
        CpuStorage::BF16(elements) => copied(elements, layout, queue),
        CpuStorage::F16(elements) => copied(elements, layout, queue),
        CpuStorage::F32(elements) => copied(elements, layout, queue),
        CpuStorage::F64(elements) => copied(elements, layout, queue),
        CpuStorage::F8E4M3(_) => not_taken("F8E4M3"),
        CpuStorage::F6E2M3(_) => not_taken("F6E2M3"),
        CpuStorage::F6E3M2(_) => not_taken("F6E3M2"),
        CpuStorage::F4(_) => not_taken("F4"),
        CpuStorage::F8E8M0(_) => not_taken("F8E8M0"),
    }
}

fn copied<T: TensorElement + NoUninit>(elements: &[T], layout: &Layout, queue: &Queue) -> candle_core::Result<Tensor> {
    let gathered: Vec<T>;
    let elements = match layout.contiguous_offsets() {
        Some((start, end)) => &elements[start..end],
        None => {
            let strides: Vec<isize> = layout.stride().iter().map(|stride| *stride as isize).collect();
            let mut copies = Vec::with_capacity(layout.shape().elem_count());
            walk(layout.dims(), &strides, layout.start_offset() as isize, &mut |i| copies.push(elements[i]));
            gathered = copies;
            &gathered
        }
    };
    let bytes = bytemuck::cast_slice(elements);
    Tensor::from_bytes(queue, T::DTYPE, bytes, layout.dims()).map_err(candle_core::Error::wrap)
}

/// A copy of a tensor's elements; booleans are `u8`, as in candle.
pub(super) fn storage_of(tensor: &Tensor) -> candle_core::Result<CpuStorage> {
    let bytes = tensor.to_bytes().map_err(candle_core::Error::wrap)?;
    Ok(match tensor.dtype() {
        Dtype::Bool | Dtype::U8 => CpuStorage::U8(bytes),
        Dtype::U32 => CpuStorage::U32(elements(&bytes)),
        Dtype::I16 => CpuStorage::I16(elements(&bytes)),
        Dtype::I32 => CpuStorage::I32(elements(&bytes)),
        Dtype::I64 => CpuStorage::I64(elements(&bytes)),
        Dtype::F16 => CpuStorage::F16(elements::<f16>(&bytes)),
        Dtype::Bf16 => CpuStorage::BF16(elements::<bf16>(&bytes)),
        Dtype::F32 => CpuStorage::F32(elements(&bytes)),
        Dtype::F64 => CpuStorage::F64(elements(&bytes)),
        other => return not_given(other),
    })
}

fn elements<T: AnyBitPattern>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
}
