//! Matrices in registers and in shared memory (PTX ISA, "Warp Level Matrix Instructions",
//! "Asynchronous Warpgroup Level Matrix Instructions").

use warpfold_ptx::{self as ptx, Name, Opcode, ScalarType};

use super::memory::{Location, address};
use crate::recorder::{Raw, Recorder, Reg};
use crate::types::Type;

fn vector(r: &mut Recorder, registers: &[Reg]) -> ptx::Operand {
    ptx::Operand::Vector(registers.iter().map(|reg| r.reg(*reg)).collect())
}

fn words(r: &mut Recorder, values: &[Raw]) -> ptx::Operand {
    ptx::Operand::Vector(values.iter().map(|value| r.in_register(Type::U32, *value)).collect())
}

const fn count(num: usize) -> &'static str {
    match num {
        1 => "x1",
        2 => "x2",
        4 => "x4",
        _ => panic!("one, two or four matrices are moved at once"),
    }
}

/// `ldmatrix` of four 8 x 8 matrices of 16-bit elements; the lanes give the row addresses.
pub(crate) fn load_matrices(r: &mut Recorder, from: Location, transposed: bool) -> [Raw; 4] {
    let registers: [Reg; 4] = std::array::from_fn(|_| r.register(ScalarType::B32));
    let mut modifiers = vec!["sync", "aligned", "m8n8", count(4)];
    modifiers.extend(transposed.then_some("trans"));
    modifiers.extend(["shared", "b16"]);
    let operands = vec![vector(r, &registers), address(r, from)];
    r.push(Opcode::Ldmatrix, &modifiers, operands);
    registers.map(Raw::Reg)
}

/// `stmatrix` of one, two or four matrices: the inverse of `ldmatrix`.
pub(crate) fn store_matrices(r: &mut Recorder, to: Location, matrices: &[Raw], transposed: bool) {
    r.require("stmatrix", 90, (7, 8));
    let operands = vec![address(r, to), words(r, matrices)];
    let mut modifiers = vec!["sync", "aligned", "m8n8", count(matrices.len())];
    modifiers.extend(transposed.then_some("trans"));
    modifiers.extend(["shared", "b16"]);
    r.push(Opcode::Stmatrix, &modifiers, operands);
}

/// The names of a product's operand and accumulator types, and the elements along `k` of a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Product {
    pub(crate) factor: &'static str,
    pub(crate) sum: &'static str,
    pub(crate) step: u32,
    pub(crate) since: (u32, (u32, u32)),
}

/// `mma.sync` of 16 x 8 sums over 32 bytes of `k`: `sums += a * b`.
pub(crate) fn mma(r: &mut Recorder, product: Product, sums: [Reg; 4], a: &[Raw; 4], b: &[Raw; 2]) {
    r.require(&format!("mma of {}", product.factor), product.since.0, product.since.1);
    let shape = Name::from(format!("m16n8k{}", product.step));
    let Product { factor, sum, .. } = product;
    let mut modifiers: Vec<Name> = vec!["sync".into(), "aligned".into(), shape];
    modifiers.extend(["row", "col", sum, factor, factor, sum].map(Name::new_static));
    let sums = vector(r, &sums);
    let operands = vec![sums.clone(), words(r, a), words(r, b), sums];
    r.push_named(Opcode::Mma, modifiers, operands);
}

/// Transposition of the operands of `wgmma.mma_async`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transposed {
    /// True if the instruction can read MN-major operands: 16-bit elements.
    pub(crate) can: bool,
    pub(crate) a: bool,
    pub(crate) b: bool,
}

/// Location of operand A of `wgmma`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FactorA<'a> {
    /// Shared memory, by a matrix descriptor.
    Shared(Raw),
    /// Four registers of each thread.
    Registers(&'a [Reg]),
}

/// `wgmma.mma_async` of 64 x `columns` sums over 32 bytes of `k`, with B from a matrix descriptor:
/// `sums = a * b`, plus `sums` where `keep` holds.
pub(crate) fn wgmma(
    r: &mut Recorder,
    product: Product,
    transposed: Transposed,
    sums: &[Reg],
    a: FactorA<'_>,
    b: Raw,
    keep: Raw,
) {
    hopper(r, "wgmma");
    let columns = 2 * sums.len();
    let shape = Name::from(format!("m64n{columns}k{}", product.step));
    let Product { factor, sum, .. } = product;
    let mut modifiers: Vec<Name> = ["mma_async", "sync", "aligned"].map(Name::new_static).to_vec();
    modifiers.push(shape);
    modifiers.extend([sum, factor, factor].map(Name::new_static));
    let number = |n: bool| ptx::Operand::Immediate(ptx::Immediate::Int(n.into()));
    let one = ptx::Operand::Immediate(ptx::Immediate::Int(1));
    let (sums_vector, left) = (
        vector(r, sums),
        match a {
            FactorA::Shared(descriptor) => r.in_register(Type::U64, descriptor),
            FactorA::Registers(words) => vector(r, words),
        },
    );
    let mut operands = vec![sums_vector, left, r.in_register(Type::U64, b)];
    operands.push(r.in_register(Type::Bool, keep));
    if sum != "s32" {
        operands.extend([one.clone(), one]);
    }
    if transposed.can {
        // Only what lies in shared memory can be transposed.
        operands.extend(matches!(a, FactorA::Shared(_)).then(|| number(transposed.a)));
        operands.push(number(transposed.b));
    }
    r.push_named(Opcode::Wgmma, modifiers, operands);
}

/// `wgmma.fence`
pub(crate) fn wgmma_fence(r: &mut Recorder) {
    hopper(r, "wgmma");
    r.push(Opcode::Wgmma, &["fence", "sync", "aligned"], vec![]);
}

/// `wgmma.commit_group`
pub(crate) fn wgmma_commit(r: &mut Recorder) {
    hopper(r, "wgmma");
    r.push(Opcode::Wgmma, &["commit_group", "sync", "aligned"], vec![]);
}

/// `wgmma.wait_group`
pub(crate) fn wgmma_wait(r: &mut Recorder, pending: u32) {
    hopper(r, "wgmma");
    let pending = ptx::Operand::Immediate(ptx::Immediate::Int(pending.into()));
    r.push(Opcode::Wgmma, &["wait_group", "sync", "aligned"], vec![pending]);
}

/// Requires sm_90a.
pub(crate) fn hopper(r: &mut Recorder, what: &str) {
    r.require_specific(what, 90, (8, 0));
}
