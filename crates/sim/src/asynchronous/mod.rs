//! Asynchronous copies and the barriers that they complete on.
//!
//! - [`thread_copies`]: what `cp.async` has begun and nothing has waited for, by warp; [`cp_async`]: its instructions.
//! - [`address`]: operands as full addresses; [`bytes`]: moving bytes of global memory.
//!
//! Asynchrony is real: data moves as late as the rules allow, at the wait that covers it, so that a missing wait gives a wrong
//! value as well as a finding.

pub(crate) mod address;
pub(crate) mod bytes;
pub(crate) mod cp_async;
pub(crate) mod thread_copies;

use thread_copies::WarpCopies;
use warpfold_ptx::Instruction;

use crate::Error;
use crate::decode::Decoder;

/// Decodes `cp.async` and its kin.
pub(crate) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    if inst.has("bulk") || inst.has("mbarrier") || inst.has("reduce") {
        return Err(d.unsupported(inst, "bulk copies and mbarriers are not executed"));
    }
    cp_async::decode(d, inst)
}

/// What a block has begun and not finished.
#[derive(Debug, Default)]
pub(crate) struct Asynchronous {
    /// Copies by `cp.async`, by warp.
    pub(crate) copies: Vec<WarpCopies>,
}

impl Asynchronous {
    /// Nothing is under way in a block of `warps` warps.
    pub(crate) fn begin(&mut self, warps: usize) {
        self.copies.resize_with(warps, WarpCopies::default);
        self.copies.iter_mut().for_each(WarpCopies::begin);
    }
}
