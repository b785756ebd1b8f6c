//! `mma.sync` (PTX ISA, "Multiply-and-Accumulate Instruction: mma").
//!
//! Every shape and type up to sm_90 but `m8n8k4` of `.f16`, which is the sm_70 form: four products at once in a layout of its own.

use warpfold_ptx::{Instruction, ScalarType as T};

use super::element::{Element, f16, types};
use super::expect_whole_warp;
use super::fragment::{COLUMNS, DEPTH, ROWS, read_a, read_b, read_c, write_c};
use super::multiply::multiply;
use crate::Error;
use crate::alu::float::finish::{NAN16, canonical, propagate};
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::op::{LaneOp, NONE, Op};
use crate::exec::row::LANES;

/// The operands of an `mma`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mma {
    /// Rows of A over eight.
    blocks: u8,
    /// Columns of A.
    depth: u8,
    /// Registers of each operand.
    counts: Counts,
    /// Types of A and B, where they are not `.f64` or `.b1`.
    types: [Element; 2],
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
    fn a(&self) -> &[u32] {
        &self.a[..self.counts.a.into()]
    }
    fn b(&self) -> &[u32] {
        &self.b[..self.counts.b.into()]
    }
    fn c(&self) -> &[u32] {
        &self.c[..self.counts.c.into()]
    }
    fn d(&self) -> &[u32] {
        &self.d[..self.counts.c.into()]
    }

    /// The product, added to what `c` holds.
    ///
    /// # Safety
    /// As for a handler.
    #[inline(always)]
    unsafe fn add_product(&self, m: &Machine, c: &mut [[f32; COLUMNS]; ROWS]) {
        let (mut a, mut b) = ([[0.0; DEPTH]; ROWS], [[0.0; COLUMNS]; DEPTH]);
        // SAFETY: the decoder gave the function these rows.
        unsafe {
            read_a(m, self.types[0], self.a(), self.blocks.into(), &mut a);
            read_b(m, self.types[1], self.b(), &mut b);
        }
        multiply(c, &a, &b, self.blocks.into(), self.depth.into());
    }
}

/// Accumulators of `.f32`.
struct Single;
impl LaneOp for Single {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        expect_whole_warp(m, op, mask);
        let tile = m.tensor.mma[op.imm as usize];
        let mut c = [[0.0; COLUMNS]; ROWS];
        // SAFETY: the decoder checked the operands.
        unsafe {
            read_c(m, tile.c(), &mut c, f32::from_bits);
            tile.add_product(m, &mut c);
            write_c(m, tile.d(), &c, mask, canonical);
        }
    }
}

/// Accumulators of `.f16`, two in a register.
struct Half;
impl LaneOp for Half {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        expect_whole_warp(m, op, mask);
        let tile = m.tensor.mma[op.imm as usize];
        let mut c = [[0.0; COLUMNS]; ROWS];
        for (block, &row) in tile.c().iter().enumerate() {
            // SAFETY: the decoder checked the operands.
            let words = unsafe { &*m.lanes::<u32>(row) };
            for lane in 0..LANES {
                c[block * 8 + lane / 4][lane % 4 * 2] = f16(words[lane] & 0xffff);
                c[block * 8 + lane / 4][lane % 4 * 2 + 1] = f16(words[lane] >> 16);
            }
        }
        // SAFETY: the decoder checked the operands.
        unsafe { tile.add_product(m, &mut c) };
        for (block, &row) in tile.d().iter().enumerate() {
            let mut words = [0; LANES];
            for lane in 0..LANES {
                let pair = &c[block * 8 + lane / 4][lane % 4 * 2..][..2];
                words[lane] = u32::from(round_to_f16(pair[0])) | u32::from(round_to_f16(pair[1])) << 16;
            }
            // SAFETY: the decoder checked the operands.
            unsafe { m.write(row, &words, mask) };
        }
    }
}

/// The bits of the nearest `.f16`.
#[inline(always)]
pub(crate) fn round_to_f16(x: f32) -> u16 {
    if x.is_nan() { NAN16 } else { half::f16::from_f32(x).to_bits() }
}

/// Accumulators of `.s32`: a product's sum over K is below 2^24, so it is exact in `f32`.
struct Integer<const SATURATE: bool>;
impl<const SATURATE: bool> LaneOp for Integer<SATURATE> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        expect_whole_warp(m, op, mask);
        let tile = m.tensor.mma[op.imm as usize];
        let (mut product, mut c) = ([[0.0; COLUMNS]; ROWS], [[0i32; COLUMNS]; ROWS]);
        // SAFETY: the decoder checked the operands.
        unsafe {
            read_c(m, tile.c(), &mut c, |bits: u32| bits as i32);
            tile.add_product(m, &mut product);
            for (c, product) in c.iter_mut().zip(&product) {
                for (c, product) in c.iter_mut().zip(product) {
                    let product = *product as i32;
                    *c = if SATURATE { c.saturating_add(product) } else { c.wrapping_add(product) };
                }
            }
            write_c(m, tile.d(), &c, mask, |x| x as u32);
        }
    }
}

/// Elements and accumulators of `.f64`: fused multiply-adds in the order of K.
struct Double;
impl LaneOp for Double {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        expect_whole_warp(m, op, mask);
        let tile = m.tensor.mma[op.imm as usize];
        let blocks = usize::from(tile.blocks);
        let mut c = [[0f64; COLUMNS]; ROWS];
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
                        *sum = f64::from_bits(propagate(x.mul_add(y, addend), [x, y, addend]));
                    }
                }
            }
            write_c(m, tile.d(), &c, mask, f64::to_bits);
        }
    }
}

/// Single bits: how many of them are set in `A op B`, added to accumulators of `.s32`.
struct Bits<const XOR: bool>;
impl<const XOR: bool> LaneOp for Bits<XOR> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        expect_whole_warp(m, op, mask);
        let tile = m.tensor.mma[op.imm as usize];
        let blocks = usize::from(tile.blocks);
        let mut c = [[0u32; COLUMNS]; ROWS];
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

/// M and K of a shape, if it is one of `mma`.
fn shape(inst: &Instruction) -> Option<(u32, u32)> {
    let name = inst.modifiers.iter().find(|m| SHAPES.contains(&m.as_str()))?;
    let (m, rest) = name.strip_prefix('m')?.split_once("n8k")?;
    Some((m.parse().ok()?, rest.parse().ok()?))
}

/// Which handler, and registers of A, B and C, of the types and shapes that exist.
fn form(d: &Decoder, inst: &Instruction, m: u32, k: u32) -> Result<(crate::exec::op::Handler, [Element; 2], T), Error> {
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
        return if exists { Ok((handler, [E::U8; 2], T::S32)) } else { Err(none()) };
    }
    if (dty, aty, bty, cty) == ("f64", "f64", "f64", "f64") {
        return match (m, k) {
            (8, 4) | (16, 4 | 8 | 16) => Ok((d.handler::<Double>(), [E::Tf32; 2], T::F64)),
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
    let satfinite = inst.has("satfinite");
    match (dty, a.is_integer()) {
        ("f32", false) if !satfinite => Ok((d.handler::<Single>(), [a, b], T::F32)),
        ("f16", false) if !satfinite => Ok((d.handler::<Half>(), [a, b], T::F16x2)),
        ("s32", true) if satfinite => Ok((d.handler::<Integer<true>>(), [a, b], T::S32)),
        ("s32", true) => Ok((d.handler::<Integer<false>>(), [a, b], T::S32)),
        _ => Err(none()),
    }
}

/// Decodes `mma.sync.aligned.shape.row.col{.satfinite}.dtype.atype.btype.ctype{.bitop.popc} d, a, b, c`.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    if inst.has("sp") || inst.modifiers.iter().any(|m| m.starts_with("sp::")) {
        return Err(d.unsupported(inst, "sparse matrices"));
    }
    let known = ["sync", "aligned", "row", "col", "satfinite", "xor", "and", "popc", "s4", "u4", "b1", "rn"];
    d.expect_modifiers(inst, &[&known[..], &SHAPES].concat())?;
    d.expect_operands(inst, 4)?;
    let (m, k) = shape(inst).ok_or_else(|| d.unsupported(inst, "no such shape"))?;
    let layouts: Vec<&str> =
        inst.modifiers.iter().map(|m| m.as_str()).filter(|m| matches!(*m, "row" | "col")).collect();
    let (handler, elements, sums) = form(d, inst, m, k)?;
    if layouts != ["row", "col"] {
        return Err(d.invalid(inst, "expected .row.col"));
    }
    if inst.has("rn") && sums != T::F64 {
        return Err(d.invalid(inst, "a rounding is for .f64 only"));
    }
    let is_bits = inst.has("b1");
    if !is_bits && (inst.has("xor") || inst.has("and") || inst.has("popc")) {
        return Err(d.invalid(inst, "an operation on bits is for .b1 only"));
    }
    let (bits, input) = match sums {
        T::F64 => (32, T::F64),
        _ if is_bits => (1, T::B32),
        _ => (elements[0].bits(), T::B32),
    };
    let blocks = m / 8;
    let chunks = k * bits / 128;
    let small = |n: u32| u8::try_from(n).expect("a small count");
    let counts = Counts {
        a: small(blocks * chunks),
        b: small(chunks),
        c: small(if sums == T::F16x2 { blocks } else { 2 * blocks }),
    };
    let depth = if is_bits { 0 } else { small(k) };
    let mut tile = Mma {
        blocks: small(blocks),
        depth,
        counts,
        types: elements,
        d: [NONE; 4],
        a: [NONE; 8],
        b: [NONE; 4],
        c: [NONE; 4],
    };
    fill(d, inst, 1, input, counts.a, &mut tile.a)?;
    fill(d, inst, 2, input, counts.b, &mut tile.b)?;
    fill(d, inst, 3, sums, counts.c, &mut tile.c)?;
    for (row, operand) in tile.d.iter_mut().zip(d.vector(inst, 0, counts.c.into())?) {
        *row = d.destination(inst, operand, sums)?;
    }
    let tables = d.tensor_tables();
    tables.mma.push(tile);
    let imm = i64::try_from(tables.mma.len() - 1).expect("few instructions");
    d.whole_warp(inst, Op { imm, ..Op::new(handler) })
}

/// The rows of a vector operand that is read.
fn fill(d: &mut Decoder, inst: &Instruction, index: usize, ty: T, count: u8, rows: &mut [u32]) -> Result<(), Error> {
    for (row, operand) in rows.iter_mut().zip(d.vector(inst, index, count.into())?) {
        *row = d.source(inst, operand, ty)?;
    }
    Ok(())
}
