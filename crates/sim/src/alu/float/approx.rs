//! `sin`, `cos`, `lg2`, `ex2` and `tanh`, all of them `.approx`.

use std::marker::PhantomData;

use warpfold_ptx::{Instruction, Opcode, ScalarType as T};

use super::finish::{finish, flush_if};
use super::half::{Bf16, F16, Half};
use super::lanes::{halves, lanes};
use super::transcendental;
use crate::Error;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::op::{Handler, LaneOp, Op};

/// A function of one `f32`.
trait Function: 'static {
    fn f32(x: f32) -> f32;
}

macro_rules! functions {
    ($($name:ident = $function:path;)*) => {$(
        struct $name;
        impl Function for $name {
            #[inline(always)]
            fn f32(x: f32) -> f32 {
                $function(x)
            }
        }
    )*};
}

functions! {
    Sin = transcendental::sin;
    Cos = transcendental::cos;
    Lg2 = transcendental::log2;
    Ex2 = transcendental::exp2;
    Tanh = transcendental::tanh;
}

struct Single<F, const FTZ: bool>(PhantomData<F>);
impl<F: Function, const FTZ: bool> LaneOp for Single<F, FTZ> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            lanes!(m, op, mask, |a: f32| -> u32 { finish(FTZ, false, F::f32(flush_if(FTZ, a))) });
        }
    }
}

struct Halves<H, F, const PACKED: bool, const FTZ: bool>(PhantomData<(H, F)>);
impl<H: Half, F: Function, const PACKED: bool, const FTZ: bool> LaneOp for Halves<H, F, PACKED, FTZ> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            lanes!(m, op, mask, |a: u32| -> u32 {
                halves!(PACKED, |x = a| {
                    let result = H::narrow(F::f32(H::widen(if FTZ { H::flush(x) } else { x })));
                    if FTZ { H::flush(result) } else { result }
                })
            });
        }
    }
}

/// Decodes `sin`, `cos`, `lg2`, `ex2` and `tanh`.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction, ty: T) -> Result<(), Error> {
    let ftz = inst.has("ftz");
    if !inst.has("approx") {
        return Err(d.invalid(inst, "'.approx' is needed"));
    }
    let known: &[&str] = match (inst.opcode, ty) {
        (Opcode::Tanh, _) | (Opcode::Ex2, T::F16 | T::F16x2) => &["approx"],
        _ => &["approx", "ftz"],
    };
    d.expect_modifiers(inst, known)?;
    let handler = match (inst.opcode, ty) {
        (Opcode::Sin, T::F32) => single::<Sin>(d, ftz),
        (Opcode::Cos, T::F32) => single::<Cos>(d, ftz),
        (Opcode::Lg2, T::F32) => single::<Lg2>(d, ftz),
        (Opcode::Ex2, T::F32) => single::<Ex2>(d, ftz),
        (Opcode::Tanh, T::F32) => single::<Tanh>(d, false),
        (Opcode::Ex2, T::F16) => d.handler::<Halves<F16, Ex2, false, false>>(),
        (Opcode::Ex2, T::F16x2) => d.handler::<Halves<F16, Ex2, true, false>>(),
        (Opcode::Ex2, T::Bf16) if ftz => d.handler::<Halves<Bf16, Ex2, false, true>>(),
        (Opcode::Ex2, T::Bf16x2) if ftz => d.handler::<Halves<Bf16, Ex2, true, true>>(),
        (Opcode::Ex2, T::Bf16 | T::Bf16x2) => return Err(d.invalid(inst, "'.ftz' is needed")),
        (Opcode::Tanh, T::F16) => d.handler::<Halves<F16, Tanh, false, false>>(),
        (Opcode::Tanh, T::F16x2) => d.handler::<Halves<F16, Tanh, true, false>>(),
        (Opcode::Tanh, T::Bf16) => d.handler::<Halves<Bf16, Tanh, false, false>>(),
        (Opcode::Tanh, T::Bf16x2) => d.handler::<Halves<Bf16, Tanh, true, false>>(),
        _ => {
            let reason = format!("{} is not defined for .{}", inst.opcode.mnemonic(), ty.name());
            return Err(d.invalid(inst, reason));
        }
    };
    d.emit2(inst, handler, ty, ty)
}

fn single<F: Function>(d: &Decoder, ftz: bool) -> Handler {
    if ftz { d.handler::<Single<F, true>>() } else { d.handler::<Single<F, false>>() }
}
