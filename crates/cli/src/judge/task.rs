//! A task: a kernel, what it is to compute, and on what.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::expression::{Number, Sizes};
use super::reference::python;
use crate::failure::Failure;
use crate::host;
use crate::measure::case::Dtype;
use crate::measure::values::{Values, next};

/// A task as its file has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Task {
    /// The file of the kernel: .ptx, .cu, .py (Triton) or .rs.
    pub(super) kernel: Option<PathBuf>,
    /// PTX, in place of a file.
    pub(super) ptx: Option<String>,
    /// The kernel's name, where the PTX has several.
    pub(super) entry: Option<String>,
    /// Blocks in x, y, z.
    pub(super) grid: Vec<Number>,
    /// Threads a block in x, y, z; Triton and Rust say it themselves.
    #[serde(default)]
    pub(super) block: Vec<Number>,
    /// Bytes of dynamic shared memory.
    pub(super) shared: Option<Number>,
    /// Sizes by name: a number, or what the sizes of hidden cases are drawn from.
    #[serde(default)]
    pub(super) sizes: BTreeMap<String, Size>,
    /// The parameters in order.
    pub(super) args: Vec<Arg>,
    /// A NumPy or PyTorch expression of the arguments' names, a .py file with a function
    /// `reference`, or an .npy file.
    pub(super) reference: String,
    #[serde(default)]
    pub(super) tolerance: Tolerance,
    /// Hidden cases: sizes and values that are drawn after submission.
    #[serde(default = "three")]
    pub(super) cases: usize,
}

const fn three() -> usize {
    3
}

/// A size.
#[derive(Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(super) enum Size {
    Fixed(i64),
    Drawn {
        /// The size of the first case.
        default: i64,
        /// The least and the greatest of hidden cases.
        range: [i64; 2],
        /// The number that sizes are multiples of.
        #[serde(default = "one")]
        multiple_of: i64,
    },
}

const fn one() -> i64 {
    1
}

/// The share of an error that passes.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Tolerance {
    pub(super) absolute: f64,
    pub(super) relative: f64,
}

impl Default for Tolerance {
    fn default() -> Self {
        Self { absolute: 1e-5, relative: 1e-5 }
    }
}

/// A parameter: an array where it has a shape, or else a number.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arg {
    pub(super) name: String,
    pub(super) dtype: Dtype,
    pub(super) shape: Option<Vec<Number>>,
    #[serde(default)]
    pub(super) role: Role,
    /// The bounds of values, which are drawn from the seed of a case; −1 and 1, or 0 and 100.
    pub(super) range: Option<[f64; 2]>,
    /// Values that are the same in all cases.
    pub(super) values: Option<Values>,
    /// The value of a number.
    pub(super) value: Option<Number>,
}

/// The part an array plays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Role {
    #[default]
    In,
    Out,
    InOut,
}

/// Sizes and the seed of values.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) sizes: Sizes,
    pub(super) seed: u64,
}

/// Bytes of an argument in a case.
#[derive(Debug, Clone)]
pub(super) struct Content {
    pub(super) data: Vec<u8>,
    pub(super) shape: Vec<usize>,
}

/// Elements of an array at most.
const MOST: usize = 1 << 28;

impl Task {
    /// Reads a task, TOML or JSON.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let at = |reason: &dyn std::fmt::Display| Failure::usage(format!("{}: {reason}", path.display()));
        let text = host::read_to_string(path).map_err(|error| at(&error))?;
        let value = match path.extension().and_then(|end| end.to_str()) {
            Some("toml") => {
                let script = "import json, sys, tomllib; print(json.dumps(tomllib.loads(sys.stdin.read())))";
                let printed = python(&["-c", script], text.as_bytes()).map_err(|error| at(&error))?;
                serde_json::from_slice(&printed).map_err(|error| at(&error))?
            }
            _ => serde_json::from_str(&text).map_err(|error| at(&error))?,
        };
        Self::of(value).map_err(|error| at(&error))
    }

    pub(super) fn of(value: Value) -> Result<Self, Failure> {
        let task: Self = serde_json::from_value(value).map_err(|error| Failure::usage(format!("task: {error}")))?;
        if task.kernel.is_some() == task.ptx.is_some() {
            return Err(Failure::usage("task: either `kernel` or `ptx` is needed"));
        }
        if !task.args.iter().any(|arg| arg.role != Role::In) {
            return Err(Failure::usage("task: no argument has the role \"out\" or \"inout\""));
        }
        for arg in &task.args {
            if arg.shape.is_some() == arg.value.is_some() || (arg.value.is_some() && arg.role != Role::In) {
                let name = &arg.name;
                return Err(Failure::usage(format!("task: argument {name} needs a shape, or a value and no role")));
            }
        }
        for (name, size) in &task.sizes {
            if let Size::Drawn { range: [low, high], multiple_of, .. } = size
                && (*multiple_of < 1 || high.div_euclid(*multiple_of) * multiple_of < *low)
            {
                return Err(Failure::usage(format!("task: no size {name} is in its range")));
            }
        }
        Ok(task)
    }

    /// The first case, the same sizes with other values, then drawn sizes.
    pub(super) fn cases(&self, seed: u64) -> Vec<Case> {
        let mut state = seed;
        let fixed = |_: &str, size: &Size| match size {
            Size::Fixed(size) | Size::Drawn { default: size, .. } => *size,
        };
        let sizes: Sizes = self.sizes.iter().map(|(name, size)| (name.clone(), fixed(name, size))).collect();
        let mut cases = vec![Case { sizes: sizes.clone(), seed: 1 }];
        for hidden in 0..self.cases {
            let mut case = Case { sizes: sizes.clone(), seed: next(&mut state) };
            for (name, size) in self.sizes.iter().filter(|_| hidden > 0) {
                if let Size::Drawn { range: [low, high], multiple_of: step, .. } = size {
                    let first = (low + step - 1).div_euclid(*step);
                    let count = (high.div_euclid(*step) - first + 1).unsigned_abs();
                    case.sizes.insert(name.clone(), (first + (next(&mut state) % count).cast_signed()) * step);
                }
            }
            cases.push(case);
        }
        cases
    }
}

impl Arg {
    /// The argument's bytes in a case; those of an output are zeros.
    pub(super) fn content(&self, case: &Case, at: usize) -> Result<Content, Failure> {
        let named = |reason: String| Failure::usage(format!("task: argument {}: {reason}", self.name));
        let Some(shape) = &self.shape else {
            let value = self.value.as_ref().expect("it was checked").float(&case.sizes).map_err(named)?;
            return Ok(Content { data: Values::Const(value).bytes(self.dtype, 1), shape: Vec::new() });
        };
        let size = |number: &Number| {
            let size = number.integer(&case.sizes)?;
            usize::try_from(size).map_err(|_| format!("a size of {size}"))
        };
        let shape: Vec<usize> = shape.iter().map(size).collect::<Result<_, _>>().map_err(named)?;
        let len = shape.iter().try_fold(1_usize, |len, &n| len.checked_mul(n)).filter(|&len| len <= MOST);
        let len = len.ok_or_else(|| named(format!("more than {MOST} elements")))?;
        if self.role == Role::Out {
            return Ok(Content { data: vec![0; len * self.dtype.bytes()], shape });
        }
        let [low, high] = self.range.unwrap_or(if self.dtype.is_float() { [-1.0, 1.0] } else { [0.0, 100.0] });
        let mut seed = case.seed ^ (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let drawn = Values::Random { seed: next(&mut seed), low, high };
        Ok(Content { data: self.values.as_ref().unwrap_or(&drawn).bytes(self.dtype, len), shape })
    }
}
