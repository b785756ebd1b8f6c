//! Asynchronous copies of a few bytes per thread (PTX ISA, "Data Movement and Conversion
//! Instructions: cp.async").

use warpfold_ptx::{self as ptx, Opcode};

use super::memory::{Location, address};
use crate::recorder::{Raw, Recorder};
use crate::types::Type;

/// `cp.async` of 4, 8 or 16 bytes from global to shared memory. With `source_bytes` only that many
/// are read, and zeros fill the rest.
pub(crate) fn copy(r: &mut Recorder, to: Location, from: Location, bytes: u32, source_bytes: Option<Raw>) {
    r.require("cp.async", 80, (7, 0));
    // 16-byte copies bypass L1: whole sectors, used once.
    let cache = if bytes == 16 { "cg" } else { "ca" };
    let size = ptx::Operand::Immediate(ptx::Immediate::Int(bytes.into()));
    let mut operands = vec![address(r, to), address(r, from), size];
    operands.extend(source_bytes.map(|bytes| r.operand(Type::U32, bytes)));
    r.push(Opcode::Cp, &["async", cache, "shared", "global"], operands);
}

/// `cp.async.commit_group`
pub(crate) fn commit(r: &mut Recorder) {
    r.push(Opcode::Cp, &["async", "commit_group"], vec![]);
}

/// `cp.async.wait_group`, until at most `pending` groups are in flight.
pub(crate) fn wait(r: &mut Recorder, pending: u32) {
    let pending = ptx::Operand::Immediate(ptx::Immediate::Int(pending.into()));
    r.push(Opcode::Cp, &["async", "wait_group"], vec![pending]);
}
