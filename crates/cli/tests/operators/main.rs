//! Every operator of the program against the reference of the conformance suite, as a user meets
//! it: arrays in files, one process for a family of thousands of small cases.
//!
//! The cases are written from the issue and from NumPy's and ONNX's documents, not from the
//! kernels. They run on the device that `WARPFOLD_DEVICE` names, else on the virtual GPU. What a
//! family finds is in its folder, `disagreements.txt`.

mod data;
mod program;
mod shapes;
mod suite;

mod bad_input;
mod convolution;
mod elementwise;
mod extremes;
mod known;
mod matrix;
mod moves;
mod odd;
mod products;
mod rows;
mod scans;
mod sums;
