//! Tests of collectives, sharded tensors, peers and what happens when a rank fails.

mod collectives;
mod failures;
mod peer_races;
mod processes;
#[cfg(target_os = "linux")]
mod repeat;
mod sharded;
