//! Types of registers and literals that an operand may have (PTX ISA, "Operand Type Checking" and
//! "Operand Size Exceeding Instruction-Type Size"), as ptxas 13.0 applies the rules.

use warpfold_ptx::{Immediate, Instruction, Opcode, ScalarType as T};

/// Class of a type in the ISA's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Bits,
    Integer,
    /// Floats, and pairs: they match only themselves and bits.
    Other,
}

const fn class(ty: T) -> Class {
    match ty {
        T::B8 | T::B16 | T::B32 | T::B64 | T::B128 => Class::Bits,
        T::U8 | T::U16 | T::U32 | T::U64 | T::S8 | T::S16 | T::S32 | T::S64 => Class::Integer,
        _ => Class::Other,
    }
}

/// Returns true if a register of type `declared` may be an operand of type `ty`.
pub(super) fn fits(inst: &Instruction, declared: T, ty: T) -> bool {
    let is_size_right = declared.bits() == ty.bits() || (may_be_wider(inst) && declared.bits() > ty.bits());
    if !is_size_right {
        return false;
    }
    match (class(declared), class(ty)) {
        (Class::Bits, _) | (_, Class::Bits) | (Class::Integer, Class::Integer) => true,
        _ if is_judged_by_size(inst) => true,
        (Class::Other, Class::Other) => declared == ty,
        // ptxas treats a pair of halves as a word.
        (Class::Other, Class::Integer) => declared == T::F16x2,
        (Class::Integer, Class::Other) => false,
    }
}

/// Returns true if only sizes count, as for ptxas: vectors that are loaded and stored, and
/// coordinates.
fn is_judged_by_size(inst: &Instruction) -> bool {
    match inst.opcode {
        Opcode::Ld | Opcode::Ldu | Opcode::St => inst.has("v2") || inst.has("v4"),
        Opcode::Cp => inst.has("tensor"),
        _ => false,
    }
}

/// Returns true for loads, stores and conversions, which take registers wider than their type.
fn may_be_wider(inst: &Instruction) -> bool {
    matches!(inst.opcode, Opcode::Ld | Opcode::Ldu | Opcode::St | Opcode::Cvt)
}

/// Returns true if a literal may be an operand of type `ty`.
pub(super) fn literal_fits(value: Immediate, ty: T) -> bool {
    match value {
        Immediate::Int(n) => match (class(ty), ty.bits()) {
            (Class::Other, _) => false,
            (_, 16) => (-0x8000..=0xffff).contains(&n),
            _ => true,
        },
        Immediate::F32(_) => matches!(ty, T::F32 | T::F64 | T::B32),
        Immediate::F64(_) => matches!(ty, T::F32 | T::F64 | T::B64),
    }
}

/// Returns true if a register of this type may hold an address.
pub(super) fn is_address(declared: T) -> bool {
    class(declared) != Class::Other && declared.bits() <= 64
}

/// Returns true if an instruction reads special registers as values of type `ty`.
pub(super) fn reads_specials(inst: &Instruction, ty: T) -> bool {
    inst.opcode == Opcode::Mov && class(ty) != Class::Other
}

/// Returns true if an instruction takes the name of a variable for its address.
pub(super) fn takes_addresses(inst: &Instruction) -> bool {
    use Opcode as O;
    let computes =
        matches!(inst.opcode, O::Add | O::Sub | O::Mul | O::Mad | O::Fma | O::Div | O::Rem | O::Min | O::Max);
    let combines =
        matches!(inst.opcode, O::And | O::Or | O::Xor | O::Shl | O::Shr | O::Bfi | O::Bfe | O::Setp | O::Cvt);
    !computes && !combines && !matches!(inst.opcode, O::Atom | O::Red | O::Shf | O::Shfl | O::Ld | O::St)
}

/// Returns true if an instruction takes `{a, b}` for the register that they fill.
pub(super) fn takes_vectors(inst: &Instruction) -> bool {
    use Opcode as O;
    !matches!(inst.opcode, O::Mad | O::Mul | O::Setp | O::Cvt | O::Atom | O::Red)
}
