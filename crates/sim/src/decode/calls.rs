//! Calls: arguments and results are copied between the frames of caller and callee.

use warpfold_ptx::{Instruction, Name, Operand, ScalarType as T};

use super::Decoder;
use super::scope::{Place, RegisterInfo, Symbol};
use crate::Error;
use crate::exec::code::{Call, CallSlot, CallTarget, Terminator};
use crate::exec::memory_map::FUNCTION_WINDOW;

/// Functions of the device runtime that are executed here without a body.
fn runtime(name: &str) -> Option<CallTarget> {
    Some(match name {
        "vprintf" => CallTarget::Vprintf,
        "malloc" => CallTarget::Malloc,
        "free" => CallTarget::Free,
        "__assertfail" => CallTarget::AssertFail,
        _ => return None,
    })
}

/// `call{.uni} (ret), func, (args){, prototype}`.
pub(super) fn call(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    d.expect_modifiers(inst, &["uni"])?;
    let (returns, callee, arguments) = parts(d, inst)?;
    let target = target(d, inst, callee)?;
    d.code.prints |= matches!(target, CallTarget::Vprintf | CallTarget::AssertFail);
    d.code.allocates |= matches!(target, CallTarget::Malloc | CallTarget::Free);
    let arguments = slots(d, inst, arguments, false)?;
    let returns = slots(d, inst, returns, true)?;
    d.flush(inst)?;
    let next = d.new_block();
    let instruction = d.current_instruction();
    d.end_block(Terminator::Call(Box::new(Call { target, arguments, returns, next, instruction })));
    d.begin_block(next);
    Ok(())
}

/// Splits a call into results, callee and arguments, in any of its forms.
fn parts<'i>(d: &Decoder, inst: &'i Instruction) -> Result<(&'i [Operand], &'i Name, &'i [Operand]), Error> {
    let mut rest = inst.operands.as_slice();
    let mut returns: &[Operand] = &[];
    if let [Operand::List(list), tail @ ..] = rest {
        returns = list;
        rest = tail;
    }
    let [Operand::Name { name, component: None }, rest @ ..] = rest else {
        return Err(d.invalid(inst, "expected the function to call"));
    };
    let arguments: &[Operand] = match rest {
        [Operand::List(list), ..] => list,
        _ => &[],
    };
    Ok((returns, name, arguments))
}

fn target(d: &mut Decoder, inst: &Instruction, callee: &Name) -> Result<CallTarget, Error> {
    match d.lookup(inst, callee)?.clone() {
        Symbol::Function(name) => match d.code.function_index.get(name.as_str()) {
            Some(&index) => Ok(CallTarget::Direct(index)),
            None => runtime(&name)
                .ok_or_else(|| d.unsupported(inst, format!("function '{name}' has no body in this module"))),
        },
        Symbol::Register { .. } => {
            let operand = Operand::Name { name: callee.clone(), component: None };
            Ok(CallTarget::Indirect(d.source(inst, &operand, T::U64)?))
        }
        _ => Err(d.invalid(inst, format!("'{callee}' cannot be called"))),
    }
}

fn slots(d: &mut Decoder, inst: &Instruction, operands: &[Operand], written: bool) -> Result<Vec<CallSlot>, Error> {
    let mut slots = Vec::new();
    for operand in operands {
        if let Operand::Name { name, component: None } = operand
            && let Symbol::Vector(elements) = d.lookup(inst, name)?
        {
            let elements = elements.len();
            for component in "xyzw".chars().take(elements) {
                slots.push(slot(d, inst, &Operand::Name { name: name.clone(), component: Some(component) }, written)?);
            }
        } else {
            slots.push(slot(d, inst, operand, written)?);
        }
    }
    Ok(slots)
}

fn slot(d: &mut Decoder, inst: &Instruction, operand: &Operand, written: bool) -> Result<CallSlot, Error> {
    if let Operand::Name { name, component: None } = operand {
        match d.lookup(inst, name)?.clone() {
            Symbol::Variable(Place::Local(offset, bytes)) => return Ok(CallSlot::Local { offset, bytes }),
            Symbol::Predicate(p) => {
                let what = super::builder::Resource::Predicate(p);
                if written {
                    d.f.note_define(what)
                } else {
                    d.f.note_use(what)
                }
                return Ok(CallSlot::Predicate(p));
            }
            Symbol::Register { register } => {
                let ty = d.f.registers[register as usize].ty;
                let row = if written { d.destination(inst, operand, ty)? } else { d.source(inst, operand, ty)? };
                return Ok(RegisterInfo::slot(row, ty));
            }
            _ => {}
        }
    }
    if let Operand::Name { component: Some(_), .. } = operand
        && let Some(ty) = d.declared_type(inst, operand)
    {
        let row = if written { d.destination(inst, operand, ty)? } else { d.source(inst, operand, ty)? };
        return Ok(RegisterInfo::slot(row, ty));
    }
    match operand {
        Operand::Immediate(_) if !written => {
            let row = d.source(inst, operand, T::B64)?;
            Ok(RegisterInfo::slot(row, T::B64))
        }
        other => Err(d.invalid(inst, format!("operand {other} cannot be passed to a function"))),
    }
}

impl Decoder<'_> {
    /// The address by which a function is called indirectly.
    pub(super) fn function_address(&mut self, inst: &Instruction, name: &Name) -> Result<u64, Error> {
        let Some(&index) = self.code.function_index.get(name.as_str()) else {
            return Err(self.unsupported(inst, format!("function '{name}' has no body in this module")));
        };
        Ok(FUNCTION_WINDOW + u64::from(index) * 16)
    }
}
