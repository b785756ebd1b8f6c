//! `wmma.mma`, and the fragments of `wmma` (PTX ISA, "Warp-level Matrix Multiply-and-Accumulate
//! Instruction: wmma.mma").
//!
//! Which lane holds which element is left open by the ISA. Here fragments are those of `mma`: A and
//! B go through their blocks of eight rows (columns) first, then through the chunks of K;
//! accumulators through the blocks of rows first, then through those of columns. The ISA gives
//! `.f16` fragments of A and B eight registers in every shape; those that are not needed repeat the
//! others.

use warpfold_ptx::{Instruction, ScalarType as T};

use super::aligned::{By, Precision, Rule};
use super::element::{Element, types};
use super::expect_whole_warp;
use super::mma;
use super::product::{Block, Columns, Sums, WORDS, columns_of, from_registers};
use crate::Error;
use crate::alu::float::rounding;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::op::{LaneOp, Op};
use crate::exec::row::LANES;

/// The operands of a `wmma.mma`.
#[derive(Debug, Clone)]
pub(crate) struct Wmma {
    /// M and N divided by eight.
    blocks: [usize; 2],
    depth: usize,
    ty: Element,
    /// Types of D and C.
    sums: [Sums; 2],
    /// Summation rule for floats.
    rule: Option<Rule>,
    a: Vec<u32>,
    b: Vec<u32>,
    c: Vec<u32>,
    d: Vec<u32>,
}

/// The shapes: M, N and K.
const SHAPES: [(&str, [u32; 3]); 7] = [
    ("m16n16k16", [16, 16, 16]),
    ("m8n32k16", [8, 32, 16]),
    ("m32n8k16", [32, 8, 16]),
    ("m16n16k8", [16, 16, 8]),
    ("m8n8k4", [8, 8, 4]),
    ("m8n8k32", [8, 8, 32]),
    ("m8n8k128", [8, 8, 128]),
];

/// The shape's name, M, N and K.
pub(super) fn shape(d: &Decoder, inst: &Instruction) -> Result<(&'static str, [u32; 3]), Error> {
    let named = SHAPES.into_iter().find(|(name, _)| inst.has(name));
    named.ok_or_else(|| d.unsupported(inst, "no such shape of wmma"))
}

/// Returns true if a product of this type and shape exists.
pub(super) fn exists(ty: &str, shape: &str) -> bool {
    match ty {
        "f16" | "bf16" | "s8" | "u8" => matches!(shape, "m16n16k16" | "m8n32k16" | "m32n8k16"),
        "tf32" => shape == "m16n16k8",
        "f64" => shape == "m8n8k4",
        "s4" | "u4" => shape == "m8n8k32",
        "b1" => shape == "m8n8k128",
        _ => false,
    }
}

/// Bits per element.
pub(super) fn bits_of(ty: &str) -> u32 {
    match ty {
        "f64" => 64,
        "f32" | "s32" => 32,
        "b1" => 1,
        _ => Element::from_modifier(ty).map_or(0, Element::bits),
    }
}

/// Registers of a fragment of A or B: the number in the ISA, and the number used.
pub(super) fn registers(ty: &str, rows: u32, k: u32) -> (usize, usize) {
    let bits = bits_of(ty);
    let needed = (rows * k * bits / 32 / bits.max(32)) as usize;
    (if ty == "f16" { 8 } else { needed }, needed)
}

/// Products other than the `mma`s of the same shape.
struct Multiply;
impl LaneOp for Multiply {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        expect_whole_warp(m, op, mask);
        let tables = std::sync::Arc::clone(&m.tensor);
        let tile = &tables.wmma[op.imm as usize];
        let [blocks_m, blocks_n] = tile.blocks;
        let chunks = tile.depth * tile.ty.bits() as usize / 128;
        let scratch = &raw mut *m.scratch;
        // SAFETY: nothing else refers to the scratch while a handler runs.
        let scratch = unsafe { &mut *scratch };
        // SAFETY: the decoder checked the operands. Everything is read before anything is written:
        // D may be C, A or B.
        unsafe {
            let block =
                |m: &Machine, rows: &[u32], blocks: usize, i: usize| from_registers(m, rows, (i, blocks), chunks);
            let (mut a, mut b): ([Block; 4], [Columns; 4]) = ([[[0; LANES]; 2]; 4], [[[0; 8]; WORDS]; 4]);
            a.iter_mut().enumerate().take(blocks_m).for_each(|(i, a)| *a = block(m, &tile.a, blocks_m, i));
            b.iter_mut().enumerate().take(blocks_n).for_each(|(j, b)| *b = columns_of(&block(m, &tile.b, blocks_n, j)));
            let mut c = [[0; LANES]; 8];
            for (words, &row) in c.iter_mut().zip(&tile.c) {
                *words = m.read::<u32>(row);
            }
            let [to, from] = tile.sums.map(Sums::registers);
            let rule = tile.rule.as_ref();
            // With one of both `.f32` the product is that of `.f32`, with a conversion.
            let all_halves = tile.sums == [Sums::F16; 2];
            let precision = if all_halves { Precision::Half } else { Precision::Single };
            for (i, a) in a.iter().enumerate().take(blocks_m) {
                scratch.set_a(tile.ty, 0, a, chunks * 4, false, rule);
                for (j, b) in b.iter().enumerate().take(blocks_n) {
                    scratch.set_b(tile.ty, b, chunks * 4, rule);
                    let pair = j * blocks_m + i;
                    let mut old = [[0; LANES]; 2];
                    old[..from].copy_from_slice(&c[pair * from..][..from]);
                    let mut sums = tile.sums[1].start(&old);
                    scratch.add_product(0, tile.depth, rule, precision, &mut sums);
                    let words = tile.sums[0].finish(&old, &sums);
                    for (words, &row) in words.iter().zip(&tile.d[pair * to..][..to]) {
                        m.write(row, words, mask);
                    }
                }
            }
        }
    }
}

fn sums_of(ty: &str, saturates: bool) -> Option<(Sums, T)> {
    Some(match ty {
        "f32" => (Sums::F32, T::F32),
        "f16" => (Sums::F16, T::B32),
        "s32" => (Sums::Integer { saturates }, T::S32),
        _ => return None,
    })
}

/// Decodes `wmma.mma.sync.aligned.alayout.blayout.shape.… d, a, b, c`.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    let (name, [m, n, k]) = shape(d, inst)?;
    let known = ["mma", "sync", "aligned", "row", "col", "satfinite", "xor", "and", "popc", "s4", "u4", "b1"];
    d.expect_modifiers(inst, &[&known[..], &["rn", "rz", "rm", "rp", name]].concat())?;
    d.expect_operands(inst, 4)?;
    let layouts: Vec<&str> =
        inst.modifiers.iter().map(|m| m.as_str()).filter(|m| matches!(*m, "row" | "col")).collect();
    if layouts.len() != 2 {
        return Err(d.invalid(inst, "expected the layouts of A and B"));
    }
    let names = types(inst);
    let (dty, ty, cty) = match names[..] {
        [dty, cty] => (dty, "f16", cty),
        [dty, a, b, cty] if a == b && a != "f16" => (dty, a, cty),
        _ => return Err(d.invalid(inst, "expected the types of D, A, B and C")),
    };
    if !exists(ty, name) {
        return Err(d.unsupported(inst, "no wmma of this shape and these types"));
    }
    if matches!(ty, "f64" | "s4" | "u4" | "b1") {
        // The fragments and the product are those of `mma`.
        if layouts != ["row", "col"] && ty != "f64" {
            return Err(d.invalid(inst, "expected .row.col"));
        }
        return mma::decode_as(d, inst, (m, k));
    }
    let saturates = inst.has("satfinite");
    let is_integer = matches!(ty, "s8" | "u8");
    let is_known = match ty {
        "f16" => matches!((dty, cty), ("f16" | "f32", "f16" | "f32")),
        "s8" | "u8" => (dty, cty) == ("s32", "s32"),
        _ => (dty, cty) == ("f32", "f32"),
    };
    let (Some((d_sums, d_ty)), Some((c_sums, c_ty)), true) =
        (sums_of(dty, saturates), sums_of(cty, saturates), is_known)
    else {
        return Err(d.unsupported(inst, "no wmma of these types"));
    };
    let on_bits = inst.has("xor") || inst.has("and") || inst.has("popc");
    if saturates && !is_integer || on_bits || rounding(d, inst)?.is_some() {
        return Err(d.invalid(inst, "a modifier of other types"));
    }
    let element = Element::from_modifier(ty).ok_or_else(|| d.invalid(inst, "no such type"))?;
    let read = |d: &mut Decoder, index: usize, count: usize, ty: T| -> Result<Vec<u32>, Error> {
        d.vector(inst, index, count)?.iter().map(|operand| d.source(inst, operand, ty)).collect()
    };
    let a = read(d, 1, registers(ty, m, k).0, T::B32)?;
    let b = read(d, 2, registers(ty, n, k).0, T::B32)?;
    let pairs = (m * n / 64) as usize;
    let c = read(d, 3, pairs * c_sums.registers(), c_ty)?;
    let mut rows = Vec::new();
    for operand in d.vector(inst, 0, pairs * d_sums.registers())? {
        rows.push(d.destination(inst, operand, d_ty)?);
    }
    let blocks = [m as usize / 8, n as usize / 8];
    let rule = (!is_integer).then(|| Rule::of(d.arch, By::Wmma, [element; 2], k));
    let tile = Wmma { blocks, depth: k as usize, ty: element, sums: [d_sums, c_sums], rule, a, b, c, d: rows };
    let tables = d.tensor_tables();
    tables.wmma.push(tile);
    let imm = i64::try_from(tables.wmma.len() - 1).expect("few instructions");
    let handler = d.handler::<Multiply>();
    d.whole_warp(inst, Op { imm, ..Op::new(handler) })
}
