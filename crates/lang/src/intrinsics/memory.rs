//! Variables, addresses, loads and stores (PTX ISA, "Data Movement and Conversion Instructions":
//! `ld`, `st`).

use warpfold_ptx::{self as ptx, Name, Opcode, ScalarType, StateSpace};

use super::sync::scope_name;
use super::{Binary, arithmetic, convert};
use crate::ErrorKind;
use crate::memory::{Cache, Order, Scope, Window};
use crate::recorder::{Computed, Raw, Recorder, Symbol};
use crate::types::Type;

/// Its name as a modifier.
pub(crate) const fn space_name(window: Window) -> &'static str {
    match window {
        Window::Shared => "shared",
        Window::Cluster => "shared::cluster",
        Window::Local => "local",
        Window::Global => "global",
    }
}

/// The type of its addresses: shared memory fits 32 bits.
pub(crate) const fn address_type(window: Window) -> Type {
    if matches!(window, Window::Shared | Window::Cluster) { Type::U32 } else { Type::U64 }
}

/// Base of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    Symbol(Symbol),
    Register(Raw),
}

/// A place in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) space: Window,
    pub(crate) base: Base,
    pub(crate) offset: i64,
}

/// A variable with nothing but space, type and name.
pub(crate) fn variable(space: StateSpace, ty: ScalarType, name: impl Into<Name>) -> ptx::Variable {
    ptx::Variable {
        linkage: None,
        space,
        align: None,
        vector: 1,
        ty,
        ptr: None,
        name: name.into(),
        count: None,
        dims: Vec::new(),
        init: None,
        attribute: None,
        span: ptx::Span::default(),
    }
}

/// Declares an array in shared or local memory, aligned for the widest access that it can take.
pub(crate) fn array(r: &mut Recorder, space: StateSpace, ty: Type, len: u64, name: &str) -> Symbol {
    let bytes = u64::from(ty.bytes()) * len;
    let align = if bytes.is_multiple_of(16) { 16 } else { ty.bytes() };
    if space == StateSpace::Shared {
        r.static_shared_bytes = r.static_shared_bytes.next_multiple_of(u64::from(align)) + bytes;
    }
    let untyped = if ty.bits() == 8 { ScalarType::B8 } else { ty.untyped() };
    let mut declared = variable(space, untyped, format!("{name}_{}", r.variables.len()));
    declared.align = Some(align);
    declared.dims = vec![Some(len)];
    r.variable(declared)
}

/// Allocates aligned bytes of dynamic shared memory.
pub(crate) fn dynamic_shared(r: &mut Recorder, align: u32, bytes: u64) -> Location {
    let offset = r.dynamic_shared_bytes.next_multiple_of(align.into());
    r.dynamic_shared_bytes = offset + bytes;
    let symbol = dynamic_shared_symbol(r);
    r.align_variable(symbol, align);
    Location { space: Window::Shared, base: Base::Symbol(symbol), offset: offset.cast_signed() }
}

/// The variable of dynamic shared memory; the same for all allocations.
fn dynamic_shared_symbol(r: &mut Recorder) -> Symbol {
    if let Some(symbol) = r.dynamic_shared {
        return symbol;
    }
    let mut declared = variable(StateSpace::Shared, ScalarType::B8, "dynamic_shared");
    declared.linkage = Some(ptx::Linkage::Extern);
    declared.align = Some(16);
    declared.dims = vec![None];
    let symbol = r.variable(declared);
    r.dynamic_shared = Some(symbol);
    symbol
}

/// The value of a kernel parameter.
pub(crate) fn load_param(r: &mut Recorder, position: usize, offset: i64, ty: Type) -> Raw {
    let name = r.params[position].name.clone();
    let address = address_operand(ptx::AddressBase::Name(name), offset);
    r.prologue(|r| r.define(ty.register(), Opcode::Ld, &["param", ty.memory().name()], vec![address]))
}

/// The generic address of a kernel parameter, for instructions that want the parameter itself.
pub(crate) fn param_address(r: &mut Recorder, position: usize) -> Raw {
    r.require("the address of a parameter", 80, (7, 7));
    let name = r.params[position].name.clone();
    r.prologue(|r| {
        let source = vec![ptx::Operand::Name { name, component: None }];
        let Raw::Reg(address) = r.define(ScalarType::B64, Opcode::Mov, &["b64"], source) else {
            unreachable!("`define` gives a register")
        };
        let source = vec![r.reg(address)];
        r.define(ScalarType::B64, Opcode::Cvta, &["param", "u64"], source)
    })
}

fn address_operand(base: ptx::AddressBase, offset: i64) -> ptx::Operand {
    ptx::Operand::Address(ptx::Address { base, offset, coordinates: Vec::new() })
}

/// `[base + offset]`; the offset of an address has 32 bits.
pub(crate) fn address(r: &mut Recorder, location: Location) -> ptx::Operand {
    if i32::try_from(location.offset).is_err() {
        let whole = whole_address(r, location);
        return address(r, Location { base: Base::Register(whole), offset: 0, ..location });
    }
    let name = match location.base {
        Base::Symbol(symbol) => r.symbol_name(symbol),
        Base::Register(Raw::Const(bits)) => {
            let literal = bits.wrapping_add_signed(location.offset);
            return address_operand(ptx::AddressBase::Immediate(literal), 0);
        }
        Base::Register(Raw::Reg(reg)) => r.name_of(reg),
    };
    address_operand(ptx::AddressBase::Name(name), location.offset)
}

/// The address in a register.
pub(crate) fn whole_address(r: &mut Recorder, location: Location) -> Raw {
    let base = base_register(r, location);
    let ty = address_type(location.space);
    let offset = crate::fold::integer_cast(Type::I64, ty, location.offset.cast_unsigned());
    arithmetic::binary(r, Binary::Add, ty, base, Raw::Const(offset))
}

/// Prefetches the line of the address into L2.
pub(crate) fn prefetch(r: &mut Recorder, location: Location) {
    let address = address(r, location);
    r.push(Opcode::Prefetch, &[space_name(location.space), "L2"], vec![address]);
}

/// Notes an error if a cache hint would be lost: synchronising accesses have none.
pub(crate) fn without_cache(r: &mut Recorder, cache: Cache) {
    if cache != Cache::Default {
        r.fail(ErrorKind::Misuse(format!("{cache:?} applies to plain loads and stores only")));
    }
}

/// The address, without the constant offset, in a register.
pub(crate) fn base_register(r: &mut Recorder, location: Location) -> Raw {
    let symbol = match location.base {
        Base::Register(raw) => return raw,
        Base::Symbol(symbol) => symbol,
    };
    let ty = address_type(location.space);
    let name = r.symbol_name(symbol);
    Raw::Reg(r.computed_register(Computed::Address(symbol), |r| {
        let reg = r.register(ty.register());
        let destination = r.reg(reg);
        r.push(Opcode::Mov, &[ty.memory().name()], vec![destination, ptx::Operand::Name { name, component: None }]);
        reg
    }))
}

/// `location + index * bytes`, computed in the width of the space's addresses.
pub(crate) fn element(r: &mut Recorder, location: Location, bytes: u32, index_ty: Type, index: Raw) -> Location {
    if let Raw::Const(bits) = index {
        let wide = crate::fold::integer_cast(index_ty, Type::I64, bits).cast_signed();
        return Location { offset: location.offset.wrapping_add(wide.wrapping_mul(i64::from(bytes))), ..location };
    }
    let address_ty = address_type(location.space);
    let base = base_register(r, location);
    let scale = Raw::Const(u64::from(bytes));
    let sum = if address_ty == Type::U64 && index_ty.bits() == 32 {
        let operands = vec![r.operand(index_ty, index), r.operand(Type::U32, scale), r.operand(Type::U64, base)];
        r.define(ScalarType::B64, Opcode::Mad, &["wide", index_ty.memory().name()], operands)
    } else {
        let index = convert::convert(r, index_ty, address_ty, index, None);
        if bytes == 1 {
            arithmetic::binary(r, Binary::Add, address_ty, base, index)
        } else {
            arithmetic::fma(r, address_ty, index, scale, base)
        }
    };
    Location { base: Base::Register(sum), ..location }
}

/// Direction of a memory access.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Load,
    Store,
}

/// `global`, `volatile.global`, `global.nc`, …
fn qualifiers(r: &mut Recorder, direction: Direction, space: Window, cache: Cache) -> Vec<&'static str> {
    let name = space_name(space);
    let misuse = |r: &mut Recorder, text: &str| {
        r.fail(ErrorKind::Misuse(format!("{cache:?} {text}")));
        vec![name]
    };
    if space != Window::Global && !matches!(cache, Cache::Default | Cache::Volatile) {
        return misuse(r, "applies to global memory only");
    }
    match (cache, direction) {
        (Cache::Default, _) => vec![name],
        (Cache::Volatile, _) => vec!["volatile", name],
        (Cache::ReadOnly, Direction::Load) => vec![name, "nc"],
        (Cache::ReadOnlyStreaming, Direction::Load) => {
            r.require("an L1 eviction priority", 80, (7, 4));
            vec![name, "nc", "L1::no_allocate"]
        }
        (Cache::Streaming, _) => vec![name, "cs"],
        (Cache::L2Only, _) => vec![name, "cg"],
        (Cache::LastUse, Direction::Load) => vec![name, "lu"],
        (Cache::EvictFirst, _) => {
            r.require("an L1 eviction priority", 80, (7, 4));
            vec![name, "L1::evict_first"]
        }
        (Cache::EvictLast, _) => {
            r.require("an L1 eviction priority", 80, (7, 4));
            vec![name, "L1::evict_last"]
        }
        (Cache::NoAllocate, _) => {
            r.require("an L1 eviction priority", 80, (7, 4));
            vec![name, "L1::no_allocate"]
        }
        (Cache::ReadOnly | Cache::ReadOnlyStreaming | Cache::LastUse, Direction::Store) => {
            misuse(r, "applies to loads only")
        }
    }
}

/// A load that only happens where the condition holds; elsewhere the registers keep the default.
#[derive(Clone, Copy)]
pub(crate) struct Otherwise<'a> {
    pub(crate) condition: Raw,
    pub(crate) default: &'a [Raw],
}

/// Loads `count` consecutive elements as one access of up to 16 bytes.
pub(crate) fn load(
    r: &mut Recorder,
    location: Location,
    cache: Cache,
    ty: Type,
    count: u32,
    otherwise: Option<Otherwise<'_>>,
) -> Vec<Raw> {
    let qualifiers = qualifiers(r, Direction::Load, location.space, cache);
    load_qualified(r, location, &qualifiers, ty, count, otherwise)
}

fn load_qualified(
    r: &mut Recorder,
    location: Location,
    qualifiers: &[&'static str],
    ty: Type,
    count: u32,
    otherwise: Option<Otherwise<'_>>,
) -> Vec<Raw> {
    if count > 4 {
        return load_words(r, location, qualifiers, ty, count, otherwise);
    }
    let otherwise = otherwise.filter(|o| o.condition != Raw::Const(1));
    if let Some(Otherwise { condition: Raw::Const(_), default }) = otherwise {
        return default.to_vec();
    }
    let registers: Vec<_> = match otherwise {
        Some(o) => o.default.iter().map(|default| convert::copy(r, ty, *default)).collect(),
        None => (0..count).map(|_| r.register(ty.register())).collect(),
    };
    let guard = otherwise.map(|o| r.guard(o.condition, false));
    let mut names: Vec<_> = registers.iter().map(|reg| r.reg(*reg)).collect();
    let destination = if count == 1 { names.remove(0) } else { ptx::Operand::Vector(names) };
    let address = address(r, location);
    let modifiers = [qualifiers, vector(count), &[ty.memory().name()]].concat();
    r.push_guarded(guard, Opcode::Ld, &modifiers, vec![destination, address]);
    registers.into_iter().map(Raw::Reg).collect()
}

fn vector(count: u32) -> &'static [&'static str] {
    match count {
        1 => &[],
        2 => &["v2"],
        _ => &["v4"],
    }
}

/// Loads more than four elements as 32-bit words, and splits them in registers.
fn load_words(
    r: &mut Recorder,
    location: Location,
    qualifiers: &[&'static str],
    ty: Type,
    count: u32,
    otherwise: Option<Otherwise<'_>>,
) -> Vec<Raw> {
    let per_word = (32 / ty.bits()) as usize;
    let words = count / (32 / ty.bits());
    let default: Option<Vec<Raw>> =
        otherwise.map(|o| o.default.chunks(per_word).map(|parts| join(r, ty, parts)).collect());
    let otherwise = otherwise
        .zip(default.as_deref())
        .map(|(Otherwise { condition, .. }, default)| Otherwise { condition, default });
    let loaded = load_qualified(r, location, qualifiers, Type::U32, words, otherwise);
    loaded.into_iter().flat_map(|word| split(r, ty, word)).collect()
}

/// The elements of a 32-bit word, lowest first.
pub(crate) fn split(r: &mut Recorder, ty: Type, word: Raw) -> Vec<Raw> {
    if ty.bits() == 16 {
        return convert::unpack(r, Type::U32, ty, word).to_vec();
    }
    let wide = if ty.is_signed() { Type::I32 } else { Type::U32 };
    (0..4)
        .map(|byte| {
            let operands = [Raw::Const(8 * byte), Raw::Const(8)].map(|c| r.operand(Type::U32, c));
            let [position, length] = operands;
            let source = r.in_register(Type::U32, word);
            let modifiers = [wide.memory().name()];
            let extended = r.define(ScalarType::B32, Opcode::Bfe, &modifiers, vec![source, position, length]);
            // The field is in range already: a plain 16-bit conversion keeps it.
            let narrow = if ty.is_signed() { Type::I16 } else { Type::U16 };
            convert::convert(r, wide, narrow, extended, None)
        })
        .collect()
}

/// A 32-bit word of two or four elements, lowest first.
pub(crate) fn join(r: &mut Recorder, ty: Type, parts: &[Raw]) -> Raw {
    if let [low, high] = *parts {
        return convert::pack(r, ty, Type::U32, [low, high]);
    }
    let halves: Vec<Raw> = parts
        .chunks(2)
        .map(|pair| {
            let low = arithmetic::binary(r, Binary::And, Type::U16, pair[0], Raw::Const(0xff));
            let high = super::logic::shift(r, true, Type::U16, pair[1], Raw::Const(8));
            arithmetic::binary(r, Binary::Or, Type::U16, low, high)
        })
        .collect();
    convert::pack(r, Type::U16, Type::U32, [halves[0], halves[1]])
}

/// Stores consecutive elements as one access of up to 16 bytes, if the condition holds.
pub(crate) fn store(
    r: &mut Recorder,
    location: Location,
    cache: Cache,
    ty: Type,
    values: &[Raw],
    condition: Option<Raw>,
) {
    let qualifiers = qualifiers(r, Direction::Store, location.space, cache);
    store_qualified(r, location, &qualifiers, ty, values, condition);
}

fn store_qualified(
    r: &mut Recorder,
    location: Location,
    qualifiers: &[&'static str],
    ty: Type,
    values: &[Raw],
    condition: Option<Raw>,
) {
    if values.len() > 4 {
        let words: Vec<Raw> = values.chunks((32 / ty.bits()) as usize).map(|parts| join(r, ty, parts)).collect();
        return store_qualified(r, location, qualifiers, Type::U32, &words, condition);
    }
    let condition = condition.filter(|c| *c != Raw::Const(1));
    if condition == Some(Raw::Const(0)) {
        return;
    }
    let mut operands: Vec<_> = values.iter().map(|value| r.in_register(ty, *value)).collect();
    let count = u32::try_from(values.len()).expect("at most four values");
    let source = if count == 1 { operands.remove(0) } else { ptx::Operand::Vector(operands) };
    let address = address(r, location);
    let guard = condition.map(|c| r.guard(c, false));
    let modifiers = [qualifiers, vector(count), &[ty.memory().name()]].concat();
    r.push_guarded(guard, Opcode::St, &modifiers, vec![address, source]);
}

/// A load that synchronises: `ld.relaxed`, `ld.acquire`.
pub(crate) fn load_ordered(r: &mut Recorder, location: Location, order: Order, scope: Scope, ty: Type) -> Raw {
    let order = match order {
        Order::Relaxed => "relaxed",
        Order::Acquire => "acquire",
        Order::Release | Order::AcqRel => {
            r.fail(ErrorKind::Misuse(format!("a load cannot be {order:?}: expected Relaxed or Acquire")));
            return Raw::Const(0);
        }
    };
    let scope = scope_name(r, scope);
    load_qualified(r, location, &[order, scope, space_name(location.space)], ty, 1, None)[0]
}

/// A store that synchronises: `st.relaxed`, `st.release`.
pub(crate) fn store_ordered(r: &mut Recorder, location: Location, order: Order, scope: Scope, ty: Type, value: Raw) {
    let order = match order {
        Order::Relaxed => "relaxed",
        Order::Release => "release",
        Order::Acquire | Order::AcqRel => {
            r.fail(ErrorKind::Misuse(format!("a store cannot be {order:?}: expected Relaxed or Release")));
            return;
        }
    };
    let scope = scope_name(r, scope);
    store_qualified(r, location, &[order, scope, space_name(location.space)], ty, &[value], None);
}
