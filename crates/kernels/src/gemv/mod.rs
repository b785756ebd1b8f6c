//! The product of a matrix and a vector, on either side: `y = A x` and `y = x A`.
//!
//! Contract: a row-major matrix of any number of rows and columns, 0 included, with any row stride,
//! also 0 (one row repeated) and negative; vector and result contiguous. A sum of nothing is 0. f16
//! and bf16 are multiplied and added in `f32` and rounded once, at the end; NaN and infinities
//! propagate. The order of additions follows from the choice alone, so that results repeat bit for
//! bit; no float is added by an atomic.
//!
//! Accuracy: `|error| <= d u / (1 - d u) * sum |a||x|` with the unit roundoff `u` of the type that
//! is added in and the choice's [`depth`](Choice::depth) `d`, plus half an ulp of the result for
//! f16 and bf16.
//!
//! Start with [`Gemv`] and [`Choice::new`]. Three kernels read matrices: lanes of a warp share a
//! row (many rows or short ones), blocks share a row (few long ones), threads go down the columns
//! (`x A`). The last two leave partial sums where one block per result would leave the device idle
//! (split-K); a second launch adds those.

mod choice;
mod columns;
mod dot;
mod element;
mod family;
mod reference;
mod rows;
mod shape;
mod split;

pub use choice::{Algorithm, Choice, Problem, Product};
use columns::{Columns, Tile, columns, reduce_parts};
pub use element::Element;
pub use family::Gemv;
pub use reference::Reference;
pub use rows::rows;
pub use shape::Shape;
use split::{Split, split};

use half::{bf16, f16};

use crate::{AnyKernel, Shipped};

/// Threads per block.
pub(crate) const BLOCK: u32 = 256;

/// Blocks that fit an SM at once, at least, of the kernels in which blocks share rows or go down
/// columns: they promise it to `ptxas`, which would squeeze some into 32 registers and spill.
const RESIDENT_BLOCKS: u32 = 3;

/// The same of the kernel whose lanes share rows. It takes 40 registers per thread at most when
/// `ptxas` (12.9, 13.0) is left alone; told how many it may take, it unrolls until it spills.
const RESIDENT_BLOCKS_OF_LANES: u32 = 6;

/// A kernel of each kind, narrow and wide, for the list of all kernels.
pub(crate) fn kernels() -> Vec<Shipped> {
    let wide = |width| Shape { lanes: 32, rows: 2, unroll: 1, width };
    let narrow = Shape { lanes: 4, rows: 1, unroll: 4, width: 1 };
    let tile = |lanes, width| Tile { lanes, width };
    // With the bytes of the matrix that a thread has in flight.
    let kernels: [(AnyKernel, Option<u32>); 11] = [
        (rows::<f32>(narrow).into(), Some(16)),
        (rows::<f64>(wide(2)).into(), Some(32)),
        (rows::<bf16>(wide(8)).into(), Some(32)),
        (split::<f32, f32>(4).into(), Some(16 * split::UNROLL)),
        (split::<f16, f32>(8).into(), Some(16 * split::UNROLL)),
        (split::<f64, f64>(1).into(), Some(8 * split::UNROLL)),
        (columns::<f32, f32>(tile(32, 4)).into(), Some(16 * columns::UNROLL)),
        (columns::<f64, f64>(tile(1, 1)).into(), Some(8 * columns::UNROLL)),
        (columns::<f16, f16>(tile(256, 8)).into(), Some(16 * columns::UNROLL)),
        (reduce_parts::<f32>(32).into(), None),
        (reduce_parts::<bf16>(1).into(), None),
    ];
    let shipped = |(kernel, in_flight): (_, Option<u32>)| Shipped { kernel, in_flight: in_flight.map(u64::from) };
    kernels.into_iter().map(shipped).collect()
}
