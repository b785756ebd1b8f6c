//! `warpfold sim`: runs PTX that was not written here on the virtual GPU.

mod annotate_source;
mod bind;
pub(crate) mod entry;
mod findings;
mod options;
mod report;
mod source_text;
mod spec;
mod step;
mod suppress;
mod tensor;
mod triton;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use warpfold_sim::predict::{self, NoPrediction, Prediction};
use warpfold_sim::{Arch, AskedSteps, Error, KernelInfo, Launch, Memory, Options, Program, Report, short_name};

use crate::Ending;
use crate::failure::Failure;
use crate::host;
use crate::output::{self, Form, ReportTo};
use crate::profile;
use crate::progress::Progress;
use crate::sarif::SarifTo;
use bind::Bindings;
use findings::Picked;
use source_text::SourceText;
use spec::Spec;
use step::{StepOptions, SteppedLaunch};
use suppress::Suppressions;
use triton::Compiled;

/// Runs a kernel of a PTX file on the virtual GPU: counts what hardware would do, finds broken
/// rules.
///
/// Where the PTX says which line of source an instruction comes from (nvcc -lineinfo, Triton,
/// warpfold's own kernels), findings name that line. What the kernel prints goes to standard
/// output, or unless the report is a table to standard error. Exit codes: 0 clean, 1 findings of
/// severity error, 2 bad usage, 3 PTX that is not supported, 4 the run failed (a trap, memory used
/// up).
#[derive(Debug, Args)]
#[command(mut_arg("profile_trace", |arg| arg.hide(true)))]
pub(crate) struct Sim {
    /// The PTX text; `-` reads standard input.
    #[arg(value_name = "FILE.ptx", required_unless_present = "triton")]
    file: Option<PathBuf>,
    /// The kernel (`.entry`) to run: its name, mangled or not, or any part that no other has. Not
    /// needed if there is one kernel.
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// A folder of Triton's cache (`~/.triton/cache/…`), which says name, warps and shared memory;
    /// the pointers that Triton's launcher appends are passed, too.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["file", "block", "shared"])]
    triton: Option<PathBuf>,
    /// List the kernels with their parameters and the blocks that they ask for, and run nothing.
    #[arg(long)]
    list: bool,
    /// Blocks in x, y, z: 4x1x1 or 4,1,1.
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = sizes, required_unless_present = "list")]
    grid: Option<[u32; 3]>,
    /// Threads per block in x, y, z. Not needed if the kernel says so itself (`.reqntid`).
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = sizes)]
    block: Option<[u32; 3]>,
    /// Cluster size in blocks (x, y, z).
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = cluster)]
    cluster: Option<[u32; 3]>,
    /// A cooperative launch: all blocks are resident at once, as `grid.sync()` needs.
    #[arg(long)]
    cooperative: bool,
    /// Dynamic shared memory a block: 0 unless said.
    #[arg(long, value_name = "BYTES")]
    shared: Option<u32>,
    /// An argument; one for each parameter, in order.
    ///
    /// in=PATH.npy (checked runs report what writes it) | out=PATH.npy,DTYPE,SHAPE (not
    /// initialised; saved after the run: what nothing has written of it is a finding of checked
    /// runs) | inout=IN.npy,OUT.npy | i32= u32= i64= u64= f32= f64= |
    /// bytes=HEX | tensormap=ARRAY;box=SHAPE, ARRAY being one of the first three: a tensor map of
    /// 128 bytes, with ;dims= ;strides= (bytes) ;steps= ;swizzle=32|64|128 ;interleave=16|32
    /// ;l2=64|128|256 ;fill=nan as needed, and ;type= where it is not the array's (tf32, tf32_ftz,
    /// f32_ftz; bf16 of a uint16), or for im2col ;lower= ;upper= ;channels= ;pixels= instead of the
    /// box | struct=FORM;FORM… of the forms before tensormap: one parameter that is a structure,
    /// each field at a multiple of its size, or at OFFSET where it is written OFFSET:FORM. DTYPE is
    /// one of u8 i8 u16 i16 u32 i32 u64 i64 f16 bf16 f32 f64 (bf16 is stored as uint16), SHAPE is
    /// like 4x1024 or 4,1024.
    #[arg(long = "arg", value_name = "SPEC", value_parser = Spec::parse)]
    arguments: Vec<Spec>,
    /// The architecture that the virtual GPU stands in for.
    #[arg(long, value_name = "ARCH", default_value = "sm_90a")]
    arch: Arch,
    /// The order in which asynchronous copies land, blocks begin and warps run: with 0, as late as
    /// the rules allow, and increasing; other numbers draw one.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Warp instructions that each of the host's threads may execute: a kernel that goes on for
    /// longer counts as endless, and the finding names its loop.
    #[arg(long, value_name = "COUNT", default_value_t = Options::default().limit)]
    limit: u64,
    /// Seconds after which the run is ended, with a finding that names the loop.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Bytes of device memory: arrays, variables and the heap beyond them are refused.
    #[arg(long, value_name = "BYTES", default_value_t = MEMORY_BYTES)]
    memory: u64,
    /// Checks to run: none stops at what hardware traps, all finds races, uninitialised reads and
    /// more.
    #[arg(long, default_value = "none")]
    check: Check,
    /// Count hits in a model of the L1 data cache, which the report describes.
    #[arg(long)]
    l1: bool,
    /// Predict the time of the launch on a GPU, h100 or h200: a range, its parts, what binds. It is
    /// of the grid that is run here, launched again and again; with :cold (h200:cold) the L2 holds
    /// nothing of the data before. The parts need the model of the L1, as --l1 counts it.
    #[arg(long, value_name = "GPU")]
    predict: Option<predict::Machine>,
    /// Print the kernel's PTX with executions, active lanes, bank conflicts and sectors beside each
    /// instruction, or its source with those of each line.
    #[arg(long, value_name = "TEXT", num_args = 0..=1, require_equals = true, default_missing_value = "ptx")]
    annotate: Option<Annotate>,
    #[command(flatten)]
    to: ReportTo,
    #[command(flatten)]
    sarif: SarifTo,
    #[command(flatten)]
    profile: profile::Options,
    #[command(flatten)]
    shown: options::Shown,
    #[command(flatten)]
    stepping: StepOptions,
}

/// The text to annotate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Annotate {
    /// The PTX.
    Ptx,
    /// The source files.
    Source,
}

/// The parsed input of the command.
#[derive(Debug)]
struct Input {
    /// Triton's metadata of the kernel, if Triton compiled it.
    compiled: Option<Compiled>,
    /// The PTX file, as it was named.
    file: PathBuf,
    text: String,
}

impl Input {
    fn load(&self, memory: &Memory, arch: Arch) -> Result<Program, Failure> {
        Program::load(memory, &self.text, arch).map_err(|error| blame(&self.file, error))
    }

    /// Returns the source files, which are looked for beside the PTX.
    fn source(&self) -> SourceText {
        SourceText::of(self.file.parent().unwrap_or(Path::new(".")))
    }
}

/// A finished run.
#[derive(Debug)]
struct Ran<'a> {
    /// The PTX file, as it was named.
    file: String,
    text: &'a str,
    kernel: &'a KernelInfo,
    grid: [u32; 3],
    block: [u32; 3],
    cluster: [u32; 3],
    dynamic_shared: u32,
    cooperative: bool,
    source: &'a SourceText,
}

/// Checks to run.
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

/// Accesses of one warp that pictures show of an instruction.
const RECORDED: usize = 8;

/// Device memory of the largest GPU that is stood in for.
const MEMORY_BYTES: u64 = 141_000_000_000;

impl Sim {
    pub(crate) fn run(&self) -> Result<Ending, Failure> {
        self.to.check()?;
        self.profile.refuse_trace()?;
        self.stepping.check(self.to.form)?;
        let mut suppressions =
            self.shown.suppressions.as_deref().map(Suppressions::read).transpose()?.unwrap_or_default();
        suppressions.allow(&self.shown.allow);
        let input = self.input()?;
        let memory = Memory::far_apart(self.memory, self.seed);
        let program = input.load(&memory, self.arch)?;
        if self.list {
            let module = warpfold_ptx::parse(&input.text).map_err(|error| blame(&input.file, error.into()))?;
            output::print(&entry::list(&program, &module))?;
            return Ok(Ending::Clean);
        }
        let source = input.source();
        let ran = self.settle(&program, &input, &source)?;
        let bindings = self.bind(&memory, &ran, &input)?;
        let SteppedLaunch { asked, wanted } = self.stepping.asked(self, &ran, &input, &bindings)?;
        let mut report = self.launch(&program, &memory, bindings.params(), &ran, asked, true)?;
        if self.is_checked() && !report.aborted {
            report.findings.extend(bindings.unwritten(&memory)?);
        }
        name_elements(&mut report, &bindings, &source);
        let predicted = self.predicted(&report)?;
        let saved = bindings.save(&memory)?;
        let picked = Picked::of(self, &report, &suppressions);
        let steps = self.stepping.page(&report, wanted, &bindings, &memory)?;
        report::write(self, &ran, &report, predicted.as_ref(), steps, &picked, &saved)?;
        if self.profile.is_any() {
            let recorded = bindings.traffic(&ran.kernel.name);
            self.profile.write(&recorded)?;
            if self.profile.is_printed() {
                let tables = profile::tables(&recorded);
                match self.to.form {
                    Form::Table => output::print(&format!("\n{tables}"))?,
                    Form::Json | Form::Html => output::note(&tables),
                }
            }
        }
        Ok(if picked.has_errors() { Ending::Code(self.shown.error_exitcode) } else { Ending::Clean })
    }

    /// Returns the predicted time, if requested and the run ended.
    fn predicted(&self, report: &Report) -> Result<Option<Prediction>, Failure> {
        let predicted = self.predict.as_ref().map(|machine| report.predict(machine)).transpose();
        match predicted {
            // The findings say why.
            Err(NoPrediction::Aborted) => Ok(None),
            other => other.map_err(Failure::usage),
        }
    }

    /// Returns whether the run is checked for more than what hardware traps.
    fn is_checked(&self) -> bool {
        self.shown.tool.is_some() || self.check == Check::All
    }

    /// The launch, of what the command line, the kernel and Triton's cache say.
    fn settle<'a>(&self, program: &'a Program, input: &'a Input, source: &'a SourceText) -> Result<Ran<'a>, Failure> {
        let metadata = input.compiled.as_ref().map(|compiled| &compiled.metadata);
        let part = metadata.map(|metadata| metadata.name.as_str()).or(self.entry.as_deref());
        let kernel = entry::find(program, part)?;
        let block =
            self.block.or(metadata.map(triton::Metadata::block)).or(kernel.required_block).ok_or_else(|| {
                let name = short_name(&kernel.name);
                Failure::usage(format!("--block is needed: kernel {name} does not say how many threads a block has"))
            })?;
        Ok(Ran {
            file: input.file.display().to_string(),
            text: &input.text,
            kernel,
            grid: self.grid.ok_or_else(|| Failure::usage("--grid is needed"))?,
            block,
            cluster: self.cluster.unwrap_or([metadata.map_or(1, |metadata| metadata.num_ctas), 1, 1]),
            dynamic_shared: self.shared.or(metadata.map(|metadata| metadata.shared)).unwrap_or(0),
            cooperative: metadata.is_some_and(|metadata| metadata.launch_cooperative_grid),
            source,
        })
    }

    /// The arguments, with those that Triton's launcher appends.
    fn arguments_of(&self, ran: &Ran<'_>, compiled: Option<&Compiled>) -> Vec<Spec> {
        let mut arguments = self.arguments.clone();
        if let Some(Compiled { metadata, .. }) = compiled {
            let missing = ran.kernel.params.len().saturating_sub(arguments.len());
            let blocks = ran.grid.iter().map(|&n| u64::from(n)).product();
            // Fewer are for the count of arguments to refuse.
            if missing <= 2 {
                arguments.extend(metadata.trailing(missing, blocks).into_iter().map(Spec::Scratch));
            }
        }
        arguments
    }

    /// The arguments in the virtual GPU's memory.
    fn bind(&self, memory: &Memory, ran: &Ran<'_>, input: &Input) -> Result<Bindings, Failure> {
        Bindings::make(memory, ran.kernel, &input.text, &self.arguments_of(ran, input.compiled.as_ref()))
    }

    /// Reads the PTX, from a folder of Triton's cache or from a file.
    fn input(&self) -> Result<Input, Failure> {
        let compiled = self.triton.as_deref().map(|folder| triton::find(folder, self.entry.as_deref())).transpose()?;
        let file = compiled.as_ref().map(|compiled| compiled.ptx.clone()).or_else(|| self.file.clone());
        let file = file.ok_or_else(|| Failure::usage("a PTX file is needed"))?;
        let text = read_text(&file)?;
        Ok(Input { compiled, file, text })
    }

    /// Runs the kernel with counters for each instruction: its text, its launch, what it counted,
    /// and the architecture.
    pub(crate) fn advised(&self) -> Result<(String, Launch, Report, Arch), Failure> {
        let input = self.input()?;
        let memory = Memory::far_apart(self.memory, self.seed);
        let program = input.load(&memory, self.arch)?;
        let source = input.source();
        let ran = self.settle(&program, &input, &source)?;
        let bindings = self.bind(&memory, &ran, &input)?;
        let launch = self.launch_of(bindings.params(), &ran);
        let options = Options { per_instruction: true, seed: self.seed, ..Options::default() };
        let report = program.launch(&memory, &launch, &options).map_err(|error| blame(&input.file, error))?;
        bindings.save(&memory)?;
        Ok((input.text, launch, report, self.arch))
    }

    fn launch_of(&self, params: &[u8], ran: &Ran<'_>) -> Launch {
        Launch {
            kernel: ran.kernel.name.clone(),
            grid: ran.grid,
            block: ran.block,
            cluster: ran.cluster,
            dynamic_shared: ran.dynamic_shared,
            params: params.to_vec(),
            cooperative: self.cooperative || ran.cooperative,
            programmatic: false,
        }
    }

    /// Runs the kernel; `tells` is whether what it prints is passed on.
    fn launch(
        &self,
        program: &Program,
        memory: &Memory,
        params: &[u8],
        ran: &Ran<'_>,
        steps: Option<AskedSteps>,
        tells: bool,
    ) -> Result<Report, Failure> {
        let launch = self.launch_of(params, ran);
        let progress = Progress::new();
        progress.begin(short_name(&ran.kernel.name));
        let (printer, watcher, form) = (progress.clone(), progress.clone(), self.to.form);
        let options = Options {
            checks: if self.is_checked() { warpfold_sim::Checks::All } else { self.check.into() },
            per_instruction: self.annotate.is_some() || self.to.form == Form::Html,
            record: if self.to.form == Form::Html { RECORDED } else { 0 },
            l1: self.l1,
            timing: self.predict.is_some(),
            seed: self.seed,
            limit: self.limit,
            stop: self.timeout.map(host::set_after).transpose()?,
            output: Some(Arc::new(move |text: &str| match form {
                _ if !tells => {}
                Form::Table => printer.write(host::stdout(), text),
                Form::Json | Form::Html => printer.write(host::stderr(), text),
            })),
            steps,
            progress: Some(Arc::new(move |done, all| watcher.show(done, all))),
            ..Options::default()
        };
        let report = program.launch(memory, &launch, &options);
        progress.end();
        report.map_err(|error| blame(Path::new(&ran.file), error))
    }
}

/// The failure that an error of the simulator means for this command line.
fn blame(file: &Path, error: Error) -> Failure {
    match error {
        Error::Syntax(_) | Error::Unsupported { .. } | Error::Invalid { .. } => {
            Failure::unsupported(format!("{}: {error}", file.display()))
        }
        other => other.into(),
    }
}

/// Gives elements the indices that their arrays' shapes mean, those of `.npy` files and those of
/// declarations in the source.
fn name_elements(report: &mut Report, bindings: &Bindings, source: &SourceText) {
    for finding in &mut report.findings {
        let author = finding.access.source.as_ref().map(|source| source.author().file.clone());
        let Some(place) = &mut finding.place else { continue };
        if let Some(array) = bindings.arrays().iter().find(|array| array.name == place.variable) {
            (place.element_bytes, place.shape) = (array.element_bytes, array.shape.clone());
        } else if place.shape.is_empty()
            && let Some(shape) = author.and_then(|file| source.shape(place, &file))
        {
            place.shape = shape;
        }
    }
}

/// Parses a positive duration in seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is not a number of seconds above 0");
    let number: f64 = text.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number).ok().filter(|time| !time.is_zero()).ok_or_else(wrong)
}

fn read_text(path: &Path) -> Result<String, Failure> {
    let bytes = if path == Path::new("-") {
        let mut bytes = Vec::new();
        host::stdin().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        host::read(path)
    };
    let bytes = bytes.map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
    String::from_utf8(bytes).map_err(|_| Failure::usage(format!("{} is not text", path.display())))
}

/// Sizes in one to three dimensions, none of them zero: 4,1,1 or 4x1x1.
fn sizes(text: &str) -> Result<[u32; 3], String> {
    let mut sizes = [1; 3];
    let parts: Vec<&str> = text.split([',', 'x']).collect();
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
