//! One planned launch for every operator: how a problem becomes kernel launches.
//!
//! A [`Family`] (folds, row operators, products …) turns a problem, a hashable value of shapes,
//! strides, types and alignments without addresses, into a [`Plan`]: operands, scratch memory and
//! [`Step`]s, each a kernel launch complete but for addresses. [`Plan::ready`] loads its kernels on
//! a device, and [`Ready::launch`] is the only way from a plan to a stream. A [`PlanCache`] keeps
//! what is ready, so that the second call of an operator plans nothing.
//!
//! Which kernel computes a problem is decided inside its family and nowhere else. Benches, mutation
//! tests, `inspect`, graphs and tuners walk over [`Plan::steps`]; none of them knows a family.

mod cache;
mod family;
mod grid;
mod kernel_cache;
mod key;
mod lru;
mod named;
mod ready;
mod step;
mod tensor;
mod workspace;

use std::fmt;

use warpfold_device::Device;

use crate::{Error, ErrorKind};

pub use cache::{PlanCache, PlanCounts};
pub use family::{Family, Planner};
pub use grid::alignment_of;
pub(crate) use grid::{MAX_BLOCKS_Y, grid_size, grid_size_y, within_limit};
pub use kernel_cache::KernelCache;
pub use key::Key;
pub(crate) use named::first_of;
pub use named::{Planned, TensorArg};
pub use ready::Ready;
pub(crate) use step::MemoryMap;
pub use step::{Arg, Operand, Step};
pub use tensor::TensorSpec;
pub use workspace::Workspace;

/// How a problem is computed on a device: everything but the addresses of its operands.
///
/// ```
/// use warpfold_device::{Device, LaunchConfig, Profile};
/// use warpfold_kernels::plan::{OperandSpec, Plan, Planned, Step, Workspace};
/// use warpfold_lang::{Global, kernel, params, thread_idx, when};
///
/// params! {
///     struct DoubleArgs {
///         x: Global<u32>,
///         y: Global<u32>,
///         len: u32,
///     }
/// }
/// let double = kernel("double", |args: DoubleArgs| {
///     let i = thread_idx().x;
///     when(i.lt(args.len), || args.y.at(i).set(args.x.at(i).get() * 2));
/// });
/// let mut plan = Plan::new("double");
/// let args = DoubleArgs::<Planned> {
///     x: plan.add_input(OperandSpec::new("x", 12, 4)),
///     y: plan.add_output(OperandSpec::new("y", 12, 4)),
///     len: 3,
/// };
/// let plan = plan.step(Step::new(double.into(), LaunchConfig::for_elements(3, 32)).with(args)?);
/// let device = Device::virtual_gpu(Profile::H200);
/// let x = device.upload(&[1_u32, 2, 3])?;
/// let mut y = device.alloc::<u32>(3)?;
/// let (stream, mut workspace) = (device.default_stream(), Workspace::new());
/// let outputs = &mut [y.as_view_mut().bytes()];
/// plan.ready(&device)?.launch(&stream, &[Some(x.as_view().bytes())], outputs, &mut workspace)?;
/// assert_eq!(y.download()?, [2, 4, 6]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Plan {
    /// The operator, as errors name it.
    pub operator: &'static str,
    /// What kernels read, in the order of the inputs of a launch.
    pub inputs: Vec<OperandSpec>,
    /// What kernels write, in the order of the outputs of a launch.
    pub outputs: Vec<OperandSpec>,
    /// Bytes of each scratch memory, of any content when the first step starts.
    pub scratch: Vec<u64>,
    /// Counters of 32 bits that are zero before each step and that each step leaves at zero.
    pub tickets: u64,
    /// Words of 64 bits by which the blocks of a launch signal each other; the first one counts
    /// launches. See [`Workspace`].
    pub marks: u64,
    /// Memory that is filled before the first step.
    pub fills: Vec<Fill>,
    /// The launches, in order.
    pub steps: Vec<Step>,
    /// Which algorithm was chosen, with which sizes: to be printed.
    pub choice: String,
    /// Bytes of loads that a thread of the main step has in flight, where the family states them.
    pub bytes_in_flight: Option<u64>,
}

/// What a plan demands of one operand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperandSpec {
    /// As errors name it.
    pub name: &'static str,
    /// Bytes from its address on that kernels may access.
    pub bytes: u64,
    /// A power of two that its address is a multiple of, in bytes.
    pub alignment: u64,
    /// The output whose memory this input shares when a launch passes `None` for it.
    pub alias: Option<usize>,
}

impl OperandSpec {
    /// An operand of so many bytes whose address is a multiple of `alignment`.
    #[must_use]
    pub const fn new(name: &'static str, bytes: u64, alignment: u64) -> Self {
        Self { name, bytes, alignment, alias: None }
    }

    /// An input that shares the memory of an output.
    #[must_use]
    pub const fn in_place_of(self, output: usize) -> Self {
        Self { alias: Some(output), ..self }
    }

    /// Compares what a launch was given. `place` is address and size; an operand of no bytes may
    /// lie anywhere.
    fn check(&self, operator: &'static str, (address, found): (u64, u64)) -> Result<(), Error> {
        let Self { name, bytes, alignment, .. } = *self;
        if bytes > found {
            let reason = format!("{name} needs {bytes} bytes, not {found}");
            return Err(ErrorKind::Operand { operator, reason }.into());
        }
        if bytes > 0 && !address.is_multiple_of(alignment.max(1)) {
            let reason = format!("{name} does not begin at a multiple of {alignment} bytes");
            return Err(ErrorKind::Operand { operator, reason }.into());
        }
        Ok(())
    }
}

/// Memory of an operand or of scratch that is filled with a byte before the first step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fill {
    /// Which memory.
    pub operand: Operand,
    /// How many of its first bytes.
    pub bytes: u64,
    /// With what.
    pub byte: u8,
}

impl Plan {
    /// A plan without operands and steps: it does nothing.
    #[must_use]
    pub const fn new(operator: &'static str) -> Self {
        Self {
            operator,
            inputs: Vec::new(),
            outputs: Vec::new(),
            scratch: Vec::new(),
            tickets: 0,
            marks: 0,
            fills: Vec::new(),
            steps: Vec::new(),
            choice: String::new(),
            bytes_in_flight: None,
        }
    }

    /// Adds an input after the others.
    #[must_use]
    pub fn input(mut self, spec: OperandSpec) -> Self {
        self.inputs.push(spec);
        self
    }

    /// Adds an output after the others.
    #[must_use]
    pub fn output(mut self, spec: OperandSpec) -> Self {
        self.outputs.push(spec);
        self
    }

    /// Asks for scratch memory of so many bytes, and names it.
    #[must_use]
    pub fn add_scratch(&mut self, bytes: u64) -> Operand {
        self.scratch.push(bytes);
        Operand::Scratch(self.scratch.len() - 1)
    }

    /// Fills the first bytes of a memory before the first step.
    #[must_use]
    pub fn fill(mut self, operand: Operand, bytes: u64, byte: u8) -> Self {
        self.fills.push(Fill { operand, bytes, byte });
        self
    }

    /// Adds a launch after the others.
    #[must_use]
    pub fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Adds the fills and launches of another plan after this one's. Each of its operands is memory
    /// of this plan from a byte on.
    ///
    /// # Panics
    /// If there is not one memory for each operand, and where memory from a later byte on would
    /// have to be filled.
    pub fn append(&mut self, other: Self, inputs: &[(Operand, u64)], outputs: &[(Operand, u64)]) {
        assert_eq!(
            (inputs.len(), outputs.len()),
            (other.inputs.len(), other.outputs.len()),
            "one memory for each operand"
        );
        let first = self.scratch.len();
        let place = |operand: Operand| match operand {
            Operand::Input(i) => inputs[i],
            Operand::Output(i) => outputs[i],
            Operand::Scratch(i) => (Operand::Scratch(first + i), 0),
            operand @ (Operand::Tickets | Operand::Marks) => (operand, 0),
        };
        let whole = |operand: Operand| {
            let (operand, first) = place(operand);
            assert_eq!(first, 0, "{operand:?} is needed from its beginning");
            operand
        };
        self.scratch.extend(&other.scratch);
        self.tickets = self.tickets.max(other.tickets);
        self.marks = self.marks.max(other.marks);
        self.fills.extend(other.fills.into_iter().map(|fill| Fill { operand: whole(fill.operand), ..fill }));
        self.steps.extend(other.steps.into_iter().map(|step| step.with_operands(&place)));
    }

    /// Says which algorithm was chosen.
    #[must_use]
    pub fn choice(self, choice: impl fmt::Display) -> Self {
        Self { choice: choice.to_string(), ..self }
    }

    /// Builds the kernels and loads them on a device.
    ///
    /// # Errors
    /// What the device says.
    pub fn ready(self, device: &Device) -> Result<Ready, Error> {
        Ready::new(self, device)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.operator, self.choice)?;
        for step in &self.steps {
            write!(f, "\n  {step}")?;
        }
        Ok(())
    }
}
