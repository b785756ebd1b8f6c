//! Static shared memory of a kernel: the variables that it names, and those of the functions that
//! it can reach.
//!
//! A module's other variables do not count: ptxas gives a kernel only those that it uses.

use std::collections::{HashMap, HashSet};

use warpfold_ptx::{AddressBase, Function, Initializer, Item, Module, Operand, StateSpace, Statement, Variable};

use crate::layout::bytes_of;

/// Bytes of static shared memory of `kernel`, its variables one after the other in text order.
pub(crate) fn static_shared(module: &Module, kernel: &Function) -> u32 {
    let uses = Uses::of(module, kernel);
    let of_functions = uses.functions.iter().flat_map(|f| f.statements()).filter_map(|s| match s {
        Statement::Variable(v) => Some(v),
        _ => None,
    });
    let mut variables: Vec<&Variable> = module
        .variables()
        .chain(of_functions)
        .filter(|v| v.space == StateSpace::Shared && uses.names.contains(v.name.as_str()))
        .collect();
    variables.sort_by_key(|v| (v.span.line, v.span.column));
    let bytes = variables.into_iter().fold(0u64, |end, v| {
        let align = u64::from(v.align.unwrap_or(v.ty.bytes() * v.vector).max(1));
        // A variable without a size is the dynamic one.
        bytes_of(v).filter(|&b| b > 0).map_or(end, |bytes| end.next_multiple_of(align) + bytes)
    });
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// The kernel and the functions that it can reach.
pub(crate) fn reached<'a>(module: &'a Module, kernel: &'a Function) -> Vec<&'a Function> {
    Uses::of(module, kernel).functions
}

/// Returns true if any function asks for the address of the memory reserved for the system.
pub(crate) fn names_reserved(module: &Module) -> bool {
    let functions = module.items.iter().filter_map(|item| match item {
        Item::Function(f) => Some(f),
        Item::Variable(_) | Item::Alias { .. } | Item::Directive(_) => None,
    });
    functions.flat_map(names_in).any(|name| name.starts_with("%reserved_smem_offset_"))
}

/// Functions and names that a kernel can reach.
struct Uses<'a> {
    functions: Vec<&'a Function>,
    names: HashSet<&'a str>,
}

impl<'a> Uses<'a> {
    fn of(module: &'a Module, kernel: &'a Function) -> Self {
        let variables: HashMap<&str, &Variable> = module.variables().map(|v| (v.name.as_str(), v)).collect();
        let mut uses = Self { functions: vec![kernel], names: HashSet::new() };
        let mut pending: Vec<&str> = names_in(kernel);
        while let Some(name) = pending.pop() {
            if !uses.names.insert(name) {
                continue;
            }
            // A pointer in a table of the kernel's may be called or followed.
            if let Some(init) = variables.get(name).and_then(|v| v.init.as_ref()) {
                names_of_initializer(init, &mut pending);
            }
            if let Some(function) = module.function(name).filter(|f| f.body.is_some()) {
                uses.functions.push(function);
                pending.extend(names_in(function));
            }
        }
        uses
    }
}

fn names_in(function: &Function) -> Vec<&str> {
    let mut names = Vec::new();
    function.instructions().flat_map(|i| &i.operands).for_each(|o| names_of_operand(o, &mut names));
    names
}

fn names_of_operand<'a>(operand: &'a Operand, names: &mut Vec<&'a str>) {
    match operand {
        Operand::Name { name, .. } | Operand::NameOffset { name, .. } => names.push(name),
        Operand::Address(address) => {
            if let AddressBase::Name(name) = &address.base {
                names.push(name);
            }
            address.coordinates.iter().for_each(|o| names_of_operand(o, names));
        }
        Operand::Vector(list) | Operand::List(list) => list.iter().for_each(|o| names_of_operand(o, names)),
        Operand::Pair(a, b) => {
            names_of_operand(a, names);
            names_of_operand(b, names);
        }
        Operand::Not(inner) | Operand::Negate(inner) => names_of_operand(inner, names),
        Operand::Selected { .. } | Operand::Immediate(_) | Operand::Sink => {}
    }
}

fn names_of_initializer<'a>(init: &'a Initializer, names: &mut Vec<&'a str>) {
    match init {
        Initializer::List(list) => list.iter().for_each(|i| names_of_initializer(i, names)),
        Initializer::Address { name, .. } => names.push(name),
        Initializer::MaskedAddress { address, .. } => names_of_initializer(address, names),
        Initializer::Immediate(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::static_shared;

    const MODULE: &str = "
.version 8.0
.target sm_80
.address_size 64
.shared .align 4 .b8 common[12];
.shared .align 16 .b8 unused[64];
.extern .shared .align 16 .b8 dynamic[];
.func helper() { .shared .b32 word; .reg .b32 %r; ld.shared.u32 %r, [word]; ret; }
.global .align 8 .u64 table[1] = { helper };
.visible .entry direct() { .shared .align 16 .b8 tile[32]; .reg .b32 %r; mov.u32 %r, tile; mov.u32 %r, dynamic; ret; }
.visible .entry calls() { .reg .b32 %r; mov.u32 %r, common; call.uni helper; ret; }
.visible .entry pointer() { .reg .b64 %r; mov.u64 %r, table; ret; }
.visible .entry none() { ret; }
";

    #[track_caller]
    fn check(kernel: &str, bytes: u32) {
        let module = warpfold_ptx::parse(MODULE).expect("the text is PTX");
        let function = module.function(kernel).expect("the module has the kernel");
        assert_eq!(static_shared(&module, function), bytes, "{kernel}");
    }

    #[test]
    fn a_kernel_takes_the_variables_that_it_names() {
        check("direct", 32);
        check("none", 0);
    }

    #[test]
    fn and_those_of_the_functions_that_it_calls_or_may_call_through_a_table() {
        check("calls", 16);
        check("pointer", 4);
    }
}
