//! Every floating-point instruction against a soft-float crate, or, where the ISA states an error,
//! against `f64`.

mod approx;
mod arithmetic;
mod divide;
mod half;
mod minmax;
pub(crate) mod reference;
mod refused;
mod sign;
