//! Every form of `cvt` against a soft-float crate and wide integers.

mod floats;
mod integers;
mod pack;
mod packed;
mod refused;
mod types;

use crate::instructions::float::reference;
