//! Memory: loads, stores, atomics, moves and address arithmetic, with their counters.

pub(crate) mod access;
pub(crate) mod atomic;
mod combine;
pub(crate) mod distributed;
mod flags;
pub(crate) mod global;
pub(crate) mod local;
pub(crate) mod moves;
pub(crate) mod pattern;
pub(crate) mod shared;
