//! Vector addition: `sum[i] = a[i] + b[i]` for `i` below `len`.
//!
//! Contract: three arrays of `len` elements, aligned to 16 bytes, of which `sum` overlaps neither
//! input. Results are exact: one addition an element, rounded to nearest even for floats.

pub mod ladder;

mod instance;
mod reference;

pub use ladder::LADDER;
