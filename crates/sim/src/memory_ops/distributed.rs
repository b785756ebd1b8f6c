//! Distributed shared memory: accesses through `.shared::cluster` and generic addresses, `mapa` and
//! `getctarank`.
//!
//! Lanes that reach into the running block's own memory take the way of [`shared`]; the others are
//! counted apart, as they use the network between multiprocessors and not the banks.

use std::marker::PhantomData;

use warpfold_ptx::{Instruction, Opcode, ScalarType as T};

use super::access::{Access, Direction, address_fault};
use super::shared;
use crate::Error;
use crate::check::Kind;
use crate::decode::Decoder;
use crate::exec::cluster::Place;
use crate::exec::machine::Machine;
use crate::exec::memory_map::{SHARED_WINDOW, in_block, is_tagged, tagged};
use crate::exec::op::{LaneOp, Op};
use crate::exec::row::{LANES, Lane, Word};
use crate::report::FindingKind;

/// An access in `.shared::cluster`.
pub(super) struct ClusterAccess<D, const CHECK: bool>(PhantomData<D>);
impl<D: Direction, const CHECK: bool> LaneOp for ClusterAccess<D, CHECK> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operands.
        unsafe {
            let access = Access(op.dst2);
            let at = shared::addresses(m, op, access.wide());
            self::access::<D, CHECK>(m, op, access, &at, mask);
        }
    }
}

/// Loads or stores one element per lane, in the shared memory of any block of the cluster.
///
/// # Safety
/// As for [`shared::access`].
#[inline(always)]
pub(super) unsafe fn access<D: Direction, const CHECK: bool>(
    m: &mut Machine,
    op: &Op,
    access: Access,
    at: &[u32; LANES],
    mask: u32,
) {
    if !(0..LANES).any(|lane| mask >> lane & 1 != 0 && is_tagged(at[lane])) {
        // SAFETY: passed on.
        return unsafe { shared::access_apart::<D, CHECK>(m, op, access, at, mask) };
    }
    by_block(m, op, at, mask, |m, place, offsets, lanes| {
        // SAFETY: passed on.
        unsafe {
            if place.is_own {
                shared::access_apart::<D, CHECK>(m, op, access, offsets, lanes);
            } else {
                in_peer::<D, CHECK>(m, op, access, place, offsets, lanes);
            }
        }
    });
}

/// Splits lanes by the block whose memory they access; lanes that access none are refused.
#[inline(never)]
pub(super) fn by_block(
    m: &mut Machine,
    op: &Op,
    at: &[u32; LANES],
    mask: u32,
    mut each: impl FnMut(&mut Machine, Place, &[u32; LANES], u32),
) {
    let mut rest = mask;
    while rest != 0 {
        let first = at[rest.trailing_zeros() as usize];
        let own = m.cluster.rank;
        let (tag, _) = tagged(first, own);
        let same = |lane: &usize| rest >> lane & 1 != 0 && tagged(at[*lane], own).0 == tag;
        let lanes = (0..LANES).filter(same).fold(0, |all, lane| all | 1u32 << lane);
        rest &= !lanes;
        let Some(place) = m.place(first) else {
            refuse_block(m, op, at, lanes);
            continue;
        };
        let offsets = at.map(|address| tagged(address, own).1);
        each(m, place, &offsets, lanes);
    }
}

/// Records an access to a block that the cluster does not have, or that has exited.
#[cold]
fn refuse_block(m: &mut Machine, op: &Op, at: &[u32; LANES], mask: u32) {
    let lane = mask.trailing_zeros();
    let address = at[lane as usize];
    let rank = tagged(address, m.cluster.rank).0.unwrap_or(m.cluster.rank);
    let blocks = m.cluster.peers.len();
    let (kind, rule) = if rank as usize >= blocks {
        let rule = format!("an access to the shared memory of rank {rank} of a cluster of {blocks} blocks");
        (FindingKind::OutOfBounds, rule)
    } else {
        let rule = format!("an access to the shared memory of rank {rank} of the cluster, a block that has exited");
        (FindingKind::UseAfterFree, rule)
    };
    address_fault(m, op, kind, lane, SHARED_WINDOW + u64::from(address), rule);
}

/// Returns the lanes of `mask` whose access is aligned and inside a peer's shared memory; records
/// the others.
pub(super) fn good_lanes(
    m: &mut Machine,
    op: &Op,
    access: Access,
    (place, offsets): (Place, &[u32; LANES]),
    mask: u32,
    what: &str,
) -> u32 {
    let bytes = access.bytes();
    let mut good = mask;
    for lane in (0..32u32).filter(|lane| mask >> lane & 1 != 0) {
        let offset = offsets[lane as usize];
        let (kind, rule) = if !offset.is_multiple_of(bytes) {
            let rule = format!("a {what} of {bytes} bytes must be aligned to {bytes} bytes");
            (FindingKind::Misaligned, rule)
        } else if offset.saturating_add(bytes) > m.shared_bytes {
            let size = m.shared_bytes;
            let rule = format!("a {what} of {bytes} bytes outside the {size} bytes of a peer's shared memory");
            (FindingKind::OutOfBounds, rule)
        } else {
            continue;
        };
        good &= !(1 << lane);
        address_fault(m, op, kind, lane, SHARED_WINDOW + u64::from(in_block(place.rank, offset)), rule);
    }
    good
}

/// Loads from or stores to the shared memory of a peer.
///
/// # Safety
/// As for [`shared::access`].
#[inline(never)]
unsafe fn in_peer<D: Direction, const CHECK: bool>(
    m: &mut Machine,
    op: &Op,
    access: Access,
    place: Place,
    offsets: &[u32; LANES],
    mask: u32,
) {
    let what = if D::LOAD { "load" } else { "store" };
    let mask = good_lanes(m, op, access, (place, offsets), mask, what);
    if mask == 0 {
        return;
    }
    m.progress |= !D::LOAD;
    m.waiting |= access.is_strong();
    m.counters[op.instruction as usize].distributed_requests += 1;
    if CHECK {
        m.check_peer(op, access, if D::LOAD { Kind::Read } else { Kind::Write }, (place, offsets), mask);
    }
    let own = std::mem::replace(&mut m.shared, place.shared);
    // SAFETY: every active lane's access is inside the peer's shared memory, which is as large as
    // the own, and aligned.
    unsafe { shared::transfer::<D>(m, op, access, offsets, mask) };
    m.shared = own;
    if CHECK && D::LOAD && access.is_strong() {
        m.after_strong_peer(op, access, Kind::Read, (place, offsets), mask);
    }
}

/// `mapa`: the address in the block of rank `b` that corresponds to `a`; `imm` is the start of the
/// window of generic addresses, or 0.
struct MapAddress<W>(PhantomData<W>);
impl<W: Word + Lane<Bits = W> + Into<u64> + TryFrom<u64>> LaneOp for MapAddress<W> {
    #[inline(always)]
    #[allow(
        clippy::cast_sign_loss,
        clippy::cast_possible_truncation,
        reason = "addresses have 32 bits in their window"
    )]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            let (address, rank) = (m.read::<W>(op.a), m.read::<u32>(op.b));
            let mut out = [W::default(); LANES];
            for lane in 0..LANES {
                let (_, offset) = tagged(address[lane].into() as u32, 0);
                // An invalid rank stays invalid.
                let mapped = in_block(rank[lane].min(0x7e), offset);
                out[lane] = W::try_from(op.imm as u64 + u64::from(mapped)).unwrap_or_default();
            }
            m.write(op.dst, &out, mask);
        }
    }
}

/// `getctarank`: the rank of the block whose shared memory contains an address.
struct RankOf<W>(PhantomData<W>);
impl<W: Word + Lane<Bits = W> + Into<u64>> LaneOp for RankOf<W> {
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "addresses have 32 bits in their window")]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        let own = m.cluster.rank;
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            let address = m.read::<W>(op.a);
            let rank = address.map(|a| tagged(a.into() as u32, own).0.unwrap_or(own));
            m.write(op.dst, &rank, mask);
        }
    }
}

/// Decodes `mapa` and `getctarank`.
pub(crate) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    d.require(inst, 90)?;
    d.expect_modifiers(inst, &["shared::cluster"])?;
    let is_map = inst.opcode == Opcode::Mapa;
    d.expect_operands(inst, if is_map { 3 } else { 2 })?;
    let ty = d.ty(inst, 0)?;
    if !matches!(ty, T::U32 | T::U64) {
        return Err(d.invalid(inst, "expected .u32 or .u64"));
    }
    let is_generic = !inst.has("shared::cluster");
    if is_generic && ty == T::U32 {
        return Err(d.unsupported(inst, "32-bit generic addresses"));
    }
    let a = d.src(inst, 1, ty)?;
    if !is_map {
        let dst = d.dst(inst, 0, T::U32)?;
        let handler = if ty == T::U32 { d.handler::<RankOf<u32>>() } else { d.handler::<RankOf<u64>>() };
        d.push(Op { dst, a, ..Op::new(handler) });
        return Ok(());
    }
    let b = d.src(inst, 2, T::U32)?;
    let dst = d.dst(inst, 0, ty)?;
    let handler = if ty == T::U32 { d.handler::<MapAddress<u32>>() } else { d.handler::<MapAddress<u64>>() };
    let imm = if is_generic { i64::try_from(SHARED_WINDOW).expect("a small window") } else { 0 };
    d.push(Op { dst, a, b, imm, ..Op::new(handler) });
    Ok(())
}
