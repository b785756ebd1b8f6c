//! Every form of `cvt` against a soft-float crate and wide integers.

mod floats;
mod integers;
mod pack;
mod packed;
#[path = "../instructions_float/reference.rs"]
mod reference;
mod refused;
mod types;
