//! Matrix product: `c[i, j] = sum over l of a[i, l] * b[l, j]`, row-major, in single precision.
//!
//! Contract: `a` is `m` x `k`, `b` is `k` x `n`, `c` is `m` x `n`, of any sizes; `c` overlaps neither input. Each
//! output is one chain of fused multiply-adds in the order of `l`.

mod shared;

pub use shared::{Gemm, TILE, launch_config, shared};
