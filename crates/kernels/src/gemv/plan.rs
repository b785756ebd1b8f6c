//! Which kernels compute a product, and how they are launched.

use std::fmt;

use warpfold_device::{LaunchConfig, Limits};

use super::columns::{self, FINISH, Tile};
use super::{Access, BLOCK, RESIDENT_BLOCKS, Shape, split};
use crate::{Dtype, Error, ErrorKind};

/// Which product it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Product {
    /// `y = A x`: a result for each row.
    MatrixVector,
    /// `y = x A`: a result for each column.
    VectorMatrix,
}

/// A product, as far as its plan needs to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Which product.
    pub product: Product,
    /// The element type of all three: `f16`, `bf16`, `f32` or `f64`.
    pub dtype: Dtype,
    /// Rows of the matrix.
    pub rows: u64,
    /// Columns of the matrix, which lie side by side.
    pub columns: u64,
    /// Elements from one row to the next: any number, also 0 and less.
    pub row_stride: i64,
    /// A power of two that the addresses of matrix and vector are multiples of, in bytes.
    pub alignment: u64,
}

/// The kernel that reads the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// Lanes of a warp share rows.
    Rows(Shape),
    /// A block takes a row, or a part of one.
    Split(Access),
    /// Threads go down the columns.
    Columns(Tile),
}

/// What is launched for a [`Problem`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Plan {
    /// What it is for.
    pub problem: Problem,
    /// The kernel that reads the matrix.
    pub code: Code,
    /// Its launch; none where there is no result.
    pub launch: Option<LaunchConfig>,
    /// Rows (of `x A`) or columns (of `A x`) that a block takes.
    pub part: u64,
    /// In how many parts they come; the sums of several are added by a second launch.
    pub num_parts: u32,
}

/// The most columns that a thread counts in 32 bits, with room for one step beyond them.
const MAX_PART: u64 = 1 << 31;

/// The most blocks that share a row or a column: the second launch adds so many numbers in a row.
const MAX_PARTS: u64 = 1024;

impl Plan {
    /// Chooses.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for an element type without kernels, [`ErrorKind::Operand`] for more rows or columns than
    /// a grid reaches.
    pub fn new(problem: Problem, limits: &Limits) -> Result<Self, Error> {
        let Problem { product, dtype, rows, columns, .. } = problem;
        if !matches!(dtype, Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64) {
            return Err(ErrorKind::Unsupported { op: "gemv".to_owned(), dtype }.into());
        }
        if rows > i64::MAX as u64 || columns > i64::MAX as u64 {
            return Err(refused(format!("{rows} x {columns} elements are more than can be addressed")));
        }
        match product {
            Product::MatrixVector if prefers_lanes(&problem, limits) => Self::by_lanes(problem, limits),
            Product::MatrixVector => Self::by_blocks(problem, limits),
            Product::VectorMatrix => Self::down_columns(problem, limits),
        }
    }

    fn by_lanes(problem: Problem, limits: &Limits) -> Result<Self, Error> {
        let access = problem.access();
        let lanes = problem.accesses_of_row().next_power_of_two().min(32) as u32;
        // Four rows a lane share each load of the vector, unless there are too few rows for that.
        let fills_device = problem.rows / 4 * u64::from(lanes) >= threads_wanted(limits);
        let (rows, unroll) = if fills_device { (4, 1) } else { (1, 4) };
        let shape = Shape { lanes, rows, unroll, access };
        let blocks = problem.rows.div_ceil(u64::from(shape.rows_of_block()));
        let launch = grid(blocks, 1)?;
        Ok(Self { problem, code: Code::Rows(shape), launch, part: problem.columns, num_parts: 1 })
    }

    fn by_blocks(problem: Problem, limits: &Limits) -> Result<Self, Error> {
        let access = problem.access();
        // A part gives each thread one round at least.
        let round = u64::from(BLOCK * split::UNROLL) * problem.width();
        let (part, num_parts) = parts(problem.columns, problem.rows, round, limits);
        if part > MAX_PART {
            return Err(refused(format!("{} columns are too many", problem.columns)));
        }
        let launch = grid(problem.rows, num_parts)?;
        Ok(Self { problem, code: Code::Split(access), launch, part, num_parts })
    }

    fn down_columns(problem: Problem, limits: &Limits) -> Result<Self, Error> {
        let is_whole = problem.columns.is_multiple_of(u64::from(vector_width(problem.dtype)));
        let access = if is_whole { problem.access() } else { Access::Scalar };
        let width = if access == Access::Vector { u64::from(vector_width(problem.dtype)) } else { 1 };
        let lanes = problem.columns.div_ceil(width).next_power_of_two().min(32) as u32;
        let tile = Tile { lanes, access };
        let tiles = problem.columns.div_ceil(u64::from(lanes) * width);
        let round = u64::from(tile.threads_of_column() * columns::UNROLL);
        let (part, num_parts) = parts(problem.rows, tiles, round, limits);
        let launch = grid(tiles, num_parts)?;
        Ok(Self { problem, code: Code::Columns(tile), launch, part, num_parts })
    }

    /// Elements of the result.
    #[must_use]
    pub const fn num_results(&self) -> u64 {
        match self.problem.product {
            Product::MatrixVector => self.problem.rows,
            Product::VectorMatrix => self.problem.columns,
        }
    }

    /// The launch that adds the sums of the parts, if there are several.
    #[must_use]
    pub fn finish(&self) -> Option<LaunchConfig> {
        let blocks = self.num_results().div_ceil(u64::from(FINISH.lanes));
        // As many blocks as in the first launch at most, which fit a grid.
        (self.num_parts > 1).then(|| LaunchConfig::new(u32::try_from(blocks).unwrap_or(u32::MAX), BLOCK))
    }

    /// Words of 64 bits between the two launches.
    #[must_use]
    pub const fn workspace_words(&self) -> u64 {
        let acc_bytes = if matches!(self.problem.dtype, Dtype::F64) { 8 } else { 4 };
        if self.num_parts > 1 { (self.num_parts as u64 * self.num_results() * acc_bytes).div_ceil(8) } else { 0 }
    }

    /// The additions that a product goes through at most: its share of the error bound.
    #[must_use]
    pub fn depth(&self) -> u64 {
        let log2 = |n: u32| u64::from(n.next_power_of_two().ilog2());
        let width = self.problem.width();
        let in_thread = |len: u64, threads: u32, width: u64| len.div_ceil(u64::from(threads) * width) * width + width;
        let in_first = match self.code {
            Code::Rows(shape) => in_thread(self.part, shape.lanes, width) + log2(shape.lanes),
            Code::Split(_) => in_thread(self.part, BLOCK, width) + log2(BLOCK),
            Code::Columns(tile) => in_thread(self.part, tile.threads_of_column(), 1) + log2(tile.threads_of_column()),
        };
        let threads = FINISH.threads_of_column();
        in_first + if self.num_parts > 1 { in_thread(self.num_parts.into(), threads, 1) + log2(threads) } else { 0 }
    }

    /// Bytes of the matrix that a multiprocessor has under way: those that its threads ask for before they use any.
    #[must_use]
    pub fn bytes_in_flight(&self) -> u64 {
        let (accesses, access) = match self.code {
            Code::Rows(shape) => (shape.rows * shape.unroll, shape.access),
            Code::Split(access) => (split::UNROLL, access),
            Code::Columns(tile) => (columns::UNROLL, tile.access),
        };
        let bytes = if access == Access::Vector { 16 } else { self.problem.dtype.bytes() };
        u64::from(RESIDENT_BLOCKS * BLOCK * accesses) * bytes
    }
}

impl Problem {
    /// 16 bytes at a time if every row begins at a multiple of them.
    fn access(&self) -> Access {
        let is_aligned = self.row_stride % i64::from(vector_width(self.dtype)) == 0 || self.rows <= 1;
        if self.alignment >= 16 && is_aligned { Access::Vector } else { Access::Scalar }
    }

    /// Elements of an access.
    fn width(&self) -> u64 {
        if self.access() == Access::Vector { vector_width(self.dtype).into() } else { 1 }
    }

    fn accesses_of_row(&self) -> u64 {
        self.columns.div_ceil(self.width()).max(1)
    }
}

/// Elements in 16 bytes.
fn vector_width(dtype: Dtype) -> u32 {
    (16 / dtype.bytes()) as u32
}

/// Threads that have enough under way to keep the device busy.
fn threads_wanted(limits: &Limits) -> u64 {
    u64::from(limits.num_sms) * u64::from(RESIDENT_BLOCKS * BLOCK)
}

/// Whether rows are short, or so many that a warp a row keeps the device busy.
fn prefers_lanes(problem: &Problem, limits: &Limits) -> bool {
    let is_short = problem.accesses_of_row() <= u64::from(BLOCK);
    let are_many = problem.rows.saturating_mul(32) >= threads_wanted(limits);
    problem.columns <= MAX_PART && (is_short || are_many)
}

/// In which parts so many rows or columns are taken, where `others` blocks are there anyway: as many parts as fill the
/// device twice, each of whole rounds.
fn parts(len: u64, others: u64, round: u64, limits: &Limits) -> (u64, u32) {
    let wanted = u64::from(2 * RESIDENT_BLOCKS * limits.num_sms).div_ceil(others.max(1));
    let num_parts = wanted.min(len / round).clamp(1, MAX_PARTS);
    if num_parts == 1 {
        return (len, 1);
    }
    let part = len.div_ceil(num_parts).next_multiple_of(round);
    (part, len.div_ceil(part) as u32)
}

fn grid(x: u64, y: u32) -> Result<Option<LaunchConfig>, Error> {
    if x == 0 {
        return Ok(None);
    }
    let blocks = i32::try_from(x).map_err(|_| refused(format!("{x} blocks are more than a grid has")))?;
    Ok(Some(LaunchConfig::new((blocks.unsigned_abs(), y), BLOCK)))
}

pub(super) fn refused(reason: String) -> Error {
    ErrorKind::Operand { operator: "gemv", reason }.into()
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { product, dtype, rows, columns, .. } = self.problem;
        match product {
            Product::MatrixVector => write!(f, "{dtype} [{rows}, {columns}] x [{columns}]: ")?,
            Product::VectorMatrix => write!(f, "{dtype} [{rows}] x [{rows}, {columns}]: ")?,
        }
        let access = match self.code {
            Code::Rows(Shape { lanes, rows, unroll, access }) => {
                write!(f, "{lanes} lanes take {rows} row(s), {unroll} access(es) of each at a time")?;
                access
            }
            Code::Split(access) => {
                write!(f, "a block takes {} column(s) of a row", self.part)?;
                access
            }
            Code::Columns(Tile { lanes, access }) => {
                write!(f, "{lanes} lanes side by side take {} row(s)", self.part)?;
                access
            }
        };
        let bytes = if access == Access::Vector { 16 } else { dtype.bytes() };
        let blocks: u64 = self.launch.map_or(0, |launch| launch.grid.iter().map(|n| u64::from(*n)).product());
        write!(f, ", {bytes} bytes an access, {blocks} block(s) of {BLOCK}")?;
        if self.num_parts > 1 {
            write!(f, ", then the sums of {} parts", self.num_parts)?;
        }
        Ok(())
    }
}
