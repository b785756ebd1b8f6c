//! `sin`, `cos`, `lg2`, `ex2` and `tanh`, all of them `.approx`: the functions of the [`unit`] with
//! the assembler's code around them. The 16-bit forms are those of `.f32`, truncated.

use std::marker::PhantomData;

use warpfold_ptx::{Instruction, Opcode, ScalarType as T};

use super::finish::canonical;
use super::half::{Bf16, F16, Half};
use super::lanes::{halves, lanes};
use super::unit;
use crate::Error;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::op::{Handler, LaneOp, Op};

/// A function of one `f32`, bits to bits.
trait Function: 'static {
    /// With `.ftz`, or without.
    fn run(x: u32, ftz: bool) -> u32;
}

/// The smallest normal number.
const TINY: f32 = f32::MIN_POSITIVE;

/// `FMUL.RZ` by the revolutions per radian: the first step of `sin` and `cos`.
#[inline(always)]
fn revolutions(x: u32) -> u32 {
    const PER_RADIAN: f32 = 0.159_154_94;
    let product = f64::from(f32::from_bits(x)) * f64::from(PER_RADIAN);
    #[allow(clippy::cast_possible_truncation, reason = "rounds to nearest; corrected below")]
    let nearest = product as f32;
    nearest.to_bits() - u32::from(f64::from(nearest).abs() > product.abs())
}

struct Sin;
impl Function for Sin {
    #[inline(always)]
    fn run(x: u32, _: bool) -> u32 {
        unit::sine(revolutions(x))
    }
}

struct Cos;
impl Function for Cos {
    #[inline(always)]
    fn run(x: u32, _: bool) -> u32 {
        unit::cosine(revolutions(x))
    }
}

struct Lg2;
impl Function for Lg2 {
    #[inline(always)]
    fn run(x: u32, ftz: bool) -> u32 {
        let number = f32::from_bits(x);
        let scales = !ftz && number.abs() < TINY;
        let result = unit::logarithm(if scales { (number * 16_777_216.0).to_bits() } else { x });
        if scales { canonical(f32::from_bits(result) - 24.0) } else { result }
    }
}

struct Ex2;
impl Function for Ex2 {
    #[inline(always)]
    fn run(x: u32, ftz: bool) -> u32 {
        let number = f32::from_bits(x);
        let halves = !ftz && number < -126.0;
        let result = unit::power_of_two(if halves { (number * 0.5).to_bits() } else { x });
        let root = f32::from_bits(result);
        if halves { canonical(root * root) } else { result }
    }
}

struct Tanh;
impl Function for Tanh {
    #[inline(always)]
    fn run(x: u32, _: bool) -> u32 {
        unit::tangent(x)
    }
}

struct Single<F, const FTZ: bool>(PhantomData<F>);
impl<F: Function, const FTZ: bool> LaneOp for Single<F, FTZ> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            lanes!(m, op, mask, |a: u32| -> u32 { F::run(a, FTZ) });
        }
    }
}

struct Halves<H, F, const PACKED: bool>(PhantomData<(H, F)>);
impl<H: Half, F: Function, const PACKED: bool> LaneOp for Halves<H, F, PACKED> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            lanes!(m, op, mask, |a: u32| -> u32 {
                halves!(PACKED, |x = a| { H::truncate(F::run(H::widen(x).to_bits(), true)) })
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
        (Opcode::Ex2, T::F16) => d.handler::<Halves<F16, Ex2, false>>(),
        (Opcode::Ex2, T::F16x2) => d.handler::<Halves<F16, Ex2, true>>(),
        (Opcode::Ex2, T::Bf16) if ftz => d.handler::<Halves<Bf16, Ex2, false>>(),
        (Opcode::Ex2, T::Bf16x2) if ftz => d.handler::<Halves<Bf16, Ex2, true>>(),
        (Opcode::Ex2, T::Bf16 | T::Bf16x2) => return Err(d.invalid(inst, "'.ftz' is needed")),
        (Opcode::Tanh, T::F16) => d.handler::<Halves<F16, Tanh, false>>(),
        (Opcode::Tanh, T::F16x2) => d.handler::<Halves<F16, Tanh, true>>(),
        (Opcode::Tanh, T::Bf16) => d.handler::<Halves<Bf16, Tanh, false>>(),
        (Opcode::Tanh, T::Bf16x2) => d.handler::<Halves<Bf16, Tanh, true>>(),
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
