//! Tensor cores: products of small matrices held by a warp (PTX ISA, "Warp Level Matrix
//! Instructions").
//!
//! Reading order: [`element`] (what matrices are made of), [`fragment`] (how they lie in
//! registers), [`product`] (the one routine behind them), [`aligned`] (how floats are added),
//! [`mma`] and its form of sm_70 in [`quads`], [`matrix`] (moves between shared memory and
//! fragments); then [`wgmma`], its [`descriptor`]s, the [`queue`] of what is in flight, and
//! [`warpgroup`], which does the work, and [`rules`] of checked runs; then [`wmma`] and
//! [`wmma_memory`].
//!
//! # Arithmetic
//! Products are exact. Floats are added as the hardware of the device does it ([`aligned`]):
//! several products and the accumulator in one step, aligned to the largest, truncated, and
//! rounded once. For sm_90 that gives the bits of an H200; the rules of sm_80 to sm_89 are those
//! of the literature (`CALIBRATION.md`, "Sums of tensor cores"). A NaN is always the canonical
//! one. `.f64` is a chain of fused multiply-adds in the order of K, and so is `mma.m8n8k4` of
//! `.f16`.
//!
//! Absent: sparse matrices and whatever sm_100 added, which decode to errors.

pub(crate) mod aligned;
pub(crate) mod descriptor;
pub(crate) mod element;
pub(crate) mod fragment;
pub(crate) mod matrix;
pub(crate) mod mma;
pub(crate) mod product;
pub(crate) mod quads;
pub(crate) mod queue;
pub(crate) mod rules;
mod warpgroup;
pub(crate) mod wgmma;
pub(crate) mod wmma;
pub(crate) mod wmma_memory;

use warpfold_ptx::{Instruction, Opcode, Operand};

use crate::Error;
use crate::decode::Decoder;
use crate::exec::machine::{Fault, Machine};
use crate::exec::op::{Handler, Op};
use crate::exec::row::ALL_LANES;
use crate::report::{FindingKind, Severity};

/// Operands of instructions that have more of them than an operation has fields; `Op::imm` is an
/// index into these tables.
#[derive(Debug, Default, Clone)]
pub(crate) struct Tables {
    /// Operands of `mma`.
    pub mma: Vec<mma::Mma>,
    /// Operands of `mma.m8n8k4` of `.f16`.
    pub quads: Vec<quads::Quads>,
    /// Operands of `wgmma.mma_async`.
    pub wgmma: Vec<wgmma::Tile>,
    /// Operands of `wmma.mma`.
    pub wmma: Vec<wmma::Wmma>,
    /// Positions of the elements of `wmma.load` and `wmma.store`.
    pub positions: Vec<wmma_memory::Position>,
    /// Handler that waits for every `wgmma` in flight, if there can be any.
    pub finish: Option<Handler>,
}

/// Decodes a tensor-core instruction. The guard was turned into a branch around it.
pub(crate) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    match inst.opcode {
        Opcode::Mma => mma::decode(d, inst),
        Opcode::Ldmatrix | Opcode::Stmatrix => matrix::decode(d, inst),
        Opcode::Wgmma => wgmma::decode(d, inst),
        Opcode::Movmatrix => matrix::decode_transpose(d, inst),
        _ if inst.has("mma") => wmma::decode(d, inst),
        _ if inst.has("load") || inst.has("store") => wmma_memory::decode(d, inst),
        _ => Err(d.unsupported(inst, "no such wmma")),
    }
}

impl Decoder<'_> {
    /// The elements of a vector operand; a single register counts as a vector of one.
    fn vector<'i>(&self, inst: &'i Instruction, index: usize, len: usize) -> Result<&'i [Operand], Error> {
        let elements = match self.operand(inst, index)? {
            Operand::Vector(elements) => elements.as_slice(),
            lone => std::slice::from_ref(lone),
        };
        if elements.len() == len {
            return Ok(elements);
        }
        Err(self.invalid(inst, format!("operand {} must be a vector of {len}, not {}", index + 1, elements.len())))
    }

    /// Ends the block with an operation of the whole warp (`.sync.aligned`).
    fn whole_warp(&mut self, inst: &Instruction, op: Op) -> Result<(), Error> {
        if !inst.has("sync") || !inst.has("aligned") {
            return Err(self.invalid(inst, "needs .sync.aligned"));
        }
        let members = self.constant32(ALL_LANES);
        self.exchange(inst, Some(op), members)
    }
}

/// A handler that does nothing, for operations that only name an instruction.
///
/// # Safety
/// None is needed.
unsafe fn nothing(_: &mut Machine, _: &Op, _: u32) {}

/// Notes missing lanes, with which an `.aligned` instruction is undefined.
#[inline(always)]
pub(crate) fn expect_whole_warp(m: &mut Machine, op: &Op, mask: u32) {
    if mask != ALL_LANES && m.checked {
        missing_lanes(m, op, mask);
    }
}

#[cold]
fn missing_lanes(m: &mut Machine, op: &Op, mask: u32) {
    let fault = Fault {
        kind: FindingKind::InvalidSync,
        severity: Severity::Error,
        instruction: op.instruction,
        block: m.block,
        thread: m.thread(mask.trailing_zeros()),
        address: None,
        other: None,
        rule: format!("an aligned instruction of a warp without its lanes {:#010x}", !mask),
    };
    m.fault(fault, false);
}
