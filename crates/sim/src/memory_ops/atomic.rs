//! `atom` and `red` (PTX ISA, "Parallel Synchronization and Communication Instructions").
//!
//! Lanes are served in lane order, one after the other, so that a run with one worker repeats bit
//! for bit.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

use warpfold_ptx::{Instruction, Opcode, Operand, Order, ScalarType as T, Scope};

use super::access::{self, Access, Extend, Space, addresses, order_of};
use super::combine::{KINDS, Kind, Plan, apply};
use super::{distributed, global, pattern, shared};
use crate::Error;
use crate::check::{Kind as CheckKind, Space as CheckSpace};
use crate::decode::Decoder;
use crate::exec::cluster::Place;
use crate::exec::code::Class;
use crate::exec::machine::Machine;
use crate::exec::memory_map::{Window, window};
use crate::exec::op::{LaneOp, NONE, Op};
use crate::exec::row::LANES;

/// Lock for 128-bit atomics, for which not every host has an instruction.
static WIDE: Mutex<()> = Mutex::new(());

/// Applies an atomic to global memory; returns the old value.
///
/// # Safety
/// `data` is an aligned element of `bytes` bytes inside a live allocation.
unsafe fn global_atomic(data: *mut u8, bytes: u32, f: impl Fn(u128) -> u128) -> u128 {
    macro_rules! cell {
        ($cell:ty, $value:ty) => {{
            // SAFETY: passed on; global memory is only ever accessed atomically.
            let cell = unsafe { &*data.cast::<$cell>() };
            #[allow(clippy::cast_possible_truncation, reason = "the value has the element's width")]
            let update = cell.fetch_update(SeqCst, SeqCst, |old| Some(f(u128::from(old)) as $value));
            u128::from(update.expect("the update is never refused"))
        }};
    }
    match bytes {
        2 => cell!(AtomicU16, u16),
        4 => cell!(AtomicU32, u32),
        8 => cell!(AtomicU64, u64),
        _ => {
            let _guard = WIDE.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: passed on; sixteen bytes are two words.
            let (low, high) = unsafe { (&*data.cast::<AtomicU64>(), &*data.add(8).cast::<AtomicU64>()) };
            let old = u128::from(low.load(SeqCst)) | u128::from(high.load(SeqCst)) << 64;
            let new = f(old);
            #[allow(clippy::cast_possible_truncation, reason = "splitting")]
            {
                low.store(new as u64, SeqCst);
                high.store((new >> 64) as u64, SeqCst);
            }
            old
        }
    }
}

/// Applies an atomic to shared memory; returns the old value.
///
/// # Safety
/// `data` is an aligned element of `bytes` bytes inside the shared memory of a block that this host
/// thread runs.
unsafe fn shared_atomic(data: *mut u8, bytes: u32, f: impl Fn(u128) -> u128) -> u128 {
    let mut buffer = [0u8; 16];
    // SAFETY: passed on.
    unsafe { std::ptr::copy_nonoverlapping(data, buffer.as_mut_ptr(), bytes as usize) };
    let old = u128::from_le_bytes(buffer);
    let new = f(old).to_le_bytes();
    // SAFETY: passed on.
    unsafe { std::ptr::copy_nonoverlapping(new.as_ptr(), data, bytes as usize) };
    old
}

/// Reads a source as zero-extended bits.
///
/// # Safety
/// `row` is a register of the type's width, or [`NONE`].
unsafe fn bits(m: &Machine, row: u32, ty: T, lane: usize) -> u128 {
    if row == NONE {
        return 0;
    }
    // SAFETY: passed on.
    unsafe {
        match ty.bits() {
            16 => u128::from((&*m.lanes::<u32>(row))[lane] & 0xffff),
            32 => u128::from((&*m.lanes::<u32>(row))[lane]),
            64 => u128::from((&*m.lanes::<u64>(row))[lane]),
            _ => (&*m.lanes::<u128>(row))[lane],
        }
    }
}

/// `atom` and `red`.
struct Atomic<const CHECK: bool>;
impl<const CHECK: bool> LaneOp for Atomic<CHECK> {
    #[inline(never)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        let plan = Plan::unpack(op.d);
        let access = Access(op.dst2);
        // SAFETY: the decoder checked the operands.
        let at = unsafe { addresses(m, op, access.wide()) };
        let mut spaces = [0u32; 4];
        let mut offsets = at;
        for lane in 0..LANES {
            let (space, offset) = match plan.space {
                Some(space) => (space, at[lane]),
                None => window(at[lane]),
            };
            offsets[lane] = offset;
            spaces[space as usize] |= (mask >> lane & 1) << lane;
        }
        let counters = &mut m.counters[op.instruction as usize];
        counters.global_requests += u64::from(spaces[Window::Global as usize] != 0);
        m.waiting = true;
        // SAFETY: the decoder checked the operands.
        unsafe {
            in_global::<CHECK>(m, op, plan, access, &offsets, spaces[Window::Global as usize]);
            in_cluster::<CHECK>(m, op, plan, access, &offsets, spaces[Window::Shared as usize]);
        }
        let elsewhere = spaces[Window::Local as usize] | spaces[Window::Param as usize];
        if elsewhere != 0 {
            let lane = elsewhere.trailing_zeros();
            let rule = "atomics work on global and shared memory only".to_owned();
            access::address_fault(m, op, crate::report::FindingKind::OutOfBounds, lane, at[lane as usize], rule);
        }
    }
}

/// # Safety
/// As for a handler.
unsafe fn in_global<const CHECK: bool>(
    m: &mut Machine,
    op: &Op,
    plan: Plan,
    access: Access,
    at: &[u64; LANES],
    mask: u32,
) {
    let (good, data) = global::resolve(m, op, at, mask, u64::from(access.bytes()), "atomic");
    m.record(op, at, good, access.bytes());
    if CHECK && good != 0 {
        m.check_global_atomic(op, access, at, good);
    }
    for lane in 0..LANES {
        if good >> lane & 1 == 0 {
            continue;
        }
        // SAFETY: `resolve` found the element inside a live allocation, and it is aligned.
        unsafe {
            let (value, swap) = (bits(m, op.b, plan.ty, lane), bits(m, op.c, plan.ty, lane));
            let old = global_atomic(data[lane], access.bytes(), |old| apply(plan, false, old, value, swap));
            m.progress |= apply(plan, false, old, value, swap) != old;
            put_old(m, op, plan, lane, old);
        }
    }
    if CHECK && good != 0 && !plan.is_red {
        m.after_strong(op, access, CheckKind::Atomic, CheckSpace::Global, at, good);
    }
}

/// Applies the atomic to the shared memory of the blocks that the addresses name.
///
/// # Safety
/// As for a handler.
unsafe fn in_cluster<const CHECK: bool>(
    m: &mut Machine,
    op: &Op,
    plan: Plan,
    access: Access,
    at: &[u64; LANES],
    mask: u32,
) {
    let narrow = at.map(|a| u32::try_from(a).unwrap_or(u32::MAX));
    distributed::by_block(m, op, &narrow, mask, |m, place, offsets, lanes| {
        // SAFETY: passed on.
        unsafe {
            if place.is_own {
                in_shared::<CHECK>(m, op, plan, access, offsets, lanes);
            } else {
                in_peer::<CHECK>(m, op, plan, access, (place, offsets), lanes);
            }
        }
    });
}

/// # Safety
/// As for a handler.
unsafe fn in_peer<const CHECK: bool>(
    m: &mut Machine,
    op: &Op,
    plan: Plan,
    access: Access,
    (place, offsets): (Place, &[u32; LANES]),
    mask: u32,
) {
    let good = distributed::good_lanes(m, op, access, (place, offsets), mask, "atomic");
    m.counters[op.instruction as usize].distributed_requests += 1;
    if CHECK && good != 0 {
        m.check_peer(op, access, CheckKind::Atomic, (place, offsets), good);
    }
    // SAFETY: the elements are inside the peer's shared memory and aligned.
    unsafe { apply_to_shared(m, op, plan, access, (place.shared, offsets), good) };
    if CHECK && good != 0 && !plan.is_red {
        m.after_strong_peer(op, access, CheckKind::Atomic, (place, offsets), good);
    }
}

/// # Safety
/// As for a handler.
unsafe fn in_shared<const CHECK: bool>(
    m: &mut Machine,
    op: &Op,
    plan: Plan,
    access: Access,
    narrow: &[u32; LANES],
    mask: u32,
) {
    m.counters[op.instruction as usize].shared_requests += 1;
    let bytes = access.bytes();
    let inside =
        |lane: usize| narrow[lane].saturating_add(bytes) <= m.shared_bytes && narrow[lane].is_multiple_of(bytes);
    let good = (0..LANES).filter(|&l| mask >> l & 1 != 0 && inside(l)).fold(0, |all, l| all | 1u32 << l);
    if good != mask {
        shared::refuse_bad(m, op, access, narrow, mask, "atomic");
    }
    let good = if CHECK { m.check_shared_atomic(op, access, narrow, good) } else { good };
    m.record_shared(op, narrow, good, bytes);
    let (turns, ideal) = pattern::atomic_turns(narrow, good, bytes);
    let counters = &mut m.counters[op.instruction as usize];
    counters.wavefronts += turns;
    counters.conflicts += turns - ideal;
    let memory = m.shared;
    // SAFETY: the elements are inside shared memory and aligned.
    unsafe { apply_to_shared(m, op, plan, access, (memory, narrow), good) };
    if CHECK && good != 0 && !plan.is_red {
        m.after_strong(op, access, CheckKind::Atomic, CheckSpace::Shared, &narrow.map(u64::from), good);
    }
}

/// Applies the atomic lane by lane to elements of some block's shared memory.
///
/// # Safety
/// As for a handler; the elements of the lanes of `mask` lie in that memory, and are aligned.
unsafe fn apply_to_shared(
    m: &mut Machine,
    op: &Op,
    plan: Plan,
    access: Access,
    (memory, offsets): (*mut u8, &[u32; LANES]),
    mask: u32,
) {
    for lane in (0..LANES).filter(|lane| mask >> lane & 1 != 0) {
        // SAFETY: passed on.
        unsafe {
            let (value, swap) = (bits(m, op.b, plan.ty, lane), bits(m, op.c, plan.ty, lane));
            let data = memory.add(offsets[lane] as usize);
            let old = shared_atomic(data, access.bytes(), |old| apply(plan, true, old, value, swap));
            m.progress |= apply(plan, true, old, value, swap) != old;
            put_old(m, op, plan, lane, old);
        }
    }
}

/// # Safety
/// As for a handler.
#[allow(clippy::cast_possible_truncation, reason = "the value has the type's width")]
unsafe fn put_old(m: &mut Machine, op: &Op, plan: Plan, lane: usize, old: u128) {
    if !plan.wants_old {
        return;
    }
    // SAFETY: passed on.
    unsafe {
        match plan.ty.bits() {
            16 | 32 => (&mut *m.lanes::<u32>(op.dst))[lane] = old as u32,
            64 => (&mut *m.lanes::<u64>(op.dst))[lane] = old as u64,
            _ => (&mut *m.lanes::<u128>(op.dst))[lane] = old,
        }
    }
}

const MODIFIERS: &[&str] = &[
    "add",
    "min",
    "max",
    "and",
    "or",
    "xor",
    "exch",
    "cas",
    "inc",
    "dec",
    "global",
    "shared",
    "shared::cta",
    "shared::cluster",
    "relaxed",
    "acquire",
    "release",
    "acq_rel",
    "cta",
    "cluster",
    "gpu",
    "sys",
    "noftz",
    "v2",
    "v4",
    "v8",
    "L2::cache_hint",
];

/// Returns true if the ISA has this combination.
fn is_valid(kind: Kind, ty: T) -> bool {
    match kind {
        Kind::Add => {
            matches!(ty, T::U32 | T::S32 | T::U64 | T::S64 | T::F16 | T::F16x2 | T::Bf16 | T::Bf16x2 | T::F32 | T::F64)
        }
        Kind::Min | Kind::Max => {
            matches!(ty, T::U32 | T::S32 | T::U64 | T::S64 | T::F16 | T::F16x2 | T::Bf16 | T::Bf16x2)
        }
        Kind::And | Kind::Or | Kind::Xor => matches!(ty, T::B32 | T::B64),
        Kind::Exch => matches!(ty, T::B32 | T::B64 | T::B128 | T::U32 | T::U64 | T::S32 | T::S64 | T::F32),
        Kind::Cas => {
            matches!(ty, T::B16 | T::B32 | T::B64 | T::B128 | T::U32 | T::U64 | T::S32 | T::S64 | T::U16 | T::S16)
        }
        Kind::Inc | Kind::Dec => ty == T::U32,
    }
}

/// Decodes `atom` and `red`.
pub(crate) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    d.expect_modifiers(inst, MODIFIERS)?;
    d.set_class(Class::Atomic);
    d.code.orders_blocks = true;
    let ty = d.ty(inst, 0)?;
    let kind = KINDS
        .iter()
        .find(|(name, _)| inst.has(name))
        .map(|(_, kind)| *kind)
        .ok_or_else(|| d.invalid(inst, "the operation is missing"))?;
    let is_vector = inst.has("v2") || inst.has("v4") || inst.has("v8");
    let in_vectors = match kind {
        Kind::Add => matches!(ty, T::F16 | T::F16x2 | T::Bf16 | T::Bf16x2 | T::F32),
        Kind::Min | Kind::Max => matches!(ty, T::F16 | T::F16x2 | T::Bf16 | T::Bf16x2),
        _ => false,
    };
    if !is_valid(kind, ty) || (is_vector && !in_vectors) {
        return Err(d.invalid(inst, format!("there is no such atomic on {}", ty.name())));
    }
    if matches!(ty, T::F16 | T::F16x2 | T::Bf16 | T::Bf16x2) && !inst.has("noftz") {
        return Err(d.invalid(inst, format!(".noftz must be written with {}", ty.name())));
    }
    if matches!(ty, T::Bf16 | T::Bf16x2) || is_vector {
        d.require(inst, 90)?;
    }
    let is_red = inst.opcode == Opcode::Red;
    if is_red && (matches!(kind, Kind::Exch | Kind::Cas) || ["acquire", "acq_rel"].iter().any(|m| inst.has(m))) {
        return Err(d.invalid(inst, "red gives nothing back: there is no such form"));
    }
    let shift = usize::from(!is_red);
    let mut address = d.address(inst, shift)?;
    let space = match access::space_of(d, inst, &mut address.offset, address.place)? {
        Space::Global => Some(Window::Global),
        Space::Shared | Space::Cluster => Some(Window::Shared),
        Space::Generic => None,
        Space::Local | Space::Param => return Err(d.invalid(inst, "atomics work on global and shared memory only")),
    };
    let (order, scope) = order_of(inst);
    let order = order.or(Some(Order::Relaxed));
    let scope = if ["cta", "cluster", "gpu", "sys"].iter().any(|s| inst.has(s)) { scope } else { Scope::Gpu };
    d.code.has_cluster_scope |= scope == Scope::Cluster && space != Some(Window::Shared);
    let values = elements(d.operand(inst, shift + 1)?);
    let olds = if is_red { vec![Operand::Sink; values.len()] } else { elements(d.operand(inst, 0)?) };
    if values.len() != olds.len() {
        return Err(d.invalid(inst, "the vectors differ in length"));
    }
    let handler = if d.checked { d.handler::<Atomic<true>>() } else { d.handler::<Atomic<false>>() };
    for (k, (value, old)) in values.iter().zip(&olds).enumerate() {
        let b = d.source(inst, value, ty)?;
        let c = if kind == Kind::Cas { d.src(inst, shift + 2, ty)? } else { NONE };
        let wants_old = !is_red && !matches!(old, Operand::Sink);
        let dst = if wants_old { d.destination(inst, old, ty)? } else { NONE };
        let access = Access::new(ty.bytes(), 1, address.wide, Extend::Zero, order, scope);
        let imm = address.offset + i64::from(ty.bytes()) * i64::try_from(k).expect("few elements");
        let plan = Plan { kind, ty, space, wants_old, is_red };
        d.push(Op { dst, dst2: access.0, a: address.row, b, c, d: plan.pack(), imm, ..Op::new(handler) });
    }
    Ok(())
}

fn elements(operand: &Operand) -> Vec<Operand> {
    match operand {
        Operand::Vector(elements) => elements.clone(),
        other => vec![other.clone()],
    }
}
