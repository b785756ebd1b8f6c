//! Proofs of what clusters add to PTX: special registers, addresses, accesses to peers, barriers, register exchange, and what a
//! launch refuses.

mod accesses;
mod harness;
mod launches;
mod refused;
mod registers;
