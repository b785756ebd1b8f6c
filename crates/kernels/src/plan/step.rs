//! One kernel launch, complete but for addresses.

use std::fmt;

use warpfold_device::{Element, LaunchConfig, TensorLayout};

use crate::AnyKernel;

/// A kernel with its launch and its arguments, in the kernel's order.
#[derive(Debug, Clone)]
pub struct Step {
    /// The kernel.
    pub kernel: AnyKernel,
    /// Grid, block, cluster, dynamic shared memory.
    pub config: LaunchConfig,
    /// What it is launched with.
    pub args: Vec<Arg>,
}

/// Which memory of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operand {
    /// The input at this position.
    Input(usize),
    /// The output at this position.
    Output(usize),
    /// The scratch memory at this position.
    Scratch(usize),
    /// The plan's tickets.
    Tickets,
    /// The plan's marks.
    Marks,
}

/// An argument of a kernel.
#[derive(Debug, Clone)]
pub enum Arg {
    /// The address of a memory.
    Pointer(Operand),
    /// The address of an element of a memory, in bytes from its beginning.
    PointerAt(Operand, u64),
    /// The null pointer: an operand that this problem does not have.
    Null,
    /// A tensor map for TMA.
    TensorMap(Box<MemoryMap>),
    /// Bytes by value, at a multiple of an alignment.
    Bytes {
        /// The bytes.
        bytes: Vec<u8>,
        /// The alignment of the parameter.
        alignment: usize,
    },
}

/// A tensor map, but for the address of the memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryMap {
    /// The memory.
    pub operand: Operand,
    /// Sizes, strides, box and swizzle.
    pub layout: TensorLayout,
    /// Bytes before the first element.
    pub first: u64,
    /// Bytes of an element: 1, 2 or 4. TMA treats all types of one size alike.
    pub element_bytes: u64,
}

impl Step {
    /// A launch without arguments.
    #[must_use]
    pub const fn new(kernel: AnyKernel, config: LaunchConfig) -> Self {
        Self { kernel, config, args: Vec::new() }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<Arg>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// The same launch in other memory: each operand becomes the one of `place`, from a byte on.
    pub(super) fn with_operands(self, place: &dyn Fn(Operand) -> (Operand, u64)) -> Self {
        let pointer = |operand: Operand, first: u64| match place(operand) {
            (operand, 0) if first == 0 => Arg::Pointer(operand),
            (operand, before) => Arg::PointerAt(operand, before + first),
        };
        let arg = |arg: Arg| match arg {
            Arg::Pointer(operand) => pointer(operand, 0),
            Arg::PointerAt(operand, first) => pointer(operand, first),
            Arg::TensorMap(map) => {
                let (operand, before) = place(map.operand);
                Arg::TensorMap(Box::new(MemoryMap { operand, first: before + map.first, ..*map }))
            }
            arg @ (Arg::Null | Arg::Bytes { .. }) => arg,
        };
        Self { args: self.args.into_iter().map(arg).collect(), ..self }
    }

    /// Whether an argument is a pointer into this memory.
    pub(super) fn has_pointer_to(&self, operand: Operand) -> bool {
        let is_pointer = |arg: &Arg| matches!(arg, Arg::Pointer(to) | Arg::PointerAt(to, _) if *to == operand);
        self.args.iter().any(is_pointer)
    }
}

impl Arg {
    /// A number by value.
    #[must_use]
    pub fn value<T: Element>(value: T) -> Self {
        Self::Bytes { bytes: bytemuck::bytes_of(&value).to_vec(), alignment: size_of::<T>() }
    }
}

impl From<Operand> for Arg {
    fn from(operand: Operand) -> Self {
        Self::Pointer(operand)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LaunchConfig { grid, block, dynamic_shared, .. } = self.config;
        write!(f, "{} <<<{grid:?}, {block:?}, {dynamic_shared}>>>", self.kernel.name())
    }
}
