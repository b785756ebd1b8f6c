//! `mov`, `cvta`, `isspacep`, and the conversions of operands: widening, narrowing, packing,
//! special registers.

use std::marker::PhantomData;

use warpfold_ptx::{Instruction, Name, Opcode, Operand, ScalarType as T};

use crate::Error;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::memory_map::{LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, Window, tagged, window};
use crate::exec::op::{LaneOp, Op, map1, map2};
use crate::exec::row::{ALL_LANES, LANES, Lane, Word, mask_of};

/// Copies a register.
pub(crate) struct Copy<W>(PhantomData<W>);
impl<W: Word> LaneOp for Copy<W> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            let value = m.read::<W>(op.a);
            m.write(op.dst, &value, mask);
        }
    }
}

/// Keeps the low bits.
pub(crate) struct Narrow<A, D>(PhantomData<(A, D)>);
macro_rules! narrow {
    ($($a:ty => $d:ty),*) => {$(
        impl LaneOp for Narrow<$a, $d> {
            #[inline(always)]
            #[allow(clippy::cast_possible_truncation, reason = "that is what it is for")]
            unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
                // SAFETY: the decoder checked the operand widths.
                unsafe { map1::<$a, $d>(m, op, mask, |a| a as $d) }
            }
        }
    )*};
}
narrow!(u64 => u32, u128 => u32, u128 => u64);

/// Extends to more bits.
pub(crate) struct Widen<A, D>(PhantomData<(A, D)>);
impl<A: Lane, D: Lane + From<A>> LaneOp for Widen<A, D> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe { map1::<A, D>(m, op, mask, D::from) }
    }
}

/// The sum of two rows, for operands such as `%r+4`.
pub(crate) struct Sum<W>(PhantomData<W>);
macro_rules! sum {
    ($($w:ty),*) => {$(
        impl LaneOp for Sum<$w> {
            #[inline(always)]
            unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
                // SAFETY: the decoder checked the operand widths.
                unsafe { map2::<$w, $w, $w>(m, op, mask, <$w>::wrapping_add) }
            }
        }
    )*};
}
sum!(u32, u64);

/// The address of a variable in the frame's local memory.
pub(crate) struct LocalAddress<W>(PhantomData<W>);
impl<W: Word + TryFrom<u64>> LaneOp for LocalAddress<W> {
    #[inline(always)]
    #[allow(clippy::cast_sign_loss, reason = "addresses wrap")]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        let address = u64::from(m.local_base).wrapping_add(op.imm as u64);
        let value = W::try_from(address & 0xffff_ffff).unwrap_or_default();
        // SAFETY: the decoder checked the operand widths.
        unsafe { m.write(op.dst, &[value; LANES], mask) }
    }
}

/// Sets a predicate to a constant.
pub(crate) struct SetPredicate;
impl LaneOp for SetPredicate {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder gave the predicate.
        unsafe { m.set_predicate(op.dst, if op.imm != 0 { ALL_LANES } else { 0 }, mask) }
    }
}

/// Copies a predicate; `imm` negates it.
struct CopyPredicate;
impl LaneOp for CopyPredicate {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder gave the predicates.
        unsafe {
            let p = m.predicate(op.a);
            m.set_predicate(op.dst, if op.imm != 0 { !p } else { p }, mask);
        }
    }
}

/// The deterministic clock, shifted right by `imm`.
struct Clock<W>(PhantomData<W>);
impl<W: Word + TryFrom<u64>> LaneOp for Clock<W> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        m.waiting = true;
        let bits = if size_of::<W>() == 4 { (m.clock >> op.imm) & 0xffff_ffff } else { m.clock >> op.imm };
        // SAFETY: the decoder checked the operand widths.
        unsafe { m.write(op.dst, &[W::try_from(bits).unwrap_or_default(); LANES], mask) }
    }
}

/// Adds a constant where the sum is a generic address; null stays null.
struct ToGeneric;
impl LaneOp for ToGeneric {
    #[inline(always)]
    #[allow(clippy::cast_sign_loss, reason = "addresses wrap")]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe { map1::<u64, u64>(m, op, mask, |a| a.wrapping_add(op.imm as u64)) }
    }
}

/// Tests if a generic address is in the running block's part of shared memory.
struct IsOwnShared;
impl LaneOp for IsOwnShared {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        let own = m.cluster.rank;
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            let holds = m.read::<u64>(op.a).map(|address| match window(address) {
                (Window::Shared, offset) => {
                    u32::try_from(offset).is_ok_and(|offset| tagged(offset, own).0.is_none_or(|rank| rank == own))
                }
                _ => false,
            });
            m.set_predicate(op.dst, mask_of(|lane| holds[lane]), mask);
        }
    }
}

/// `%is_explicit_cluster`.
struct IsExplicitCluster;
impl LaneOp for IsExplicitCluster {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        let holds = if m.cluster.explicit { ALL_LANES } else { 0 };
        // SAFETY: the decoder gave the predicate.
        unsafe { m.set_predicate(op.dst, holds, mask) }
    }
}

/// Tests if a generic address is in window `imm`.
struct IsSpace;
impl LaneOp for IsSpace {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            let a = m.read::<u64>(op.a);
            let mut holds = 0;
            for lane in 0..LANES {
                holds |= u32::from(window(a[lane]).0 as i64 == op.imm) << lane;
            }
            m.set_predicate(op.dst, holds, mask);
        }
    }
}

/// Puts the low `bits` bits of `a` at bit `imm` of `dst`, and leaves the others.
struct Insert<S, W>(PhantomData<(S, W)>);
/// Takes bits from `imm` on.
struct Extract<W, D>(PhantomData<(W, D)>);
macro_rules! pieces {
    ($($part:ty, $whole:ty);*) => {$(
        impl LaneOp for Insert<$part, $whole> {
            #[inline(always)]
            unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
                // SAFETY: the decoder checked the operand widths.
                unsafe {
                    let part = m.read::<<$part as Lane>::Bits>(op.a);
                    let mut whole = m.read::<$whole>(op.dst);
                    let keep = !(<$whole>::from(<$part>::MAX) << op.imm);
                    for lane in 0..LANES {
                        let value = <$whole>::from(<$part>::from_bits(part[lane])) << op.imm;
                        whole[lane] = whole[lane] & keep | value;
                    }
                    m.write(op.dst, &whole, mask);
                }
            }
        }
        impl LaneOp for Extract<$whole, $part> {
            #[inline(always)]
            #[allow(clippy::cast_possible_truncation, reason = "that is what it is for")]
            unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
                // SAFETY: the decoder checked the operand widths.
                unsafe { map1::<$whole, $part>(m, op, mask, |a| (a >> op.imm) as $part) }
            }
        }
    )*};
}
pieces!(u8, u32; u16, u32; u8, u64; u16, u64; u32, u64; u32, u128; u64, u128; u16, u128);

/// Special registers that change while a thread runs.
pub(crate) fn is_dynamic_special(name: &str) -> bool {
    matches!(name, "%clock" | "%clock_hi" | "%clock64" | "%globaltimer" | "%globaltimer_lo" | "%globaltimer_hi")
}

impl Decoder<'_> {
    /// A predicate that holds `%is_explicit_cluster`.
    pub(crate) fn explicit_cluster(&mut self) -> u32 {
        let dst = self.f.fresh_predicate();
        self.push(Op { dst, ..Op::new(self.handler::<IsExplicitCluster>()) });
        dst
    }

    /// A row filled with a special register that changes while a thread runs.
    pub(crate) fn dynamic_special(&mut self, _inst: &Instruction, name: &str, ty: T) -> Result<u32, Error> {
        let wide = matches!(name, "%clock64" | "%globaltimer");
        let from = if wide { T::U64 } else { T::U32 };
        let dst = self.f.temporary(from);
        let handler = if wide { self.handler::<Clock<u64>>() } else { self.handler::<Clock<u32>>() };
        let imm = if name.ends_with("_hi") { 32 } else { 0 };
        self.push(Op { dst, imm, ..Op::new(handler) });
        Ok(self.resize(dst, from, ty, false))
    }
}

/// Packs the elements of a vector into a register.
pub(crate) fn pack(d: &mut Decoder, inst: &Instruction, dst: u32, elements: &[Operand], ty: T) -> Result<(), Error> {
    let part = part_type(d, inst, elements.len(), ty)?;
    for (i, element) in elements.iter().enumerate() {
        let a = d.source(inst, element, part)?;
        let handler = match (part.bits(), ty.bits()) {
            (8, 32) => d.handler::<Insert<u8, u32>>(),
            (8, 16) => d.handler::<Insert<u8, u32>>(),
            (16, 32) => d.handler::<Insert<u16, u32>>(),
            (16, 64) => d.handler::<Insert<u16, u64>>(),
            (32, 64) => d.handler::<Insert<u32, u64>>(),
            (32, 128) => d.handler::<Insert<u32, u128>>(),
            (64, 128) => d.handler::<Insert<u64, u128>>(),
            _ => return Err(d.invalid(inst, "these elements do not fill the register")),
        };
        let imm = i64::from(part.bits()) * i64::try_from(i).expect("few elements");
        d.push(Op { dst, a, imm, ..Op::new(handler) });
    }
    Ok(())
}

fn part_type(d: &Decoder, inst: &Instruction, count: usize, ty: T) -> Result<T, Error> {
    match ty.bits() / u32::try_from(count.max(1)).expect("few elements") {
        8 => Ok(T::B8),
        16 => Ok(T::B16),
        32 => Ok(T::B32),
        64 => Ok(T::B64),
        _ => Err(d.invalid(inst, "these elements do not fill the register")),
    }
}

fn unpack(d: &mut Decoder, inst: &Instruction, elements: &[Operand], a: u32, ty: T) -> Result<(), Error> {
    let part = part_type(d, inst, elements.len(), ty)?;
    // The source may be one of the destinations: it is copied first.
    let source = d.f.temporary(ty);
    let copy = copy_handler(d, ty);
    d.push(Op { dst: source, a, ..Op::new(copy) });
    for (i, element) in elements.iter().enumerate() {
        if matches!(element, Operand::Sink) {
            continue;
        }
        let handler = match (ty.bits(), part.bits()) {
            (16 | 32, 8) => d.handler::<Extract<u32, u8>>(),
            (32, 16) => d.handler::<Extract<u32, u16>>(),
            (64, 8) => d.handler::<Extract<u64, u8>>(),
            (64, 16) => d.handler::<Extract<u64, u16>>(),
            (64, 32) => d.handler::<Extract<u64, u32>>(),
            (128, 16) => d.handler::<Extract<u128, u16>>(),
            (128, 32) => d.handler::<Extract<u128, u32>>(),
            (128, 64) => d.handler::<Extract<u128, u64>>(),
            _ => return Err(d.invalid(inst, "the register does not split into these elements")),
        };
        let dst = d.destination(inst, element, part)?;
        let imm = i64::from(part.bits()) * i64::try_from(i).expect("few elements");
        d.push(Op { dst, a: source, imm, ..Op::new(handler) });
    }
    Ok(())
}

fn copy_handler(d: &Decoder, ty: T) -> crate::exec::op::Handler {
    match ty.bits() {
        0..=32 => d.handler::<Copy<u32>>(),
        33..=64 => d.handler::<Copy<u64>>(),
        _ => d.handler::<Copy<u128>>(),
    }
}

/// Decodes `mov`, `cvta` and `isspacep`.
pub(crate) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    match inst.opcode {
        Opcode::Mov => mov(d, inst),
        Opcode::Cvta => cvta(d, inst),
        _ => isspacep(d, inst),
    }
}

fn mov(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    d.expect_modifiers(inst, &["v2", "v4"])?;
    d.expect_operands(inst, 2)?;
    let ty = d.ty(inst, 0)?;
    if ty == T::Pred {
        let (a, negated) = d.pred_src(inst, 1)?;
        let operand = inst.operands[0].clone();
        let dst = d.predicate_destination(inst, &operand)?;
        d.push(Op { dst, a, imm: i64::from(negated), ..Op::new(d.handler::<CopyPredicate>()) });
        return Ok(());
    }
    if !is_moved(ty) || ty.bits() < 16 {
        return Err(d.invalid(inst, format!("mov has no type {}", ty.name())));
    }
    if let [Operand::Vector(to), Operand::Vector(from)] = inst.operands.as_slice() {
        return vector(d, inst, to, from, ty);
    }
    if let Operand::Vector(elements) = &inst.operands[0] {
        let a = d.src(inst, 1, ty)?;
        return unpack(d, inst, elements, a, ty);
    }
    let a = d.src(inst, 1, ty)?;
    let dst = d.dst(inst, 0, ty)?;
    let handler = copy_handler(d, ty);
    d.push(Op { dst, a, ..Op::new(handler) });
    Ok(())
}

/// `mov.v4.u32 %v, %w`: all elements are read before any is written.
fn vector(d: &mut Decoder, inst: &Instruction, to: &[Operand], from: &[Operand], ty: T) -> Result<(), Error> {
    if to.len() != from.len() || !inst.has(if to.len() == 4 { "v4" } else { "v2" }) {
        return Err(d.invalid(inst, "the vectors differ in length"));
    }
    let handler = copy_handler(d, ty);
    let mut read = Vec::new();
    for element in from {
        let a = d.source(inst, element, ty)?;
        let copy = d.f.temporary(ty);
        d.push(Op { dst: copy, a, ..Op::new(handler) });
        read.push(copy);
    }
    for (element, a) in to.iter().zip(read) {
        let dst = d.destination(inst, element, ty)?;
        d.push(Op { dst, a, ..Op::new(handler) });
    }
    Ok(())
}

/// Returns true if ptxas loads and stores values of a type: bits, integers, `.f32` and `.f64`.
pub(super) fn is_moved(ty: T) -> bool {
    let is_bits = matches!(ty, T::B8 | T::B16 | T::B32 | T::B64 | T::B128);
    let is_integer = matches!(ty, T::U8 | T::U16 | T::U32 | T::U64 | T::S8 | T::S16 | T::S32 | T::S64);
    is_bits || is_integer || matches!(ty, T::F32 | T::F64)
}

fn window_of(d: &Decoder, inst: &Instruction) -> Result<(u64, Window), Error> {
    let space = inst.modifiers.iter().find(|m| is_space(m));
    Ok(match space.map(Name::as_str) {
        Some("global" | "const") => (0, Window::Global),
        Some("shared" | "shared::cta") => (SHARED_WINDOW, Window::Shared),
        Some("shared::cluster") => {
            d.require(inst, 90)?;
            (SHARED_WINDOW, Window::Shared)
        }
        Some("local") => (LOCAL_WINDOW, Window::Local),
        Some("param" | "param::entry") if d.f.is_kernel => (PARAM_WINDOW, Window::Param),
        Some("param" | "param::func") => (LOCAL_WINDOW, Window::Local),
        _ => return Err(d.unsupported(inst, "this state space")),
    })
}

/// Returns true if a modifier names a state space.
pub(super) fn is_space(modifier: &str) -> bool {
    let name = modifier.split("::").next().unwrap_or(modifier);
    matches!(name, "global" | "const" | "shared" | "local" | "param")
}

fn cvta(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    d.expect_operands(inst, 2)?;
    let (start, _) = window_of(d, inst)?;
    let ty = d.ty(inst, 0)?;
    if ty.bits() != 64 {
        return Err(d.unsupported(inst, "32-bit generic addresses"));
    }
    let a = d.src(inst, 1, T::U64)?;
    let dst = d.dst(inst, 0, T::U64)?;
    #[allow(clippy::cast_possible_wrap, reason = "addresses wrap")]
    let imm = if inst.has("to") { (start as i64).wrapping_neg() } else { start as i64 };
    d.push(Op { dst, a, imm, ..Op::new(d.handler::<ToGeneric>()) });
    Ok(())
}

fn isspacep(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    d.expect_operands(inst, 2)?;
    let (_, space) = window_of(d, inst)?;
    let a = d.src(inst, 1, T::U64)?;
    let operand = inst.operands[0].clone();
    let dst = d.predicate_destination(inst, &operand)?;
    if space == Window::Shared && !inst.has("shared::cluster") {
        d.push(Op { dst, a, ..Op::new(d.handler::<IsOwnShared>()) });
        return Ok(());
    }
    d.push(Op { dst, a, imm: space as i64, ..Op::new(d.handler::<IsSpace>()) });
    Ok(())
}
