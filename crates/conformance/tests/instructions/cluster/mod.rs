//! Proofs of what clusters add to PTX: special registers, addresses, accesses to peers, at once and
//! asynchronous, barriers, register exchange, and what a launch refuses.

mod accesses;
mod asynchronous;
mod harness;
mod launches;
mod refused;
mod registers;
