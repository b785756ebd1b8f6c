//! Operators captured in a graph, which is launched again and again over what the caller puts into
//! their input.
//!
//! Plans, allocations and launches of single kernels are then behind the host: it makes one call
//! for all of them.

#![allow(unsafe_code, reason = "who lends memory says so")]

use warpfold::{Axes, Device, Error, Queue, Tensor};
use warpfold_device::Buffer;

fn main() -> Result<(), Error> {
    let device = Device::from_env()?;
    println!("on {device}");
    let queue = Queue::new(device.new_stream()?);
    let stream = queue.stream();

    // Tensors never change, so what changes is memory of the caller, which the operators borrow.
    const LEN: usize = 50_000;
    let mut logits = device.alloc::<f32>(LEN)?;
    // SAFETY: `logits` lives to the end of `main`, and is used in the order of this stream.
    let borrowed = unsafe { Buffer::<f32>::from_raw(stream, logits.address(), LEN) };
    let x = Tensor::from_buffer(&queue, borrowed, &[LEN])?;

    let (graph, results) = stream.capture(|| {
        let softmax = x.softmax(Axes::Of(&[-1]))?;
        Ok::<_, Error>((x.argmax(Axes::All)?, softmax.sum(Axes::All)?, softmax.cumsum(-1)?))
    })?;
    let (best, total, running) = results;

    for step in 0..3 {
        let next = step * 20_000 + 7;
        let numbers: Vec<f32> = (0..LEN).map(|i| if i == next { 12.0 } else { (i % 10) as f32 / 10.0 }).collect();
        stream.copy_from_host(&mut logits, &numbers)?;
        graph.launch()?;
        let (best, total) = (best.to_vec::<i64>()?[0], total.to_vec::<f32>()?[0]);
        let running = running.to_vec::<f32>()?;
        let share = running[next] - if next > 0 { running[next - 1] } else { 0.0 };
        println!("step {step}: best {best}, with {:.0} % of {total:.5}", share * 100.0);
        assert!(best == next as i64 && (total - 1.0).abs() < 1e-4 && (0.6..0.7).contains(&share), "{share}");
    }
    Ok(())
}
