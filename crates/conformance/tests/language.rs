//! What each operation of the kernel language computes, on every device at hand, against Rust's own
//! arithmetic.

#[path = "language/clusters.rs"]
mod clusters;
#[path = "language/eight_bits.rs"]
mod eight_bits;
#[path = "language/floats.rs"]
mod floats;
#[path = "language/functions.rs"]
mod functions;
#[path = "language/harness.rs"]
mod harness;
#[path = "language/integers.rs"]
mod integers;
#[path = "language/quad.rs"]
mod quad;
#[path = "language/threads.rs"]
mod threads;
