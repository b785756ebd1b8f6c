//! `mma.sync` (PTX ISA, "Multiply-and-Accumulate Instruction: mma").
//!
//! Every shape and type up to sm_90; `m8n8k4` of `.f16`, four products in a layout of its own, is
//! in [`super::quads`].

use warpfold_ptx::{Instruction, ScalarType as T};

use super::aligned::{By, Rule};
use super::element::{Element, types};
use super::expect_whole_warp;
use super::fragment::{read_c, write_c};
use super::product::{Sums, columns_of, from_registers};
use super::quads;
use crate::Error;
use crate::alu::float::finish::propagate;
use crate::alu::float::rounding;
use crate::alu::float::soft::{self, Rounding};
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::op::{Handler, LaneOp, NONE, Op};
use crate::exec::row::LANES;

/// The operands of an `mma`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mma {
    /// Rows of A divided by eight.
    blocks: u8,
    /// Columns of A.
    depth: u8,
    /// Registers of each operand.
    counts: Counts,
    /// Types of A and B, if not `.f64` or `.b1`.
    types: [Element; 2],
    /// Accumulator type, if not `.f64`.
    sums: Sums,
    /// Summation rule for floats below `.f64`.
    rule: Option<Rule>,
    /// Rounding of each `.f64` sum.
    rounding: Rounding,
    d: [u32; 4],
    a: [u32; 8],
    b: [u32; 4],
    c: [u32; 4],
}

/// Registers of each operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counts {
    a: u8,
    b: u8,
    c: u8,
}

impl Mma {
    fn b(&self) -> &[u32] {
        &self.b[..self.counts.b.into()]
    }
    fn c(&self) -> &[u32] {
        &self.c[..self.counts.c.into()]
    }
    fn d(&self) -> &[u32] {
        &self.d[..self.counts.c.into()]
    }
}

/// Accumulators of `.f32`, `.f16` or `.s32`.
struct Multiply;
impl LaneOp for Multiply {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        expect_whole_warp(m, op, mask);
        let tile = m.tensor.mma[op.imm as usize];
        let (blocks, depth, chunks) = (usize::from(tile.blocks), usize::from(tile.depth), usize::from(tile.counts.b));
        let scratch = &raw mut *m.scratch;
        // SAFETY: nothing else refers to the scratch while a handler runs.
        let scratch = unsafe { &mut *scratch };
        let mut old = [[[0; LANES]; 2]; 2];
        let registers = tile.sums.registers();
        // SAFETY: the decoder checked the operands.
        unsafe {
            for half in 0..blocks {
                let a = from_registers(m, &tile.a, (half, blocks), chunks);
                scratch.set_a(tile.types[0], half, &a, chunks * 4, false, tile.rule.as_ref());
                for i in 0..registers {
                    old[half % 2][i] = m.read::<u32>(tile.c[half * registers + i]);
                }
            }
            let b = columns_of(&from_registers(m, &tile.b, (0, 1), chunks));
            scratch.set_b(tile.types[1], &b, chunks * 4, tile.rule.as_ref());
            for half in 0..blocks {
                let old = &old[half % 2];
                let mut sums = tile.sums.start(old);
                scratch.add_product(half, depth, tile.rule.as_ref(), tile.sums.precision(), &mut sums);
                let words = tile.sums.finish(old, &sums);
                for i in 0..registers {
                    m.write(tile.d[half * registers + i], &words[i], mask);
                }
            }
        }
    }
}

/// Elements and accumulators of `.f64`: fused multiply-adds in the order of K, each rounded as the
/// instruction says.
struct Double;
impl LaneOp for Double {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        expect_whole_warp(m, op, mask);
        let tile = m.tensor.mma[op.imm as usize];
        let blocks = usize::from(tile.blocks);
        let mut c = [[0f64; 8]; 16];
        // SAFETY: the decoder checked the operands.
        unsafe {
            read_c(m, tile.c(), &mut c, f64::from_bits);
            for k in 0..usize::from(tile.depth) {
                let b = &*m.lanes::<u64>(tile.b[k / 4]);
                for (row, sums) in c.iter_mut().enumerate().take(blocks * 8) {
                    let a = (&*m.lanes::<u64>(tile.a[k / 4 * blocks + row / 8]))[row % 8 * 4 + k % 4];
                    for (n, sum) in sums.iter_mut().enumerate() {
                        let (x, y) = (f64::from_bits(a), f64::from_bits(b[n * 4 + k % 4]));
                        let addend = *sum;
                        let next = match tile.rounding {
                            Rounding::Nearest => x.mul_add(y, addend),
                            directed => soft::fma(x, y, addend, directed),
                        };
                        *sum = f64::from_bits(propagate(next, [x, y, addend]));
                    }
                }
            }
            write_c(m, tile.d(), &c, mask, f64::to_bits);
        }
    }
}

/// Single-bit products: the number of set bits in `A op B`, added to accumulators of `.s32`.
struct Bits<const XOR: bool>;
impl<const XOR: bool> LaneOp for Bits<XOR> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        expect_whole_warp(m, op, mask);
        let tile = m.tensor.mma[op.imm as usize];
        let blocks = usize::from(tile.blocks);
        let mut c = [[0u32; 8]; 16];
        // SAFETY: the decoder checked the operands.
        unsafe {
            read_c(m, tile.c(), &mut c, |bits: u32| bits);
            for (chunk, &row) in tile.b().iter().enumerate() {
                let b = &*m.lanes::<u32>(row);
                for (i, sums) in c.iter_mut().enumerate().take(blocks * 8) {
                    let a = &(&*m.lanes::<u32>(tile.a[chunk * blocks + i / 8]))[i % 8 * 4..][..4];
                    for (n, sum) in sums.iter_mut().enumerate() {
                        for t in 0..4 {
                            let both = if XOR { a[t] ^ b[n * 4 + t] } else { a[t] & b[n * 4 + t] };
                            *sum = sum.wrapping_add(both.count_ones());
                        }
                    }
                }
            }
            write_c(m, tile.d(), &c, mask, |x| x);
        }
    }
}

const SHAPES: [&str; 11] = [
    "m8n8k4",
    "m8n8k16",
    "m8n8k32",
    "m8n8k128",
    "m16n8k4",
    "m16n8k8",
    "m16n8k16",
    "m16n8k32",
    "m16n8k64",
    "m16n8k128",
    "m16n8k256",
];

/// M and K of a shape of `mma`.
fn shape(inst: &Instruction) -> Option<(u32, u32)> {
    let name = inst.modifiers.iter().find(|m| SHAPES.contains(&m.as_str()))?;
    let (m, rest) = name.strip_prefix('m')?.split_once("n8k")?;
    Some((m.parse().ok()?, rest.parse().ok()?))
}

/// Form of an `mma` whose types and shape exist: handler, types of A and B, accumulators, and their
/// type.
type Form = (Handler, [Element; 2], Sums, T);

fn form(d: &Decoder, inst: &Instruction, m: u32, k: u32) -> Result<Form, Error> {
    use Element as E;
    let none = || d.unsupported(inst, "no mma of this shape and these types before sm_100");
    let names = types(inst);
    let [dty, aty, bty, cty] = names[..] else { return Err(d.invalid(inst, "expected the types of D, A, B and C")) };
    if (aty, bty) == ("b1", "b1") {
        let handler = match (inst.has("xor"), inst.has("and")) {
            (true, false) => d.handler::<Bits<true>>(),
            (false, true) => d.handler::<Bits<false>>(),
            _ => return Err(d.invalid(inst, "expected .xor.popc or .and.popc")),
        };
        let exists = matches!((m, k), (8 | 16, 128) | (16, 256)) && inst.has("popc") && (dty, cty) == ("s32", "s32");
        return if exists { Ok((handler, [E::U8; 2], Sums::F32, T::S32)) } else { Err(none()) };
    }
    if (dty, aty, bty, cty) == ("f64", "f64", "f64", "f64") {
        return match (m, k) {
            (8, 4) | (16, 4 | 8 | 16) => Ok((d.handler::<Double>(), [E::Tf32; 2], Sums::F32, T::F64)),
            _ => Err(none()),
        };
    }
    let (Some(a), Some(b)) = (E::from_modifier(aty), E::from_modifier(bty)) else { return Err(none()) };
    let exists = match (a, b) {
        (E::F16, E::F16) => matches!((m, k), (16, 8 | 16)),
        (E::Bf16, E::Bf16) => matches!((m, k), (16, 8 | 16)) && dty == "f32",
        (E::Tf32, E::Tf32) => matches!((m, k), (16, 4 | 8)) && dty == "f32",
        (E::S8 | E::U8, E::S8 | E::U8) => matches!((m, k), (8, 16) | (16, 16 | 32)),
        (E::S4 | E::U4, E::S4 | E::U4) => matches!((m, k), (8, 32) | (16, 32 | 64)),
        _ => a.is_fp8() && b.is_fp8() && matches!((m, k), (16, 16 | 32)),
    };
    if !exists || dty != cty {
        return Err(none());
    }
    let saturates = inst.has("satfinite");
    let (sums, ty) = match (dty, a.is_integer()) {
        ("f32", false) if !saturates => (Sums::F32, T::F32),
        ("f16", false) if !saturates => (Sums::F16, T::F16x2),
        ("s32", true) => (Sums::Integer { saturates }, T::S32),
        _ => return Err(none()),
    };
    Ok((d.handler::<Multiply>(), [a, b], sums, ty))
}

/// Decodes `mma.sync.aligned.shape.row.col{.satfinite}.dtype.atype.btype.ctype{.bitop.popc} d, a,
/// b, c`.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    if inst.has("sp") || inst.modifiers.iter().any(|m| m.starts_with("sp::")) {
        return Err(d.unsupported(inst, "sparse matrices"));
    }
    let known =
        ["sync", "aligned", "row", "col", "satfinite", "xor", "and", "popc", "s4", "u4", "b1", "rn", "rz", "rm", "rp"];
    d.expect_modifiers(inst, &[&known[..], &SHAPES].concat())?;
    d.expect_operands(inst, 4)?;
    let size = shape(inst).ok_or_else(|| d.unsupported(inst, "no such shape"))?;
    let layouts: Vec<&str> =
        inst.modifiers.iter().map(|m| m.as_str()).filter(|m| matches!(*m, "row" | "col")).collect();
    match layouts[..] {
        [a, b] if size == (8, 4) && types(inst).contains(&"f16") => quads::decode(d, inst, [a, b]),
        ["row", "col"] => decode_as(d, inst, size),
        _ => Err(d.invalid(inst, "expected .row.col")),
    }
}

/// Decodes an instruction whose operands are those of an `mma` of this M and K.
pub(super) fn decode_as(d: &mut Decoder, inst: &Instruction, (m, k): (u32, u32)) -> Result<(), Error> {
    let (handler, elements, sums, ty) = form(d, inst, m, k)?;
    let rounding = rounding(d, inst)?;
    if rounding.is_some() && ty != T::F64 {
        return Err(d.invalid(inst, "a rounding is for .f64 only"));
    }
    let rounding = rounding.unwrap_or(Rounding::Nearest);
    let is_bits = inst.has("b1");
    if !is_bits && (inst.has("xor") || inst.has("and") || inst.has("popc")) {
        return Err(d.invalid(inst, "an operation on bits is for .b1 only"));
    }
    let (bits, input) = match ty {
        T::F64 => (32, T::F64),
        _ if is_bits => (1, T::B32),
        _ => (elements[0].bits(), factor_type(elements[0])),
    };
    let blocks = m / 8;
    let chunks = k * bits / 128;
    let small = |n: u32| u8::try_from(n).expect("a small count");
    let counts = Counts {
        a: small(blocks * chunks),
        b: small(chunks),
        c: small(if ty == T::F16x2 { blocks } else { 2 * blocks }),
    };
    let depth = if is_bits { 0 } else { small(k) };
    let is_float = !is_bits && ty != T::F64 && !elements[0].is_integer();
    let rule = is_float.then(|| Rule::of(d.arch, By::Mma, elements, k));
    let mut tile = Mma {
        blocks: small(blocks),
        depth,
        counts,
        types: elements,
        sums,
        rule,
        rounding,
        d: [NONE; 4],
        a: [NONE; 8],
        b: [NONE; 4],
        c: [NONE; 4],
    };
    fill(d, inst, 1, input, counts.a, &mut tile.a)?;
    fill(d, inst, 2, input, counts.b, &mut tile.b)?;
    fill(d, inst, 3, ty, counts.c, &mut tile.c)?;
    for (row, operand) in tile.d.iter_mut().zip(d.vector(inst, 0, counts.c.into())?) {
        *row = d.destination(inst, operand, ty)?;
    }
    let tables = d.tensor_tables();
    tables.mma.push(tile);
    let imm = i64::try_from(tables.mma.len() - 1).expect("few instructions");
    d.whole_warp(inst, Op { imm, ..Op::new(handler) })
}

/// The register type of A and B for ptxas, which accepts any for 8-bit types and integers.
pub(super) fn factor_type(element: Element) -> T {
    match element {
        Element::F16 => T::F16x2,
        Element::Bf16 => T::Bf16x2,
        Element::Tf32 => T::Tf32,
        _ => T::B32,
    }
}

/// Collects the rows of a vector operand that is read.
fn fill(d: &mut Decoder, inst: &Instruction, index: usize, ty: T, count: u8, rows: &mut [u32]) -> Result<(), Error> {
    for (row, operand) in rows.iter_mut().zip(d.vector(inst, index, count.into())?) {
        *row = d.source(inst, operand, ty)?;
    }
    Ok(())
}
