//! A kernel of your own on tensors, between operators of the library: a bias, a leaky ReLU and a
//! clamp in one launch, that reads each element once and writes it once.

use std::sync::LazyLock;

use warpfold::prelude::*;
use warpfold::{Error, Result};

/// `clamp(leaky(x + bias), -1, 6)` of rows; the bias has an element per column.
fn activate(x: &Tensor, bias: &Tensor) -> Result<Tensor> {
    // Kernels are compiled once: this one is kept, and recorded when it is first launched.
    static KERNEL: LazyLock<Kernel<(Global<f32>, Global<f32>, Global<f32>, u32, u32)>> = LazyLock::new(|| {
        kernel("activate", |x: Global<f32>, bias: Global<f32>, y: Global<f32>, columns: Val<u32>, len: Val<u32>| {
            let i = block_idx().x * block_dim().x + thread_idx().x;
            when(i.lt(len), || {
                let sum = x.at(i).get() + bias.at(i % columns).get();
                let leaky = sum.max(sum * 0.1);
                y.at(i).set(leaky.max(-1.0).min(6.0));
            });
        })
    });

    // A kernel sees memory, not strides: views are copied, what is contiguous stays where it is.
    let (x, bias) = (x.contiguous()?, bias.contiguous()?);
    let mut y = x.empty_like()?;
    let (columns, len) = (bias.len() as u32, x.len() as u32);
    // The stream of the tensor's queue: the launch stands in order with the operators around it.
    x.queue().stream().launch(
        &KERNEL,
        LaunchConfig::for_elements(x.len(), 256),
        (x.device_elements::<f32>()?, bias.device_elements::<f32>()?, y.device_elements_mut::<f32>()?, columns, len),
    )?;
    Ok(y)
}

fn main() -> Result<(), Error> {
    let device = Device::from_env()?;
    println!("on {device}");
    let x = Tensor::randn(0_f32, 4.0, (100, 33), &device)?;
    let bias = Tensor::linspace(-1.0, 1.0, 33, Dtype::F32, &device)?;

    let ours = activate(&x, &bias)?;
    let by_operators = (&x + &bias)?.leaky_relu(0.1)?.clamp(-1.0, 6.0)?;
    let difference = (ours - by_operators)?.abs()?.max_all()?.to_scalar::<f32>()?;
    println!("largest difference from the operators: {difference:e}");
    assert!(difference < 1e-6);

    // A view goes in as well as any tensor.
    let turned = activate(&x.t()?.narrow(1, 0, 50)?, &Tensor::zeros(50, Dtype::F32, &device)?)?;
    println!("of a view: {:?}", turned.dims());
    Ok(())
}
