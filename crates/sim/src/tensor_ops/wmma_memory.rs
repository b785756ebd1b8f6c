//! `wmma.load` and `wmma.store`: ordinary accesses of the lanes to the elements of their registers
//! (PTX ISA, "Matrix Storage for WMMA").
//!
//! An instruction becomes a synchronisation of the warp, then for each register the lanes'
//! addresses and a load or store: of 32 bits where neighbours in a register are neighbours in
//! memory, else of each element. So an instruction counts several requests, as what ptxas makes of
//! it does. Alignment is that of these accesses; the ISA asks for that of a whole fragment.

use warpfold_ptx::{Instruction, ScalarType as T, Scope};

use super::wmma::{bits_of, exists, registers, shape};
use crate::Error;
use crate::decode::Decoder;
use crate::exec::code::Class;
use crate::exec::machine::Machine;
use crate::exec::op::{LaneOp, NONE, Op};
use crate::exec::row::{ALL_LANES, LANES};
use crate::memory_ops::access::{self, Access, Extend, Nothing, Space, handler, space_of};

/// Position in memory of an element of each lane.
#[derive(Debug, Clone)]
pub(crate) struct Position {
    /// Row (row-major) or column.
    lead: [u32; LANES],
    /// Index in that row or column.
    minor: [u32; LANES],
    /// Bits of an element.
    bits: u32,
    /// Leading dimension in elements, without an operand for it.
    stride: u32,
}

/// Computes the address of position `b`, `a + imm` being the start: `dst`; `c` is the row of the
/// stride.
struct Locate;
impl LaneOp for Locate {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operands.
        unsafe {
            let base = access::addresses(m, op, op.d != 0);
            let position = &m.tensor.positions[op.b as usize];
            let strides = if op.c == NONE { [position.stride; LANES] } else { m.read::<u32>(op.c) };
            let mut at = [0; LANES];
            for lane in 0..LANES {
                let elements =
                    u64::from(position.lead[lane]) * u64::from(strides[lane]) + u64::from(position.minor[lane]);
                at[lane] = base[lane].wrapping_add(elements * u64::from(position.bits) / 8);
            }
            m.write(op.dst, &at, mask);
        }
    }
}

/// `dst = a | b << imm`.
struct Merge;
impl LaneOp for Merge {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operands.
        unsafe {
            let (a, b) = (m.read::<u32>(op.a), m.read::<u32>(op.b));
            m.write(op.dst, &std::array::from_fn(|lane| a[lane] | b[lane] << op.imm), mask);
        }
    }
}

/// `dst = a >> imm`.
struct Shift;
impl LaneOp for Shift {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operands.
        unsafe {
            let a = m.read::<u32>(op.a);
            m.write(op.dst, &a.map(|a| a >> op.imm), mask);
        }
    }
}

/// Matrix of a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Matrix {
    A,
    B,
    /// C or D.
    Sums,
}

/// A fragment, and its matrix in memory.
#[derive(Debug, Clone, Copy)]
struct Fragment {
    matrix: Matrix,
    /// Rows and columns.
    size: [u32; 2],
    bits: u32,
    is_row_major: bool,
}

impl Fragment {
    /// Elements per register.
    fn per_register(self) -> u32 {
        (32 / self.bits).max(1)
    }

    /// Row and column of an element of a lane's register; as the module documentation of `wmma`
    /// says.
    fn element(self, register: u32, lane: u32, i: u32) -> [u32; 2] {
        let (g, t, per) = (lane / 4, lane % 4, self.per_register());
        match self.matrix {
            Matrix::Sums => {
                // Two registers of one element, or one of two, hold a pair.
                let (pair, odd) = if per == 2 { (register, i) } else { (register / 2, register % 2) };
                let blocks = self.size[0] / 8;
                [pair % blocks * 8 + g, pair / blocks * 8 + 2 * t + odd]
            }
            Matrix::A => {
                let blocks = self.size[0] / 8;
                [register % blocks * 8 + g, register / blocks * 4 * per + t * per + i]
            }
            Matrix::B => {
                let blocks = self.size[1] / 8;
                [register / blocks * 4 * per + t * per + i, register % blocks * 8 + g]
            }
        }
    }

    /// Positions of elements `i` of a register.
    fn position(self, register: u32, i: u32) -> Position {
        let (mut lead, mut minor) = ([0; LANES], [0; LANES]);
        for lane in 0..LANES {
            let [row, column] = self.element(register, lane as u32, i);
            (lead[lane], minor[lane]) = if self.is_row_major { (row, column) } else { (column, row) };
        }
        let stride = self.size[usize::from(self.is_row_major)];
        Position { lead, minor, bits: self.bits, stride }
    }

    /// Returns true if the elements of a register are neighbours in memory.
    fn is_packed(self) -> bool {
        self.per_register() > 1
            && match self.matrix {
                Matrix::B => !self.is_row_major,
                Matrix::A | Matrix::Sums => self.is_row_major,
            }
    }
}

/// The fragment of an instruction, and its registers: the number in the ISA, and the number used.
fn fragment(d: &Decoder, inst: &Instruction) -> Result<(Fragment, usize, usize), Error> {
    let (name, [m, n, k]) = shape(d, inst)?;
    let layouts: Vec<&str> =
        inst.modifiers.iter().map(|m| m.as_str()).filter(|m| matches!(*m, "row" | "col")).collect();
    let [layout] = layouts[..] else { return Err(d.invalid(inst, "expected .row or .col")) };
    let names = super::element::types(inst);
    let [ty] = names[..] else { return Err(d.invalid(inst, "expected one type")) };
    let is_row_major = layout == "row";
    let bits = bits_of(ty);
    let none = || d.unsupported(inst, "no wmma of this shape and type");
    if inst.has("a") || inst.has("b") {
        if !exists(ty, name) {
            return Err(none());
        }
        if bits < 8 && is_row_major != inst.has("a") {
            return Err(d.invalid(inst, "elements of less than 8 bits lie along K"));
        }
        let is_a = inst.has("a");
        let (matrix, size, rows) = if is_a { (Matrix::A, [m, k], m) } else { (Matrix::B, [k, n], n) };
        let (count, needed) = registers(ty, rows, k);
        return Ok((Fragment { matrix, size, bits, is_row_major }, count, needed));
    }
    let exists = match ty {
        "f16" => k == 16,
        "f32" => matches!(k, 8 | 16),
        "s32" => matches!(k, 16 | 32 | 128),
        "f64" => k == 4,
        _ => false,
    };
    if !exists {
        return Err(none());
    }
    let count = (m * n / 32 * bits.min(32) / 32) as usize;
    Ok((Fragment { matrix: Matrix::Sums, size: [m, n], bits, is_row_major }, count, count))
}

/// Decodes `wmma.load.x.sync.aligned.layout.shape{.space}.type r, [p]{, stride}` and `wmma.store.d…
/// [p], r{, stride}`.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    let is_load = inst.has("load");
    let (name, _) = shape(d, inst)?;
    let matrices: &[&str] = if is_load { &["load", "a", "b", "c"] } else { &["store", "d"] };
    let known = ["sync", "aligned", "row", "col", "global", "shared", "shared::cta", "s4", "u4", "b1", name];
    d.expect_modifiers(inst, &[matrices, &known].concat())?;
    if matrices[1..].iter().filter(|m| inst.has(m)).count() != 1 {
        return Err(d.invalid(inst, "expected one matrix"));
    }
    let (fragment, count, needed) = fragment(d, inst)?;
    if !(2..=3).contains(&inst.operands.len()) {
        return Err(d.invalid(inst, "expected a fragment, an address and, perhaps, a stride"));
    }
    let (values_at, address_at) = if is_load { (0, 1) } else { (1, 0) };
    let mut address = d.address(inst, address_at)?;
    let space = space_of(d, inst, &mut address.offset, address.place)?;
    if !matches!(space, Space::Global | Space::Shared | Space::Generic) {
        return Err(d.invalid(inst, "the matrix must be in .global or .shared"));
    }
    let stride = if inst.operands.len() == 3 { d.src(inst, 2, T::U32)? } else { NONE };
    let value = if fragment.bits == 64 { T::B64 } else { T::B32 };
    let mut rows = Vec::new();
    for operand in d.vector(inst, values_at, count)? {
        rows.push(if is_load { d.destination(inst, operand, value)? } else { d.source(inst, operand, value)? });
    }
    let mut ops = Vec::new();
    for (register, &row) in rows.iter().enumerate() {
        if register >= needed && !is_load {
            break;
        }
        let steps = if fragment.is_packed() { 1 } else { fragment.per_register() };
        let bytes = if fragment.is_packed() { 4 } else { fragment.bits / 8 };
        for i in 0..steps {
            let positions = &mut d.tensor_tables().positions;
            positions.push(fragment.position((register % needed) as u32, i));
            let position = u32::try_from(positions.len() - 1).expect("few instructions");
            let at = d.f.temporary(T::B64);
            let locate = d.handler::<Locate>();
            ops.push(Op {
                dst: at,
                a: address.row,
                b: position,
                c: stride,
                d: address.wide.into(),
                imm: address.offset,
                ..Op::new(locate)
            });
            let shift = i64::from(i * fragment.bits);
            let part = if i == 0 { row } else { d.f.temporary(T::B32) };
            if !is_load && i > 0 {
                ops.push(Op { dst: part, a: row, imm: shift, ..Op::new(d.handler::<Shift>()) });
            }
            let access = Access::new(bytes, 1, true, Extend::Zero, None, Scope::System);
            let access = if steps == 1 { access } else { access.plain() };
            let handler = handler(d, space, is_load);
            ops.push(Op { dst: part, a: at, dst2: access.0, ..Op::new(handler) });
            if is_load && i > 0 {
                ops.push(Op { dst: row, a: row, b: part, imm: shift, ..Op::new(d.handler::<Merge>()) });
            }
        }
    }
    if !inst.has("sync") || !inst.has("aligned") {
        return Err(d.invalid(inst, "needs .sync.aligned"));
    }
    // The accesses follow in the next block, before the conversions of destinations.
    ops.append(&mut d.f.after);
    d.f.after = ops;
    let members = d.constant32(ALL_LANES);
    let nothing = Op::new(d.handler::<Nothing>());
    d.exchange(inst, Some(nothing), members)?;
    d.set_class(if is_load { Class::Load } else { Class::Store });
    Ok(())
}
