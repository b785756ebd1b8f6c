//! What a launch costs the host: `cargo bench -p warpfold-bench --bench launch`.
//!
//! Prints microseconds a call, on the virtual GPU: an empty kernel by itself, and operators of
//! tensors of one element, whose kernels are there already; and milliseconds until a kernel that
//! was not is planned, recorded and loaded.

use std::time::Instant;

use half::bf16;
use warpfold::{Axes, Device, Profile, Tensor};
use warpfold_device::{Arguments, LaunchConfig};
use warpfold_kernels::elements::{Sink, Source};
use warpfold_kernels::fold::{Fold, Sum};
use warpfold_kernels::matmul::{Algorithm, Choice, Epilogue, Matmul, Problem};
use warpfold_kernels::plan::{Arg, Family, TensorSpec};
use warpfold_kernels::reductions::{Options, Reduction, fold_of};
use warpfold_kernels::{AnyKernel, Dtype, Workspace};
use warpfold_lang::{Global, TensorMap, Val, kernel, params};

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

/// A product of two matrices of 64 x 64 through the interface, but for the kernel's own time: what
/// the interface takes for one without rows, which launches nothing, and a launch of the plan with
/// a kernel of the same parameters that does nothing.
fn product(device: &Device, dtype: Dtype) -> Result<(), Failure> {
    const SIDE: usize = 64;
    let none = Tensor::from_slice::<f32>(&[], &[0, SIDE], device)?.cast(dtype)?;
    let right = Tensor::from_slice(&[1.0_f32; SIDE * SIDE], &[SIDE, SIDE], device)?.cast(dtype)?;
    let interface = micros(|| {
        let _: () = drop(none.matmul(&right)?);
        Ok(())
    })?;
    let side = SIDE as u64;
    let problem = Problem::new(dtype, side, side, side);
    let plan = Choice::new(problem.clone(), device.target().arch, device.limits())?;
    if plan.num_parts != 1 {
        return Err(format!("{plan}: one launch is expected").into());
    }
    let empty = match plan.algorithm {
        Algorithm::Simt(_) | Algorithm::Mma(_) => empty_simt(),
        Algorithm::Wgmma(_) | Algorithm::SwapAb(_) => empty_wgmma(),
    };
    let bytes = SIDE * SIDE * dtype.bytes() as usize;
    let (a, b, mut c) = (device.upload(&vec![0_u8; bytes])?, device.upload(&vec![0_u8; bytes])?, device.alloc(bytes)?);
    let ready = Matmul.ready(device, &problem)?.with_functions(vec![empty.prepare(device)?]);
    let mut workspace = Workspace::new();
    let launch = micros(|| {
        let inputs = [Some(a.as_view()), Some(b.as_view())];
        Ok(ready.launch(&device.default_stream(), &inputs, &mut [c.as_view_mut()], &mut workspace)?)
    })?;
    let both = interface + launch;
    println!(
        "Tensor::matmul of 64^3 {dtype:<5}     {both:8.2} us without its kernel: {interface:.2} and a launch of {launch:.2}"
    );
    Ok(())
}

/// Words of the numbers that a product takes, but for its factors': sizes, strides of the result
/// and the inputs, scalars.
const NUMBERS: usize = 4 + 6 * (1 + Epilogue::MAX_INPUTS) + Epilogue::MAX_SCALARS;

params! {
    struct ThreadArgs {
        factors: [Global<u8>; 2],
        result: Global<u8>, inputs: [Global<u8>; Epilogue::MAX_INPUTS],
        numbers: [u64; NUMBERS + 13],
    }
}

params! {
    struct WarpgroupArgs {
        a: TensorMap<bf16>, b: TensorMap<bf16>, c: TensorMap<bf16>,
        result: Global<u8>, inputs: [Global<u8>; Epilogue::MAX_INPUTS],
        numbers: [u64; NUMBERS + 9],
    }
}

/// A kernel that takes what the products on CUDA cores and by warps take.
fn empty_simt() -> AnyKernel {
    kernel("empty_simt", |_: ThreadArgs| {}).into()
}

/// A kernel that takes what the product by warpgroups takes.
fn empty_wgmma() -> AnyKernel {
    kernel("empty_wgmma", |_: WarpgroupArgs| {}).into()
}

fn main() -> Result<(), Failure> {
    let device = Device::virtual_gpu(Profile::H200);
    let empty = kernel("empty", |_: Val<u32>| {});
    let alone = micros(|| Ok(device.launch(&empty, LaunchConfig::new(1, 32), (1_u32,))?))?;
    println!("an empty kernel                  {alone:8.2} us a launch");
    // The interface by itself is what the call takes without the time in which the virtual GPU runs
    // the kernel.
    let x = Tensor::from_slice(&[1.0_f32], &[1, 1], &device)?;
    let fold = fold_of(Reduction::Sum, &[Dtype::F32], Options::default())?;
    let ready =
        fold.ready(&device, &fold.problem(vec![TensorSpec::new(Dtype::F32, x.layout().clone(), x.address())], &[1]))?;
    let [step] = &ready.plan().steps[..] else { return Err("a sum of one element is one launch".into()) };
    let Some(Arg::Bytes { bytes, alignment }) = step.args.last() else { return Err("sizes come last".into()) };
    let (input, mut output) = (device.upload(&[1.0_f32])?, device.alloc::<f32>(1)?);
    let arguments = Arguments::new().input(&input).value(0_u64).output(&mut output).value(0_u64);
    let arguments = arguments.value(0_u64).value(0_u64).raw(bytes, *alignment);
    let stream = device.default_stream();
    let runs = micros(|| Ok(stream.launch_raw(&ready.functions()[0], step.config, &arguments)?))?;
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
    product(&device, Dtype::F32)?;
    product(&device, Dtype::Bf16)?;

    let source = || Source::one::<f32>(Dtype::F32);
    let start = Instant::now();
    const KERNELS: u32 = 20;
    for i in 0..KERNELS {
        // Another kernel each time.
        let scaled = source().map(move |x| x * (i as f32 + 2.0));
        let fold = Fold::new("scaled_sum", Sum::<f32>::new(), scaled, Sink::one::<f32>(Dtype::F32));
        fold.ready(&device, &fold.problem(vec![TensorSpec::contiguous(Dtype::F32, &[64, 4096])?], &[1]))?;
    }
    let each = start.elapsed().as_secs_f64() * 1e3 / f64::from(KERNELS);
    println!("plan, record and load a kernel   {each:8.2} ms");
    Ok(())
}
