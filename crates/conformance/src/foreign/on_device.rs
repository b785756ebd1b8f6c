//! One case on a device of the `device` crate, which is how it runs on hardware. Judges results;
//! what a kernel prints goes to the standard output of the process.

use warpfold_device::{Arguments, Buffer, Device, LaunchConfig};
use warpfold_sim::Arch;

use super::array::{Array, DType};
use super::case::{Arg, Case};
use super::run::Run;
use super::{fixtures, generate, reference};

/// Returns whether PTX for `target` runs on an `arch` device: architecture-specific PTX only on
/// that one, other on all later.
#[must_use]
pub fn runs_on(target: Arch, arch: Arch) -> bool {
    if target.specific { target.number == arch.number } else { target.number <= arch.number }
}

/// Runs the case from one of its files and judges the outputs.
///
/// # Errors
/// What went wrong, in words.
pub fn run(case: &Case, file: &str, device: &Device) -> Result<(), String> {
    let path = fixtures().join(file);
    let ptx = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let module = device.load(&ptx).map_err(|e| e.to_string())?;
    let kernel = module.kernel(&case.entry).map_err(|e| e.to_string())?;

    let mut before = Vec::new();
    let mut buffers = Vec::new();
    for arg in &case.args {
        let (contents, buffer) = place(device, arg).map_err(|e| e.to_string())?;
        before.push(contents);
        buffers.push(buffer);
    }
    let mut config = LaunchConfig::new(case.grid, case.block).dynamic_shared(case.shared);
    if case.cooperative {
        config = config.cooperative();
    }
    let arguments = bind(case, &mut buffers);
    device.default_stream().launch_raw(&kernel, config, &arguments).map_err(|e| e.to_string())?;
    drop(arguments);
    device.synchronize().map_err(|e| e.to_string())?;

    let download = |b: &Option<(DType, Buffer<u8>)>| {
        b.as_ref().map(|(dtype, b)| b.download().map(|bytes| Array { dtype: *dtype, bytes })).transpose()
    };
    let after = buffers.iter().map(download).collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    let judge = reference::find(&case.reference).ok_or_else(|| format!("no reference `{}`", case.reference))?;
    judge(&Run { case, before, after })
}

type Placed = (Option<Array>, Option<(DType, Buffer<u8>)>);

fn place(device: &Device, arg: &Arg) -> Result<Placed, warpfold_device::Error> {
    match arg {
        Arg::In(buffer) | Arg::Inout(buffer) => {
            let array = generate::generate(buffer);
            let on_device = device.upload(&array.bytes)?;
            Ok((Some(array), Some((buffer.dtype, on_device))))
        }
        Arg::Out { dtype, shape } => {
            // An element that is not written must look wrong.
            let mut buffer = device.alloc::<u8>(shape.iter().product::<usize>() * dtype.bytes())?;
            buffer.fill_bytes(0xa5)?;
            Ok((None, Some((*dtype, buffer))))
        }
        _ => Ok((None, None)),
    }
}

fn bind<'a>(case: &Case, buffers: &'a mut [Option<(DType, Buffer<u8>)>]) -> Arguments<'a> {
    let mut arguments = Arguments::new();
    for (arg, buffer) in case.args.iter().zip(buffers) {
        arguments = match (arg, buffer) {
            (_, Some((_, buffer))) => arguments.output(buffer),
            (Arg::Bytes(_), None) => arguments.raw(&arg.scalar_bytes(), 16),
            (_, None) => {
                let bytes = arg.scalar_bytes();
                arguments.raw(&bytes, bytes.len())
            }
        };
    }
    arguments
}
