//! `wgmma.mma_async` and its synchronisation: decoding, and the operands of an instruction (PTX
//! ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions").
//!
//! Every dense shape and type. Registers are held in [`Tile`], what is known when an instruction is
//! issued in [`Issued`], the work is done in [`super::warpgroup`]. Absent: `wgmma.mma_async.sp`.

use warpfold_ptx::{Instruction, Major, Operand, ScalarType as T};

use super::aligned::{By, Rule};
use super::descriptor::Layout;
use super::element::{Element, types};
use super::mma::factor_type;
use super::product::Sums;
use super::queue::{Commit, Finish, Issue, Issued, Wait};
use super::rules::Fence;
use crate::Error;
use crate::decode::Decoder;
use crate::exec::machine::{Fault, Machine};
use crate::exec::memory_map::SHARED_WINDOW;
use crate::exec::op::{NONE, Op};
use crate::memory_ops::access::Nothing;
use crate::report::{FindingKind, Severity};

/// The constant operands of a `wgmma.mma_async`.
#[derive(Debug, Clone)]
pub(crate) struct Tile {
    /// Columns of B.
    pub n: u16,
    /// Operand types.
    pub kind: Kind,
    /// Major dimensions of A and B in shared memory.
    pub major: [Major; 2],
    /// True if the product is subtracted.
    pub negates: bool,
    /// The registers of A, unless it is in shared memory.
    pub a: Option<[u32; 4]>,
    /// The accumulators.
    pub d: Vec<u32>,
}

/// Operand types of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Numbers.
    Numbers {
        /// Types of A and B.
        types: [Element; 2],
        /// Accumulator type.
        sums: Sums,
        /// Summation rule for floats.
        rule: Option<Rule>,
    },
    /// Single bits, accumulated in `.s32`.
    Bits,
}

impl Tile {
    /// Places of the operands in shared memory: the layout, its first row, its rows and units.
    pub(crate) fn operands(
        &self,
        m: &Machine,
        issued: &Issued,
    ) -> impl Iterator<Item = (Layout, [u32; 2], [u32; 2])> + use<> {
        let rows = |layout: Layout, first: u32, rows: u32| match layout.major() {
            Major::K => (layout, [first, 0], [rows, 2]),
            Major::Mn => (layout, [0, first / 8], [16, rows / 8]),
        };
        let a = self.a.is_none().then(|| rows(Layout::new(issued.a, self.major[0]), m.warp % 4 * 16, 16));
        let b = rows(Layout::new(issued.b, self.major[1]), 0, self.n.into());
        a.into_iter().chain([b])
    }

    /// Returns true if the operands are inside shared memory; reports a finding otherwise.
    #[inline(always)]
    pub(crate) fn is_in_bounds(&self, m: &mut Machine, issued: &Issued) -> bool {
        let limit = m.shared_bytes;
        let ends =
            |(layout, first, count): (Layout, [u32; 2], [u32; 2])| layout.end(first[0] + count[0], first[1] + count[1]);
        self.operands(m, issued).all(|operand| ends(operand) <= limit) || self.has_all_units(m, issued)
    }

    /// Like [`Self::is_in_bounds`], unit by unit: the line of the last unit may be truncated after
    /// it.
    #[cold]
    #[inline(never)]
    fn has_all_units(&self, m: &mut Machine, issued: &Issued) -> bool {
        for (layout, first, count) in self.operands(m, issued) {
            for row in first[0]..first[0] + count[0] {
                for unit in first[1]..first[1] + count[1] {
                    let at = layout.unit(row, unit);
                    if at.saturating_add(16) > m.shared_bytes {
                        out_of_bounds(m, issued.instruction, at);
                        return false;
                    }
                }
            }
        }
        true
    }
}

/// Records an operand beyond shared memory.
#[cold]
fn out_of_bounds(m: &mut Machine, instruction: u32, at: u32) {
    let address = SHARED_WINDOW + u64::from(at);
    let fault = Fault {
        kind: FindingKind::OutOfBounds,
        severity: Severity::Error,
        instruction,
        block: m.block,
        thread: m.thread(0),
        address: Some((address, m.describe_shared(at.into()))),
        other: None,
        rule: format!("a matrix descriptor that leads outside the {} bytes of shared memory", m.shared_bytes),
    };
    let stop = !m.checked;
    m.fault(fault, stop);
}

/// Decodes `wgmma.…`.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    d.require_specific(inst, 90)?;
    let plain = |d: &Decoder, operands| {
        d.expect_modifiers(inst, &["fence", "commit_group", "wait_group", "sync", "aligned"])?;
        d.expect_operands(inst, operands)
    };
    match inst.modifiers.first().map(warpfold_ptx::Name::as_str) {
        Some("fence") => {
            plain(d, 0)?;
            let op = Op::new(if d.checked { d.handler::<Fence>() } else { d.handler::<Nothing>() });
            d.whole_warp(inst, op)
        }
        Some("commit_group") => {
            plain(d, 0)?;
            let op = Op::new(if d.checked { d.handler::<Commit<true>>() } else { d.handler::<Commit<false>>() });
            d.whole_warp(inst, op)
        }
        Some("wait_group") => {
            plain(d, 1)?;
            let groups = d.literal(inst, 0)?;
            let imm = i64::try_from(groups).ok().filter(|n| (0..8).contains(n));
            let imm = imm.ok_or_else(|| d.invalid(inst, "at most 7 groups may be pending"))?;
            let wait = if d.checked { d.handler::<Wait<true>>() } else { d.handler::<Wait<false>>() };
            let op = Op { imm, ..Op::new(wait) };
            d.whole_warp(inst, op)
        }
        Some("mma_async") => multiply(d, inst),
        _ => Err(d.unsupported(inst, "no such wgmma")),
    }
}

/// N and K of a shape.
fn shape(inst: &Instruction) -> Option<(u32, u32)> {
    let (n, k) = inst.modifiers.iter().find_map(|m| m.strip_prefix("m64n"))?.split_once('k')?;
    Some((n.parse().ok()?, k.parse().ok()?))
}

/// Operand types of an instruction, if they exist.
fn kind(d: &Decoder, inst: &Instruction) -> Result<Kind, Error> {
    use Element as E;
    let none = || d.unsupported(inst, "no wgmma of these types");
    let names = types(inst);
    let [sums, a, b] = names[..] else { return Err(d.invalid(inst, "expected the types of D, A and B")) };
    if (sums, a, b) == ("s32", "b1", "b1") {
        let is_known = inst.has("and") && inst.has("popc");
        return if is_known { Ok(Kind::Bits) } else { Err(d.invalid(inst, "expected .and.popc")) };
    }
    let (Some(a), Some(b)) = (E::from_modifier(a), E::from_modifier(b)) else { return Err(none()) };
    let sums = match (sums, a, b) {
        ("f32", E::F16, E::F16) | ("f32", E::Bf16, E::Bf16) | ("f32", E::Tf32, E::Tf32) => Sums::F32,
        ("f32", E::E4m3 | E::E5m2, E::E4m3 | E::E5m2) => Sums::F32,
        ("f16", E::F16, E::F16) | ("f16", E::E4m3 | E::E5m2, E::E4m3 | E::E5m2) => Sums::F16,
        ("s32", E::S8 | E::U8, E::S8 | E::U8) => Sums::Integer { saturates: inst.has("satfinite") },
        _ => return Err(none()),
    };
    let rule = (!a.is_integer()).then(|| Rule::of(d.arch, By::Wgmma, [a, b], 256 / a.bits()));
    Ok(Kind::Numbers { types: [a, b], sums, rule })
}

fn multiply(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    if inst.has("sp") {
        return Err(d.unsupported(inst, "sparse matrices"));
    }
    let (n, k) = shape(inst).ok_or_else(|| d.unsupported(inst, "no such shape"))?;
    let name = format!("m64n{n}k{k}");
    d.expect_modifiers(inst, &["mma_async", "sync", "aligned", "satfinite", "b1", "and", "popc", &name])?;
    let kind = kind(d, inst)?;
    let (bits, is_integer, registers) = match kind {
        Kind::Numbers { types, sums, .. } => (types[0].bits(), types[0].is_integer(), sums.registers()),
        Kind::Bits => (1, true, 2),
    };
    let steps = if is_integer && n > 32 { 16 } else { 8 };
    if k != 256 / bits || !(8..=256).contains(&n) || n % steps != 0 {
        return Err(d.unsupported(inst, "no such shape for these types"));
    }
    let on_bits = inst.has("and") || inst.has("popc");
    if inst.has("satfinite") && (!is_integer || kind == Kind::Bits) || kind != Kind::Bits && on_bits {
        return Err(d.invalid(inst, "a modifier of other types"));
    }
    let (factors, result) = match kind {
        Kind::Numbers { types, sums: Sums::F32, .. } => (factor_type(types[0]), T::F32),
        Kind::Numbers { types, sums: Sums::F16, .. } => (factor_type(types[0]), T::F16x2),
        Kind::Numbers { sums: Sums::Integer { .. }, .. } | Kind::Bits => (T::B32, T::S32),
    };
    let in_registers = matches!(d.operand(inst, 1)?, Operand::Vector(_));
    let is_16_bit = bits == 16;
    let scales = if is_integer { 0 } else { 2 };
    let transposes = if is_16_bit { 2 - usize::from(in_registers) } else { 0 };
    d.expect_operands(inst, 4 + scales + transposes)?;
    let mut negates = false;
    for at in 4..4 + scales {
        negates ^= match d.literal(inst, at)? {
            1 => false,
            -1 => true,
            _ => return Err(d.invalid(inst, "imm-scale-a and imm-scale-b are 1 or -1")),
        };
    }
    let mut major = [Major::K; 2];
    for (at, major) in (4 + scales..).zip(&mut major[2 - transposes..]) {
        *major = match d.literal(inst, at)? {
            0 => Major::K,
            1 => Major::Mn,
            _ => return Err(d.invalid(inst, "imm-trans-a and imm-trans-b are 0 or 1")),
        };
    }
    let a = if in_registers {
        let mut rows = [NONE; 4];
        for (row, operand) in rows.iter_mut().zip(d.vector(inst, 1, 4)?) {
            *row = register(d, inst, operand, (factors, Access::Read))?;
        }
        Some(rows)
    } else {
        None
    };
    let a_descriptor = if in_registers { NONE } else { d.src(inst, 1, T::B64)? };
    let b_descriptor = d.src(inst, 2, T::B64)?;
    let (adds, negated) = d.pred_src(inst, 3)?;
    let count = n as usize / 4 * registers;
    let mut rows = Vec::with_capacity(count);
    for operand in d.vector(inst, 0, count)? {
        rows.push(register(d, inst, operand, (result, Access::ReadWrite))?);
    }
    let n = u16::try_from(n).expect("at most 256");
    let tile = Tile { n, kind, major, negates, a, d: rows };
    let issue = if d.checked { d.handler::<Issue<true>>() } else { d.handler::<Issue<false>>() };
    let finish = d.handler::<Finish>();
    let tables = d.tensor_tables();
    tables.finish = Some(finish);
    tables.wgmma.push(tile);
    let imm = i64::try_from(tables.wgmma.len() - 1).expect("few instructions");
    d.whole_warp(inst, Op { imm, a: a_descriptor, b: b_descriptor, dst2: adds, c: negated.into(), ..Op::new(issue) })
}

/// Access of a `wgmma` to a register.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    ReadWrite,
}

/// The row of a register operand: of the register itself, which is read and written later.
fn register(d: &mut Decoder, inst: &Instruction, operand: &Operand, (ty, access): (T, Access)) -> Result<u32, Error> {
    if d.declared_type(inst, operand).is_none_or(|ty| ty.bits() > 32 || ty == T::Pred) {
        return Err(d.invalid(inst, format!("{operand} must be a register of 32 bits")));
    }
    let row = d.source(inst, operand, ty)?;
    if access == Access::ReadWrite {
        d.destination(inst, operand, ty)?;
    }
    Ok(row)
}
