//! What a launch costs the host: `cargo bench -p warpfold-conformance --bench launch`.
//!
//! Prints microseconds a call, on the virtual GPU: an empty kernel by itself, and operators of tensors of one element, whose
//! kernels are there already; and milliseconds until a kernel that was not is planned, recorded and loaded.

use std::time::Instant;

use warpfold::{Axes, Device, Profile, Tensor};
use warpfold_device::{Arguments, LaunchConfig};
use warpfold_kernels::elements::{Sink, Source};
use warpfold_kernels::fold::{Fold, Sum};
use warpfold_kernels::layout::Layout;
use warpfold_kernels::reductions::{Options, Reduction, fold_of};
use warpfold_kernels::{Dtype, Workspace};
use warpfold_lang::{Val, kernel};

type Failure = Box<dyn std::error::Error>;

/// Microseconds a call, the least of several rounds.
fn micros(mut call: impl FnMut() -> Result<(), Failure>) -> Result<f64, Failure> {
    const CALLS: u32 = 2000;
    let mut least = f64::INFINITY;
    for _ in 0..7 {
        let start = Instant::now();
        for _ in 0..CALLS {
            call()?;
        }
        least = least.min(start.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS));
    }
    Ok(least)
}

fn main() -> Result<(), Failure> {
    let device = Device::virtual_gpu(Profile::H200);
    let empty = kernel("empty", |_: Val<u32>| {});
    let alone = micros(|| Ok(device.launch(&empty, LaunchConfig::new(1, 32), (1_u32,))?))?;
    println!("an empty kernel                  {alone:8.2} us a launch");
    // The interface by itself is what the call takes without the time in which the virtual GPU runs the kernel.
    let x = Tensor::from_slice(&device, &[1.0_f32], &[1, 1])?;
    let fold = fold_of(Reduction::Sum, &[Dtype::F32], Options::default())?;
    let plan = fold.plan(&[x.layout()], &[x.address()], &[1])?;
    let ready = fold.ready(&device, &plan)?.ok_or("a sum of one element is launched")?;
    let (input, mut output) = (device.upload(&[1.0_f32])?, device.alloc::<f32>(1)?);
    let (mut words, mut tickets) = (device.alloc_zeroed::<u64>(1)?, device.alloc_zeroed::<u32>(1)?);
    let arguments = Arguments::new().input(&input).value(0_u64).output(&mut output).value(0_u64);
    let arguments = arguments.output(&mut words).output(&mut tickets).raw(&ready.parameters, 8);
    let stream = device.default_stream();
    let runs = micros(|| Ok(stream.launch_raw(&ready.function, ready.config, &arguments)?))?;
    println!("the kernel of a sum by itself    {runs:8.2} us a launch");
    let sum = micros(|| {
        let _: () = drop(x.sum(Axes::Of(&[-1]))?);
        Ok(())
    })?;
    println!("Tensor::sum of one element       {sum:8.2} us: the interface takes {:.2}", sum - runs + alone);
    let softmax = micros(|| {
        let _: () = drop(x.softmax(Axes::Of(&[-1]))?);
        Ok(())
    })?;
    println!("Tensor::softmax of one element   {softmax:8.2} us");

    let source = || Source::one::<f32>(Dtype::F32);
    let layout = Layout::contiguous(&[64, 4096])?;
    let mut workspace = Workspace::new();
    drop(workspace.get(&device, 1, 1)?);
    let start = Instant::now();
    const KERNELS: u32 = 20;
    for i in 0..KERNELS {
        // Another kernel each time.
        let scaled = source().map(move |x| x * (i as f32 + 2.0));
        let fold = Fold::new("scaled_sum", Sum::<f32>::new(), scaled, Sink::one::<f32>(Dtype::F32));
        let plan = fold.plan(&[&layout], &[0], &[1])?;
        fold.prepare(&device, &plan)?;
    }
    let each = start.elapsed().as_secs_f64() * 1e3 / f64::from(KERNELS);
    println!("plan, record and load a kernel   {each:8.2} ms");
    Ok(())
}
