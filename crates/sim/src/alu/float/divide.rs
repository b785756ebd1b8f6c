//! `div`, `rcp`, `sqrt` and `rsqrt` of `.f32` and `.f64`: correctly rounded (IEEE 754), and
//! approximate.
//!
//! The host divides and takes roots exactly rounded. `.approx` and `.full` are the [`unit`]'s
//! functions with the scaling that the assembler puts around them, so that what `.approx` promises
//! to get wrong (`div` by numbers beyond 2^126) is wrong here too.

use std::marker::PhantomData;

use warpfold_ptx::{Instruction, Opcode, ScalarType as T};

use super::exact::{Direction, Downward, Exact, TowardZero, Upward};
use super::finish::{canonical, finish, finish_product, flush_if, propagate};
use super::lanes::lanes;
use super::soft::{self, Rounding};
use super::{FTZ, flags, one_of, unit};
use crate::Error;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::op::{Handler, LaneOp, Op, map1, map2};

/// A function of one number.
trait Unary: 'static {
    /// Rounded to nearest, or more precise than `.approx` requires.
    fn f32(x: f32) -> f32;
    /// The result before rounding.
    fn exact(x: f64) -> Exact;
    /// Rounded to nearest.
    fn f64(x: f64) -> f64;
    /// Rounded otherwise.
    fn soft(x: f64, rounding: Rounding) -> f64;
}

struct Reciprocal;
impl Unary for Reciprocal {
    #[inline(always)]
    fn f32(x: f32) -> f32 {
        1.0 / x
    }
    #[inline(always)]
    fn exact(x: f64) -> Exact {
        Exact::quotient(1.0, x)
    }
    #[inline(always)]
    fn f64(x: f64) -> f64 {
        1.0 / x
    }
    fn soft(x: f64, rounding: Rounding) -> f64 {
        soft::divide(1.0, x, rounding)
    }
}

struct Root;
impl Unary for Root {
    #[inline(always)]
    fn f32(x: f32) -> f32 {
        x.sqrt()
    }
    #[inline(always)]
    fn exact(x: f64) -> Exact {
        Exact::root(x)
    }
    #[inline(always)]
    fn f64(x: f64) -> f64 {
        x.sqrt()
    }
    fn soft(x: f64, rounding: Rounding) -> f64 {
        soft::square_root(x, rounding)
    }
}

struct Unary32<F, const FTZ: bool>(PhantomData<F>);
impl<F: Unary, const FTZ: bool> LaneOp for Unary32<F, FTZ> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe { map1::<f32, u32>(m, op, mask, |a| finish(FTZ, false, F::f32(flush_if(FTZ, a)))) }
    }
}

struct UnaryDirected32<F, D>(PhantomData<(F, D)>);
impl<F: Unary, D: Direction> LaneOp for UnaryDirected32<F, D> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        let ftz = op.imm & FTZ != 0;
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            map1::<f32, u32>(m, op, mask, |a| finish(ftz, false, F::exact(f64::from(flush_if(ftz, a))).round::<D>()));
        }
    }
}

struct Unary64<F>(PhantomData<F>);
impl<F: Unary> LaneOp for Unary64<F> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe { map1::<f64, u64>(m, op, mask, |a| propagate(F::f64(a), [a])) }
    }
}

struct UnaryDirected64<F>(PhantomData<F>);
impl<F: Unary> LaneOp for UnaryDirected64<F> {
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        let rounding = Rounding::from_code(op.imm);
        // SAFETY: the decoder checked the operand widths.
        unsafe { map1::<f64, u64>(m, op, mask, |a| propagate(F::soft(a, rounding), [a])) }
    }
}

struct Divide32<const FTZ: bool>;
impl<const FTZ: bool> LaneOp for Divide32<FTZ> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            map2::<f32, f32, u32>(m, op, mask, |a, b| finish(FTZ, false, flush_if(FTZ, a) / flush_if(FTZ, b)));
        }
    }
}

/// `div.approx`: `a * rcp(b)`; subnormal divisors are scaled.
struct DivideApprox<const FTZ: bool>;
impl<const FTZ: bool> LaneOp for DivideApprox<FTZ> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            lanes!(m, op, mask, |a: f32, b: f32| -> u32 {
                let scale = if !FTZ && b.abs() < TINY { UP } else { 1.0 };
                finish_product(FTZ, a * scale, f32::from_bits(unit::reciprocal((b * scale).to_bits())))
            });
        }
    }
}

/// `div.full`: the same for divisors beyond 2^126, too.
struct DivideFull<const FTZ: bool>;
impl<const FTZ: bool> LaneOp for DivideFull<FTZ> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            lanes!(m, op, mask, |a: f32, b: f32| -> u32 {
                let small = if !FTZ && b.abs() < TINY { UP } else { 1.0 };
                let scale = if b.abs() > BEYOND { 0.25 } else { small };
                let dividend = flush_if(FTZ, flush_if(FTZ, a) * scale);
                finish_product(FTZ, dividend, f32::from_bits(unit::reciprocal((b * scale).to_bits())))
            });
        }
    }
}

/// The smallest normal number.
const TINY: f32 = f32::MIN_POSITIVE;
/// 2^126
const BEYOND: f32 = 8.507_059e37;
/// Scale factor for subnormal numbers.
const UP: f32 = 16_777_216.0;

/// `rcp.approx.f32`
struct ReciprocalApprox<const FTZ: bool>;
impl<const FTZ: bool> LaneOp for ReciprocalApprox<FTZ> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            lanes!(m, op, mask, |a: f32| -> u32 {
                let small = if a.abs() < TINY { UP } else { 1.0 };
                let scale = if a.abs() > BEYOND { 0.25 } else { small };
                if FTZ {
                    unit::reciprocal(a.to_bits())
                } else {
                    canonical(f32::from_bits(unit::reciprocal((a * scale).to_bits())) * scale)
                }
            });
        }
    }
}

/// `sqrt.approx.f32`
struct RootApprox<const FTZ: bool>;
impl<const FTZ: bool> LaneOp for RootApprox<FTZ> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            lanes!(m, op, mask, |a: f32| -> u32 {
                let scales = !FTZ && a.abs() < TINY;
                let result = unit::root(if scales { a * UP } else { a }.to_bits());
                if scales { canonical(f32::from_bits(result) * 2.0f32.powi(-12)) } else { result }
            });
        }
    }
}

struct DivideDirected32<D>(PhantomData<D>);
impl<D: Direction> LaneOp for DivideDirected32<D> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        let ftz = op.imm & FTZ != 0;
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            lanes!(m, op, mask, |a: f32, b: f32| -> u32 {
                let (a, b) = (f64::from(flush_if(ftz, a)), f64::from(flush_if(ftz, b)));
                finish(ftz, false, Exact::quotient(a, b).round::<D>())
            });
        }
    }
}

struct Divide64;
impl LaneOp for Divide64 {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe { map2::<f64, f64, u64>(m, op, mask, |a, b| propagate(a / b, [a, b])) }
    }
}

struct DivideDirected64;
impl LaneOp for DivideDirected64 {
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        let rounding = Rounding::from_code(op.imm);
        // SAFETY: the decoder checked the operand widths.
        unsafe { map2::<f64, f64, u64>(m, op, mask, |a, b| propagate(soft::divide(a, b, rounding), [a, b])) }
    }
}

/// `rsqrt.approx.f32`
struct ReciprocalRoot32<const FTZ: bool>;
impl<const FTZ: bool> LaneOp for ReciprocalRoot32<FTZ> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            lanes!(m, op, mask, |a: f32| -> u32 {
                let scales = !FTZ && a.abs() < TINY;
                let result = unit::reciprocal_root(if scales { a * UP } else { a }.to_bits());
                if scales { canonical(f32::from_bits(result) * 4096.0) } else { result }
            });
        }
    }
}

/// `rsqrt.approx.f64`, as the assembler has it: the function of the upper 32 bits, and a step of
/// Newton's method.
struct ReciprocalRoot64;
impl LaneOp for ReciprocalRoot64 {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        let improved = |x: f64| {
            let rough = f64::from_bits(unit_of_double::<true>(x.to_bits()) << 32);
            let error = x.mul_add(-(rough * rough), 1.0);
            error.mul_add(0.375, 0.5).mul_add(rough * error, rough)
        };
        let root = |x: f64| {
            if x.is_nan() || x == 0.0 || x == f64::INFINITY {
                propagate(1.0 / x.sqrt(), [x])
            } else if x < 0.0 {
                0xfff8_0000_0000_0000
            } else if x < f64::MIN_POSITIVE {
                (improved(x * 2_f64.powi(54)) * 2_f64.powi(27)).to_bits()
            } else {
                improved(x).to_bits()
            }
        };
        // SAFETY: the decoder checked the operand widths.
        unsafe { map1::<f64, u64>(m, op, mask, root) }
    }
}

/// `rcp.approx.ftz.f64` and `rsqrt.approx.ftz.f64`: the upper 32 bits in, the upper 32 bits out.
struct Gross64<const ROOT: bool>;
impl<const ROOT: bool> LaneOp for Gross64<ROOT> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            lanes!(m, op, mask, |a: u64| -> u64 {
                let x = f64::from_bits(flush64(a & UPPER));
                let result = 1.0 / if ROOT { x.sqrt() } else { x };
                let rounded = flush64(unit_of_double::<ROOT>(a) << 32);
                let is_special = result == 0.0 || !result.is_finite();
                let rounded = if is_special { result.to_bits() } else { rounded };
                if result.is_nan() { 0x7fff_ffff_0000_0000 } else { rounded }
            });
        }
    }
}

/// `MUFU.RCP64H` and `MUFU.RSQ64H` of a number that is neither zero nor special: the functions of
/// `.f32` on the fraction's upper 20 bits, truncated to as many.
#[inline(always)]
fn unit_of_double<const ROOT: bool>(x: u64) -> u64 {
    let upper = (x >> 32) as u32;
    let unbiased = (upper >> 20 & 0x7ff).cast_signed() - 1023;
    // With an exponent of 0 or 1, which is all that the fraction's function needs.
    let odd = if ROOT { unbiased & 1 } else { 0 };
    let single = ((127 + odd).cast_unsigned() << 23) | (upper & 0xf_ffff) << 3;
    let result = if ROOT { unit::reciprocal_root(single) } else { unit::reciprocal(single) };
    let rest = if ROOT { (unbiased - odd) / 2 } else { unbiased };
    let exponent = (result >> 23).cast_signed() - 127 - rest + 1023;
    let sign = if ROOT { 0 } else { upper & 0x8000_0000 };
    let bits = (exponent.cast_unsigned() << 20) | (result >> 3 & 0xf_ffff);
    u64::from(if exponent < 1 { 0 } else { bits } | sign)
}

/// The upper half of 64 bits.
const UPPER: u64 = 0xffff_ffff_0000_0000;

/// A subnormal number becomes zero with its sign.
#[inline(always)]
fn flush64(bits: u64) -> u64 {
    if bits & 0x7ff0_0000_0000_0000 == 0 { bits & 0x8000_0000_0000_0000 } else { bits }
}

/// Decodes `div`, `rcp`, `sqrt` and `rsqrt`.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction, ty: T) -> Result<(), Error> {
    let approx = inst.has("approx");
    d.expect_modifiers(
        inst,
        match (inst.opcode, ty, approx) {
            (Opcode::Div, T::F32, false) => &["rn", "rz", "rm", "rp", "full", "ftz"],
            (_, T::F32, false) => &["rn", "rz", "rm", "rp", "ftz"],
            (_, _, false) => &["rn", "rz", "rm", "rp"],
            (_, _, true) => &["approx", "ftz"],
        },
    )?;
    let kinds = [
        ("rn", Rounding::Nearest),
        ("rz", Rounding::Zero),
        ("rm", Rounding::Down),
        ("rp", Rounding::Up),
        ("approx", Rounding::Nearest),
        ("full", Rounding::Nearest),
    ];
    let Some(rounding) = one_of(d, inst, &kinds)? else {
        return Err(d.invalid(inst, "'.approx' or a rounding modifier is needed"));
    };
    let ftz = inst.has("ftz");
    let (handler, imm) = match (inst.opcode, ty) {
        (Opcode::Rsqrt, _) if !approx => return Err(d.invalid(inst, "'.approx' is needed")),
        (Opcode::Div, T::F32) => (divide32(d, rounding, approx, ftz), flags(inst)),
        (Opcode::Rcp, T::F32) => (unary32::<Reciprocal>(d, rounding, ftz), flags(inst)),
        (Opcode::Sqrt, T::F32) => (unary32::<Root>(d, rounding, ftz), flags(inst)),
        (_, T::F32) if ftz => (d.handler::<ReciprocalRoot32<true>>(), 0),
        (_, T::F32) => (d.handler::<ReciprocalRoot32<false>>(), 0),
        (Opcode::Rcp, _) if approx && ftz => (d.handler::<Gross64<false>>(), 0),
        (Opcode::Rsqrt, _) if ftz => (d.handler::<Gross64<true>>(), 0),
        (Opcode::Rsqrt, _) => (d.handler::<ReciprocalRoot64>(), 0),
        (_, _) if approx => return Err(d.invalid(inst, "not defined for .f64")),
        (Opcode::Rcp, _) => (unary64::<Reciprocal>(d, rounding), rounding.code()),
        (Opcode::Sqrt, _) => (unary64::<Root>(d, rounding), rounding.code()),
        (_, _) if rounding == Rounding::Nearest => (d.handler::<Divide64>(), 0),
        (_, _) => (d.handler::<DivideDirected64>(), rounding.code()),
    };
    let handler = match (inst.opcode, ty, approx, ftz) {
        (Opcode::Div, T::F32, _, true) if inst.has("full") => d.handler::<DivideFull<true>>(),
        (Opcode::Div, T::F32, _, false) if inst.has("full") => d.handler::<DivideFull<false>>(),
        (Opcode::Rcp, T::F32, true, true) => d.handler::<ReciprocalApprox<true>>(),
        (Opcode::Rcp, T::F32, true, false) => d.handler::<ReciprocalApprox<false>>(),
        (Opcode::Sqrt, T::F32, true, true) => d.handler::<RootApprox<true>>(),
        (Opcode::Sqrt, T::F32, true, false) => d.handler::<RootApprox<false>>(),
        _ => handler,
    };
    let is_division = inst.opcode == Opcode::Div;
    d.expect_operands(inst, if is_division { 3 } else { 2 })?;
    let a = d.src(inst, 1, ty)?;
    let b = if is_division { d.src(inst, 2, ty)? } else { crate::exec::op::NONE };
    let dst = d.dst(inst, 0, ty)?;
    d.push(Op { dst, a, b, imm, ..Op::new(handler) });
    Ok(())
}

fn divide32(d: &Decoder, rounding: Rounding, approx: bool, ftz: bool) -> Handler {
    match (rounding, approx, ftz) {
        (Rounding::Zero, _, _) => d.handler::<DivideDirected32<TowardZero>>(),
        (Rounding::Down, _, _) => d.handler::<DivideDirected32<Downward>>(),
        (Rounding::Up, _, _) => d.handler::<DivideDirected32<Upward>>(),
        (_, true, false) => d.handler::<DivideApprox<false>>(),
        (_, true, true) => d.handler::<DivideApprox<true>>(),
        (_, false, false) => d.handler::<Divide32<false>>(),
        (_, false, true) => d.handler::<Divide32<true>>(),
    }
}

fn unary32<F: Unary>(d: &Decoder, rounding: Rounding, ftz: bool) -> Handler {
    match (rounding, ftz) {
        (Rounding::Zero, _) => d.handler::<UnaryDirected32<F, TowardZero>>(),
        (Rounding::Down, _) => d.handler::<UnaryDirected32<F, Downward>>(),
        (Rounding::Up, _) => d.handler::<UnaryDirected32<F, Upward>>(),
        (_, false) => d.handler::<Unary32<F, false>>(),
        (_, true) => d.handler::<Unary32<F, true>>(),
    }
}

fn unary64<F: Unary>(d: &Decoder, rounding: Rounding) -> Handler {
    match rounding {
        Rounding::Nearest | Rounding::NearestAway => d.handler::<Unary64<F>>(),
        Rounding::Zero | Rounding::Down | Rounding::Up => d.handler::<UnaryDirected64<F>>(),
    }
}
