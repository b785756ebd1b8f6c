//! A list of launches of PTX: one JSON object a line.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::values::Values;
use crate::failure::Failure;

/// One launch to be timed or counted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    /// Kernel and size: no other case has it.
    pub name: String,
    /// Kernels of one algorithm and author; a family is fitted to, or held out, as a whole.
    pub family: String,
    /// What the time is for.
    pub set: Set,
    /// The PTX file, below the folder of the list.
    pub file: String,
    /// The kernel.
    pub entry: String,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads a block in x, y, z.
    pub block: [u32; 3],
    /// Blocks a cluster.
    pub cluster: Option<[u32; 3]>,
    /// Bytes of dynamic shared memory a block.
    #[serde(default)]
    pub shared: u32,
    /// All blocks are resident at once.
    #[serde(default)]
    pub cooperative: bool,
    /// Buffers are filled anew before each launch, and each is timed by itself: a kernel that runs
    /// differently on what it has left.
    #[serde(default)]
    pub reset: bool,
    /// One a parameter, in order.
    pub args: Vec<Arg>,
}

/// What a time is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Set {
    /// Constants are fitted to it.
    Calibration,
    /// Errors are told of it.
    HeldOut,
}

/// One argument.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Arg {
    /// A buffer with contents.
    In(Buffer),
    /// A buffer of zeros, which the kernel writes.
    Out {
        /// Element type.
        dtype: Dtype,
        /// Elements.
        len: usize,
    },
    /// A null pointer.
    Null,
    /// The bytes of a structure, in hexadecimal digits.
    Bytes(String),
    U8(u8),
    I32(i32),
    U32(u32),
    I64(i64),
    U64(u64),
    F32(f32),
    F64(f64),
}

/// A buffer with contents.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Buffer {
    pub dtype: Dtype,
    pub len: usize,
    pub values: Values,
}

/// The type of a buffer's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Dtype {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F16,
    Bf16,
    F32,
    F64,
}

impl Dtype {
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    pub(crate) const fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64)
    }

    /// NumPy's name, or `bf16`, which it has none for.
    pub(crate) const fn numpy(self) -> &'static str {
        match self {
            Self::U8 => "<u1",
            Self::I8 => "<i1",
            Self::U16 => "<u2",
            Self::I16 => "<i2",
            Self::U32 => "<u4",
            Self::I32 => "<i4",
            Self::U64 => "<u8",
            Self::I64 => "<i8",
            Self::F16 => "<f2",
            Self::Bf16 => "bf16",
            Self::F32 => "<f4",
            Self::F64 => "<f8",
        }
    }
}

/// The cases of a list.
pub(super) fn read(path: &Path) -> Result<Vec<Case>, Failure> {
    let at = |line: usize, error: &dyn std::fmt::Display| Failure::usage(format!("{}:{line}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| at(0, &error))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(number, line)| serde_json::from_str(line).map_err(|error| at(number + 1, &error))).collect()
}
