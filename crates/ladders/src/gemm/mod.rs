//! Matrix product on CUDA cores: `c[i, j] = sum over l of a[i, l] * b[l, j]`, row-major, in single
//! precision.
//!
//! Contract of the ladder: `a` is `m` x `k`, `b` is `k` x `n`, `c` is `m` x `n`, of any sizes from
//! 1 on; rows begin at multiples of 16 bytes ([`row_len`]), and what a row is filled up with is
//! zero. `c` overlaps neither input. Each output is one chain of fused multiply-adds in the order
//! of `l`, so every rung gives the same bits.
//!
//! The ladder shows how a product becomes fast; the product that tensors use is in
//! [`matmul`](warpfold_kernels::matmul).

mod instance;
pub mod ladder;

pub use instance::row_len;
pub use ladder::{LADDER, SIZES};
