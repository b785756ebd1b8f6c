//! Runs one file of the corpus on the virtual GPU.

use warpfold_sim::{Arch, Checks, FindingKind, Launch, Memory, Options, Program, Stream};

use super::case::{Argument, Case, Content};
use super::values::Width;
use super::verdict::Outcome;

/// Runs a case in a memory of its own.
///
/// # Errors
/// The virtual GPU refuses the file, or the file's arguments do not fit the kernel's parameters.
pub fn run(case: &Case, workers: usize, checks: Checks) -> Result<Outcome, String> {
    // The longest wait in the corpus is far below a million instructions; the default would make
    // each deadlock slow.
    let options = Options {
        checks,
        workers: Some(if case.is_in_order { 1 } else { workers }),
        per_instruction: true,
        patience: 1_000_000,
        stream: Some(Stream::default()),
        ..Options::default()
    };
    run_with(case, &options)
}

/// [`run`] with other options.
///
/// # Errors
/// As for [`run`].
pub fn run_with(case: &Case, options: &Options) -> Result<Outcome, String> {
    let text = |e: warpfold_sim::Error| e.to_string();
    let memory = Memory::new(64 << 20);
    let arch: Arch = case.target.parse().map_err(|e: warpfold_sim::UnknownArch| e.to_string())?;
    let program = Program::load(&memory, &case.text, arch).map_err(text)?;
    let kernel = program.kernel(&case.kernel).map_err(text)?;
    if kernel.params.len() != case.args.len() {
        return Err(format!("{} parameters, but {} arguments", kernel.params.len(), case.args.len()));
    }

    let mut params = vec![0; kernel.param_bytes as usize];
    let mut addresses = Vec::new();
    for (argument, param) in case.args.iter().zip(&kernel.params) {
        let word = place(&memory, argument).map_err(text)?;
        let (start, len) = (param.offset as usize, param.bytes as usize);
        params[start..start + len].copy_from_slice(&word.to_le_bytes()[..len]);
        addresses.push(word);
    }
    let mut launch = Launch {
        kernel: case.kernel.clone(),
        grid: [case.grid, 1, 1],
        block: [case.block, 1, 1],
        cluster: [1, 1, 1],
        dynamic_shared: case.shared_bytes,
        params,
        cooperative: case.is_cooperative,
        programmatic: false,
    };
    let mut report = program.launch(&memory, &launch, options).map_err(text)?;
    if case.is_programmatic {
        launch.programmatic = true;
        let second = program.launch(&memory, &launch, options).map_err(text)?;
        report.findings.extend(second.findings);
    }

    // Of an output that is left unwritten in part, a case says so; that is its fault.
    if options.checks != Checks::None && case.fault.as_ref().is_some_and(|fault| fault.kind == FindingKind::HostRead) {
        for (argument, &address) in case.args.iter().zip(&addresses) {
            let bytes = argument.content.readable_len().unwrap_or(0) * argument.width.bytes();
            let found = if bytes > 0 { memory.host_read(address, bytes as u64).map_err(text)? } else { None };
            report.findings.extend(found);
        }
    }
    let read = |(argument, &address): (&Argument, &u64)| read_back(&memory, argument, address);
    let buffers = case.args.iter().zip(&addresses).map(read).collect::<Result<_, _>>().map_err(text)?;
    Ok(Outcome { report, buffers })
}

/// Puts an argument into memory and returns what is passed to the kernel: its address, or the
/// number itself.
fn place(memory: &Memory, argument: &Argument) -> Result<u64, warpfold_sim::Error> {
    let allocate = |count: usize| memory.allocate((count * argument.width.bytes()) as u64, &argument.name);
    match &argument.content {
        Content::Value(value) => Ok(*value),
        Content::Uninitialized(count) => allocate(*count),
        Content::Initialized(values) => {
            let address = allocate(values.len())?;
            memory.write(address, &encode(values, argument.width))?;
            Ok(address)
        }
        Content::Freed(count) => {
            let address = allocate(*count)?;
            memory.write(address, &vec![0; count * argument.width.bytes()])?;
            memory.free(address)?;
            Ok(address)
        }
    }
}

fn read_back(memory: &Memory, argument: &Argument, address: u64) -> Result<Vec<u64>, warpfold_sim::Error> {
    let count = argument.content.readable_len().unwrap_or(0);
    let mut bytes = vec![0; count * argument.width.bytes()];
    if count > 0 {
        memory.read(address, &mut bytes)?;
    }
    Ok(bytes.chunks_exact(argument.width.bytes()).map(decode).collect())
}

fn encode(values: &[u64], width: Width) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes().into_iter().take(width.bytes())).collect()
}

fn decode(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| (value << 8) | u64::from(byte))
}
