//! A user-defined kernel as an operation of candle, with its gradient.
//!
//! Tensors of the CPU go through a virtual GPU, so this runs without a GPU. With the feature
//! `candle-cuda` and tensors of candle's CUDA device, the same operation runs on candle's stream,
//! where the tensors are:
//!
//! ```text
//! cargo run --release -p warpfold --features candle --example 16_candle
//! ```

use candle_core::{Device, Result, Tensor, Var};
use warpfold::candle::Op;
use warpfold::device::LaunchConfig;
use warpfold::lang::{Global, Kernel, Val, block_dim, block_idx, kernel, thread_idx, when};

/// `y[i] = x[i]² / 2` near zero, `|x[i]| - 1/2` elsewhere: Huber's loss.
fn huber() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("huber", |x: Global<f32>, y: Global<f32>, len: Val<u32>| {
        let i = block_idx().x * block_dim().x + thread_idx().x;
        when(i.lt(len), || {
            let x = x.at(i).get();
            let far = x.abs();
            y.at(i).set(far.lt(1.0).select(x * x * 0.5, far - 0.5));
        });
    })
}

fn main() -> Result<()> {
    let kernel = huber();
    let huber = Op::new("huber", move |[x]| {
        let x = x.contiguous()?;
        let stream = x.queue().stream();
        let mut y = x.device().alloc::<f32>(x.len())?;
        let config = LaunchConfig::for_elements(x.len(), 256);
        stream.launch(&kernel, config, (x.device_elements::<f32>()?, &mut y, x.len() as u32))?;
        warpfold::Tensor::from_buffer(x.queue(), y, x.shape())
    })
    .backward(|[x], _loss, grad| Ok([Some(x.clamp(-1.0, 1.0)?.mul(grad)?)]));

    let x = Var::new(&[[-3_f32, -0.5], [0.0, 2.0]], &Device::Cpu)?;
    let loss = huber.apply([&x])?;
    println!("{loss}");
    assert_eq!(loss.to_vec2::<f32>()?, [[2.5, 0.125], [0.0, 1.5]]);

    let gradients = loss.sum_all()?.backward()?;
    assert_eq!(gradients.get(&x).expect("x takes part").to_vec2::<f32>()?, [[-1.0, -0.5], [0.0, 1.0]]);

    // An operator of ours on two operands, one of them a view of candle's.
    let product = Op::new("matmul", |[a, b]| a.matmul(b));
    let a = Tensor::arange(0_f32, 6.0, &Device::Cpu)?.reshape((2, 3))?;
    assert_eq!(product.apply([&a, &a.t()?])?.to_vec2::<f32>()?, [[5.0, 14.0], [14.0, 50.0]]);
    println!("on candle's tensors, with candle's gradients");
    Ok(())
}
