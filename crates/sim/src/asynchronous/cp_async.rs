//! `cp.async`, its groups and waits (PTX ISA, "Non-bulk copy").

use warpfold_ptx::{Instruction, Operand, ScalarType as T, Scope};

use super::address::address_row;
use super::thread_copies::Copy;
use crate::Error;
use crate::decode::Decoder;
use crate::exec::code::Class;
use crate::exec::lanes;
use crate::exec::machine::{Fault, Machine};
use crate::exec::memory_map::SHARED_WINDOW;
use crate::exec::op::{LaneOp, NONE, Op};
use crate::exec::row::{LANES, blend, has, mask_of};
use crate::memory_ops::access::{Access, Extend, Space};
use crate::memory_ops::{global, pattern, shared};
use crate::report::{FindingKind, Severity};

/// `cp.async`: `a` the global address, `b` the offset in shared memory, `imm` the bytes; `c` the
/// row of the bytes to read, or `dst2` the predicate for reading none (`dst` negates it).
struct Begin<const CHECK: bool>;
impl<const CHECK: bool> LaneOp for Begin<CHECK> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operands.
        unsafe { begin::<CHECK>(m, op, mask) }
    }
}

/// # Safety
/// As for a handler.
#[inline(always)]
unsafe fn begin<const CHECK: bool>(m: &mut Machine, op: &Op, mask: u32) {
    let bytes = u32::try_from(op.imm).expect("the decoder allows 4, 8 and 16");
    // SAFETY: passed on.
    let (from, offsets, mut source_bytes) = unsafe {
        let source_bytes = if op.c == NONE { [bytes; LANES] } else { m.read::<u32>(op.c) };
        (m.read::<u64>(op.a), m.read::<u64>(op.b), source_bytes)
    };
    if op.dst2 != NONE {
        // SAFETY: passed on.
        let p = unsafe { m.predicate(op.dst2) };
        let ignored = if op.dst == 0 { p } else { !p };
        source_bytes = blend(ignored, &[0; LANES], &source_bytes);
    }
    let mut to = [0; LANES];
    for lane in 0..LANES {
        to[lane] = if offsets[lane] >> 32 == 0 { offsets[lane] as u32 } else { u32::MAX };
    }
    let access = Access::new(bytes, 1, true, Extend::Zero, None, Scope::System);
    let span = lanes::span(&to, mask);
    let mut mask = mask;
    if span.bits & (bytes - 1) != 0 || span.highest.saturating_add(bytes) > m.shared_bytes {
        mask = shared::refuse_bad(m, op, access, &to, mask, "copy into shared memory");
    }
    let sizes = Sizes { bytes, source: &source_bytes };
    let is_whole = lanes::differing(&source_bytes, bytes, 0) & mask == 0;
    if !is_whole || !is_in_one(m, &from, mask, bytes) {
        mask = sizes.refuse_too_large(m, op, mask);
        mask = sizes.locate(m, op, &from, mask);
    }
    if CHECK {
        mask = m.check_copy_begins(op, access, &to, &from, &source_bytes, mask);
    }
    if mask == 0 {
        return;
    }
    let (wavefronts, ideal) = pattern::wavefronts(&to, mask, bytes, false);
    let counters = &mut m.counters[op.instruction as usize];
    counters.shared_requests += 1;
    counters.wavefronts += wavefronts;
    counters.conflicts += wavefronts - ideal;
    let reads = mask_of(|lane| source_bytes[lane] != 0) & mask;
    if reads != 0 {
        counters.global_requests += 1;
        counters.global_bytes += if is_whole {
            u64::from(bytes) * u64::from(reads.count_ones())
        } else {
            (0..LANES).filter(|l| reads >> l & 1 != 0).map(|l| u64::from(source_bytes[l])).sum::<u64>()
        };
        // Lanes that read less than all of their bytes still fetch whole sectors; no copy crosses
        // one.
        counters.sectors += pattern::sectors(&from, reads, u64::from(bytes));
        m.record(op, &from, reads, bytes);
    }
    m.record_shared(op, &to, mask, bytes);
    let warp = m.warp as usize;
    let is_early = m.asynchronous.luck.one_in(2);
    let (instruction, group) = (op.instruction, [0; LANES]);
    let copy = Copy { instruction, mask, bytes, source_bytes, from, to, group, number: 0, is_early: false };
    if is_early {
        m.land_copies(std::slice::from_ref(&copy));
    }
    m.asynchronous.copies[warp].issue(copy, is_early);
}

/// Returns true if the global sources of the lanes of `mask` are aligned and in one live
/// allocation.
#[inline(always)]
fn is_in_one(m: &mut Machine, from: &[u64; LANES], mask: u32, bytes: u32) -> bool {
    let (mut lowest, mut highest, mut bits) = (u64::MAX, 0, 0);
    for (lane, &address) in from.iter().enumerate() {
        let active = if has(mask, lane) { u64::MAX } else { 0 };
        lowest = lowest.min(address | !active);
        highest = highest.max(address & active);
        bits |= address & active;
    }
    let bytes = u64::from(bytes);
    bits % bytes == 0
        && highest.checked_add(bytes).is_some_and(|end| end > lowest && m.global.locate(lowest, end - lowest).is_some())
}

/// Bytes that each lane writes and reads.
struct Sizes<'a> {
    bytes: u32,
    source: &'a [u32; LANES],
}

impl Sizes<'_> {
    /// The lanes that read no more than they write.
    fn refuse_too_large(&self, m: &mut Machine, op: &Op, mask: u32) -> u32 {
        let too_large = |lane: usize| mask >> lane & 1 != 0 && self.source[lane] > self.bytes;
        let bad = (0..LANES).filter(|&lane| too_large(lane)).fold(0u32, |all, lane| all | 1 << lane);
        if bad != 0 {
            let lane = bad.trailing_zeros();
            let rule = format!("src-size {} is larger than cp-size {}", self.source[lane as usize], self.bytes);
            m.fault_at(op, FindingKind::OutOfBounds, lane, rule);
        }
        mask & !bad
    }

    /// The lanes whose source is in a live allocation, aligned to the bytes that they write.
    fn locate(&self, m: &mut Machine, op: &Op, from: &[u64; LANES], mask: u32) -> u32 {
        let mut good = 0;
        // Lanes that read equally much go together; mostly all read everything, or nothing.
        let mut rest = mask;
        while rest != 0 {
            let size = self.source[rest.trailing_zeros() as usize];
            let same = (0..LANES).filter(|&l| self.source[l] == size).fold(0, |all, l| all | 1 << l) & rest;
            rest &= !same;
            good |= if size == 0 {
                same
            } else {
                global::resolve_aligned(
                    m,
                    op,
                    from,
                    same,
                    (u64::from(size), u64::from(self.bytes)),
                    "asynchronous copy",
                )
                .0
            };
        }
        good
    }
}

/// `cp.async.commit_group`.
struct Commit;
impl LaneOp for Commit {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, _: &Op, mask: u32) {
        let warp = m.warp as usize;
        m.asynchronous.copies[warp].commit(mask);
    }
}

/// `cp.async.wait_group`: all but the last `imm` groups have landed.
struct Wait<const CHECK: bool>;
impl<const CHECK: bool> LaneOp for Wait<CHECK> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        let warp = m.warp as usize;
        let keep = u32::try_from(op.imm).unwrap_or(u32::MAX);
        let landed = m.asynchronous.copies[warp].take_groups(mask, keep);
        m.land_copies(&landed);
        if CHECK {
            landed.iter().for_each(|copy| m.check_copy_lands(copy));
        }
    }
}

impl Machine {
    /// Drops the copies that exiting threads of the current warp have not waited for: they never
    /// complete.
    pub(crate) fn abandon_copies(&mut self, mask: u32) {
        let warp = self.warp as usize;
        if self.asynchronous.copies[warp].are_done() {
            return;
        }
        // What an arrival at a barrier follows lands with it, whether the thread is still there or
        // not.
        let tracked = |lane: u32| {
            let arrivals = self.asynchronous.arrivals.iter().filter(|a| (a.warp, a.lane) == (self.warp, lane));
            arrivals.map(|a| a.issued).max().unwrap_or(0)
        };
        let tracked: [u64; LANES] = std::array::from_fn(|lane| tracked(u32::try_from(lane).expect("a lane")));
        for (copy, committed) in self.asynchronous.copies[warp].take_untracked(mask, &tracked) {
            if !self.checked {
                continue;
            }
            let lane = copy.mask.trailing_zeros();
            let rule = if committed >> lane & 1 != 0 {
                "the thread exits without a wait for this copy's group"
            } else {
                "the thread exits without a commit and a wait for this copy"
            };
            let offset = copy.to[lane as usize];
            let place = (SHARED_WINDOW + u64::from(offset), self.describe_shared(u64::from(offset)));
            let fault = Fault {
                kind: FindingKind::MissingWait,
                severity: Severity::Warning,
                instruction: copy.instruction,
                block: self.block,
                thread: self.thread(lane),
                address: Some(place),
                other: None,
                rule: rule.to_owned(),
            };
            self.fault(fault, false);
        }
    }
}

/// Decodes `cp.async` without `.bulk`.
pub(crate) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    if inst.has("commit_group") {
        d.expect_modifiers(inst, &["async", "commit_group"])?;
        d.expect_operands(inst, 0)?;
        d.push(Op::new(d.handler::<Commit>()));
        return Ok(());
    }
    if inst.has("wait_group") || inst.has("wait_all") {
        return wait(d, inst);
    }
    copy(d, inst)
}

fn wait(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    d.expect_modifiers(inst, &["async", "wait_group", "wait_all"])?;
    let wait = if d.checked { d.handler::<Wait<true>>() } else { d.handler::<Wait<false>>() };
    if inst.has("wait_all") {
        d.expect_operands(inst, 0)?;
        d.push(Op::new(d.handler::<Commit>()));
        d.push(Op::new(wait));
        return Ok(());
    }
    d.expect_operands(inst, 1)?;
    let keep = d.literal(inst, 0)?;
    let Ok(imm) = i64::try_from(keep).and_then(|n| u32::try_from(n).map(i64::from)) else {
        return Err(d.invalid(inst, format!("{keep} is no number of groups")));
    };
    d.push(Op { imm, ..Op::new(wait) });
    Ok(())
}

fn copy(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    let known =
        ["async", "ca", "cg", "shared", "shared::cta", "global", "L2::cache_hint", "L2::64B", "L2::128B", "L2::256B"];
    d.expect_modifiers(inst, &known)?;
    let place = |names: &[&str]| inst.modifiers.iter().position(|m| names.contains(&m.as_str()));
    let is_in_order =
        place(&["shared", "shared::cta"]).is_some_and(|to| place(&["global"]).is_some_and(|from| to < from));
    if !is_in_order || inst.has("ca") == inst.has("cg") {
        return Err(d.invalid(inst, "expected cp.async.{ca,cg}.shared.global"));
    }
    d.set_class(Class::Copy);
    let hints = usize::from(inst.has("L2::cache_hint"));
    let count = inst.operands.len();
    if count != 3 + hints && count != 4 + hints {
        return Err(d.invalid(inst, format!("found {count} operands")));
    }
    let bytes = d.literal(inst, 2)?;
    if !matches!((bytes, inst.has("cg")), (4 | 8 | 16, false) | (16, true)) {
        return Err(d.invalid(inst, "cp-size must be 4, 8 or 16, and 16 with .cg"));
    }
    let b = address_row(d, inst, 0, Space::Shared)?;
    let a = address_row(d, inst, 1, Space::Global)?;
    let checked = d.checked;
    let run = if checked { d.handler::<Begin<true>>() } else { d.handler::<Begin<false>>() };
    let mut op = Op { a, b, imm: i64::try_from(bytes).expect("at most 16"), ..Op::new(run) };
    if count == 4 + hints {
        if is_predicate(d, inst, 3)? {
            let (predicate, negated) = d.pred_src(inst, 3)?;
            (op.dst2, op.dst) = (predicate, u32::from(negated));
        } else {
            op.c = d.src(inst, 3, T::U32)?;
        }
    }
    d.push(op);
    Ok(())
}

/// Returns true if an operand is a predicate (`ignore-src`), false if it is a number (`src-size`).
fn is_predicate(d: &Decoder, inst: &Instruction, index: usize) -> Result<bool, Error> {
    let operand = d.operand(inst, index)?;
    Ok(matches!(operand, Operand::Not(_)) || d.declared_type(inst, operand) == Some(T::Pred))
}
