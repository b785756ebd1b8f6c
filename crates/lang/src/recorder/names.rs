//! The last pass over a recorded body: removes unused reads, and names registers in the order of
//! the text.

use std::collections::{BTreeMap, BTreeSet};

use warpfold_ptx::{self as ptx, Name, ScalarType, Statement};

/// The prefix of a register's final name.
fn prefix(ty: ScalarType) -> &'static str {
    match ty.bits() {
        1 => "p",
        16 => "rs",
        32 if ty == ScalarType::F32 => "f",
        32 => "r",
        64 if ty == ScalarType::F64 => "fd",
        64 => "rd",
        _ => "rq",
    }
}

/// Removes unused reads from the prologue: `thread_idx()` reads all three dimensions.
pub(super) fn without_unused(prologue: Vec<Statement>, body: &[Statement]) -> Vec<Statement> {
    let mut used = BTreeSet::new();
    for_each_register(&mut body.to_vec(), &mut |name| {
        used.insert(name.clone());
    });
    let mut kept: Vec<Statement> = Vec::new();
    for mut statement in prologue.into_iter().rev() {
        if destination(&statement).is_none_or(|name| used.contains(name)) {
            for_each_register(std::slice::from_mut(&mut statement), &mut |name| {
                used.insert(name.clone());
            });
            kept.push(statement);
        }
    }
    kept.reverse();
    kept
}

/// The one register that a statement writes.
fn destination(statement: &Statement) -> Option<&Name> {
    let Statement::Instruction(instruction) = statement else { return None };
    let Some(ptx::Operand::Name { name, .. }) = instruction.operands.first() else { return None };
    Some(name)
}

/// Gives registers their final names in the order of the text, and declares them.
pub(super) fn number_registers(
    statements: &mut [Statement],
    registers: &[ScalarType],
) -> Vec<ptx::RegisterDeclaration> {
    let mut counts: BTreeMap<&'static str, (ScalarType, u32)> = BTreeMap::new();
    let mut names: Vec<Option<Name>> = vec![None; registers.len()];
    let mut rename = |name: &mut Name| {
        let Some(index) = name.strip_prefix('%').and_then(|digits| digits.parse::<usize>().ok()) else { return };
        let ty = registers[index];
        *name = names[index]
            .get_or_insert_with(|| {
                let (_, count) = counts.entry(prefix(ty)).or_insert((ty, 0));
                *count += 1;
                Name::from(format!("%{}{}", prefix(ty), *count - 1))
            })
            .clone();
    };
    for_each_register(statements, &mut rename);
    ["p", "rs", "r", "f", "rd", "fd", "rq"]
        .into_iter()
        .filter_map(|prefix| counts.get(prefix).map(|(ty, count)| (prefix, *ty, *count)))
        .map(|(prefix, ty, count)| ptx::RegisterDeclaration {
            vector: 1,
            ty,
            names: vec![(Name::from(format!("%{prefix}")), Some(count))],
        })
        .collect()
}

fn for_each_register(statements: &mut [Statement], rename: &mut impl FnMut(&mut Name)) {
    for statement in statements {
        match statement {
            Statement::Instruction(instruction) => {
                if let Some(guard) = &mut instruction.guard {
                    rename(&mut guard.predicate);
                }
                instruction.operands.iter_mut().for_each(|operand| for_each_in_operand(operand, rename));
            }
            Statement::Scope(inner) => for_each_register(inner, rename),
            Statement::Label { .. }
            | Statement::Register(_)
            | Statement::Variable(_)
            | Statement::Location { .. }
            | Statement::Pragma(_)
            | Statement::BranchTargets { .. }
            | Statement::CallTargets { .. }
            | Statement::CallPrototype { .. } => {}
        }
    }
}

fn for_each_in_operand(operand: &mut ptx::Operand, rename: &mut impl FnMut(&mut Name)) {
    match operand {
        ptx::Operand::Name { name, .. }
        | ptx::Operand::Selected { name, .. }
        | ptx::Operand::NameOffset { name, .. } => rename(name),
        ptx::Operand::Address(address) => {
            if let ptx::AddressBase::Name(name) = &mut address.base {
                rename(name);
            }
            address.coordinates.iter_mut().for_each(|operand| for_each_in_operand(operand, rename));
        }
        ptx::Operand::Vector(inner) | ptx::Operand::List(inner) => {
            inner.iter_mut().for_each(|operand| for_each_in_operand(operand, rename));
        }
        ptx::Operand::Pair(first, second) => {
            for_each_in_operand(first, rename);
            for_each_in_operand(second, rename);
        }
        ptx::Operand::Not(inner) | ptx::Operand::Negate(inner) => for_each_in_operand(inner, rename),
        ptx::Operand::Immediate(_) | ptx::Operand::Sink => {}
    }
}
