//! The ladders: their form, what they print and become, what they compute.

mod assemble;
mod gemm;
mod gemv;
mod ladder_form;
mod snapshots;
