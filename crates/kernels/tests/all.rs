//! Families of kernels in one program: libraries are linked once, no core waits for a last test.

mod assemble;
#[path = "conv/main.rs"]
mod conv;
#[path = "folds/main.rs"]
mod folds;
mod gemv;
mod histogram;
#[path = "map_of_tensors/main.rs"]
mod map_of_tensors;
#[path = "matmul/main.rs"]
mod matmul;
mod nms;
#[path = "operations/main.rs"]
mod operations;
#[path = "reductions/main.rs"]
mod reductions;
