//! Launches a plan on buffers of the device.

use warpfold_device::{Arguments, Stream, View, ViewMut};

use super::{Code, Plan, Problem, copies, global};
use crate::kept::Kept;
use crate::{AnyKernel, Dtype, Error, ErrorKind};

/// Bytes of a value, threads of a block, copies in shared memory if it counts there.
type Configuration = (u64, u32, Option<u32>);

static KERNELS: Kept<Configuration> = Kept::new();

fn make(configuration: &Configuration) -> AnyKernel {
    match *configuration {
        (1, block, None) => global::<u8>(block).into(),
        (2, block, None) => global::<u16>(block).into(),
        (4, block, None) => global::<u32>(block).into(),
        (_, block, None) => global::<u64>(block).into(),
        (1, block, Some(num)) => copies::<u8>(block, num).into(),
        (2, block, Some(num)) => copies::<u16>(block, num).into(),
        (4, block, Some(num)) => copies::<u32>(block, num).into(),
        (_, block, Some(num)) => copies::<u64>(block, num).into(),
    }
}

/// Counts the values that a plan was made for: clears `counts`, then one launch.
///
/// # Errors
/// [`ErrorKind::Operand`] if a buffer is too short, or does not begin at a multiple of its elements; what the device says.
pub fn launch(stream: &Stream, plan: &Plan, values: View<'_, u8>, counts: ViewMut<'_, u8>) -> Result<(), Error> {
    let Problem { dtype, len, bins } = plan.problem;
    check("values", (values.address(), values.num_bytes()), (len, dtype))?;
    check("counts", (counts.address(), counts.num_bytes()), (bins, Dtype::I32))?;
    let mut counts = counts.slice(..(bins * Dtype::I32.bytes()) as usize)?;
    stream.fill_bytes(counts.reborrow(), 0)?;
    let Some(config) = plan.launch else { return Ok(()) };
    let num_copies = match plan.code {
        Code::Copies(copies) => Some(copies),
        Code::Global => None,
    };
    let function = KERNELS.prepare(stream.device(), (dtype.bytes(), config.block[0], num_copies), make)?;
    let arguments = Arguments::new().input(values).output(counts).value(len).value(plan.limit);
    Ok(stream.launch_raw(&function, config, &arguments)?)
}

fn check(name: &str, (address, found): (u64, usize), (len, dtype): (u64, Dtype)) -> Result<(), Error> {
    let refused = |reason| Err(ErrorKind::Operand { operator: "histogram", reason }.into());
    if len.checked_mul(dtype.bytes()).is_none_or(|needed| needed > found as u64) {
        return refused(format!("the {name} have {found} bytes, too few for {len} elements of {dtype}"));
    }
    if !address.is_multiple_of(dtype.bytes()) {
        return refused(format!("the {name} do not begin at a multiple of {} bytes", dtype.bytes()));
    }
    Ok(())
}
