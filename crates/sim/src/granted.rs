//! Memory ranges that a launch may access, from the borrows of its slices.

/// A memory range that a launch may access, from the borrow of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    /// Address of the first byte.
    pub address: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// True if kernels may write it, too.
    pub writable: bool,
}
