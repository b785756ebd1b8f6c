//! Scans of tensors of any layout: planned, launched, checked, and compared with a plain loop.

mod bench;
mod layouts;
mod shared;
mod sums;
mod two_inputs;
