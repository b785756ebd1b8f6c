//! `warpfold inspect`: a kernel of this library as PTX, and what it takes of a multiprocessor.

mod find;
mod ptxas;

use clap::Args;
use warpfold_kernels::Dtype;
use warpfold_lang::{Built, Target};
use warpfold_sim::occupancy::{self, Limiter, Occupancy, Usage};
use warpfold_sim::{Arch, KernelInfo, Memory, Program};

use crate::Ending;
use crate::failure::Failure;
use crate::output;
use crate::table::grouped;
use find::Found;

/// Prints a kernel's PTX, and after it, as comments, its parameters, resources and occupancy.
///
/// The figures of ptxas are added if it is found: the program that PTXAS names, or the one on the
/// path. The virtual GPU's count of registers is an estimate: those that are live at once.
#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// A rung such as reduce/interleaved (or interleaved alone where no other ladder has it), or an
    /// entry's name.
    #[arg(value_name = "KERNEL", default_value = "", hide_default_value = true)]
    kernel: String,
    /// List the kernels: their places and entries.
    #[arg(long, exclusive = true)]
    list: bool,
    /// The architecture that the PTX is written for.
    #[arg(long, value_name = "ARCH", default_value = "sm_90a")]
    target: Arch,
    /// The element type; unless given the first of the ladder's.
    #[arg(long, value_name = "DTYPE")]
    dtype: Option<Dtype>,
}

/// Taken by every ptxas and driver of CUDA 12 and later, and enough for every kernel.
const PTX_VERSION: (u32, u32) = (8, 0);

impl Inspect {
    pub(crate) fn run(&self) -> Result<Ending, Failure> {
        if self.list {
            return output::print(&find::list()).map(|()| Ending::Clean);
        }
        if self.kernel.is_empty() {
            return Err(Failure::usage("a kernel's name is needed; `warpfold inspect --list` lists them"));
        }
        let Found { place, kernel, block, in_flight } = find::find(&self.kernel, self.dtype)?;
        let built = kernel
            .build(&Target::new(self.target, PTX_VERSION.max(self.target.min_ptx_version())))
            .map_err(Failure::unsupported)?;
        let text = built.ptx();
        // Room for the variables of any kernel here.
        let memory = Memory::new(1 << 30);
        let program = Program::load(&memory, &text, self.target)?;
        let info = program.kernel(&built.entry)?;
        let mut lines = vec![format!("{place} ({}) for {}", built.entry, self.target)];
        lines.extend(described(info, &built, block));
        lines.push(format!("registers         {} live at once: the virtual GPU's estimate", info.registers));
        let usage = |registers_per_thread| Usage {
            threads: block.iter().product(),
            registers_per_thread,
            static_shared: info.static_shared,
            dynamic_shared: u32::try_from(built.dynamic_shared_bytes).unwrap_or(u32::MAX),
        };
        let occupied = |registers| {
            let occupancy = occupancy::occupancy(self.target, &usage(registers));
            let threads = occupancy.blocks_per_sm * block.iter().product::<u32>();
            let in_flight = in_flight.map(|bytes| bytes_text(bytes, threads));
            (occupancy_text(&occupancy), in_flight)
        };
        let (occupancy, bytes) = occupied(info.registers);
        lines.push(format!("occupancy         {occupancy}"));
        lines.extend(bytes.map(|bytes| format!("loads under way   {bytes}")));
        match ptxas::assemble(&text, self.target)? {
            None => lines.push("ptxas             not found: name it in PTXAS, or put it on the path".to_owned()),
            Some(Err(complaint)) => lines.push(format!("ptxas             refuses the text: {complaint}")),
            Some(Ok(figures)) => {
                lines.push(format!("ptxas             {figures}"));
                let (occupancy, bytes) = occupied(figures.registers);
                lines.push(format!("occupancy, ptxas  {occupancy}"));
                lines.extend(bytes.map(|bytes| format!("loads under way   {bytes}")));
            }
        }
        let comments: String = lines.iter().map(|line| format!("// {line}\n")).collect();
        output::print(&format!("{}\n\n{comments}", text.trim_end()))?;
        Ok(Ending::Clean)
    }
}

/// Parameters, threads and shared memory.
fn described(info: &KernelInfo, built: &Built, block: [u32; 3]) -> Vec<String> {
    let parameters = info.params.iter().enumerate().map(|(i, param)| {
        let label = if i == 0 { "parameters" } else { "" };
        format!("{label:<17} {}: {} bytes at offset {}", param.name, param.bytes, param.offset)
    });
    let [x, y, z] = block;
    let threads: u32 = block.iter().product();
    let shared = format!("{} bytes static", grouped(info.static_shared.into()));
    let dynamic = match built.dynamic_shared_bytes {
        0 => String::new(),
        bytes => format!(", {} bytes dynamic", grouped(bytes)),
    };
    parameters
        .chain([format!("threads per block {threads} ({x}x{y}x{z})"), format!("shared memory     {shared}{dynamic}")])
        .collect()
}

/// Formats the bytes in flight per multiprocessor; an H200 needs 48 KiB to reach its memory
/// bandwidth.
fn bytes_text(a_thread: u64, threads: u32) -> String {
    let bytes = a_thread * u64::from(threads);
    format!("{a_thread} bytes per thread, {:.1} KiB per multiprocessor", bytes as f64 / 1024.0)
}

fn occupancy_text(occupancy: &Occupancy) -> String {
    let limiters: Vec<&str> = occupancy
        .limiters
        .iter()
        .map(|limiter| match limiter {
            Limiter::Registers => "registers",
            Limiter::SharedMemory => "shared memory",
            Limiter::Warps => "warps",
            Limiter::Blocks => "blocks",
            _ => "another limit",
        })
        .collect();
    format!(
        "{:.1} %: {} block{} per multiprocessor, limited by {}",
        100.0 * occupancy.occupancy,
        occupancy.blocks_per_sm,
        if occupancy.blocks_per_sm == 1 { "" } else { "s" },
        limiters.join(" and ")
    )
}
