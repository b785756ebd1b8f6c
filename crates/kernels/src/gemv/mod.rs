//! The product of a matrix and a vector, on either side: `y = A x` and `y = x A`.
//!
//! Contract: a row-major matrix of any number of rows and columns, 0 included, whose rows lie any number of elements
//! apart, also 0 (one row many times) and less (rows in reverse); vector and result without gaps. A sum of nothing
//! is 0. Halves are multiplied and added in `f32` and rounded once, at the end; NaN and infinities go through as in
//! any sum. The order of additions follows from the plan alone, so that results repeat bit for bit; no float is added
//! by an atomic.
//!
//! Accuracy: `|error| <= d u / (1 - d u) * sum |a||x|` with the unit roundoff `u` of the type that is added in and the
//! plan's [`depth`](Plan::depth) `d`, plus half an ulp of the result for halves.
//!
//! Start with [`Plan::new`] and [`launch()`]. Three kernels read matrices: lanes of a warp share a row (the last rung of
//! the ladder, for many rows or short ones), blocks share a row (few long ones), threads go down the columns (`x A`). The
//! last two leave sums of parts where one block a result would leave the device idle; a second launch adds those.

mod columns;
mod dot;
mod element;
mod instance;
mod launch;
mod plan;
mod reference;
mod shape;
mod split;

pub mod ladder;

pub use columns::{Columns, FINISH, Finish, Tile, columns, finish};
pub use element::{Access, Element};
pub use ladder::LADDER;
pub use launch::{Operands, launch};
pub use plan::{Code, Plan, Problem, Product};
pub use reference::{Reference, product};
pub use shape::Shape;
pub use split::{Split, split};

use half::{bf16, f16};

use crate::AnyKernel;
use ladder::planned;

/// Threads a block.
pub const BLOCK: u32 = 256;

/// Blocks that fit a multiprocessor at once, at least: no kernel takes more than 80 registers a thread.
///
/// The kernels that share rows between lanes do not promise it to `ptxas` (12.9 and 13.0): told so, it unrolls until it
/// spills, left alone it takes 74. The others do: left alone, some are squeezed into 32 registers and spill.
pub const RESIDENT_BLOCKS: u32 = 3;

/// A kernel of each kind, narrow and wide, for the list of all kernels.
pub(crate) fn kernels() -> Vec<AnyKernel> {
    let wide = Shape { lanes: 32, rows: 4, unroll: 1, access: Access::Vector };
    let narrow = Shape { lanes: 4, rows: 1, unroll: 4, access: Access::Scalar };
    let tile = Tile { lanes: 32, access: Access::Vector };
    vec![
        planned::<f32>(narrow).into(),
        planned::<f64>(wide).into(),
        planned::<bf16>(wide).into(),
        split::<f32, f32>(Access::Vector).into(),
        split::<f16, f32>(Access::Vector).into(),
        split::<f64, f64>(Access::Scalar).into(),
        columns::<f32, f32>(tile).into(),
        columns::<f64, f64>(Tile { lanes: 1, access: Access::Scalar }).into(),
        columns::<f16, f16>(tile).into(),
        finish::<f32>().into(),
        finish::<bf16>().into(),
    ]
}
