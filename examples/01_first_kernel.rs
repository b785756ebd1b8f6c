//! A first kernel: the sum of two vectors. Runs on an NVIDIA GPU if there is one, else on the
//! virtual GPU.

use warpfold_device::{Device, LaunchConfig};
use warpfold_lang::{Global, Val, block_dim, block_idx, kernel, thread_idx, when};

fn main() -> Result<(), warpfold_device::Error> {
    let add = kernel("add", |a: Global<f32>, b: Global<f32>, sum: Global<f32>, len: Val<u32>| {
        let i = block_idx().x * block_dim().x + thread_idx().x;
        when(i.lt(len), || sum.at(i).set(a.at(i).get() + b.at(i).get()));
    });

    let device = Device::from_env()?;
    let a = device.upload(&[1.0_f32, 2.0, 3.0])?;
    let b = device.upload(&[10.0_f32, 20.0, 30.0])?;
    let mut sum = device.alloc::<f32>(3)?;
    device.launch(&add, LaunchConfig::for_elements(3, 256), (&a, &b, &mut sum, 3))?;
    println!("{:?} on {device}", sum.download()?);
    Ok(())
}
