//! Where handlers and synchronising instructions meet the checker.

use super::machine::Machine;
use super::op::Op;
use super::row::LANES;
use crate::memory_ops::access::{Access, Direction};

impl Machine {
    /// What lies at an offset of shared memory.
    pub(crate) fn describe_shared(&self, offset: u64) -> String {
        format!("shared memory+{offset:#x}")
    }

    /// Checks a warp's access to global memory.
    pub(crate) fn check_global<D: Direction>(&mut self, _: &Op, _: Access, _: &[u64; LANES], _: u32) {}

    /// Checks one lane's atomic on global memory.
    pub(crate) fn check_global_atomic(&mut self, _: &Op, _: Access, _: u64, _: usize) {}

    /// Checks a warp's access to shared memory; gives the lanes that may go on.
    pub(crate) fn check_shared<D: Direction>(&mut self, _: &Op, _: Access, _: &[u32; LANES], mask: u32) -> u32 {
        mask
    }

    /// Checks one lane's atomic on shared memory.
    pub(crate) fn check_shared_atomic(&mut self, _: &Op, _: Access, _: u32, _: usize) -> bool {
        true
    }

    /// Notes a fence.
    pub(crate) fn check_fence(&mut self, _: i64, _: u32) {}
}
