//! CUDA tensors: used where they are, on candle's stream.
#![allow(unsafe_code, reason = "memory of candle's is borrowed by its address")]

use std::sync::{Arc, Mutex, PoisonError};

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::CudaDType;
use candle_core::{CudaDevice, CudaStorage, DType, Error, Result, Shape};
use half::{bf16, f16};
use warpfold_device::cudarc::driver::{DevicePtr, DeviceRepr};
use warpfold_device::{Buffer, Device, Stream};
use warpfold_kernels::Dtype;
use warpfold_kernels::layout::Layout;

use super::Op;
use super::dtype::{not_given, not_taken, of_candle};
use crate::arena::Memory;
use crate::{Queue, Tensor, TensorElement};

/// Runs an operation on operands of a CUDA device.
pub(super) fn forward<const N: usize>(
    op: &Op<N>,
    owners: &[candle_core::Tensor; N],
    storages: [(&CudaStorage, &candle_core::Layout); N],
) -> Result<(CudaStorage, Shape)> {
    let device = storages[0].0.device();
    let queue = queue_of(device)?;
    let mut ours = Vec::with_capacity(N);
    for ((storage, layout), owner) in storages.into_iter().zip(owners) {
        ours.push(borrowed(storage, layout, owner, &queue)?);
    }
    let ours: [Tensor; N] = ours.try_into().expect("one tensor an operand");
    let result = op.run(&ours)?.on(&queue).contiguous().map_err(Error::wrap)?;
    Ok((storage_of(&result, &queue, device)?, Shape::from(result.shape())))
}

/// The queue on the stream of a device of candle's: one a stream, so that kernels are built and
/// problems are planned once.
fn queue_of(device: &CudaDevice) -> Result<Queue> {
    static QUEUES: Mutex<Vec<Queue>> = Mutex::new(Vec::new());
    let theirs = device.cuda_stream();
    let mut queues = QUEUES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut ours = None;
    for queue in queues.iter() {
        let Some(stream) = queue.stream().cudarc_stream() else { continue };
        if stream.context().cu_ctx() != theirs.context().cu_ctx() {
            continue;
        }
        if stream.cu_stream() == theirs.cu_stream() {
            return Ok(queue.clone());
        }
        ours = Some(queue.device().clone());
    }
    let ours = match ours {
        Some(device) => device,
        None => Device::from_cudarc(theirs.context().clone()).map_err(Error::wrap)?,
    };
    let queue = Queue::new(Stream::from_cudarc(&ours, theirs).map_err(Error::wrap)?);
    queues.push(queue.clone());
    Ok(queue)
}

/// A tensor of candle's as ours, in its memory.
fn borrowed(
    storage: &CudaStorage,
    layout: &candle_core::Layout,
    owner: &candle_core::Tensor,
    queue: &Queue,
) -> Result<Tensor> {
    let dtype = of_candle(storage.dtype())?;
    let span = match storage.dtype() {
        DType::U8 => span_of::<u8>(storage, queue),
        DType::U32 => span_of::<u32>(storage, queue),
        DType::I16 => span_of::<i16>(storage, queue),
        DType::I32 => span_of::<i32>(storage, queue),
        DType::I64 => span_of::<i64>(storage, queue),
        DType::BF16 => span_of::<bf16>(storage, queue),
        DType::F16 => span_of::<f16>(storage, queue),
        DType::F32 => span_of::<f32>(storage, queue),
        DType::F64 => span_of::<f64>(storage, queue),
        other => not_taken(&format!("{other:?}")),
    };
    let (address, bytes) = span?;
    // SAFETY: the memory is `storage`'s, which `owner` keeps. On candle's stream, which is the
    // queue's, it was written before, and is freed only after the tensor's memory is dropped.
    let buffer = unsafe { Buffer::<u8>::from_raw(queue.stream(), address, bytes) };
    let memory = Arc::new(Memory::freed_on(queue.stream(), buffer, Box::new(owner.clone())));
    let strides = layout.stride().iter().map(|stride| *stride as isize).collect();
    let ours = Layout::new(layout.dims().to_vec(), strides).map_err(Error::wrap)?;
    Ok(Tensor { queue: queue.clone(), memory, first: layout.start_offset(), layout: ours, dtype })
}

/// Address and bytes of a storage. Its uses on other streams come first; those on this one follow
/// in its order, so that cudarc need not be told when we are done.
fn span_of<T: CudaDType + DeviceRepr>(storage: &CudaStorage, queue: &Queue) -> Result<(u64, usize)> {
    let slice = storage.as_cuda_slice::<T>()?;
    let stream = queue.stream().cudarc_stream().expect("the queue is on a CUDA stream");
    let (address, _until) = slice.device_ptr(&stream);
    Ok((address, slice.len() * size_of::<T>()))
}

/// A copy of a contiguous tensor in memory of candle's.
fn storage_of(result: &Tensor, queue: &Queue, device: &CudaDevice) -> Result<CudaStorage> {
    match result.dtype() {
        Dtype::Bool | Dtype::U8 => copied::<u8>(result, queue, device),
        Dtype::U32 => copied::<u32>(result, queue, device),
        Dtype::I16 => copied::<i16>(result, queue, device),
        Dtype::I32 => copied::<i32>(result, queue, device),
        Dtype::I64 => copied::<i64>(result, queue, device),
        Dtype::Bf16 => copied::<bf16>(result, queue, device),
        Dtype::F16 => copied::<f16>(result, queue, device),
        Dtype::F32 => copied::<f32>(result, queue, device),
        Dtype::F64 => copied::<f64>(result, queue, device),
        other => not_given(other),
    }
}

fn copied<T: CudaDType + DeviceRepr + TensorElement>(
    result: &Tensor,
    queue: &Queue,
    device: &CudaDevice,
) -> Result<CudaStorage> {
    // SAFETY: every element is written by the copy before candle, on the same stream, reads it.
    let mut slice = unsafe { device.alloc::<T>(result.len()) }?;
    if !result.is_empty() {
        let from = result.device_bytes().map_err(Error::wrap)?;
        let stream = queue.stream();
        stream.with_slice_mut(&mut slice, |to| stream.copy(to.bytes(), from)).map_err(Error::wrap)?;
    }
    Ok(CudaStorage::wrap_cuda_slice(slice, device.clone()))
}
