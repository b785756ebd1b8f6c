//! Asynchronous copies and the barriers that they complete on.
//!
//! - [`thread_copies`]: what `cp.async` has begun and nothing has waited for, by warp;
//!   [`cp_async`]: its instructions.
//! - [`barrier_object`]: the bits of an mbarrier; [`mbarrier`]: its instructions.
//! - [`bulk`] begins bulk copies, which [`transfers`] holds and moves; [`bulk_decode`] reads their
//!   many forms, [`tensor_box`] finds what belongs to a box of a tensor, [`reduce`] combines
//!   instead of replacing.
//! - [`thread_stores`]: `st.async` and `red.async`, which land as bulk copies do.
//! - [`tensormap`]: tensor maps that a kernel changes.
//! - [`settle`]: when copies land; [`luck`]: in which order, where a seed asks for another one.
//! - [`address`]: operands as full addresses; [`bytes`]: moving bytes of global memory.
//!
//! Asynchrony is real: data moves as late as the rules allow, at the wait that covers it, so that a
//! missing wait gives a wrong value as well as a finding.

pub(crate) mod address;
pub(crate) mod barrier_object;
mod bulk;
mod bulk_decode;
pub(crate) mod bytes;
pub(crate) mod cp_async;
pub(crate) mod luck;
pub(crate) mod mbarrier;
pub(crate) mod reduce;
pub(crate) mod settle;
pub(crate) mod tensor_box;
pub(crate) mod tensormap;
pub(crate) mod thread_copies;
pub(crate) mod thread_stores;
pub(crate) mod transfers;

use luck::Luck;
use thread_copies::{Arrival, WarpCopies};
use transfers::Store;
use warpfold_ptx::Instruction;

use crate::Error;
use crate::decode::Decoder;
use crate::exec::row::LANES;

/// Decodes `cp.async` and related instructions.
pub(crate) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    if inst.has("bulk") {
        return bulk_decode::decode(d, inst);
    }
    if inst.has("mbarrier") {
        return mbarrier::decode_copy_arrive(d, inst);
    }
    cp_async::decode(d, inst)
}

/// Asynchronous operations of a block that have not completed.
#[derive(Debug, Default)]
pub(crate) struct Asynchronous {
    /// Draws of the order in which copies land.
    pub(crate) luck: Luck,
    /// Copies by `cp.async`, per warp.
    pub(crate) copies: Vec<WarpCopies>,
    /// Arrivals that follow these copies.
    pub(crate) arrivals: Vec<Arrival>,
    /// Bulk stores.
    pub(crate) stores: Vec<Store>,
    /// Bulk groups that each lane of each warp has committed.
    pub(crate) bulk_groups: Vec<[u32; LANES]>,
    /// The lanes whose phase is complete, in the last wait at an mbarrier.
    pub(crate) complete: u32,
    /// The barriers at which the other lanes wait.
    pub(crate) waited_for: Vec<u32>,
    /// True if a phase was completed that a lane may be waiting for.
    pub(crate) woken: bool,
}

impl Asynchronous {
    /// Resets the state for a block of `warps` warps.
    pub(crate) fn begin(&mut self, warps: usize, luck: Luck) {
        self.luck = luck;
        self.copies.resize_with(warps, WarpCopies::default);
        self.copies.iter_mut().for_each(WarpCopies::begin);
        self.arrivals.clear();
        self.stores.clear();
        self.bulk_groups.clear();
        self.bulk_groups.resize(warps, [0; LANES]);
        self.woken = false;
    }
}
