//! Operands: resolution of names and numbers to rows.

use warpfold_ptx::{Address, AddressBase, Immediate, Instruction, Name, Opcode, Operand, ScalarType as T};

use super::builder::Resource;
use super::scope::{Place, Symbol};
use super::{Decoder, Op, typing};
use crate::Error;
use crate::exec::code::{Fill, Reserved, Special};
use crate::exec::op::NONE;
use crate::layout::literal_bits;
use crate::memory_ops::moves::{self, LocalAddress, Narrow, Widen};

/// Special registers that are vectors.
const VECTOR_SPECIALS: [&str; 8] =
    ["%tid", "%ntid", "%ctaid", "%nctaid", "%clusterid", "%nclusterid", "%cluster_ctaid", "%cluster_nctaid"];

fn is_float(ty: T) -> bool {
    matches!(ty, T::F16 | T::F16x2 | T::F32 | T::F64)
}

/// Number of 32-bit rows of a value: 1, 2 or 4.
fn class(ty: T) -> u32 {
    ty.bits().div_ceil(32).max(1)
}

/// A resolved address operand: `row + offset`, in the space of the instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResolvedAddress {
    /// Row of a register, or [`NONE`].
    pub row: u32,
    /// True for a 64-bit register.
    pub wide: bool,
    /// Offset, or the whole address.
    pub offset: i64,
    /// The variable in the address, if there is one.
    pub place: Option<Place>,
}

impl Decoder<'_> {
    /// Looks up the symbol of a name.
    pub(crate) fn lookup(&self, inst: &Instruction, name: &str) -> Result<&Symbol, Error> {
        self.f
            .scopes
            .iter()
            .rev()
            .find_map(|scope| scope.get(name))
            .or_else(|| self.module_scope.get(name))
            .ok_or_else(|| self.invalid(inst, format!("'{name}' is not declared")))
    }

    /// The operands of an instruction with vector registers replaced by their elements; `None` if
    /// it names no whole vector.
    pub(super) fn elements_of_vectors(&self, inst: &Instruction) -> Option<Vec<Operand>> {
        let wanted = if inst.has("v4") { 4 } else { 2 };
        let elements = |operand: &Operand| {
            let Operand::Name { name, component: None } = operand else { return None };
            let scope = self.f.scopes.iter().rev().find_map(|scope| scope.get(name));
            let count = match scope.or_else(|| self.module_scope.get(name)) {
                Some(Symbol::Vector(elements)) => elements.len(),
                None if VECTOR_SPECIALS.contains(&name.as_str()) => wanted,
                _ => return None,
            };
            let of_vector = |component| Operand::Name { name: name.clone(), component: Some(component) };
            Some(Operand::Vector("xyzw".chars().take(count).map(of_vector).collect()))
        };
        if inst.opcode == Opcode::Call || !inst.operands.iter().any(|operand| elements(operand).is_some()) {
            return None;
        }
        Some(inst.operands.iter().map(|operand| elements(operand).unwrap_or_else(|| operand.clone())).collect())
    }

    /// The operand at `index`.
    pub(crate) fn operand<'i>(&self, inst: &'i Instruction, index: usize) -> Result<&'i Operand, Error> {
        inst.operands.get(index).ok_or_else(|| self.invalid(inst, format!("operand {} is missing", index + 1)))
    }

    /// The row of a source operand, read as a value of `ty`'s width.
    pub(crate) fn src(&mut self, inst: &Instruction, index: usize, ty: T) -> Result<u32, Error> {
        let operand = self.operand(inst, index)?;
        self.source(inst, operand, ty)
    }

    /// The row of a source operand, read as a value of `ty`'s width.
    pub(crate) fn source(&mut self, inst: &Instruction, operand: &Operand, ty: T) -> Result<u32, Error> {
        match operand {
            Operand::Immediate(value) => {
                let bits = self.immediate(inst, *value, ty)?;
                Ok(self.constant(bits, ty))
            }
            Operand::Name { name, component } => self.named_source(inst, name, *component, ty),
            Operand::NameOffset { name, offset } => match self.lookup(inst, name)? {
                &Symbol::Register { register } => self.register_and_offset(inst, register, *offset, ty),
                _ => self.address_of(inst, name, *offset, ty),
            },
            Operand::Vector(_) if !typing::takes_vectors(inst) => {
                Err(self.invalid(inst, format!("operand {operand} is a vector")))
            }
            Operand::Vector(elements) => self.packed_source(inst, elements, ty),
            Operand::Sink => Err(self.invalid(inst, "'_' cannot be read")),
            Operand::Address(_)
            | Operand::Pair(..)
            | Operand::Not(_)
            | Operand::Negate(_)
            | Operand::List(_)
            | Operand::Selected { .. } => {
                Err(self.invalid(inst, format!("operand {operand} cannot be read as a {}", ty.name())))
            }
        }
    }

    /// A constant row.
    #[allow(clippy::cast_possible_truncation, reason = "the bits were cut to the width")]
    pub(crate) fn constant(&mut self, bits: u128, ty: T) -> u32 {
        self.f.fill(match class(ty) {
            1 => Fill::Constant32(bits as u32),
            2 => Fill::Constant64(bits as u64),
            _ => Fill::Constant128(bits),
        })
    }

    /// A 32-bit constant row.
    pub(crate) fn constant32(&mut self, bits: u32) -> u32 {
        self.f.fill(Fill::Constant32(bits))
    }

    /// The bits of a literal as a value of `ty`.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "literals are cut to their type")]
    pub(crate) fn immediate(&self, inst: &Instruction, value: Immediate, ty: T) -> Result<u128, Error> {
        if typing::literal_fits(value, ty) {
            return Ok(literal_bits(value, ty));
        }
        let what = if matches!(value, Immediate::Int(_)) { "this integer" } else { "a floating-point literal" };
        Err(self.invalid(inst, format!("{what} cannot be a {}", ty.name())))
    }

    /// The value of an integer literal operand.
    pub(crate) fn literal(&self, inst: &Instruction, index: usize) -> Result<i128, Error> {
        match self.operand(inst, index)? {
            Operand::Immediate(Immediate::Int(v)) => Ok(*v),
            other => Err(self.invalid(inst, format!("operand {other} must be an integer literal"))),
        }
    }

    fn named_source(&mut self, inst: &Instruction, name: &Name, component: Option<char>, ty: T) -> Result<u32, Error> {
        // A declared register may have such a name.
        let is_special = is_special(name) && self.lookup(inst, name).is_err();
        if is_special && !typing::reads_specials(inst, ty) {
            return Err(self.invalid(inst, "a special register is read by a mov of integers or bits"));
        }
        if VECTOR_SPECIALS.contains(&name.as_str()) && component_index(component) == Some(3) {
            // PTX ISA, "%tid": the fourth element is unused and always returns zero.
            return Ok(self.constant(0, ty));
        }
        if let Some((special, wide)) = special(name, component) {
            let row = self.f.fill(Fill::Special(special));
            let own = if wide { T::B64 } else { T::B32 };
            self.expect_type(inst, name, own, ty)?;
            return Ok(self.resize(row, own, ty, false));
        }
        if moves::is_dynamic_special(name) {
            return self.dynamic_special(inst, name, ty);
        }
        match self.lookup(inst, name)?.clone() {
            Symbol::Register { .. } | Symbol::Vector(_) => {
                let register = self.register_named(inst, name, component)?;
                self.expect_type(inst, name, self.f.registers[register as usize].ty, ty)?;
                Ok(self.read_register(register, ty))
            }
            Symbol::Function(_) => self.address_of(inst, name, 0, ty),
            Symbol::Variable(_) if typing::takes_addresses(inst) => self.address_of(inst, name, 0, ty),
            Symbol::Variable(_) => {
                Err(self.invalid(inst, format!("'{name}' must be a register: a mov reads its address")))
            }
            Symbol::Predicate(_) => Err(self.invalid(inst, format!("'{name}' is a predicate, not a {}", ty.name()))),
            Symbol::Texture => Err(self.unsupported(inst, "textures are not executed")),
            Symbol::Label(_) | Symbol::BranchTargets(_) | Symbol::Prototype => {
                Err(self.invalid(inst, format!("'{name}' is not a value")))
            }
        }
    }

    /// Allocates a row for `%r+4`: a sum, which ptxas accepts wherever it accepts an integer
    /// register.
    fn register_and_offset(&mut self, inst: &Instruction, register: u32, offset: i64, ty: T) -> Result<u32, Error> {
        let declared = self.f.registers[register as usize].ty;
        self.expect_type(inst, "the register", declared, ty)?;
        if is_float(declared) || is_float(ty) {
            return Err(self.unsupported(inst, "a number is added to a register that holds no integer"));
        }
        let a = self.read_register(register, ty);
        let b = self.constant(literal_bits(Immediate::Int(offset.into()), ty), ty);
        let dst = self.f.temporary(ty);
        let handler = match class(ty) {
            1 => self.handler::<moves::Sum<u32>>(),
            2 => self.handler::<moves::Sum<u64>>(),
            _ => return Err(self.invalid(inst, "a number is added to a register of 128 bits")),
        };
        self.push(Op { dst, a, b, ..Op::new(handler) });
        Ok(dst)
    }

    fn read_register(&mut self, register: u32, ty: T) -> u32 {
        let row = self.f.register_row(register);
        self.f.note_use(Resource::Register(register));
        let declared = self.f.registers[register as usize].ty;
        self.resize(row, declared, ty, declared.is_signed() && ty.is_signed())
    }

    /// A row with `row`'s value in `to`'s width: itself, or a temporary that is filled first.
    pub(crate) fn resize(&mut self, row: u32, from: T, to: T, sign: bool) -> u32 {
        if class(from) == class(to) {
            return row;
        }
        let dst = self.f.temporary(to);
        let op = self.resize_op(dst, row, from, to, sign);
        self.push(op);
        dst
    }

    fn resize_op(&self, dst: u32, a: u32, from: T, to: T, sign: bool) -> Op {
        let handler = match (class(from), class(to), sign) {
            (2, 1, _) => self.handler::<Narrow<u64, u32>>(),
            (4, 1, _) => self.handler::<Narrow<u128, u32>>(),
            (4, 2, _) => self.handler::<Narrow<u128, u64>>(),
            (1, 2, false) => self.handler::<Widen<u32, u64>>(),
            (1, 2, true) => self.handler::<Widen<i32, i64>>(),
            (1, _, _) => self.handler::<Widen<u32, u128>>(),
            _ => self.handler::<Widen<u64, u128>>(),
        };
        Op { dst, a, ..Op::new(handler) }
    }

    /// The row of a destination operand, to be written as a value of `ty`'s width.
    pub(crate) fn dst(&mut self, inst: &Instruction, index: usize, ty: T) -> Result<u32, Error> {
        let operand = self.operand(inst, index)?;
        self.destination(inst, operand, ty)
    }

    /// The row of a destination operand, to be written as a value of `ty`'s width; a wider register
    /// is extended after the operation, with the sign if `ty` has one.
    pub(crate) fn destination(&mut self, inst: &Instruction, operand: &Operand, ty: T) -> Result<u32, Error> {
        match operand {
            Operand::Sink => Ok(self.f.temporary(ty)),
            Operand::Name { name, component } => {
                let register = self.register_named(inst, name, *component)?;
                let declared = self.f.registers[register as usize].ty;
                self.expect_type(inst, name, declared, ty)?;
                let row = self.f.register_row(register);
                self.f.note_define(Resource::Register(register));
                if class(declared) == class(ty) {
                    return Ok(row);
                }
                let temporary = self.f.temporary(ty);
                let op = self.resize_op(row, temporary, ty, declared, ty.is_signed());
                self.f.after.push(op);
                Ok(temporary)
            }
            other => Err(self.invalid(inst, format!("operand {other} cannot be written"))),
        }
    }

    /// Requires that a register of `declared` can be an operand of `ty`.
    fn expect_type(&self, inst: &Instruction, name: &str, declared: T, ty: T) -> Result<(), Error> {
        if typing::fits(inst, declared, ty) {
            return Ok(());
        }
        Err(self.invalid(inst, format!("'{name}' is a {}, not a {}", declared.name(), ty.name())))
    }

    /// The declared type of a register operand.
    pub(crate) fn declared_type(&self, inst: &Instruction, operand: &Operand) -> Option<T> {
        let Operand::Name { name, component } = operand else { return None };
        if special(name, *component).is_some() || moves::is_dynamic_special(name) {
            return None;
        }
        match self.lookup(inst, name).ok()? {
            Symbol::Register { register } => Some(self.f.registers[*register as usize].ty),
            Symbol::Vector(elements) => {
                Some(self.f.registers[*elements.get(component_index(*component)?)? as usize].ty)
            }
            Symbol::Predicate(_) => Some(T::Pred),
            _ => None,
        }
    }

    fn register_named(&self, inst: &Instruction, name: &Name, component: Option<char>) -> Result<u32, Error> {
        match self.lookup(inst, name)? {
            Symbol::Register { register } if component.is_none() => Ok(*register),
            Symbol::Register { .. } => Err(self.invalid(inst, format!("'{name}' is no vector: it has no component"))),
            Symbol::Vector(elements) => component_index(component)
                .and_then(|i| elements.get(i).copied())
                .ok_or_else(|| self.invalid(inst, format!("'{name}' is a vector: a component is needed"))),
            _ => Err(self.invalid(inst, format!("'{name}' is not a register"))),
        }
    }

    /// The predicate of a guard or operand.
    pub(crate) fn predicate_named(&self, inst: &Instruction, name: &str) -> Result<u32, Error> {
        match self.lookup(inst, name)? {
            Symbol::Predicate(p) => Ok(*p),
            _ => Err(self.invalid(inst, format!("'{name}' is not a predicate"))),
        }
    }

    /// A predicate source: its index, and whether it is negated.
    pub(crate) fn pred_src(&mut self, inst: &Instruction, index: usize) -> Result<(u32, bool), Error> {
        let operand = self.operand(inst, index)?;
        self.predicate_source(inst, operand)
    }

    /// A predicate source: its index, and whether it is negated.
    pub(crate) fn predicate_source(&mut self, inst: &Instruction, operand: &Operand) -> Result<(u32, bool), Error> {
        match operand {
            Operand::Name { name, component: None } if name == "%is_explicit_cluster" => {
                Ok((self.explicit_cluster(), false))
            }
            Operand::Name { name, component: None } => {
                let p = self.predicate_named(inst, name)?;
                self.f.note_use(Resource::Predicate(p));
                Ok((p, false))
            }
            Operand::Not(inner) => {
                let (p, negated) = self.predicate_source(inst, inner)?;
                Ok((p, !negated))
            }
            Operand::Immediate(Immediate::Int(v)) => {
                // A literal predicate: a fresh one, set by an operation in front.
                let p = self.f.fresh_predicate();
                self.push(Op { dst: p, imm: i64::from(*v != 0), ..Op::new(self.handler::<moves::SetPredicate>()) });
                Ok((p, false))
            }
            other => Err(self.invalid(inst, format!("operand {other} is not a predicate"))),
        }
    }

    /// A predicate destination, or [`NONE`] for `_`.
    pub(crate) fn predicate_destination(&mut self, inst: &Instruction, operand: &Operand) -> Result<u32, Error> {
        match operand {
            Operand::Sink => Ok(NONE),
            Operand::Name { name, component: None } => {
                let p = self.predicate_named(inst, name)?;
                self.f.note_define(Resource::Predicate(p));
                Ok(p)
            }
            other => Err(self.invalid(inst, format!("operand {other} is not a predicate"))),
        }
    }

    /// The address of a variable or function as a value.
    pub(crate) fn address_of(&mut self, inst: &Instruction, name: &Name, offset: i64, ty: T) -> Result<u32, Error> {
        #[allow(clippy::cast_sign_loss, reason = "addresses wrap")]
        let offset_bits = offset as u64;
        let place = match self.lookup(inst, name)?.clone() {
            Symbol::Variable(place) => place,
            Symbol::Function(function) => {
                let address = self.function_address(inst, &function)?;
                return Ok(self.constant(u128::from(address.wrapping_add(offset_bits)), ty));
            }
            _ => return Err(self.invalid(inst, format!("'{name}' has no address"))),
        };
        let value = match place {
            Place::Global(address) => address,
            Place::Shared(start) => u64::from(start),
            Place::KernelParam(start, _) => u64::from(start),
            Place::DynamicShared => u64::from(self.dynamic_shared_start()),
            Place::Local(start, _) => {
                let dst = self.f.temporary(ty);
                let handler = match class(ty) {
                    1 => self.handler::<LocalAddress<u32>>(),
                    _ => self.handler::<LocalAddress<u64>>(),
                };
                self.push(Op { dst, imm: i64::from(start).wrapping_add(offset), ..Op::new(handler) });
                return Ok(dst);
            }
        };
        Ok(self.constant(u128::from(value.wrapping_add(offset_bits)), ty))
    }

    /// Resolves `[base + offset]`.
    pub(crate) fn address(&mut self, inst: &Instruction, index: usize) -> Result<ResolvedAddress, Error> {
        let Operand::Address(Address { base, offset, coordinates }) = self.operand(inst, index)? else {
            return Err(self.invalid(inst, format!("operand {} must be an address", index + 1)));
        };
        if !coordinates.is_empty() {
            return Err(self.unsupported(inst, "tensor coordinates"));
        }
        let offset = *offset;
        let name = match base {
            AddressBase::Immediate(_) if !inst.has("local") => {
                return Err(self.invalid(inst, "a number is an address in .local only"));
            }
            #[allow(clippy::cast_possible_wrap, reason = "addresses wrap")]
            AddressBase::Immediate(address) => {
                let offset = (*address as i64).wrapping_add(offset);
                return Ok(ResolvedAddress { row: NONE, wide: true, offset, place: None });
            }
            AddressBase::Name(name) => name,
        };
        match self.lookup(inst, name)?.clone() {
            Symbol::Register { register } => {
                let declared = self.f.registers[register as usize].ty;
                if !typing::is_address(declared) {
                    return Err(self.invalid(inst, format!("'{name}' is a {}, not an address", declared.name())));
                }
                let row = self.f.register_row(register);
                self.f.note_use(Resource::Register(register));
                let wide = declared.bits() == 64;
                Ok(ResolvedAddress { row, wide, offset, place: None })
            }
            Symbol::Variable(place) => Ok(ResolvedAddress { row: NONE, wide: true, offset, place: Some(place) }),
            _ => Err(self.invalid(inst, format!("'{name}' has no address"))),
        }
    }

    fn packed_source(&mut self, inst: &Instruction, elements: &[Operand], ty: T) -> Result<u32, Error> {
        let dst = self.f.temporary(ty);
        moves::pack(self, inst, dst, elements, ty)?;
        Ok(dst)
    }

    /// Offset of dynamic shared memory.
    pub(crate) fn dynamic_shared_start(&self) -> u32 {
        self.code.dynamic_shared_start()
    }
}

/// Returns true if a name is that of a special register that is executed here.
fn is_special(name: &str) -> bool {
    name.starts_with('%')
        && (VECTOR_SPECIALS.contains(&name) || special(name, None).is_some() || moves::is_dynamic_special(name))
}

/// Index of `.x`, `.y`, `.z`, `.w` (or `.r`, `.g`, `.b`, `.a`).
pub(crate) fn component_index(component: Option<char>) -> Option<usize> {
    Some(match component? {
        'x' | 'r' => 0,
        'y' | 'g' => 1,
        'z' | 'b' => 2,
        'w' | 'a' => 3,
        _ => return None,
    })
}

/// The special register of a name, and true if it has 64 bits.
pub(crate) fn special(name: &str, component: Option<char>) -> Option<(Special, bool)> {
    #[allow(clippy::cast_possible_truncation, reason = "below 4")]
    let axis = || component_index(component).filter(|&i| i < 3).map(|i| i as u8);
    Some((
        match name {
            "%tid" => Special::Tid(axis()?),
            "%ntid" => Special::Ntid(axis()?),
            "%ctaid" => Special::Ctaid(axis()?),
            "%nctaid" => Special::Nctaid(axis()?),
            "%laneid" => Special::LaneId,
            "%warpid" => Special::WarpId,
            "%nwarpid" => Special::NWarpId,
            "%smid" => Special::SmId,
            "%nsmid" => Special::NSmId,
            "%gridid" => Special::GridId,
            "%lanemask_eq" => Special::LaneMaskEq,
            "%lanemask_le" => Special::LaneMaskLe,
            "%lanemask_lt" => Special::LaneMaskLt,
            "%lanemask_ge" => Special::LaneMaskGe,
            "%lanemask_gt" => Special::LaneMaskGt,
            "%clusterid" => Special::ClusterId(axis()?),
            "%nclusterid" => Special::NClusterId(axis()?),
            "%cluster_ctaid" => Special::ClusterCtaid(axis()?),
            "%cluster_nctaid" => Special::ClusterNctaid(axis()?),
            "%cluster_ctarank" => Special::ClusterCtarank,
            "%cluster_nctarank" => Special::ClusterNctarank,
            "%dynamic_smem_size" => Special::DynamicSmemSize,
            "%total_smem_size" => Special::TotalSmemSize,
            "%aggr_smem_size" => Special::AggrSmemSize,
            _ if name.starts_with("%envreg") => {
                Special::EnvReg(name["%envreg".len()..].parse().ok().filter(|&n| n < 32)?)
            }
            "%reserved_smem_offset_begin" | "%reserved_smem_offset_0" => Special::ReservedSmem(Reserved::Begin),
            "%reserved_smem_offset_end" | "%reserved_smem_offset_cap" => Special::ReservedSmem(Reserved::End),
            "%reserved_smem_offset_1" => Special::ReservedSmem(Reserved::Groups),
            _ => return None,
        },
        name == "%gridid",
    ))
}
