//! Operands of asynchronous instructions as full addresses: one row of 64 bits, for every form.

use warpfold_ptx::{Instruction, ScalarType as T};

use crate::Error;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::memory_map::SHARED_WINDOW;
use crate::exec::op::{LaneOp, NONE, Op};
use crate::exec::row::LANES;
use crate::memory_ops::access::{self, Space};

/// `dst = a + imm`, from 32 or 64 bits.
struct Displaced<const WIDE: bool>;
impl<const WIDE: bool> LaneOp for Displaced<WIDE> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            let addresses = access::addresses(m, op, WIDE);
            m.write(op.dst, &addresses, mask);
        }
    }
}

/// `dst = a + imm` as an offset in shared memory, from a generic address.
struct GenericToShared;
impl LaneOp for GenericToShared {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            let addresses = access::addresses(m, op, true);
            let mut out = [0u64; LANES];
            for lane in 0..LANES {
                // An address outside the window wraps to one outside shared memory.
                out[lane] = addresses[lane].wrapping_sub(SHARED_WINDOW);
            }
            m.write(op.dst, &out, mask);
        }
    }
}

/// The row of the address in an operand: an offset in shared memory, or a global address.
pub(crate) fn address_row(d: &mut Decoder, inst: &Instruction, index: usize, space: Space) -> Result<u32, Error> {
    let mut address = d.address(inst, index)?;
    let named = address.place;
    #[allow(clippy::cast_possible_wrap, reason = "addresses wrap")]
    if let Some(place) = named {
        let mut offset = 0;
        let found = access::space_of(d, inst, &mut offset, Some(place))?;
        let agrees = found == space || space == Space::Generic;
        if !agrees {
            return Err(d.invalid(inst, format!("operand {} lies in another state space", index + 1)));
        }
        if space == Space::Generic && found == Space::Shared {
            offset = offset.wrapping_add(SHARED_WINDOW as i64);
        }
        address.offset = address.offset.wrapping_add(offset);
    }
    if address.row != NONE && address.wide && address.offset == 0 {
        return Ok(address.row);
    }
    let handler = if address.wide { d.handler::<Displaced<true>>() } else { d.handler::<Displaced<false>>() };
    let dst = d.f.temporary(T::B64);
    d.push(Op { dst, a: address.row, imm: address.offset, ..Op::new(handler) });
    Ok(dst)
}

/// The row of an offset in shared memory; without `.shared` in the instruction the operand is a
/// generic address.
pub(crate) fn shared_row(d: &mut Decoder, inst: &Instruction, index: usize, is_generic: bool) -> Result<u32, Error> {
    let address = d.address(inst, index)?;
    if !is_generic || address.place.is_some() {
        return address_row(d, inst, index, Space::Shared);
    }
    let dst = d.f.temporary(T::B64);
    let a = address.row;
    if !address.wide {
        return Err(d.invalid(inst, format!("operand {} must be a generic address of 64 bits", index + 1)));
    }
    d.push(Op { dst, a, imm: address.offset, ..Op::new(d.handler::<GenericToShared>()) });
    Ok(dst)
}
