//! Operators on memory that somebody else owns: no copy, and nothing freed.
//!
//! On an NVIDIA GPU the owner is cudarc (as it is under candle, Burn or mistral.rs); on the virtual
//! GPU it is a buffer.

#![allow(unsafe_code, reason = "who lends memory says so")]

use warpfold::{Axes, Device, Queue, Tensor};
use warpfold_device::Buffer;

fn softmax_of(queue: &Queue, address: u64, rows: usize, len: usize) -> Result<Tensor, warpfold::Error> {
    // SAFETY: the callers keep the memory alive, and leave it alone, until they have the result's
    // elements.
    let borrowed = unsafe { Buffer::<f32>::from_raw(queue.stream(), address, rows * len) };
    Tensor::from_buffer(queue, borrowed, &[rows, len])?.softmax(Axes::Of(&[-1]))
}

fn check(result: &Tensor, rows: usize) -> Result<(), warpfold::Error> {
    let sums: Vec<f32> = result.to_vec::<f32>()?.chunks(result.shape()[1]).map(|row| row.iter().sum()).collect();
    assert!(sums.len() == rows && sums.iter().all(|sum| (sum - 1.0).abs() < 1e-5));
    println!("each of {rows} rows adds up to one");
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::from_env()?;
    println!("on {device}");
    let (rows, len) = (4, 1000);
    let elements: Vec<f32> = (0..rows * len).map(|i| (i % 17) as f32).collect();
    match device.cudarc_context() {
        Some(context) => {
            use warpfold_device::cudarc::driver::DevicePtr;
            let stream = context.default_stream();
            let slice = stream.clone_htod(&elements)?;
            let queue = Queue::new(warpfold_device::Stream::from_cudarc(&device, stream.clone())?);
            let (address, _until) = slice.device_ptr(&stream);
            check(&softmax_of(&queue, address, rows, len)?, rows)?;
        }
        None => {
            let owner: Buffer<f32> = device.upload(&elements)?;
            check(&softmax_of(&Queue::of(&device), owner.address(), rows, len)?, rows)?;
            assert_eq!(owner.download()?, elements, "the owner's elements are as they were");
        }
    }
    Ok(())
}
