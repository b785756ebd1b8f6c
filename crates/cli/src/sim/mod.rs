//! `warpfold sim`: runs PTX that was not written here on the virtual GPU.

mod annotate;
mod bind;
mod report;
mod spec;
mod tensor;

use std::io::{stderr, stdout};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use warpfold_sim::{Arch, Error, Launch, Memory, Options, Program, Report};

use crate::Ending;
use crate::failure::Failure;
use crate::output::Form;
use crate::progress::Progress;
use bind::Bindings;
use spec::Spec;

/// Runs a kernel of a PTX file on the virtual GPU: counts what hardware would do, finds broken
/// rules.
///
/// What the kernel prints goes to standard output, or with `--report json` to standard error. Exit
/// codes: 0 clean, 1 findings of severity error, 2 bad usage, 3 PTX that is not supported, 4 the
/// run failed (a trap, memory used up).
#[derive(Debug, Args)]
pub(crate) struct Sim {
    /// The PTX text.
    #[arg(value_name = "FILE.ptx")]
    file: PathBuf,
    /// The kernel (`.entry`) to run.
    #[arg(long, value_name = "NAME")]
    entry: String,
    /// Blocks in x, y, z.
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = sizes)]
    grid: [u32; 3],
    /// Threads a block in x, y, z.
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = sizes)]
    block: [u32; 3],
    /// Blocks a cluster in x, y, z.
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = cluster, default_value = "1")]
    cluster: [u32; 3],
    /// Dynamic shared memory a block.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    shared: u32,
    /// An argument; one for each parameter, in order.
    ///
    /// in=PATH.npy | out=PATH.npy,DTYPE,SHAPE (not initialised; saved after the run) |
    /// inout=IN.npy,OUT.npy | i32= u32= i64= u64= f32= f64= | bytes=HEX |
    /// tensormap=ARRAY;box=SHAPE, ARRAY being one of the first three: a tensor map of 128 bytes,
    /// with ;dims= ;strides= (bytes) ;steps= ;swizzle=32|64|128 ;interleave=16|32 ;l2=64|128|256
    /// ;fill=nan as needed, and ;type= where it is not the array's (tf32, tf32_ftz, f32_ftz; bf16
    /// of a uint16), or for im2col ;lower= ;upper= ;channels= ;pixels= instead of the box. DTYPE
    /// is one of u8 i8 u16 i16 u32 i32 u64 i64 f16 bf16 f32 f64 (bf16 is stored as uint16), SHAPE
    /// is like 4x1024.
    #[arg(long = "arg", value_name = "SPEC", value_parser = Spec::parse)]
    arguments: Vec<Spec>,
    /// The architecture that the virtual GPU stands in for.
    #[arg(long, value_name = "ARCH", default_value = "sm_90a")]
    arch: Arch,
    /// The order in which asynchronous copies land: 0 is as late as the rules allow, other numbers
    /// draw one.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Which checks to run: none stops at what hardware traps, all finds races, uninitialised reads
    /// and more.
    #[arg(long, default_value = "none")]
    check: Check,
    /// Print the kernel with executions, active lanes, bank conflicts and sectors beside each
    /// instruction.
    #[arg(long)]
    annotate: bool,
    /// The form of the report.
    #[arg(long, default_value = "table")]
    report: Form,
}

/// Which checks to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Check {
    /// Only what hardware traps.
    None,
    /// Everything.
    All,
}

impl From<Check> for warpfold_sim::Checks {
    fn from(check: Check) -> Self {
        match check {
            Check::None => Self::None,
            Check::All => Self::All,
        }
    }
}

/// Device memory of the largest GPU that is stood in for.
const MEMORY_BYTES: u64 = 141_000_000_000;

impl Sim {
    pub(crate) fn run(&self) -> Result<Ending, Failure> {
        let text = read_text(&self.file)?;
        let memory = Memory::new(MEMORY_BYTES);
        let program = Program::load(&memory, &text, self.arch).map_err(|error| self.blame(error))?;
        let kernel = program.kernel(&self.entry)?;
        let bindings = Bindings::make(&memory, kernel, &text, &self.arguments)?;
        let report = self.launch(&program, &memory, bindings.params())?;
        let saved = bindings.save(&memory)?;
        match self.report {
            Form::Table => report::print_table(self, &report, &saved, &text)?,
            Form::Json => report::print_json(self, &report)?,
        }
        Ok(if report.has_errors() { Ending::Findings } else { Ending::Clean })
    }

    /// Runs the kernel with counters for each instruction: its text, its launch, what it counted,
    /// and the architecture.
    pub(crate) fn advised(&self) -> Result<(String, Launch, Report, Arch), Failure> {
        let text = read_text(&self.file)?;
        let memory = Memory::new(MEMORY_BYTES);
        let program = Program::load(&memory, &text, self.arch).map_err(|error| self.blame(error))?;
        let bindings = Bindings::make(&memory, program.kernel(&self.entry)?, &text, &self.arguments)?;
        let launch = self.launch_of(bindings.params());
        let options = Options { per_instruction: true, seed: self.seed, ..Options::default() };
        let report = program.launch(&memory, &launch, &options).map_err(|error| self.blame(error))?;
        bindings.save(&memory)?;
        Ok((text, launch, report, self.arch))
    }

    fn launch_of(&self, params: &[u8]) -> Launch {
        Launch {
            kernel: self.entry.clone(),
            grid: self.grid,
            block: self.block,
            cluster: self.cluster,
            dynamic_shared: self.shared,
            params: params.to_vec(),
            cooperative: false,
            programmatic: false,
        }
    }

    fn launch(&self, program: &Program, memory: &Memory, params: &[u8]) -> Result<Report, Failure> {
        let launch = self.launch_of(params);
        let progress = Progress::new();
        progress.begin(&self.entry);
        let (printer, watcher, form) = (progress.clone(), progress.clone(), self.report);
        let options = Options {
            checks: self.check.into(),
            per_instruction: self.annotate,
            seed: self.seed,
            output: Some(Arc::new(move |text: &str| match form {
                Form::Table => printer.write(stdout(), text),
                Form::Json => printer.write(stderr(), text),
            })),
            progress: Some(Arc::new(move |done, all| watcher.show(done, all))),
            ..Options::default()
        };
        let report = program.launch(memory, &launch, &options);
        progress.end();
        report.map_err(|error| self.blame(error))
    }

    /// The failure that an error of the simulator means for this command line.
    fn blame(&self, error: Error) -> Failure {
        match error {
            Error::Syntax(_) | Error::Unsupported { .. } | Error::Invalid { .. } => {
                Failure::unsupported(format!("{}: {error}", self.file.display()))
            }
            other => other.into(),
        }
    }
}

fn read_text(path: &Path) -> Result<String, Failure> {
    let bytes =
        std::fs::read(path).map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
    String::from_utf8(bytes).map_err(|_| Failure::usage(format!("{} is not text", path.display())))
}

/// Sizes in one to three dimensions, none of them zero.
fn sizes(text: &str) -> Result<[u32; 3], String> {
    let mut sizes = [1; 3];
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 3 {
        return Err(format!("{} dimensions, at most 3 are possible", parts.len()));
    }
    for (size, part) in sizes.iter_mut().zip(parts) {
        *size = part.parse().map_err(|_| format!("'{part}' is not a whole number of at most {}", u32::MAX))?;
        if *size == 0 {
            return Err("a size must not be zero".to_owned());
        }
    }
    Ok(sizes)
}

/// Sizes of a cluster. More than 16 blocks are possible on no architecture (CUDA programming guide,
/// "Thread Block Clusters").
fn cluster(text: &str) -> Result<[u32; 3], String> {
    let sizes = sizes(text)?;
    let blocks = sizes.iter().try_fold(1_u32, |product, &n| product.checked_mul(n));
    if blocks.is_none_or(|n| n > 16) {
        return Err("a cluster has at most 16 blocks".to_owned());
    }
    Ok(sizes)
}
