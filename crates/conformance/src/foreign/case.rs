//! The list of cases as it stands in the file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use warpfold_sim::Arch;

use super::array::DType;

/// One launch with its expected outcome.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// PTX files that hold the entry, below the folder of the fixtures; each is run.
    pub files: Vec<String>,
    /// The kernel.
    pub entry: String,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads a block in x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    #[serde(default)]
    pub shared: u32,
    /// Launches cooperatively: blocks wait for one another.
    #[serde(default)]
    pub cooperative: bool,
    /// One a parameter, in order.
    pub args: Vec<Arg>,
    /// The function that judges the outputs.
    pub reference: String,
    /// Numbers that the reference needs besides the arguments.
    #[serde(default)]
    pub with: BTreeMap<String, u64>,
    /// Counters that are exact arithmetic, by the name of their field.
    #[serde(default)]
    pub counters: BTreeMap<String, u64>,
    /// Expected findings of the checks, as `severity: kind`, each once; mostly none.
    #[serde(default)]
    pub findings: BTreeSet<String>,
    /// Expected output of `printf`.
    #[serde(default)]
    pub stdout: String,
}

impl Case {
    /// The architecture that a file was compiled for: the word before `.ptx`.
    ///
    /// # Panics
    /// If the file name has none.
    #[must_use]
    pub fn arch(file: &str) -> Arch {
        let stem = file.strip_suffix(".ptx").expect("a case names PTX files");
        let arch = stem.rsplit('.').next().expect("rsplit yields at least one part");
        arch.parse().unwrap_or_else(|e| panic!("{file}: {e}"))
    }
}

/// One argument.
#[expect(missing_docs, reason = "the names of the scalars are their types")]
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Arg {
    /// A buffer that the kernel reads.
    In(Buffer),
    /// A buffer that it reads and writes.
    Inout(Buffer),
    /// A buffer that it writes; uninitialised before.
    Out {
        /// Element type.
        dtype: DType,
        /// Extent in each dimension.
        shape: Vec<usize>,
    },
    /// A null pointer.
    Null,
    /// The bytes of a parameter, in hexadecimal digits.
    Bytes(String),
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(f32),
    F64(f64),
}

impl Arg {
    /// The bytes of a parameter that is no buffer; none for a buffer, whose address is not known
    /// here.
    #[must_use]
    pub fn scalar_bytes(&self) -> Vec<u8> {
        match self {
            Self::In(_) | Self::Inout(_) | Self::Out { .. } => Vec::new(),
            Self::Null => vec![0; 8],
            Self::Bytes(digits) => hex(digits),
            Self::U8(x) => x.to_le_bytes().to_vec(),
            Self::I8(x) => x.to_le_bytes().to_vec(),
            Self::U16(x) => x.to_le_bytes().to_vec(),
            Self::I16(x) => x.to_le_bytes().to_vec(),
            Self::U32(x) => x.to_le_bytes().to_vec(),
            Self::I32(x) => x.to_le_bytes().to_vec(),
            Self::U64(x) => x.to_le_bytes().to_vec(),
            Self::I64(x) => x.to_le_bytes().to_vec(),
            Self::F32(x) => x.to_le_bytes().to_vec(),
            Self::F64(x) => x.to_le_bytes().to_vec(),
        }
    }
}

fn hex(digits: &str) -> Vec<u8> {
    let pair = |i: usize| u8::from_str_radix(&digits[i..i + 2], 16).expect("bytes are pairs of hexadecimal digits");
    (0..digits.len()).step_by(2).map(pair).collect()
}

/// A buffer with its contents before the launch.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buffer {
    /// Element type.
    pub dtype: DType,
    /// Extent in each dimension.
    pub shape: Vec<usize>,
    /// Source of the elements.
    pub values: Values,
}

/// Sources of elements. Everything is a function of this value alone.
#[expect(missing_docs, reason = "the names of the fields say it")]
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Values {
    /// Uniform between the bounds, both included for integers.
    Random { seed: u64, low: f64, high: f64 },
    /// Uniform over all bit patterns.
    Bits { seed: u64 },
    /// Random sign and fraction, the exponent uniform between the bounds.
    Exponents { seed: u64, low: i32, high: i32 },
    /// start, start + 1, …
    Iota(f64),
    /// The same everywhere.
    Const(f64),
    /// These, from the start again when they are used up.
    Cycle(Vec<f64>),
}

/// Reads the list.
///
/// # Panics
/// If the file is missing or is not a list of cases; the message says where.
#[must_use]
pub fn read(path: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
