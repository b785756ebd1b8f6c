//! Attention on the virtual GPU under every check: each option against sums in `f64` at the lengths
//! around every boundary, and the contract that no bit of a row depends on the batch, the chunking,
//! the split of its keys or the pages.

mod reference;
mod sequences;
mod support;

mod banks;
mod cache;
mod combined;
mod contract;
mod graphs;
mod options;
mod paged;
mod splits;
