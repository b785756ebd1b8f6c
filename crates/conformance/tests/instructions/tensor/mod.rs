//! Every tensor-core instruction against plain loops over the fragment layouts of the PTX ISA.

mod harness;
mod layout;
mod ldmatrix;
mod mma;
mod number;
mod quads;
mod refused;
mod shared_matrix;
mod special;
mod wgmma;
mod wmma;
