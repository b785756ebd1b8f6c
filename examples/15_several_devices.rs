//! Several devices: vector add and dot product, each device with its part of the vectors.
//!
//! `cargo run --release --example 15_several_devices` takes two virtual GPUs; a number after `--` is
//! how many.

use warpfold::{Axes, Tensor};
use warpfold_collectives::{Error, Group, Reduce};
use warpfold_kernels::operations::{Operation, Options};

fn main() -> Result<(), Error> {
    let devices = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(2);
    let part = 1024; // elements of a device
    let results = Group::virtual_gpus(devices)?.run(|rank| -> Result<(Vec<f32>, f32), Error> {
        let (device, stream) = (rank.device(), rank.device().default_stream());
        let first = (rank.rank() * part) as f32;
        let x: Vec<f32> = (0..part).map(|i| first + i as f32).collect();
        let (x, y) =
            (Tensor::from_slice(&x, &[part], device)?, Tensor::from_slice(&vec![2.0_f32; part], &[part], device)?);

        let sum = x.elementwise(Operation::Add, &[&y], &Options::default())?; // no device needs another one
        let dot = x.elementwise(Operation::Mul, &[&y], &Options::default())?.sum(Axes::All)?; // of this part
        let mut total = device.upload(&dot.to_vec::<f32>()?)?;
        // The last level of the fold: over the devices.
        rank.all_reduce_in_place(&stream, Reduce::Sum, &mut total)?;
        Ok((sum.to_vec()?, total.download()?[0]))
    })?;
    for (rank, (sum, dot)) in results.iter().enumerate() {
        println!("rank {rank}: x + y begins with {:?}, x . y = {dot}", &sum[..3]);
    }
    Ok(())
}
