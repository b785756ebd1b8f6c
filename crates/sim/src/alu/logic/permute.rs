//! `prmt`.

use std::hint::select_unpredictable;

use warpfold_ptx::{Instruction, ScalarType as T};

use crate::Error;
use crate::alu::define::lane_ops;
use crate::alu::wrong_type;
use crate::decode::Decoder;

lane_ops! {
    Permute(a: u32, b: u32, c: u32) -> u32 = permute(a, b, c);
    Forward4(a: u32, b: u32, c: u32) -> u32 = gather(a, b, |i| (c & 3) + i);
    Backward4(a: u32, b: u32, c: u32) -> u32 = gather(a, b, |i| (c & 3).wrapping_sub(i) & 7);
    Replicate8(a: u32, b: u32, c: u32) -> u32 = gather(a, b, |_| c & 3);
    EdgeLeft(a: u32, b: u32, c: u32) -> u32 = gather(a, b, |i| i.max(c & 3));
    EdgeRight(a: u32, b: u32, c: u32) -> u32 = gather(a, b, |i| i.min(c & 3));
    Replicate16(a: u32, b: u32, c: u32) -> u32 = gather(a, b, |i| (c & 1) * 2 + (i & 1));
}

/// Byte `index` of `b:a`, below 8.
#[inline(always)]
fn byte(a: u32, b: u32, index: u32) -> u32 {
    select_unpredictable(index & 4 != 0, b, a) >> (8 * (index & 3)) & 0xff
}

/// The four bytes of `b:a` that `index` names.
#[inline(always)]
fn gather(a: u32, b: u32, index: impl Fn(u32) -> u32) -> u32 {
    (0..4).fold(0, |word, i| word | byte(a, b, index(i)) << (8 * i))
}

/// The generic form: four bits of `c` choose a byte and whether its sign is replicated instead.
#[inline(always)]
fn permute(a: u32, b: u32, c: u32) -> u32 {
    (0..4).fold(0, |word, i| {
        let control = c >> (4 * i);
        let value = byte(a, b, control & 7);
        let sign = (value >> 7) * 0xff;
        word | select_unpredictable(control & 8 != 0, sign, value) << (8 * i)
    })
}

/// Decodes `prmt`.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    const MODES: [&str; 6] = ["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"];
    let ty = d.ty(inst, 0)?;
    d.expect_modifiers(inst, &MODES)?;
    if ty != T::B32 {
        return Err(wrong_type(d, inst, ty));
    }
    let handler = match MODES.into_iter().find(|mode| inst.has(mode)) {
        None => d.handler::<Permute>(),
        Some("f4e") => d.handler::<Forward4>(),
        Some("b4e") => d.handler::<Backward4>(),
        Some("rc8") => d.handler::<Replicate8>(),
        Some("ecl") => d.handler::<EdgeLeft>(),
        Some("ecr") => d.handler::<EdgeRight>(),
        Some(_) => d.handler::<Replicate16>(),
    };
    d.emit4(inst, handler, ty, [ty, ty, T::U32])
}
