//! Races and uninitialised reads: the checker that the interpreter drives while it runs a block.
//!
//! Start in [`block`]: a [`BlockCheck`] belongs to one resident block, is told of every checked access and of every
//! instruction that synchronises, and puts what it finds into [`Findings`]. A [`LaunchCheck`] is what the blocks of one
//! launch share; a [`GlobalShadow`] is the state of one global allocation and outlives launches.
//! - [`access`]: the vocabulary (kind, strength, semantics, scope).
//! - [`order`]: happens-before inside a block (warps, lanes, barriers, fences, release and acquire), by the clocks of
//!   [`clock`] and what [`flags`] in memory carry.
//! - [`shared`]: the shadow of shared memory, judged by [`visit`]. [`packed`] is its record, [`split`] holds words whose
//!   bytes went different ways, [`marks`] a set of records.
//! - [`phases`]: order through mbarriers and bulk copies, and what proxy fences cover.
//! - [`flight`]: what asynchronous copies still write or read of shared memory. [`proxies`]: what of global memory they must not
//!   touch without a proxy fence; [`maps`]: the same for tensor maps that kernels change.
//! - [`reach`], [`grid`] and [`locations`]: happens-before between blocks.
//! - [`contexts`], [`readers`], [`global`]: who touched global memory, lists of readers, and the shadow; [`numbers`] deals
//!   out their numbers; [`quick`] and [`between`] judge accesses by them.
//! - [`dependence`]: what a programmatic launch does before it waits for the one before it.
//!
//! Model: FastTrack (Flanagan and Freund, PLDI 2009): a location remembers its last write and, until they are concurrent,
//! its last read; vector clocks say what an access knows of. The rules are those of the PTX ISA, chapter "Memory
//! Consistency Model". What deviates and what can be missed stands at the head of each file; one rule holds in all:
//! a simplification may lose a finding, never invent one.
//!
//! - [`cluster`]: the shared memory of a cluster's blocks, and their barrier.
//!
//! Absent on purpose: races between two warps of one block in global memory, addresses out of
//! bounds (the interpreter finds those before it calls).

mod access;
mod between;
mod block;
mod clock;
mod cluster;
mod contexts;
mod dependence;
mod findings;
mod flags;
mod flight;
mod global;
mod grid;
mod locations;
mod maps;
mod marks;
mod numbers;
mod order;
mod packed;
mod phases;
mod proxies;
mod quick;
mod reach;
mod readers;
mod shared;
mod split;
#[cfg(test)]
mod tests;
mod visit;

pub(crate) use self::{
    access::{Access, Kind, Scope, Semantics, Space, Strength, Values},
    block::BlockCheck,
    cluster::{ClusterMemory, PeerUse, Released, byte_of_block},
    contexts::{DeviceCheck, LaunchCheck},
    dependence::Past,
    findings::{Findings, Found, Rule, Side},
    global::GlobalShadow,
};
