//! `ld`, `ldu`, `st` and prefetches: decoding, addresses, and the choice of the space (PTX ISA,
//! "Data Movement").

use warpfold_ptx::{Instruction, Opcode, Operand, Order, ScalarType as T, Scope};

pub(crate) use super::flags::{Access, Extend};
use crate::Error;
use crate::decode::{Decoder, Place};
use crate::exec::code::Class;
use crate::exec::machine::{Fault, Machine};
use crate::exec::memory_map::{Window, window};
use crate::exec::op::{LaneOp, NONE, Op};
use crate::exec::row::{ALL_LANES, LANES};
use crate::memory_ops::distributed::{self, ClusterAccess};
use crate::memory_ops::moves::{is_moved, is_space};
use crate::memory_ops::{global, local, shared};
use crate::report::{FindingKind, Severity};
use crate::undefined::memory::{InAny, InCluster, InGlobal, InShared, Watched};

/// Rows of the elements of a vector access: destinations of a load, sources of a store.
#[inline(always)]
pub(crate) fn element_rows(op: &Op) -> [u32; 4] {
    [op.dst, op.b, op.c, op.d]
}

/// The address of each lane.
///
/// # Safety
/// As for a handler.
#[inline(always)]
pub(crate) unsafe fn addresses(m: &Machine, op: &Op, wide: bool) -> [u64; LANES] {
    #[allow(clippy::cast_sign_loss, reason = "addresses wrap")]
    let offset = op.imm as u64;
    let mut out = [offset; LANES];
    if op.a == NONE {
        return out;
    }
    // SAFETY: passed on.
    unsafe {
        if wide {
            let a = &*m.lanes::<u64>(op.a);
            for lane in 0..LANES {
                out[lane] = a[lane].wrapping_add(offset);
            }
        } else {
            let a = &*m.lanes::<u32>(op.a);
            for lane in 0..LANES {
                out[lane] = u64::from(a[lane]).wrapping_add(offset);
            }
        }
    }
    out
}

/// Direction of a handler: load or store.
pub(crate) trait Direction: 'static {
    /// True for loads.
    const LOAD: bool;
}
/// `ld`.
pub(crate) struct Load;
impl Direction for Load {
    const LOAD: bool = true;
}
/// `st`.
pub(crate) struct Store;
impl Direction for Store {
    const LOAD: bool = false;
}

/// An access in `.global` or `.const`.
struct GlobalAccess<D, const CHECK: bool>(std::marker::PhantomData<D>);
impl<D: Direction, const CHECK: bool> LaneOp for GlobalAccess<D, CHECK> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operands.
        unsafe {
            let access = Access(op.dst2);
            if mask == ALL_LANES && access.is_word() && access.wide() && global::quick::<D, CHECK>(m, op, access) {
                return;
            }
            let at = addresses(m, op, access.wide());
            global::access::<D, CHECK>(m, op, access, &at, mask);
        }
    }
}

/// An access in `.shared`.
struct SharedAccess<D, const CHECK: bool>(std::marker::PhantomData<D>);
impl<D: Direction, const CHECK: bool> LaneOp for SharedAccess<D, CHECK> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operands.
        unsafe {
            let access = Access(op.dst2);
            if mask == ALL_LANES && access.is_word() && shared::quick::<D, CHECK>(m, op, access) {
                return;
            }
            let at = shared::addresses(m, op, access.wide());
            shared::access::<D, CHECK>(m, op, access, &at, mask);
        }
    }
}

/// An access in `.local` (and `.param` of device functions and call sequences).
struct LocalAccess<D>(std::marker::PhantomData<D>);
impl<D: Direction> LaneOp for LocalAccess<D> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operands.
        unsafe {
            let access = Access(op.dst2);
            let mut at = addresses(m, op, access.wide());
            if op.a == NONE {
                at = at.map(|a| a.wrapping_add(u64::from(m.local_base)));
            }
            local::access::<D>(m, op, access, &at, mask);
        }
    }
}

/// A load from a kernel's parameters.
struct ParamLoad;
impl LaneOp for ParamLoad {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operands.
        unsafe {
            let access = Access(op.dst2);
            let at = addresses(m, op, access.wide());
            local::param_load(m, op, access, &at, mask);
        }
    }
}

/// An access through a generic address: the window of each lane's address decides.
struct GenericAccess<D, const CHECK: bool>(std::marker::PhantomData<D>);
impl<D: Direction, const CHECK: bool> LaneOp for GenericAccess<D, CHECK> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operands.
        unsafe {
            let access = Access(op.dst2);
            let at = addresses(m, op, true);
            let mut lanes = [0u32; 4];
            let mut offsets = [0u64; LANES];
            for lane in 0..LANES {
                let (space, offset) = window(at[lane]);
                offsets[lane] = offset;
                lanes[space as usize] |= (mask >> lane & 1) << lane;
            }
            let of = |space: Window| lanes[space as usize];
            if of(Window::Global) != 0 {
                global::access::<D, CHECK>(m, op, access, &at, of(Window::Global));
            }
            if of(Window::Shared) != 0 {
                let narrow = offsets.map(|o| u32::try_from(o).unwrap_or(u32::MAX));
                distributed::access::<D, CHECK>(m, op, access, &narrow, of(Window::Shared));
            }
            if of(Window::Local) != 0 {
                local::access::<D>(m, op, access, &offsets, of(Window::Local));
            }
            if of(Window::Param) != 0 {
                if D::LOAD {
                    local::param_load(m, op, access, &offsets, of(Window::Param));
                } else {
                    let lane = of(Window::Param).trailing_zeros();
                    address_fault(
                        m,
                        op,
                        FindingKind::OutOfBounds,
                        lane,
                        at[lane as usize],
                        "kernel parameters cannot be written".to_owned(),
                    );
                }
            }
        }
    }
}

/// Does nothing.
pub(crate) struct Nothing;
impl LaneOp for Nothing {
    #[inline(always)]
    unsafe fn run(_: &mut Machine, _: &Op, _: u32) {}
}

/// Records a fault at an address.
#[cold]
#[inline(never)]
pub(crate) fn address_fault(m: &mut Machine, op: &Op, kind: FindingKind, lane: u32, address: u64, rule: String) {
    let place = match window(address) {
        (Window::Shared, offset) => m.describe_shared(offset),
        (Window::Local, offset) => m.describe_local(offset),
        (Window::Param, offset) => format!("parameters+{offset:#x}"),
        (Window::Global, _) => m.global.describe(address),
    };
    let fault = Fault {
        kind,
        severity: Severity::Error,
        instruction: op.instruction,
        block: m.block,
        thread: m.thread(lane),
        address: Some((address, place)),
        other: None,
        rule,
    };
    let stop = !m.checked;
    m.fault(fault, stop);
}

const CACHE: &[&str] = &[
    "ca",
    "cg",
    "cs",
    "lu",
    "cv",
    "wb",
    "wt",
    "nc",
    "L1::evict_normal",
    "L1::evict_unchanged",
    "L1::evict_first",
    "L1::evict_last",
    "L1::no_allocate",
    "L2::64B",
    "L2::128B",
    "L2::256B",
    "L2::cache_hint",
    "L2::evict_first",
    "L2::evict_last",
    "L2::evict_normal",
    "unified",
];
const ORDER: &[&str] = &["weak", "volatile", "relaxed", "acquire", "release", "mmio", "cta", "cluster", "gpu", "sys"];
const SPACE: &[&str] = &[
    "global",
    "shared",
    "shared::cta",
    "shared::cluster",
    "local",
    "const",
    "param",
    "param::entry",
    "param::func",
    "v2",
    "v4",
];

/// Modifiers of `prefetch`, `prefetchu`, `applypriority` and `discard`.
const HINTS: &[&str] =
    &["global", "local", "const", "param", "tensormap", "L1", "L2", "L2::evict_last", "L2::evict_normal"];
/// Modifiers of `createpolicy`.
const POLICIES: &[&str] = &[
    "fractional",
    "range",
    "cvt",
    "global",
    "L2",
    "L2::evict_last",
    "L2::evict_normal",
    "L2::evict_first",
    "L2::evict_unchanged",
];

/// Decodes loads, stores and prefetches.
pub(crate) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    match inst.opcode {
        Opcode::Prefetch | Opcode::Prefetchu | Opcode::Applypriority | Opcode::Discard => {
            d.expect_modifiers(inst, HINTS)?;
            let op = Op::new(d.handler::<Nothing>());
            d.push(op);
            Ok(())
        }
        Opcode::Createpolicy => {
            // A cache policy is opaque, and there is no cache: any value will do.
            d.expect_modifiers(inst, POLICIES)?;
            let dst = d.dst(inst, 0, T::B64)?;
            let a = d.constant(0, T::B64);
            let handler = d.handler::<crate::memory_ops::moves::Copy<u64>>();
            d.push(Op { dst, a, ..Op::new(handler) });
            Ok(())
        }
        _ => load_or_store(d, inst),
    }
}

/// Order and scope of a memory instruction; no order of a weak one. `volatile` and `.mmio` are
/// relaxed.
pub(crate) fn order_of(inst: &Instruction) -> (Option<Order>, Scope) {
    let order = if inst.has("acq_rel") {
        Some(Order::AcqRel)
    } else if inst.has("acquire") {
        Some(Order::Acquire)
    } else if inst.has("release") {
        Some(Order::Release)
    } else if inst.has("relaxed") || inst.has("volatile") || inst.has("mmio") {
        Some(Order::Relaxed)
    } else {
        None
    };
    (order, scope_of(inst))
}

/// The scope of an instruction; the system if it names none.
pub(crate) fn scope_of(inst: &Instruction) -> Scope {
    if inst.has("cta") {
        Scope::Block
    } else if inst.has("cluster") {
        Scope::Cluster
    } else if inst.has("gpu") || inst.has("gl") {
        Scope::Gpu
    } else {
        Scope::System
    }
}

fn load_or_store(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    let known: Vec<&str> = [CACHE, ORDER, SPACE].concat();
    d.expect_modifiers(inst, &known)?;
    let is_load = inst.opcode != Opcode::St;
    d.set_class(if is_load { Class::Load } else { Class::Store });
    let ty = d.ty(inst, 0)?;
    let count = if inst.has("v4") {
        4
    } else if inst.has("v2") {
        2
    } else {
        1
    };
    if !is_moved(ty) {
        return Err(d.invalid(inst, format!("loads and stores have no type {}", ty.name())));
    }
    if ty.bytes() * count > 16 {
        return Err(d.unsupported(inst, "accesses of more than 16 bytes"));
    }
    // A cache hint is a trailing operand; it has no meaning without a cache.
    let hints = usize::from(inst.has("L2::cache_hint"));
    d.expect_operands(inst, 2 + hints)?;
    let (value_at, address_at) = if is_load { (0, 1) } else { (1, 0) };
    let value = d.operand(inst, value_at)?.clone();
    let elements: Vec<Operand> = match value {
        Operand::Vector(elements) if count > 1 || elements.len() == 1 => elements,
        other if count == 1 => vec![other],
        other => return Err(d.invalid(inst, format!("operand {other} is not a vector of {count}"))),
    };
    if elements.len() != count as usize {
        return Err(d.invalid(inst, format!("expected a vector of {count} elements")));
    }
    let mut address = d.address(inst, address_at)?;
    let mut extend = Extend::Zero;
    let mut rows = [NONE; 4];
    for (row, element) in rows.iter_mut().zip(&elements) {
        *row = if is_load {
            extend = extension(ty, d.declared_type(inst, element));
            d.destination(inst, element, ty)?
        } else {
            d.source(inst, element, ty)?
        };
    }
    let (order, scope) = order_of(inst);
    d.code.orders_blocks |= order.is_some();
    let space = space_of(d, inst, &mut address.offset, address.place)?;
    d.code.has_cluster_scope |= scope == Scope::Cluster && matches!(space, Space::Global | Space::Generic);
    d.f.accessed = Some(space);
    let access = Access::new(ty.bytes(), count, address.wide, extend, order, scope);
    let handler = handler(d, space, is_load);
    let op = Op {
        dst: rows[0],
        b: rows[1],
        c: rows[2],
        d: rows[3],
        a: address.row,
        imm: address.offset,
        dst2: access.0,
        ..Op::new(handler)
    };
    if space == Space::Param && !is_load {
        return Err(d.invalid(inst, "kernel parameters cannot be written"));
    }
    d.push(op);
    Ok(())
}

/// Extension of a loaded value to the width of its register.
fn extension(ty: T, declared: Option<T>) -> Extend {
    let bits = declared.map_or(32, T::bits);
    match (ty, bits) {
        (T::S8, 32..) => Extend::Sign8,
        (T::S16, 32..) => Extend::Sign16,
        (T::S8, 16) => Extend::Sign8To16,
        _ => Extend::Zero,
    }
}

/// The space of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    /// `.global`, `.const`.
    Global,
    /// `.shared`, of the running block.
    Shared,
    /// `.shared::cluster`.
    Cluster,
    /// `.local`, and `.param` in device functions.
    Local,
    /// `.param` of a kernel.
    Param,
    /// Generic: any space.
    Generic,
}

/// The space of an instruction; folds the place of a named variable into `offset`.
pub(crate) fn space_of(
    d: &Decoder,
    inst: &Instruction,
    offset: &mut i64,
    place: Option<Place>,
) -> Result<Space, Error> {
    if inst.has("shared::cluster") {
        d.require(inst, 90)?;
    }
    #[allow(clippy::cast_possible_wrap, reason = "addresses wrap")]
    if let Some(place) = place {
        let (start, space) = match place {
            Place::Global(address) => (address, Space::Global),
            Place::Shared(start) => (u64::from(start), Space::Shared),
            Place::DynamicShared => (u64::from(d.dynamic_shared_start()), Space::Shared),
            Place::Local(start, _) => (u64::from(start), Space::Local),
            Place::KernelParam(start, _) => (u64::from(start), Space::Param),
        };
        let spaces: &[&str] = match place {
            Place::Global(_) => &["global", "const"],
            Place::Shared(_) | Place::DynamicShared => &["shared"],
            Place::Local(..) => &["local", "param"],
            Place::KernelParam(..) => &["param"],
        };
        let mut named = inst.modifiers.iter().filter(|m| is_space(m));
        // A copy names the spaces of both sides.
        let alone = named.next().filter(|_| named.next().is_none());
        if alone.is_some_and(|m| !spaces.contains(&m.split("::").next().unwrap_or(m))) {
            return Err(d.invalid(inst, format!("the variable does not lie there, but in .{}", spaces[0])));
        }
        *offset = offset.wrapping_add(start as i64);
        return Ok(space);
    }
    let named = |name: &str| {
        inst.modifiers.iter().any(|m| m == name || m.strip_prefix(name).is_some_and(|r| r.starts_with("::")))
    };
    Ok(if named("global") || named("const") {
        Space::Global
    } else if inst.has("shared::cluster") {
        Space::Cluster
    } else if named("shared") {
        Space::Shared
    } else if named("local") {
        Space::Local
    } else if named("param") {
        if d.f.is_kernel { Space::Param } else { Space::Local }
    } else {
        Space::Generic
    })
}

/// The handler of a load or store. One that checks a load also follows what is undefined in it.
pub(crate) fn handler(d: &Decoder, space: Space, is_load: bool) -> crate::exec::op::Handler {
    match (space, is_load, d.checked) {
        (Space::Global, true, false) => d.handler::<GlobalAccess<Load, false>>(),
        (Space::Global, true, true) => d.handler::<Watched<GlobalAccess<Load, true>, InGlobal>>(),
        (Space::Global, false, false) => d.handler::<GlobalAccess<Store, false>>(),
        (Space::Global, false, true) => d.handler::<GlobalAccess<Store, true>>(),
        (Space::Shared, true, false) => d.handler::<SharedAccess<Load, false>>(),
        (Space::Shared, true, true) => d.handler::<Watched<SharedAccess<Load, true>, InShared>>(),
        (Space::Shared, false, false) => d.handler::<SharedAccess<Store, false>>(),
        (Space::Shared, false, true) => d.handler::<SharedAccess<Store, true>>(),
        (Space::Cluster, true, false) => d.handler::<ClusterAccess<Load, false>>(),
        (Space::Cluster, true, true) => d.handler::<Watched<ClusterAccess<Load, true>, InCluster>>(),
        (Space::Cluster, false, false) => d.handler::<ClusterAccess<Store, false>>(),
        (Space::Cluster, false, true) => d.handler::<ClusterAccess<Store, true>>(),
        (Space::Local, true, _) => d.handler::<LocalAccess<Load>>(),
        (Space::Local, false, _) => d.handler::<LocalAccess<Store>>(),
        (Space::Param, _, _) => d.handler::<ParamLoad>(),
        (Space::Generic, true, false) => d.handler::<GenericAccess<Load, false>>(),
        (Space::Generic, true, true) => d.handler::<Watched<GenericAccess<Load, true>, InAny>>(),
        (Space::Generic, false, false) => d.handler::<GenericAccess<Store, false>>(),
        (Space::Generic, false, true) => d.handler::<GenericAccess<Store, true>>(),
    }
}
