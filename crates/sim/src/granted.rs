//! The parts of memory that a launch is given, as the borrows of slices give them.

/// A part of an allocation that a launch was given, as the borrow of a slice gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    /// Its first byte.
    pub address: u64,
    /// Its length.
    pub bytes: u64,
    /// True if kernels may write it, too.
    pub writable: bool,
}
