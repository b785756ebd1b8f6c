//! `add`, `sub`, `mul`, `fma` and `mad` of `.f32` and `.f64`.
//!
//! Rounding to nearest is the host's own arithmetic; the modifiers `.ftz` and `.sat` are compiled
//! in. The directed roundings go by way of [`Exact`] (`.f32`) or of integers (`.f64`), their
//! modifiers are read from `Op::imm`.

use std::marker::PhantomData;

use warpfold_ptx::{Instruction, Opcode, ScalarType as T};

use super::exact::{Direction, Downward, Exact, TowardZero, Upward};
use super::finish::{finish, flush, flush_if, propagate};
use super::lanes::lanes;
use super::soft::{self, Rounding};
use super::{FTZ, SAT, flags, rounding};
use crate::Error;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::op::{Handler, LaneOp, Op, map2, map3};
use crate::exec::row::LANES;

/// A sum, difference or product.
pub(crate) trait Binary: 'static {
    /// Rounded to nearest.
    fn f32(a: f32, b: f32) -> f32;
    /// True if rounding can lift a result to the smallest normal number: false for a sum, which is
    /// exact there.
    const IS_PRODUCT: bool = false;
    /// Rounded to nearest.
    fn f64(a: f64, b: f64) -> f64;
    /// Operands `[x, y, z]` of the equivalent fused multiply-add `x * y + z`, with the same sign of
    /// zero.
    fn fused(a: f64, b: f64) -> [f64; 3];
}

/// `a + b`
pub(super) struct Add;
impl Binary for Add {
    #[inline(always)]
    fn f32(a: f32, b: f32) -> f32 {
        a + b
    }
    #[inline(always)]
    fn f64(a: f64, b: f64) -> f64 {
        a + b
    }
    #[inline(always)]
    fn fused(a: f64, b: f64) -> [f64; 3] {
        [a, 1.0, b]
    }
}

/// `a - b`
pub(super) struct Sub;
impl Binary for Sub {
    #[inline(always)]
    fn f32(a: f32, b: f32) -> f32 {
        a - b
    }
    #[inline(always)]
    fn f64(a: f64, b: f64) -> f64 {
        a - b
    }
    #[inline(always)]
    fn fused(a: f64, b: f64) -> [f64; 3] {
        [a, 1.0, -b]
    }
}

/// `a * b`
pub(super) struct Mul;
impl Binary for Mul {
    const IS_PRODUCT: bool = true;
    #[inline(always)]
    fn f32(a: f32, b: f32) -> f32 {
        a * b
    }
    #[inline(always)]
    fn f64(a: f64, b: f64) -> f64 {
        a * b
    }
    #[inline(always)]
    fn fused(a: f64, b: f64) -> [f64; 3] {
        let negative = a.is_sign_negative() != b.is_sign_negative();
        [a, b, if negative { -0.0 } else { 0.0 }]
    }
}

/// The bits of a result under its modifiers: `.ftz` looks at it before it is rounded.
#[inline(always)]
fn finish_exact(ftz: bool, sat: bool, exact: Exact, rounded: f32) -> u32 {
    let cut = exact.round::<TowardZero>();
    let is_below = ftz && cut.abs() < f32::MIN_POSITIVE;
    finish(ftz, sat, if is_below { f32::copysign(0.0, rounded) } else { rounded })
}

/// Returns true if a lane's result under `.ftz`, rounded to nearest, is the smallest normal number.
///
/// # Safety
/// The sources of `op` are registers of `.f32`, the third if it `adds`.
#[inline(always)]
unsafe fn any_at_edge(m: &Machine, op: &Op, adds: bool) -> bool {
    // SAFETY: passed on.
    let (a, b) = unsafe { (&*m.lanes::<u32>(op.a), &*m.lanes::<u32>(op.b)) };
    // SAFETY: passed on.
    let c = unsafe { &*m.lanes::<u32>(if adds { op.c } else { op.a }) };
    let mut any = 0;
    for lane in 0..LANES {
        let [a, b, c] = [a, b, c].map(|x| flush(f32::from_bits(x[lane])));
        let result = if adds { f32::mul_add(a, b, c) } else { a * b };
        any |= u32::from(result.to_bits() << 1 == 0x0100_0000);
    }
    any != 0
}

struct Nearest32<F, const FTZ: bool, const SAT: bool>(PhantomData<F>);
impl<F: Binary, const FTZ: bool, const SAT: bool> LaneOp for Nearest32<F, FTZ, SAT> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            if FTZ && F::IS_PRODUCT && any_at_edge(m, op, false) {
                return map2::<f32, f32, u32>(m, op, mask, |a, b| {
                    let [x, y, z] = F::fused(f64::from(flush(a)), f64::from(flush(b)));
                    finish_exact(true, SAT, Exact::fused(x, y, z), F::f32(flush(a), flush(b)))
                });
            }
            map2::<f32, f32, u32>(m, op, mask, |a, b| finish(FTZ, SAT, F::f32(flush_if(FTZ, a), flush_if(FTZ, b))));
        }
    }
}

struct FusedNearest32<const FTZ: bool, const SAT: bool>;
impl<const FTZ: bool, const SAT: bool> LaneOp for FusedNearest32<FTZ, SAT> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            if FTZ && any_at_edge(m, op, true) {
                return map3::<f32, f32, f32, u32>(m, op, mask, |a, b, c| {
                    let (a, b, c) = (flush(a), flush(b), flush(c));
                    let exact = Exact::fused(a.into(), b.into(), c.into());
                    finish_exact(true, SAT, exact, f32::mul_add(a, b, c))
                });
            }
            map3::<f32, f32, f32, u32>(m, op, mask, |a, b, c| {
                finish(FTZ, SAT, f32::mul_add(flush_if(FTZ, a), flush_if(FTZ, b), flush_if(FTZ, c)))
            });
        }
    }
}

struct Directed32<F, D>(PhantomData<(F, D)>);
impl<F: Binary, D: Direction> LaneOp for Directed32<F, D> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        let (ftz, sat) = (op.imm & FTZ != 0, op.imm & SAT != 0);
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            lanes!(m, op, mask, |a: f32, b: f32| -> u32 {
                let [x, y, z] = F::fused(f64::from(flush_if(ftz, a)), f64::from(flush_if(ftz, b)));
                let exact = Exact::fused(x, y, z);
                finish_exact(ftz, sat, exact, exact.round::<D>())
            });
        }
    }
}

struct FusedDirected32<D>(PhantomData<D>);
impl<D: Direction> LaneOp for FusedDirected32<D> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        let (ftz, sat) = (op.imm & FTZ != 0, op.imm & SAT != 0);
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            lanes!(m, op, mask, |a: f32, b: f32, c: f32| -> u32 {
                let (a, b, c) = (flush_if(ftz, a), flush_if(ftz, b), flush_if(ftz, c));
                let exact = Exact::fused(a.into(), b.into(), c.into());
                finish_exact(ftz, sat, exact, exact.round::<D>())
            });
        }
    }
}

struct Nearest64<F>(PhantomData<F>);
impl<F: Binary> LaneOp for Nearest64<F> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe { map2::<f64, f64, u64>(m, op, mask, |a, b| propagate(F::f64(a, b), [a, b])) }
    }
}

struct FusedNearest64;
impl LaneOp for FusedNearest64 {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe { map3::<f64, f64, f64, u64>(m, op, mask, |a, b, c| propagate(f64::mul_add(a, b, c), [a, b, c])) }
    }
}

struct Directed64<F>(PhantomData<F>);
impl<F: Binary> LaneOp for Directed64<F> {
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        let rounding = Rounding::from_code(op.imm);
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            map2::<f64, f64, u64>(m, op, mask, |a, b| {
                let [x, y, z] = F::fused(a, b);
                propagate(soft::fma(x, y, z, rounding), [a, b])
            });
        }
    }
}

struct FusedDirected64;
impl LaneOp for FusedDirected64 {
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        let rounding = Rounding::from_code(op.imm);
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            map3::<f64, f64, f64, u64>(m, op, mask, |a, b, c| propagate(soft::fma(a, b, c, rounding), [a, b, c]));
        }
    }
}

/// Decodes `add`, `sub`, `mul`, `fma` and `mad` of `.f32` and `.f64`.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction, ty: T) -> Result<(), Error> {
    match ty {
        T::F32 => d.expect_modifiers(inst, &["rn", "rz", "rm", "rp", "ftz", "sat"])?,
        _ => d.expect_modifiers(inst, &["rn", "rz", "rm", "rp"])?,
    }
    let is_fused = matches!(inst.opcode, Opcode::Fma | Opcode::Mad);
    let rounding = match rounding(d, inst)? {
        Some(rounding) => rounding,
        None if is_fused => return Err(d.invalid(inst, "a rounding modifier is needed")),
        None => Rounding::Nearest,
    };
    let (handler, imm) = match (ty, inst.opcode) {
        (T::F32, Opcode::Add) => (binary32::<Add>(d, inst, rounding), flags(inst)),
        (T::F32, Opcode::Sub) => (binary32::<Sub>(d, inst, rounding), flags(inst)),
        (T::F32, Opcode::Mul) => (binary32::<Mul>(d, inst, rounding), flags(inst)),
        (T::F32, _) => (fused32(d, inst, rounding), flags(inst)),
        (_, Opcode::Add) => (binary64::<Add>(d, rounding), rounding.code()),
        (_, Opcode::Sub) => (binary64::<Sub>(d, rounding), rounding.code()),
        (_, Opcode::Mul) => (binary64::<Mul>(d, rounding), rounding.code()),
        (_, _) if rounding == Rounding::Nearest => (d.handler::<FusedNearest64>(), 0),
        (_, _) => (d.handler::<FusedDirected64>(), rounding.code()),
    };
    d.expect_operands(inst, if is_fused { 4 } else { 3 })?;
    let (a, b) = (d.src(inst, 1, ty)?, d.src(inst, 2, ty)?);
    let c = if is_fused { d.src(inst, 3, ty)? } else { crate::exec::op::NONE };
    let dst = d.dst(inst, 0, ty)?;
    d.push(Op { dst, a, b, c, imm, ..Op::new(handler) });
    Ok(())
}

fn binary32<F: Binary>(d: &Decoder, inst: &Instruction, rounding: Rounding) -> Handler {
    match (rounding, inst.has("ftz"), inst.has("sat")) {
        (Rounding::Zero, _, _) => d.handler::<Directed32<F, TowardZero>>(),
        (Rounding::Down, _, _) => d.handler::<Directed32<F, Downward>>(),
        (Rounding::Up, _, _) => d.handler::<Directed32<F, Upward>>(),
        (_, false, false) => d.handler::<Nearest32<F, false, false>>(),
        (_, false, true) => d.handler::<Nearest32<F, false, true>>(),
        (_, true, false) => d.handler::<Nearest32<F, true, false>>(),
        (_, true, true) => d.handler::<Nearest32<F, true, true>>(),
    }
}

fn fused32(d: &Decoder, inst: &Instruction, rounding: Rounding) -> Handler {
    match (rounding, inst.has("ftz"), inst.has("sat")) {
        (Rounding::Zero, _, _) => d.handler::<FusedDirected32<TowardZero>>(),
        (Rounding::Down, _, _) => d.handler::<FusedDirected32<Downward>>(),
        (Rounding::Up, _, _) => d.handler::<FusedDirected32<Upward>>(),
        (_, false, false) => d.handler::<FusedNearest32<false, false>>(),
        (_, false, true) => d.handler::<FusedNearest32<false, true>>(),
        (_, true, false) => d.handler::<FusedNearest32<true, false>>(),
        (_, true, true) => d.handler::<FusedNearest32<true, true>>(),
    }
}

fn binary64<F: Binary>(d: &Decoder, rounding: Rounding) -> Handler {
    match rounding {
        Rounding::Nearest | Rounding::NearestAway => d.handler::<Nearest64<F>>(),
        Rounding::Zero | Rounding::Down | Rounding::Up => d.handler::<Directed64<F>>(),
    }
}
