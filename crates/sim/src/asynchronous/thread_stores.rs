//! `st.async` and `red.async`: stores and reductions by single threads in the shared memory of the
//! cluster, which complete on an mbarrier beside them (PTX ISA, "st.async", "red.async").
//!
//! Unlike bulk copies they belong to the generic proxy: no proxy fence is needed around them.

use warpfold_ptx::{Instruction, Opcode, Operand, ScalarType as T};

use super::address::shared_row;
use super::bulk::{REDUCTION_SHIFT, Refused};
use super::reduce::Reduction;
use super::transfers::Place;
use crate::Error;
use crate::decode::Decoder;
use crate::exec::code::Class;
use crate::exec::machine::Machine;
use crate::exec::memory_map::SHARED_WINDOW;
use crate::exec::op::{LaneOp, NONE, Op};
use crate::exec::row::LANES;
use crate::report::FindingKind;

const BARRIER: &str = "mbarrier::complete_tx::bytes";

/// Mask of the bytes per element; the number of elements and the reduction's index are above.
const ELEMENT: i64 = 0xf;
const COUNT_SHIFT: i64 = 4;
const COUNT: i64 = 7;

/// A store or reduction: `a` the address, `dst2` the row of the barrier's address, `b` and so on
/// the elements.
struct Begin;
impl LaneOp for Begin {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operands.
        unsafe { begin(m, op, mask) }
    }
}

/// # Safety
/// As for a handler.
#[inline(never)]
unsafe fn begin(m: &mut Machine, op: &Op, mask: u32) {
    // SAFETY: passed on.
    let (to, barriers) = unsafe { (m.read::<u64>(op.a), m.read::<u64>(op.dst2)) };
    let (element, count) = ((op.imm & ELEMENT) as usize, (op.imm >> COUNT_SHIFT & COUNT) as usize);
    for lane in (0..LANES).filter(|lane| mask >> lane & 1 != 0) {
        let mut held = [0; 16];
        for (to, row) in held.chunks_exact_mut(element).zip([op.b, op.c, op.d, op.dst]).take(count) {
            // SAFETY: passed on; the rows have the width of an element.
            let value = unsafe {
                if element == 8 { (&*m.lanes::<u64>(row))[lane] } else { (&*m.lanes::<u32>(row))[lane].into() }
            };
            to.copy_from_slice(&value.to_le_bytes()[..element]);
        }
        let bytes = u32::try_from(element * count).expect("at most 16");
        // A request that breaks a rule has been reported, and is dropped.
        let _ = m.begin_thread_store(op, lane as u32, (to[lane], barriers[lane]), (held, bytes));
    }
    m.counters[op.instruction as usize].distributed_requests += 1;
    m.land_early();
}

impl Machine {
    fn begin_thread_store(
        &mut self,
        op: &Op,
        lane: u32,
        (address, barrier): (u64, u64),
        (held, bytes): ([u8; 16], u32),
    ) -> Result<(), Refused> {
        let to = self.shared_side(op, lane, address, bytes, bytes)?;
        let barrier = self.barrier_beside(op, lane, barrier, to)?;
        let from = Place::Held(held);
        let reduction = self.asynchronous_reduction(op, lane, &from)?;
        let rule = if reduction.is_some() && to.is_own {
            "red.async reaches into the shared memory of another block of the cluster, not of its own"
        } else if self.cluster.peers.len() == 1 {
            "st.async needs a cluster of several blocks"
        } else {
            let load = self.load(op, lane, (from, to.offset, bytes), reduction, barrier);
            self.send(op, load, to.rank);
            return Ok(());
        };
        self.refuse(op, FindingKind::InvalidSync, lane, SHARED_WINDOW.wrapping_add(address), rule.to_owned())
    }
}

/// Decodes `st.async` and `red.async`.
pub(crate) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    d.require(inst, 90)?;
    let reduces = inst.opcode == Opcode::Red;
    let own: &[&str] = if reduces {
        &["relaxed", "cluster", "add", "min", "max", "inc", "dec", "and", "or", "xor"]
    } else {
        &["weak", "cluster", "v2", "v4"]
    };
    d.expect_modifiers(inst, &[&["async", "shared::cluster", BARRIER][..], own].concat())?;
    if !inst.has(BARRIER) || (reduces && !(inst.has("relaxed") && inst.has("cluster"))) {
        let expected = if reduces { ".relaxed.cluster and " } else { "" };
        return Err(d.invalid(inst, format!("expected {expected}.{BARRIER}")));
    }
    d.expect_operands(inst, 3)?;
    let ty = d.ty(inst, 0)?;
    let count = if inst.has("v4") { 4 } else { 1 + usize::from(inst.has("v2")) };
    let mut imm = 0;
    if reduces {
        let reduction = Reduction::of_thread(d, inst)?;
        d.code.reductions.push(reduction);
        imm = i64::try_from(d.code.reductions.len()).expect("few reductions") << REDUCTION_SHIFT;
    } else if !matches!(ty, T::B32 | T::U32 | T::S32 | T::F32 | T::B64 | T::U64 | T::S64 | T::F64) {
        return Err(d.invalid(inst, format!("no asynchronous store of {}", ty.name())));
    }
    if ty.bytes() as usize * count > 16 {
        return Err(d.invalid(inst, "a vector of more than 16 bytes"));
    }
    d.set_class(if reduces { Class::Atomic } else { Class::Store });
    d.code.orders_blocks = true;
    let is_generic = !inst.has("shared::cluster");
    let a = shared_row(d, inst, 0, is_generic)?;
    let elements = match d.operand(inst, 1)?.clone() {
        Operand::Vector(elements) if elements.len() == count && count > 1 => elements,
        Operand::Vector(_) => return Err(d.invalid(inst, format!("expected a vector of {count} elements"))),
        other if count == 1 => vec![other],
        other => return Err(d.invalid(inst, format!("operand {other} is not a vector of {count}"))),
    };
    let mut rows = [NONE; 4];
    for (row, element) in rows.iter_mut().zip(&elements) {
        *row = d.source(inst, element, ty)?;
    }
    let [b, c, last, dst] = rows;
    let dst2 = shared_row(d, inst, 2, is_generic)?;
    imm |= i64::from(ty.bytes()) | i64::try_from(count).expect("at most four") << COUNT_SHIFT;
    d.push(Op { a, b, c, d: last, dst, dst2, imm, ..Op::new(d.handler::<Begin>()) });
    Ok(())
}
