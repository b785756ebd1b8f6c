//! Memory: pointers, arrays in shared and local memory, atomics.
//!
//! A [`Pointer`] is typed and knows its space. `at(i)` moves it by elements, `get` and `set` access
//! what it points to: `output.at(i).set(input.at(i).get())`. [`Cache`] and [`Scope`] say how an
//! access treats caches and other threads.

mod array;
mod atomic;
mod copy;
mod pointer;

pub use array::{dynamic_shared, local, shared, shared_named};
pub use atomic::{Atomic, AtomicAdd, AtomicBits, Reduction};
pub use copy::{commit_copies, wait_for_copies};
pub(crate) use pointer::Window;
pub use pointer::{
    ClusterSpace, Distributed, Global, GlobalSpace, Index, Local, LocalSpace, Pointer, Shared, SharedSpace, Space,
};

pub use warpfold_ptx::{Order, Scope};

use crate::intrinsics::sync;
use crate::recorder::with;

/// Cache behaviour of loads and stores (PTX ISA, "Cache Operators", "Cache Eviction Priority
/// Hints"). All but the first two are hints for global memory: they never change a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Cache {
    /// The default of the hardware.
    #[default]
    Default,
    /// Every access is performed, in program order: `.volatile`.
    Volatile,
    /// Nothing writes this memory while the kernel runs: `.nc`. Loads only.
    ReadOnly,
    /// `.nc` and not kept in L1: data that is read once. Loads only.
    ReadOnlyStreaming,
    /// Probably used once: `.cs`.
    Streaming,
    /// Not in L1: `.cg`.
    L2Only,
    /// Not needed after this: `.lu`. Loads only.
    LastUse,
    /// First to leave L1.
    EvictFirst,
    /// Last to leave L1.
    EvictLast,
    /// Not kept in L1.
    NoAllocate,
}

/// Orders this thread's earlier accesses before its later ones, as seen by the threads of the scope
/// (`fence.acq_rel`).
#[track_caller]
pub fn fence(scope: Scope) {
    with(|r| sync::fence(r, scope));
}

/// Like [`fence`], with a single total order of all such fences (`fence.sc`); slower.
#[track_caller]
pub fn fence_sequential(scope: Scope) {
    with(|r| sync::fence_sequential(r, scope));
}
