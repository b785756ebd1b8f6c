//! Decoded instructions, and the machine's interface to their handlers.
//!
//! Straight-line instructions are decoded to a pointer to a handler that runs one warp instruction
//! over all its lanes. Every operand is a row of the register file: immediates and special
//! registers have rows of their own, filled when a frame starts, so that a handler never asks what
//! kind of operand it has.

use super::machine::Machine;
use super::row::{ALL_LANES, LANES, Lane, Word, blend, mask_of};

/// Runs one warp instruction for the lanes of `mask`.
///
/// # Safety
/// `op` was decoded for the frame that `machine.frame` points to, and the host has the CPU features
/// of the level that the handler was compiled for.
pub(crate) type Handler = unsafe fn(machine: &mut Machine, op: &Op, mask: u32);

/// No row, no predicate.
pub(crate) const NONE: u32 = u32::MAX;

/// A decoded straight-line instruction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Op {
    /// Handler that runs it.
    pub run: Handler,
    /// Guard predicate index, or [`NONE`].
    pub guard: u32,
    /// True for `@!p`.
    pub guard_negated: bool,
    /// True for the first operation of its instruction.
    pub leads: bool,
    /// Destination row (or predicate index, for handlers that write predicates).
    pub dst: u32,
    /// Second destination (predicate index or row), or [`NONE`].
    pub dst2: u32,
    /// Source rows.
    pub a: u32,
    /// Source rows.
    pub b: u32,
    /// Source rows.
    pub c: u32,
    /// Source rows.
    pub d: u32,
    /// An operand of the handler: byte offset, lookup table, flags.
    pub imm: i64,
    /// Index into the program's table of instructions, for counters and findings.
    pub instruction: u32,
}

impl Op {
    /// An operation with nothing but a handler.
    pub(crate) fn new(run: Handler) -> Self {
        Self {
            run,
            guard: NONE,
            guard_negated: false,
            leads: false,
            dst: NONE,
            dst2: NONE,
            a: NONE,
            b: NONE,
            c: NONE,
            d: NONE,
            imm: 0,
            instruction: 0,
        }
    }
}

/// A straight-line operation, compiled for each level of CPU features.
pub(crate) trait LaneOp: 'static {
    /// Runs it for the lanes of `mask`. Implementations are `#[inline(always)]`.
    ///
    /// # Safety
    /// As for [`Handler`].
    unsafe fn run(machine: &mut Machine, op: &Op, mask: u32);
}

/// CPU features that handlers are compiled for, chosen when a program is decoded.
///
/// NOTE: there is no level for AVX-512. The code that LLVM makes of loops over masks is slower with
/// it: the `reduce` ladder at 2^25 elements took 9.95 s of processor time against 8.67 s with AVX2
/// (Sapphire Rapids, 2026-11-20).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// The build's target features.
    Base,
    /// AVX2, FMA, F16C, BMI.
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Level {
    /// The best level this host has.
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = std::arch::is_x86_feature_detected!("avx2")
                && std::arch::is_x86_feature_detected!("fma")
                && std::arch::is_x86_feature_detected!("f16c")
                && std::arch::is_x86_feature_detected!("bmi1")
                && std::arch::is_x86_feature_detected!("bmi2")
                && std::arch::is_x86_feature_detected!("lzcnt")
                && std::arch::is_x86_feature_detected!("popcnt");
            if avx2 { Self::Avx2 } else { Self::Base }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            Self::Base
        }
    }

    /// The handler of `F` compiled for this level.
    pub(crate) fn handler<F: LaneOp>(self) -> Handler {
        match self {
            Self::Base => F::run,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => avx2::<F>,
        }
    }
}

/// # Safety
/// As for [`Handler`]; the host has the features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn avx2<F: LaneOp>(machine: &mut Machine, op: &Op, mask: u32) {
    // SAFETY: the caller's promise is passed on.
    unsafe { F::run(machine, op, mask) }
}

impl Machine {
    /// The 32 lanes of a register.
    ///
    /// # Safety
    /// `row` is the first row of a register of `W`'s width in the current frame.
    #[inline(always)]
    pub(crate) unsafe fn lanes<W: Word>(&self, row: u32) -> *mut [W; LANES] {
        // SAFETY: the frame holds the row, and rows are aligned to 64 bytes.
        unsafe { self.frame.add(row as usize).cast::<[W; LANES]>() }
    }

    /// Reads all lanes of a register.
    ///
    /// # Safety
    /// As for [`Machine::lanes`].
    #[inline(always)]
    pub(crate) unsafe fn read<W: Word>(&self, row: u32) -> [W; LANES] {
        // SAFETY: passed on.
        unsafe { *self.lanes::<W>(row) }
    }

    /// Writes the lanes of `mask`.
    ///
    /// # Safety
    /// As for [`Machine::lanes`].
    #[inline(always)]
    pub(crate) unsafe fn write<W: Word>(&mut self, row: u32, values: &[W; LANES], mask: u32) {
        // SAFETY: passed on; nothing else refers to the frame while a handler runs.
        let lanes = unsafe { &mut *self.lanes::<W>(row) };
        if mask == ALL_LANES {
            *lanes = *values;
        } else {
            *lanes = blend(mask, values, lanes);
        }
    }

    /// The lanes in which a predicate is true.
    ///
    /// # Safety
    /// `predicate` is a predicate of the current frame.
    #[inline(always)]
    pub(crate) unsafe fn predicate(&self, predicate: u32) -> u32 {
        // SAFETY: the frame holds the predicate.
        unsafe { *self.predicates.add(predicate as usize) }
    }

    /// Sets a predicate in the lanes of `mask`; nothing for [`NONE`].
    ///
    /// # Safety
    /// `predicate` is [`NONE`] or a predicate of the current frame.
    #[inline(always)]
    pub(crate) unsafe fn set_predicate(&mut self, predicate: u32, values: u32, mask: u32) {
        if predicate != NONE {
            // SAFETY: the frame holds the predicate.
            let p = unsafe { &mut *self.predicates.add(predicate as usize) };
            *p = (*p & !mask) | (values & mask);
        }
    }
}

/// `dst = f(a)` in each lane.
///
/// # Safety
/// As for [`Handler`]; `op.a` and `op.dst` are registers of these types' widths.
#[inline(always)]
pub(crate) unsafe fn map1<A: Lane, D: Lane>(m: &mut Machine, op: &Op, mask: u32, f: impl Fn(A) -> D) {
    // SAFETY: passed on.
    unsafe {
        let a = &*m.lanes::<A::Bits>(op.a);
        let mut out = [D::Bits::default(); LANES];
        for lane in 0..LANES {
            out[lane] = f(A::from_bits(a[lane])).to_bits();
        }
        m.write(op.dst, &out, mask);
    }
}

/// `dst = f(a, b)` in each lane.
///
/// # Safety
/// As for [`map1`].
#[inline(always)]
pub(crate) unsafe fn map2<A: Lane, B: Lane, D: Lane>(m: &mut Machine, op: &Op, mask: u32, f: impl Fn(A, B) -> D) {
    // SAFETY: passed on.
    unsafe {
        let a = &*m.lanes::<A::Bits>(op.a);
        let b = &*m.lanes::<B::Bits>(op.b);
        let mut out = [D::Bits::default(); LANES];
        for lane in 0..LANES {
            out[lane] = f(A::from_bits(a[lane]), B::from_bits(b[lane])).to_bits();
        }
        m.write(op.dst, &out, mask);
    }
}

/// `dst = f(a, b, c)` in each lane.
///
/// # Safety
/// As for [`map1`].
#[inline(always)]
pub(crate) unsafe fn map3<A: Lane, B: Lane, C: Lane, D: Lane>(
    m: &mut Machine,
    op: &Op,
    mask: u32,
    f: impl Fn(A, B, C) -> D,
) {
    // SAFETY: passed on.
    unsafe {
        let a = &*m.lanes::<A::Bits>(op.a);
        let b = &*m.lanes::<B::Bits>(op.b);
        let c = &*m.lanes::<C::Bits>(op.c);
        let mut out = [D::Bits::default(); LANES];
        for lane in 0..LANES {
            out[lane] = f(A::from_bits(a[lane]), B::from_bits(b[lane]), C::from_bits(c[lane])).to_bits();
        }
        m.write(op.dst, &out, mask);
    }
}

/// Mask of the lanes that satisfy `f(a, b)`.
///
/// # Safety
/// As for [`map1`].
#[inline(always)]
pub(crate) unsafe fn test2<A: Lane, B: Lane>(m: &Machine, op: &Op, f: impl Fn(A, B) -> bool) -> u32 {
    // SAFETY: passed on.
    unsafe {
        let a = &*m.lanes::<A::Bits>(op.a);
        let b = &*m.lanes::<B::Bits>(op.b);
        mask_of(|lane| f(A::from_bits(a[lane]), B::from_bits(b[lane])))
    }
}
