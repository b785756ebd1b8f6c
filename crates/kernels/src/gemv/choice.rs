//! Which kernel reads the matrix, and how it is launched.

use std::fmt;

use warpfold_device::{LaunchConfig, Limits};

use super::columns::{self, Tile};
use super::{BLOCK, RESIDENT_BLOCKS, RESIDENT_BLOCKS_OF_LANES, Shape, split};
use crate::plan::{OperandSpec, grid_size};
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
pub enum Algorithm {
    /// Lanes of a warp share rows.
    Rows(Shape),
    /// A block takes a row, or a part of one, with accesses of this many elements.
    Split(u32),
    /// Threads go down the columns.
    Columns(Tile),
}

/// How a product is computed: a value to print and to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Choice {
    /// What it is for.
    pub problem: Problem,
    /// The kernel that reads the matrix.
    pub algorithm: Algorithm,
    /// Its launch; none where there is no result.
    pub launch: Option<LaunchConfig>,
    /// Rows (of `x A`) or columns (of `A x`) that a block takes.
    pub part: u64,
    /// In how many parts they come; the sums of several are added by a second launch.
    pub num_parts: u32,
}

// THRESHOLD: longer rows go to blocks, and longer parts are refused; tested by
// crates/kernels/tests/parts/choices.rs::a_thread_counts_the_columns_of_a_matrix_in_32_bits
/// The most columns that a thread counts in 32 bits, with room for one step beyond them.
const MAX_PART: u64 = 1 << 31;

// THRESHOLD: a lane takes one row with several accesses in flight; tested by
// crates/kernels/tests/gemv.rs::many_rows_share_the_loads_of_the_vector
/// Accesses of a lane from which on it takes one row with several of them in flight, rather than
/// two rows with one each. On an H200 (2026-11-20, driver 580, 1 GiB of f32) two rows reached 4,367
/// GB/s of 1,024 columns and 4,037 of 16,384; one row with four accesses 4,396 and 4,276, and of 4
/// columns 3,708 where two rows reach 3,875.
const LONG_ROW: u64 = 16;

/// Rows that a thread goes down at least, before others share its columns.
const ROWS_A_THREAD: u64 = 16;

/// Rows of a part of a column at least: each part leaves a sum for each column, of up to twice an
/// element's bytes.
const ROWS_A_PART: u64 = 64;

// THRESHOLD: parts are longer; tested by
// crates/kernels/tests/parts/choices.rs::a_row_is_shared_by_no_more_blocks_than_one_launch_adds_the_sums_of
/// The most blocks that share a row or a column: the second launch adds that many numbers in a row.
const MAX_PARTS: u64 = 1024;

impl Choice {
    /// Chooses.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for an element type without kernels, [`ErrorKind::Operand`] for
    /// more rows or columns than a grid reaches.
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
        let width = problem.width();
        let accesses = problem.columns.div_ceil(u64::from(width)).max(1);
        let lanes = accesses.next_power_of_two().min(32) as u32;
        let of_lane = accesses.div_ceil(u64::from(lanes));
        // Two short rows share each load of the vector, unless there are too few rows for that;
        // long ones have work of their own to have in flight.
        let fills_device = problem.rows / 2 * u64::from(lanes) >= threads_wanted(limits);
        let (rows, unroll) = if fills_device && of_lane <= LONG_ROW { (2, 1) } else { (1, floor_to_power(of_lane, 4)) };
        let shape = Shape { lanes, rows, unroll, width };
        let blocks = problem.rows.div_ceil(u64::from(shape.rows_of_block()));
        let launch = grid(blocks, 1)?;
        Ok(Self { problem, algorithm: Algorithm::Rows(shape), launch, part: problem.columns, num_parts: 1 })
    }

    fn by_blocks(problem: Problem, limits: &Limits) -> Result<Self, Error> {
        let width = problem.width();
        // A part gives each thread one round at least.
        let round = u64::from(BLOCK * split::UNROLL * width);
        let (part, num_parts) = parts(problem.columns, problem.rows, round, limits);
        if part > MAX_PART {
            return Err(refused(format!("{} columns are too many", problem.columns)));
        }
        let launch = grid(problem.rows, num_parts)?;
        Ok(Self { problem, algorithm: Algorithm::Split(width), launch, part, num_parts })
    }

    fn down_columns(problem: Problem, limits: &Limits) -> Result<Self, Error> {
        let width = floor_to_power(1 << problem.columns.trailing_zeros().min(4), problem.width());
        // Threads beyond those that stand side by side share columns, if there are rows enough for
        // them.
        let sharing = floor_to_power(problem.rows / ROWS_A_THREAD, BLOCK / 32);
        let lanes =
            problem.columns.div_ceil(u64::from(width)).next_power_of_two().min(u64::from(BLOCK / sharing)) as u32;
        let tile = Tile { lanes, width };
        let tiles = problem.columns.div_ceil(u64::from(tile.columns()));
        // A part of few rows would leave as much as it reads.
        let round = u64::from(tile.threads_of_column() * columns::UNROLL).max(ROWS_A_PART);
        let (part, num_parts) = parts(problem.rows, tiles, round, limits);
        let launch = grid(tiles, num_parts)?;
        Ok(Self { problem, algorithm: Algorithm::Columns(tile), launch, part, num_parts })
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
    pub fn reduce(&self) -> Option<LaunchConfig> {
        let blocks = self.num_results().div_ceil(u64::from(self.reduce_lanes()));
        // The results of several parts are few: they were to fill a device.
        (self.num_parts > 1).then(|| LaunchConfig::new(u32::try_from(blocks).unwrap_or(u32::MAX), BLOCK))
    }

    /// Results side by side in a block of that launch.
    pub(super) fn reduce_lanes(&self) -> u32 {
        self.num_results().next_power_of_two().min(32) as u32
    }

    /// Bytes of the sums between the two launches.
    pub(super) const fn sums_bytes(&self) -> u64 {
        let acc_bytes = if matches!(self.problem.dtype, Dtype::F64) { 8 } else { 4 };
        if self.num_parts > 1 { self.num_parts as u64 * self.num_results() * acc_bytes } else { 0 }
    }

    /// The additions that a product goes through at most: its share of the error bound.
    #[must_use]
    pub fn depth(&self) -> u64 {
        let log2 = |n: u32| u64::from(n.next_power_of_two().ilog2());
        let in_thread = |len: u64, threads: u32, width: u32| {
            len.div_ceil(u64::from(threads * width)) * u64::from(width) + u64::from(width)
        };
        let in_first = match self.algorithm {
            Algorithm::Rows(shape) => in_thread(self.part, shape.lanes, shape.width) + log2(shape.lanes),
            Algorithm::Split(width) => in_thread(self.part, BLOCK, width) + log2(BLOCK),
            Algorithm::Columns(tile) => {
                in_thread(self.part, tile.threads_of_column(), 1) + log2(tile.threads_of_column())
            }
        };
        let threads = BLOCK / self.reduce_lanes();
        in_first + if self.num_parts > 1 { in_thread(self.num_parts.into(), threads, 1) + log2(threads) } else { 0 }
    }

    /// Bytes of the matrix that an SM has in flight: those that its threads ask for before they use
    /// any.
    #[must_use]
    pub fn bytes_in_flight(&self) -> u64 {
        let blocks = match self.algorithm {
            Algorithm::Rows(_) => RESIDENT_BLOCKS_OF_LANES,
            Algorithm::Split(_) | Algorithm::Columns(_) => RESIDENT_BLOCKS,
        };
        u64::from(blocks * BLOCK) * self.bytes_in_flight_a_thread()
    }

    /// The same of a thread.
    pub(super) fn bytes_in_flight_a_thread(&self) -> u64 {
        let elements = match self.algorithm {
            Algorithm::Rows(shape) => shape.rows * shape.unroll * shape.width,
            Algorithm::Split(width) => split::UNROLL * width,
            Algorithm::Columns(tile) => columns::UNROLL * tile.width,
        };
        u64::from(elements) * self.problem.dtype.bytes()
    }
}

impl Problem {
    /// The product of a matrix of any strides, rows then columns, with a column on its right: rows
    /// that lie side by side are taken as they are, columns as the rows of the transposed matrix.
    /// `None` if neither do.
    #[must_use]
    pub const fn of_strides(dtype: Dtype, [m, k]: [u64; 2], strides: [i64; 2], alignment: u64) -> Option<Self> {
        let (product, rows, columns, row_stride) = match strides {
            [down, 1] => (Product::MatrixVector, m, k, down),
            [1, across] => (Product::VectorMatrix, k, m, across),
            _ => return None,
        };
        Some(Self { product, dtype, rows, columns, row_stride, alignment })
    }

    /// Matrix, vector and result, as a launch takes them.
    pub(super) fn operands(&self) -> Result<[OperandSpec; 3], Error> {
        let Self { product, dtype, rows, columns, row_stride, alignment } = *self;
        let (in_vector, in_result) = match product {
            Product::MatrixVector => (columns, rows),
            Product::VectorMatrix => (rows, columns),
        };
        let before_last = rows.saturating_sub(1).checked_mul(row_stride.unsigned_abs());
        let in_matrix =
            if rows == 0 || columns == 0 { Some(0) } else { before_last.and_then(|n| n.checked_add(columns)) };
        let spec = |name, elements: Option<u64>, alignment| {
            let bytes = elements.and_then(|elements| elements.checked_mul(dtype.bytes()));
            let bytes = bytes.ok_or_else(|| refused(format!("the {name} is larger than any memory")))?;
            Ok::<_, Error>(OperandSpec::new(name, bytes, alignment))
        };
        Ok([
            spec("matrix", in_matrix, alignment.min(16))?,
            spec("vector", Some(in_vector), alignment.min(16))?,
            spec("result", Some(in_result), dtype.bytes())?,
        ])
    }

    /// Elements of an access: 16 bytes, or as many as every row begins at a multiple of.
    fn width(&self) -> u32 {
        let in_16_bytes = 16 / self.dtype.bytes();
        let of_rows = if self.rows <= 1 { 16 } else { 1 << self.row_stride.trailing_zeros().min(4) };
        floor_to_power((self.alignment / self.dtype.bytes()).min(of_rows), in_16_bytes as u32)
    }
}

/// The largest power of two up to `n` and up to `most`; 1 at least.
fn floor_to_power(n: u64, most: u32) -> u32 {
    1 << n.min(u64::from(most)).max(1).ilog2()
}

/// Threads that have enough in flight to keep the device busy.
fn threads_wanted(limits: &Limits) -> u64 {
    u64::from(limits.num_sms) * u64::from(RESIDENT_BLOCKS * BLOCK)
}

/// Whether rows are short, or enough of them that a warp per row keeps the device busy.
fn prefers_lanes(problem: &Problem, limits: &Limits) -> bool {
    let is_short = problem.columns <= u64::from(BLOCK * problem.width());
    let are_many = problem.rows.saturating_mul(32) >= threads_wanted(limits);
    problem.columns <= MAX_PART && (is_short || are_many)
}

/// In which parts rows or columns are taken, where `others` blocks are there anyway: as many parts
/// as fill the device some times, each of whole rounds.
fn parts(len: u64, others: u64, round: u64, limits: &Limits) -> (u64, u32) {
    let filled = u64::from(RESIDENT_BLOCKS * limits.num_sms);
    // Half a device more would wait for a whole round of blocks: with many others, parts are finer.
    let rounds = if others > filled / 8 { 6 } else { 2 };
    let wanted = if others >= 2 * filled { 1 } else { (rounds * filled).div_ceil(others.max(1)) };
    let num_parts = wanted.min(len / round).clamp(1, MAX_PARTS);
    if num_parts == 1 {
        return (len, 1);
    }
    let part = len.div_ceil(num_parts).next_multiple_of(round);
    (part, len.div_ceil(part) as u32)
}

fn grid(x: u64, y: u32) -> Result<Option<LaunchConfig>, Error> {
    Ok((x > 0).then_some(LaunchConfig::new((grid_size(x)?, y), BLOCK)))
}

pub(super) fn refused(reason: String) -> Error {
    ErrorKind::Operand { operator: "gemv", reason }.into()
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { product, dtype, rows, columns, .. } = self.problem;
        match product {
            Product::MatrixVector => write!(f, "{dtype} [{rows}, {columns}] x [{columns}]: ")?,
            Product::VectorMatrix => write!(f, "{dtype} [{rows}] x [{rows}, {columns}]: ")?,
        }
        let width = match self.algorithm {
            Algorithm::Rows(Shape { lanes, rows, unroll, width }) => {
                write!(f, "{lanes} lanes take {rows} row(s), {unroll} access(es) of each at a time")?;
                width
            }
            Algorithm::Split(width) => {
                write!(f, "a block takes {} column(s) of a row", self.part)?;
                width
            }
            Algorithm::Columns(Tile { lanes, width }) => {
                write!(f, "{lanes} threads side by side take {} row(s)", self.part)?;
                width
            }
        };
        let bytes = u64::from(width) * dtype.bytes();
        let blocks: u64 = self.launch.map_or(0, |launch| launch.grid.iter().map(|n| u64::from(*n)).product());
        write!(f, ", {bytes} bytes per access, {blocks} block(s) of {BLOCK}")?;
        if self.num_parts > 1 {
            write!(f, ", then the sums of {} parts", self.num_parts)?;
        }
        Ok(())
    }
}
