//! Rules for combinations of qualifiers: those that ptxas 13.0 applies to every instruction, and
//! those for loads and stores (PTX ISA, "ld", "st").

use warpfold_ptx::{Instruction, Opcode as O, ScalarType};

use super::Decoder;
use crate::Error;

/// Modifiers that may occur twice, besides register types: layouts of both operands of a product,
/// and their sub-byte types.
const TWICE: [&str; 5] = ["row", "col", "b1", "s4", "u4"];
const SCOPES: [&str; 5] = ["cta", "cluster", "gpu", "sys", "gl"];
const VECTORS: [&str; 3] = ["v2", "v4", "v8"];
const ORDERS: [&str; 5] = ["relaxed", "acquire", "release", "acq_rel", "volatile"];

/// Number of an instruction's qualifiers that are among `names`.
fn count(inst: &Instruction, names: &[&str]) -> usize {
    inst.modifiers.iter().filter(|m| names.contains(&m.as_str())).count()
}

/// Number of state spaces that an instruction names.
pub(super) fn num_spaces(inst: &Instruction) -> usize {
    let spaces = ["global", "shared", "local", "const", "param"];
    let is_space = |m: &str| spaces.contains(&m.split("::").next().unwrap_or(m));
    inst.modifiers.iter().filter(|m| is_space(m)).count()
}

/// Refuses invalid combinations of qualifiers.
pub(super) fn check(d: &Decoder, inst: &Instruction) -> Result<(), Error> {
    let is_repeated =
        |name: &&str| !TWICE.contains(name) && ScalarType::from_modifier(name).is_none() && count(inst, &[name]) > 1;
    if let Some(name) = inst.modifiers.iter().map(|m| m.as_str()).find(is_repeated) {
        return Err(d.invalid(inst, format!(".{name} is written twice")));
    }
    if count(inst, &SCOPES) > 1 {
        return Err(d.invalid(inst, "several scopes"));
    }
    if count(inst, &VECTORS) > 1 {
        return Err(d.invalid(inst, "several vector sizes"));
    }
    let is_access = matches!(inst.opcode, O::Ld | O::Ldu | O::St | O::Atom | O::Red) && !inst.has("async");
    if !is_access {
        return Ok(());
    }
    if num_spaces(inst) > 1 {
        return Err(d.invalid(inst, "several state spaces"));
    }
    if inst.types().count() > 1 {
        return Err(d.invalid(inst, "several types"));
    }
    if matches!(inst.opcode, O::Ld | O::St) { ordered_access(d, inst) } else { Ok(()) }
}

/// Checks order and scope of a load or store, and the spaces that support them.
fn ordered_access(d: &Decoder, inst: &Instruction) -> Result<(), Error> {
    if count(inst, &ORDERS) > 1 {
        return Err(d.invalid(inst, "several orders"));
    }
    let is_ordered = inst.has("relaxed") || inst.has(if inst.opcode == O::Ld { "acquire" } else { "release" });
    if is_ordered != (count(inst, &SCOPES) == 1) {
        return Err(d.invalid(inst, "an order needs a scope, and a scope an order"));
    }
    if is_ordered && ["local", "const", "param"].iter().any(|space| inst.has(space)) {
        return Err(d.invalid(inst, "this state space has no order"));
    }
    if inst.has("nc") && (inst.opcode == O::St || !inst.has("global")) {
        return Err(d.invalid(inst, ".nc is for loads of .global"));
    }
    if inst.opcode == O::St && inst.has("const") {
        return Err(d.invalid(inst, "constants cannot be written"));
    }
    Ok(())
}
