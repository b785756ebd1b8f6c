//! One launch of a kernel on a case: what it found, and what it left in the arrays.

use std::time::Duration;

use warpfold_sim::{Arch, Checks, Launch, Memory, Options, Program, Report};

use super::expression::Number;
use super::task::{Case, Content, Role, Task};
use crate::exercise::check::Built;
use crate::failure::Failure;
use crate::host;

/// The state of outputs before a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    /// Nothing has written them; all checks are on.
    Unwritten,
    /// Each byte is this one; only what hardware traps is checked.
    Filled(u8),
}

/// A finished launch.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) report: Report,
    /// The bytes of each array that the kernel may write, by its position among the arguments.
    pub(super) outputs: Vec<(usize, Vec<u8>)>,
    /// Inputs that have other bytes than before.
    pub(super) overwritten: Vec<String>,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) shared: u32,
}

/// Bytes of device memory.
const MEMORY_BYTES: u64 = 1 << 36;
/// A launch that takes longer is ended.
const LONGEST: Duration = Duration::from_secs(20);

pub(super) fn launch(
    task: &Task,
    built: &Built,
    case: &Case,
    contents: &[Content],
    before: Before,
) -> Result<Ran, Failure> {
    let memory = Memory::far_apart(MEMORY_BYTES, case.seed);
    let program = Program::load(&memory, &built.ptx, Arch::SM_90A)?;
    let kernel = program.kernel(&built.entry)?;
    if kernel.params.len() != task.args.len() {
        let (params, args) = (kernel.params.len(), task.args.len());
        return Err(Failure::usage(format!("the kernel has {params} parameters, and the task {args} arguments")));
    }
    let mut params = vec![0; kernel.param_bytes as usize];
    let mut arrays = Vec::new();
    for (at, ((arg, content), param)) in task.args.iter().zip(contents).zip(&kernel.params).enumerate() {
        let bytes = if arg.shape.is_some() {
            let len = content.data.len() as u64;
            let address = memory.allocate(len, &arg.name)?;
            match (arg.role, before) {
                (Role::Out, Before::Unwritten) => {}
                (Role::Out, Before::Filled(byte)) => memory.fill(address, byte, len)?,
                (Role::In | Role::InOut, _) => memory.write(address, &content.data)?,
            }
            arrays.push((at, address));
            address.to_le_bytes().to_vec()
        } else {
            content.data.clone()
        };
        if bytes.len() != param.bytes as usize {
            let (name, has, takes) = (&arg.name, bytes.len(), param.bytes);
            return Err(Failure::usage(format!("argument {name} has {has} bytes, and its parameter {takes}")));
        }
        params[param.offset as usize..][..bytes.len()].copy_from_slice(&bytes);
    }
    let is_checked = before == Before::Unwritten;
    let grid = dims("grid", &task.grid, case)?;
    let block = if task.block.is_empty() { built.config.block } else { dims("block", &task.block, case)? };
    let shared = match &task.shared {
        Some(shared) => dims("shared", std::slice::from_ref(shared), case)?[0],
        None => built.config.dynamic_shared,
    };
    let launch = Launch {
        kernel: built.entry.clone(),
        grid,
        block,
        cluster: [1; 3],
        dynamic_shared: shared,
        params,
        cooperative: false,
        programmatic: false,
    };
    let options = Options {
        checks: if is_checked { Checks::All } else { Checks::None },
        timing: is_checked,
        seed: if is_checked { 0 } else { case.seed },
        stop: Some(host::set_after(LONGEST)?),
        // What a kernel prints is no part of the verdict.
        output: Some(std::sync::Arc::new(|_: &str| {})),
        ..Options::default()
    };
    let mut report = program.launch(&memory, &launch, &options)?;
    let (mut outputs, mut overwritten) = (Vec::new(), Vec::new());
    for (at, address) in arrays {
        let (arg, content) = (&task.args[at], &contents[at]);
        let mut data = vec![0; content.data.len()];
        memory.read(address, &mut data)?;
        if arg.role != Role::In {
            if is_checked && !report.aborted {
                report.findings.extend(memory.host_read(address, data.len() as u64)?);
            }
            outputs.push((at, data));
        } else if data != content.data {
            overwritten.push(arg.name.clone());
        }
    }
    Ok(Ran { report, outputs, overwritten, grid, block, shared })
}

/// The sizes of a launch in a case.
fn dims(what: &str, numbers: &[Number], case: &Case) -> Result<[u32; 3], Failure> {
    let failed = |reason: String| Failure::usage(format!("task: {what}: {reason}"));
    if numbers.is_empty() || numbers.len() > 3 {
        return Err(failed(format!("one to three numbers are expected, not {}", numbers.len())));
    }
    let mut dims = [1; 3];
    for (dim, number) in dims.iter_mut().zip(numbers) {
        let number = number.integer(&case.sizes).map_err(failed)?;
        *dim = u32::try_from(number).map_err(|_| failed(format!("{number} is out of range")))?;
    }
    Ok(dims)
}
