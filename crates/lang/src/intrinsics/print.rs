//! Device printf: a call of `vprintf`, which the driver (and the virtual GPU) provides (CUDA
//! programming guide, "Formatted Output"; the calling sequence is that of PTX ISA, `call`).

use warpfold_ptx::{self as ptx, Initializer, Item, Linkage, Opcode, ScalarType, StateSpace, Statement};

use super::memory::{Base, Location, store, variable};
use crate::memory::{Cache, Window};
use crate::recorder::{Raw, Recorder};
use crate::types::Type;

/// Prints promoted arguments (32- and 64-bit integers, f64) with a format that is known to fit
/// them.
pub(crate) fn printf(r: &mut Recorder, format: &str, arguments: &[(Type, Raw)]) {
    declare(r);
    let format = format_address(r, format);
    let buffer = argument_buffer(r, arguments);
    let outer = r.begin_block();
    let parameter = |name: &'static str, ty| Statement::Variable(variable(StateSpace::Param, ty, name));
    for (name, value) in [("param0", format), ("param1", buffer)] {
        r.statement(parameter(name, ScalarType::B64));
        let operands = vec![param_address(name), r.in_register(Type::U64, value)];
        r.push(Opcode::St, &["param", "b64"], operands);
    }
    r.statement(parameter("retval0", ScalarType::B32));
    let list = |names: &[&'static str]| ptx::Operand::List(names.iter().map(|name| symbol(name)).collect());
    r.push(Opcode::Call, &[], vec![list(&["retval0"]), symbol("vprintf"), list(&["param0", "param1"])]);
    r.end_block(outer);
}

fn symbol(name: &str) -> ptx::Operand {
    ptx::Operand::Name { name: name.into(), component: None }
}

fn param_address(name: &str) -> ptx::Operand {
    let base = ptx::AddressBase::Name(name.into());
    ptx::Operand::Address(ptx::Address { base, offset: 0, coordinates: Vec::new() })
}

/// `.extern .func (.param .b32 …) vprintf (.param .b64 …, .param .b64 …);`, once a module.
fn declare(r: &mut Recorder) {
    if r.items.iter().any(|item| matches!(item, Item::Function(function) if function.name == "vprintf")) {
        return;
    }
    let param = |name: &'static str, ty| variable(StateSpace::Param, ty, name);
    r.items.push(Item::Function(ptx::Function {
        linkage: Some(Linkage::Extern),
        kind: ptx::FunctionKind::Func,
        returns: vec![param("vprintf_result", ScalarType::B32)],
        name: "vprintf".into(),
        params: vec![param("vprintf_format", ScalarType::B64), param("vprintf_arguments", ScalarType::B64)],
        directives: Vec::new(),
        body: None,
        span: ptx::Span::default(),
    }));
}

/// The generic address of the format, a zero-terminated string in global memory; equal strings are
/// shared.
fn format_address(r: &mut Recorder, format: &str) -> Raw {
    let bytes = format.bytes().chain([0]).map(|byte| Initializer::Immediate(ptx::Immediate::Int(byte.into())));
    let init = Some(Initializer::List(bytes.collect()));
    let known = r.items.iter().find_map(|item| {
        let Item::Variable(variable) = item else { return None };
        (variable.init == init).then(|| variable.name.clone())
    });
    let name = known.unwrap_or_else(|| {
        let mut string = variable(StateSpace::Global, ScalarType::B8, format!("{}_format_{}", r.name, r.items.len()));
        string.align = Some(1);
        string.dims = vec![Some(format.len() as u64 + 1)];
        string.init = init;
        let name = string.name.clone();
        r.items.push(Item::Variable(string));
        name
    });
    let address = r.define(ScalarType::B64, Opcode::Mov, &["u64"], vec![symbol(&name)]);
    to_generic(r, "global", address)
}

fn to_generic(r: &mut Recorder, space: &'static str, address: Raw) -> Raw {
    let operand = r.operand(Type::U64, address);
    r.define(ScalarType::B64, Opcode::Cvta, &[space, "u64"], vec![operand])
}

/// The generic address of the arguments, one after the other at their natural alignment.
fn argument_buffer(r: &mut Recorder, arguments: &[(Type, Raw)]) -> Raw {
    if arguments.is_empty() {
        return Raw::Const(0);
    }
    let mut offsets = Vec::new();
    let mut bytes = 0_u32;
    for (ty, _) in arguments {
        bytes = bytes.next_multiple_of(ty.bytes());
        offsets.push(i64::from(bytes));
        bytes += ty.bytes();
    }
    let mut buffer = variable(StateSpace::Local, ScalarType::B8, format!("print_{}", r.variables.len()));
    buffer.align = Some(8);
    buffer.dims = vec![Some(bytes.into())];
    let name = buffer.name.clone();
    let base = Base::Symbol(r.variable(buffer));
    for ((ty, value), offset) in arguments.iter().zip(offsets) {
        store(r, Location { space: Window::Local, base, offset }, Cache::Default, *ty, &[*value], None);
    }
    let address = r.define(ScalarType::B64, Opcode::Mov, &["u64"], vec![symbol(&name)]);
    to_generic(r, "local", address)
}
