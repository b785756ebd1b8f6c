//! `mma.m8n8k4` of `.f16`: four products at once, each by two quads of the warp (PTX ISA, "Matrix
//! Fragments for mma.m8n8k4 with .f16 floating point type").
//!
//! The form is that of sm_70, and later targets still have it. Lanes `4q` to `4q + 3` and those 16
//! further on are the rows (of B: the columns) of product `q`, unless A is column-major or B
//! row-major: then they are four positions along K, twice.

use warpfold_ptx::{Instruction, Operand, ScalarType as T};

use super::element::{self, types};
use super::expect_whole_warp;
use super::product::round_to_f16;
use crate::Error;
use crate::alu::float::finish::canonical;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::op::{LaneOp, NONE, Op};
use crate::exec::row::LANES;

/// The operands of the instruction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quads {
    a: Factor,
    b: Factor,
    c: Sums,
    d: Sums,
}

/// Operand A, or B transposed: eight lines of four elements.
#[derive(Debug, Clone, Copy)]
struct Factor {
    rows: [u32; 2],
    /// True if a lane holds a line; false if it holds a position of four lines.
    by_line: bool,
}

/// C or D.
#[derive(Debug, Clone, Copy)]
struct Sums {
    rows: [u32; 8],
    /// True for `.f16` elements, two per register.
    are_halves: bool,
}

impl Factor {
    /// The lines of product `q`.
    ///
    /// # Safety
    /// The registers are those of the current frame.
    unsafe fn read(&self, m: &Machine, q: usize) -> [[f32; 4]; 8] {
        // SAFETY: passed on.
        let words = self.rows.map(|row| unsafe { m.read::<u32>(row) });
        let element = |lane: usize, i: usize| element::f16(words[i / 2][lane] >> (i % 2 * 16) & 0xffff);
        std::array::from_fn(|line| {
            std::array::from_fn(|k| {
                let half = 4 * q + line / 4 * 16;
                if self.by_line { element(half + line % 4, k) } else { element(half + k, line % 4) }
            })
        })
    }
}

impl Sums {
    /// The lane, register and position in it of an element of product `q`.
    fn place(&self, q: usize, row: usize, column: usize) -> (usize, usize, usize) {
        let half = 4 * q + row / 4 * 16;
        if self.are_halves {
            (half + row % 4, column / 2, column % 2)
        } else {
            (half + row % 2 + column / 2 % 2 * 2, row / 2 % 2 * 2 + column / 4 * 4 + column % 2, 0)
        }
    }
}

struct Multiply;
impl LaneOp for Multiply {
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        expect_whole_warp(m, op, mask);
        let Quads { a, b, c, d } = m.tensor.quads[op.imm as usize];
        let mut results = [[0u32; LANES]; 8];
        for q in 0..4 {
            // SAFETY: the decoder checked the operands.
            let (lines, columns) = unsafe { (a.read(m, q), b.read(m, q)) };
            for (row, line) in lines.iter().enumerate() {
                for (column, other) in columns.iter().enumerate() {
                    let (lane, register, position) = c.place(q, row, column);
                    // SAFETY: the decoder checked the operands.
                    let word = unsafe { m.read::<u32>(c.rows[register]) }[lane];
                    let start = if c.are_halves {
                        element::f16(word >> (position * 16) & 0xffff)
                    } else {
                        f32::from_bits(word)
                    };
                    let sum = line.iter().zip(other).fold(start, |sum, (x, y)| x.mul_add(*y, sum));
                    let (lane, register, position) = d.place(q, row, column);
                    let bits = if d.are_halves { round_to_f16(sum) } else { canonical(sum) };
                    results[register][lane] |= bits << (position * 16);
                }
            }
        }
        for (words, &row) in results.iter().zip(&d.rows).filter(|(_, row)| **row != NONE) {
            // SAFETY: the decoder checked the operands; all of them have been read.
            unsafe { m.write(row, words, mask) };
        }
    }
}

/// Decodes `mma.sync.aligned.m8n8k4.alayout.blayout.dtype.f16.f16.ctype d, a, b, c`, whose layouts
/// are given.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction, layouts: [&str; 2]) -> Result<(), Error> {
    d.expect_modifiers(inst, &["sync", "aligned", "m8n8k4", "row", "col"])?;
    let (d_halves, c_halves) = match types(inst)[..] {
        ["f32", "f16", "f16", "f32"] => (false, false),
        ["f32", "f16", "f16", "f16"] => (false, true),
        ["f16", "f16", "f16", "f16"] => (true, true),
        _ => return Err(d.invalid(inst, "no mma.m8n8k4 of these types")),
    };
    let shape = |are_halves| if are_halves { (4, T::F16x2) } else { (8, T::F32) };
    let factor = |d: &mut Decoder, index: usize, by_line: bool| -> Result<Factor, Error> {
        let mut rows = [NONE; 2];
        for (row, operand) in rows.iter_mut().zip(d.vector(inst, index, 2)?) {
            *row = d.source(inst, operand, T::B32)?;
        }
        Ok(Factor { rows, by_line })
    };
    let sums = |d: &mut Decoder, index: usize, are_halves, row_of: RowOf| -> Result<Sums, Error> {
        let (count, ty) = shape(are_halves);
        let mut rows = [NONE; 8];
        for (row, operand) in rows.iter_mut().zip(d.vector(inst, index, count)?) {
            *row = row_of(d, inst, operand, ty)?;
        }
        Ok(Sums { rows, are_halves })
    };
    let (a, b) = (factor(d, 1, layouts[0] == "row")?, factor(d, 2, layouts[1] == "col")?);
    let c = sums(d, 3, c_halves, |d, inst, operand, ty| d.source(inst, operand, ty))?;
    let result = sums(d, 0, d_halves, |d, inst, operand, ty| d.destination(inst, operand, ty))?;
    let tables = d.tensor_tables();
    tables.quads.push(Quads { a, b, c, d: result });
    let imm = i64::try_from(tables.quads.len() - 1).expect("few instructions");
    let op = Op { imm, ..Op::new(d.handler::<Multiply>()) };
    d.whole_warp(inst, op)
}

/// The row of an operand that is read, or of one that is written.
type RowOf = fn(&mut Decoder, &Instruction, &Operand, T) -> Result<u32, Error>;
