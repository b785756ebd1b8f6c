//! Proofs of asynchronous copies and barriers: the virtual GPU against references that share no
//! code with it.

mod bulk;
mod copies;
mod harness;
mod mbarrier;
mod seeds;
mod tensor;
mod tensor_maps;
