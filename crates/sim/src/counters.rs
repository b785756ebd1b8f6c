//! The tables of counters: counts per instruction, and the totals of a report.
//!
//! A counter is a row. [`AccessCounters`] is counted by the handlers, per instruction; a row of
//! [`Counters`] names the counts it adds up, and the classes of instructions it takes them from.

use std::ops::Add;

use crate::exec::code::Class;

/// Declares counters: a structure of `u64` with a sum.
macro_rules! counters {
    ($(#[$about:meta])* $vis:vis struct $Name:ident { $($(#[$doc:meta])* $name:ident,)+ }) => {
        $(#[$about])*
        $vis struct $Name {
            $($(#[$doc])* pub $name: u64,)+
        }

        impl Add for $Name {
            type Output = Self;

            fn add(self, other: Self) -> Self {
                Self { $($name: self.$name + other.$name,)+ }
            }
        }
    };
}

/// Declares the totals: each row with the classes of instructions, and which of their counts.
macro_rules! totals {
    ($(#[$about:meta])* $vis:vis struct $Name:ident {
        $($(#[$doc:meta])* $name:ident: [$($class:ident),*] $count:ident,)+
    }) => {
        counters! { $(#[$about])* $vis struct $Name { $($(#[$doc])* $name,)+ } }

        impl $Name {
            /// Adds what one instruction of a class counted.
            pub(crate) fn count(&mut self, class: Class, counts: &AccessCounters) {
                $(if [$(Class::$class),*].contains(&class) {
                    self.$name += counts.$count;
                })+
            }
        }
    };
}

counters! {
    /// Counts of one instruction, mainly of its memory accesses.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub(crate) struct AccessCounters {
        /// Executions by warps; basic blocks count them, and they are filled in at the end.
        executions,
        /// Warp requests to global memory.
        global_requests,
        /// Sectors of those.
        sectors,
        /// Bytes accessed by the active lanes.
        global_bytes,
        /// Warp requests to shared memory.
        shared_requests,
        /// Wavefronts of those.
        wavefronts,
        /// Wavefronts beyond the ideal.
        conflicts,
        /// Warp requests to local memory.
        local_requests,
        /// Warp requests to distributed shared memory.
        distributed_requests,
        /// Branches: executions that diverged.
        divergent,
        /// Lanes whose guard was false.
        guarded_off,
        /// Sectors looked up in the L1 model, if it is enabled.
        l1_sectors,
        /// L1 sectors that hit.
        l1_hits,
    }
}

totals! {
    /// Totals of one launch, with the meaning of the corresponding Nsight Compute metrics.
    ///
    /// An asynchronous copy from global to shared memory counts as a global load and a shared
    /// store. (The profiler counts it apart from plain accesses, in the same units.)
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Counters {
        /// Warp instructions executed (`inst_executed`), of PTX, not of machine code.
        warp_instructions: [] executions,
        /// Active lanes summed over them (`thread_inst_executed`), predicated-off lanes included.
        thread_instructions: [] executions,
        /// Lanes whose guard was true, summed (`thread_inst_executed_pred_on`).
        predicated_on_thread_instructions: [] executions,
        /// Branch instructions executed by warps.
        branches: [Branch] executions,
        /// Branch executions that diverged.
        divergent_branches: [Branch] divergent,
        /// Shared loads: warp requests.
        shared_load_requests: [Load] shared_requests,
        /// Shared loads: wavefronts.
        shared_load_wavefronts: [Load] wavefronts,
        /// Shared loads: wavefronts beyond the ideal.
        shared_load_bank_conflicts: [Load] conflicts,
        /// Shared stores: warp requests.
        shared_store_requests: [Store, Copy] shared_requests,
        /// Shared stores: wavefronts.
        shared_store_wavefronts: [Store, Copy] wavefronts,
        /// Shared stores: wavefronts beyond the ideal.
        shared_store_bank_conflicts: [Store, Copy] conflicts,
        /// Global loads: warp requests.
        global_load_requests: [Load, Copy] global_requests,
        /// Global loads: 32-byte sectors.
        global_load_sectors: [Load, Copy] sectors,
        /// Global loads: bytes accessed by all active lanes.
        global_load_bytes: [Load, Copy] global_bytes,
        /// Global stores: warp requests.
        global_store_requests: [Store] global_requests,
        /// Global stores: 32-byte sectors.
        global_store_sectors: [Store] sectors,
        /// Global stores: bytes accessed by all active lanes.
        global_store_bytes: [Store] global_bytes,
        /// Global loads and stores: sectors looked up in the model of the L1; 0 unless
        /// [`Options::l1`](crate::Options::l1) asks for it.
        l1_sectors: [Load, Store, Copy] l1_sectors,
        /// Global loads and stores: sectors that hit in the L1 model.
        l1_hit_sectors: [Load, Store, Copy] l1_hits,
        /// Local loads and stores: warp requests.
        local_requests: [Load, Store, Atomic, Copy, Branch, Barrier, WarpSync, Other] local_requests,
        /// Warp requests of `atom` and `red` on global memory.
        global_atomics: [Atomic] global_requests,
        /// Warp requests of `atom` and `red` on shared memory.
        shared_atomics: [Atomic] shared_requests,
        /// Atomics on shared memory: turns that lanes take at a bank beyond the ideal, be it at one
        /// word or at several.
        shared_atomic_bank_conflicts: [Atomic] conflicts,
        /// Loads, stores and atomics in the shared memory of other blocks of the cluster: warp
        /// requests, one per block.
        distributed_requests: [Load, Store, Atomic, Copy, Branch, Barrier, WarpSync, Other] distributed_requests,
        /// Barriers of blocks and clusters (`bar`, `barrier`) executed by warps.
        barriers: [Barrier] executions,
        /// Warp-level synchronising instructions (`bar.warp.sync`, `shfl.sync`, `vote.sync`, …)
        /// executed by warps.
        warp_syncs: [WarpSync] executions,
    }
}

impl Counters {
    /// Hit rate of the L1 model by sectors (`l1tex__t_sector_hit_rate`); `None` unless it was
    /// enabled.
    #[must_use]
    pub fn l1_hit_rate(&self) -> Option<f64> {
        (self.l1_sectors > 0).then(|| self.l1_hit_sectors as f64 / self.l1_sectors as f64)
    }
}
