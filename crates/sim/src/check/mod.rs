//! Races and uninitialised reads: the checker that the interpreter drives while it runs a block.
//!
//! Start in [`block`]: a [`BlockCheck`] belongs to one resident block, is told of every checked
//! access and of every instruction that synchronises, and puts what it finds into [`Findings`]. A
//! [`LaunchCheck`] is what the blocks of one launch share; a [`GlobalShadow`] is the state of one
//! global allocation and outlives launches.
//! - [`access`]: the vocabulary (kind, strength, semantics, scope). [`findings`]: the rules.
//! - [`order`]: happens-before, inside a block and between blocks.
//! - [`shared`]: the shadow of a block's shared memory, and the judgement of accesses to it.
//! - [`global`]: the same for global memory, for the shared memory of a cluster's other blocks, and
//!   for launches that overlap.
//! - [`async_proxy`]: asynchronous copies in flight, and the fences between the proxies.
//!
//! Model: FastTrack (Flanagan and Freund, PLDI 2009): a location remembers its last write and,
//! until they are concurrent, its last read; vector clocks say what an access knows of. The rules
//! are those of the PTX ISA, chapter "Memory Consistency Model". What deviates and what can be
//! missed stands at the head of each file; one rule holds in all: a simplification may lose a
//! finding, never invent one.
//!
//! Absent on purpose: addresses out of bounds (the interpreter finds those before it calls).

mod access;
mod async_proxy;
mod block;
mod findings;
mod global;
mod order;
mod shared;
#[cfg(test)]
mod tests;

pub(crate) use self::{
    access::{Access, FenceKind, Kind, Pattern, Space, Strength, Values},
    block::BlockCheck,
    findings::{Findings, Found, HandedOn, Rule, Side},
    global::{
        cluster::{ClusterMemory, PeerUse, Released, byte_of_block},
        dependence::Past,
        records::{DeviceCheck, LaunchCheck},
        shadow::GlobalShadow,
    },
    shared::lines::WarpAccess,
};
