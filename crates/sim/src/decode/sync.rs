//! Barriers, fences and warp-level exchange (PTX ISA, "Parallel Synchronization and
//! Communication").

use warpfold_ptx::{Instruction, Name, Opcode, Operand, ScalarType as T};

use super::Decoder;
use crate::Error;
use crate::asynchronous::address::address_row;
use crate::check::FenceKind;
use crate::exec::code::{
    Barrier, BarrierKind, BlockId, CallSlot, Class, ClusterBarrier, Exchange, SetRegisters, Terminator,
};
use crate::exec::meeting::staged;
use crate::exec::op::{NONE, Op};
use crate::memory_ops::access::{Nothing, Space, scope_of};
use crate::warp_ops::{elect, fence, matching, redux, shuffle, vote};

/// Decodes a synchronising instruction. The guard of those that end a block was turned into a
/// branch around them.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    match inst.opcode {
        Opcode::Bar if inst.modifiers.first().map(Name::as_str) == Some("warp") => warp_barrier(d, inst),
        Opcode::Bar | Opcode::Barrier => barrier(d, inst),
        Opcode::Membar | Opcode::Fence => fence(d, inst),
        Opcode::Shfl => shuffle::decode(d, inst),
        Opcode::Vote => vote::decode(d, inst),
        Opcode::Match => matching::decode(d, inst),
        Opcode::Redux => redux::decode(d, inst),
        Opcode::Elect => elect::decode(d, inst),
        Opcode::Activemask => vote::activemask(d, inst),
        Opcode::Nanosleep => {
            d.expect_operands(inst, 1)?;
            d.src(inst, 0, T::U32)?;
            d.push(Op::new(d.handler::<fence::Sleep>()));
            Ok(())
        }
        Opcode::Setmaxnreg => set_registers(d, inst),
        Opcode::Griddepcontrol => {
            // Launches run one after the other here, so this matters to the checks only.
            d.require(inst, 90)?;
            d.expect_modifiers(inst, &["wait", "launch_dependents"])?;
            d.expect_operands(inst, 0)?;
            let handler = match (inst.has("wait"), inst.has("launch_dependents")) {
                (true, false) => d.handler::<fence::WaitForDependencies>(),
                (false, true) => d.handler::<fence::LaunchDependents>(),
                _ => return Err(d.invalid(inst, "expected .wait or .launch_dependents")),
            };
            d.push(Op::new(handler));
            Ok(())
        }
        Opcode::Pmevent => {
            d.push(Op::new(d.handler::<Nothing>()));
            Ok(())
        }
        _ => Err(d.unsupported(inst, "there is no debugger to break into")),
    }
}

/// Returns true if an instruction ends its basic block, so that its guard becomes a branch around
/// it.
pub(super) fn ends_block(inst: &Instruction) -> bool {
    use Opcode as O;
    let waits = |m: &Name| m == "test_wait" || m == "try_wait";
    if inst.opcode == O::Mbarrier && inst.modifiers.first().is_some_and(waits) {
        return true;
    }
    if inst.opcode == O::Tensormap && inst.has("cp_fenceproxy") {
        return true;
    }
    matches!(
        inst.opcode,
        O::Bar | O::Barrier | O::Shfl | O::Vote | O::Match | O::Redux | O::Elect | O::Setmaxnreg // wait for others
            | O::Wmma | O::Mma | O::Ldmatrix | O::Stmatrix | O::Movmatrix | O::Wgmma
            | O::Brx | O::Call | O::Ret | O::Exit | O::Trap
    )
}

fn warp_barrier(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    d.expect_modifiers(inst, &["warp", "sync"])?;
    d.expect_operands(inst, 1)?;
    let members = d.src(inst, 0, T::U32)?;
    d.exchange(inst, None, members)
}

impl Decoder<'_> {
    /// Ends the block with a warp-level synchronisation that runs `op` once all members are there.
    pub(crate) fn exchange(&mut self, inst: &Instruction, op: Option<Op>, members: u32) -> Result<(), Error> {
        self.exchange_by(inst, op, members, None)
    }

    /// Ends the block with an exchange that lanes of other instructions may take part in: `sources`
    /// and `results` are what `op` reads as `a`, `b`, `c` and writes as `dst`, `dst2`.
    pub(crate) fn shared_exchange(
        &mut self,
        inst: &Instruction,
        op: Op,
        members: u32,
        (sources, results): ([Option<CallSlot>; 3], [Option<CallSlot>; 2]),
    ) -> Result<(), Error> {
        let qualifiers = [inst.opcode.mnemonic()].into_iter().chain(inst.modifiers.iter().map(Name::as_str));
        let exchange = Exchange {
            qualifiers: qualifiers.collect::<Vec<_>>().join("."),
            op: staged(op, self.current_instruction()),
            negated: op.imm != 0,
            sources,
            results,
        };
        let index = super::control::index_u32(self.code.exchanges.len());
        self.code.exchanges.push(exchange);
        self.exchange_by(inst, Some(op), members, Some(index))
    }

    fn exchange_by(
        &mut self,
        inst: &Instruction,
        op: Option<Op>,
        members: u32,
        exchange: Option<u32>,
    ) -> Result<(), Error> {
        self.set_class(Class::WarpSync);
        self.end_waiting(inst, op, |op, next, instruction| Terminator::WarpSync {
            op,
            members,
            exchange,
            instruction,
            next,
        })
    }

    /// Ends the block with a wait at an mbarrier.
    pub(crate) fn mbarrier_wait(&mut self, inst: &Instruction, op: Op) -> Result<(), Error> {
        self.end_waiting(inst, Some(op), |op, next, instruction| Terminator::MbarrierWait {
            op: op.expect("a wait has its test"),
            instruction,
            next,
        })
    }

    /// Ends the block with a terminator that waits: `op` follows the block, for the terminator to
    /// run, and what converts destinations begins the next block.
    fn end_waiting(
        &mut self,
        inst: &Instruction,
        op: Option<Op>,
        terminator: impl FnOnce(Option<u32>, BlockId, u32) -> Terminator,
    ) -> Result<(), Error> {
        let after = std::mem::take(&mut self.f.after);
        self.flush(inst)?;
        let instruction = self.current_instruction();
        let next = self.new_block();
        let start = super::control::index_u32(self.code.ops.len());
        self.end_block(terminator(op.map(|_| start), next, instruction));
        if let Some(op) = op {
            self.code.ops.push(Op { instruction, ..op });
        }
        self.begin_block(next);
        self.f.after = after;
        self.flush(inst)
    }
}

/// The operands of a barrier after its result: number, threads, predicate.
fn barrier(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    if inst.has("cluster") {
        return cluster_barrier(d, inst);
    }
    d.expect_modifiers(inst, &["cta", "sync", "arrive", "red", "popc", "and", "or", "aligned"])?;
    d.set_class(Class::Barrier);
    let aligned = inst.opcode == Opcode::Bar || inst.has("aligned");
    let is_red = inst.has("red");
    let mut sources: &[Operand] = &inst.operands;
    if is_red {
        sources = sources.get(1..).ok_or_else(|| d.invalid(inst, "the result is missing"))?;
    }
    let (sources, predicate) = match (is_red, sources) {
        (true, [rest @ .., p]) => {
            let p = p.clone();
            (rest, Some(d.predicate_source(inst, &p)?))
        }
        (true, []) => return Err(d.invalid(inst, "the predicate is missing")),
        (false, all) => (all, None),
    };
    let (id, threads) = match sources {
        [id] => (d.source(inst, id, T::U32)?, None),
        [id, threads] => (d.source(inst, id, T::U32)?, Some(d.source(inst, threads, T::U32)?)),
        _ => return Err(d.invalid(inst, "expected a barrier number and, perhaps, a thread count")),
    };
    let kind = match predicate {
        None if inst.has("arrive") => BarrierKind::Arrive,
        None => BarrierKind::Sync,
        Some((predicate, negated)) if inst.has("popc") => {
            BarrierKind::Popc { predicate, negated, dst: d.dst(inst, 0, T::U32)? }
        }
        Some((predicate, negated)) => {
            let operand = inst.operands[0].clone();
            let dst = d.predicate_destination(inst, &operand)?;
            if inst.has("and") {
                BarrierKind::And { predicate, negated, dst }
            } else {
                BarrierKind::Or { predicate, negated, dst }
            }
        }
    };
    if kind == BarrierKind::Arrive && threads.is_none() {
        return Err(d.invalid(inst, "an arrive needs a thread count"));
    }
    d.end_waiting(inst, None, |_, next, instruction| {
        Terminator::Barrier(Box::new(Barrier { id, threads, kind, aligned, next, instruction }))
    })
}

fn cluster_barrier(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    d.expect_modifiers(inst, &["cluster", "arrive", "wait", "release", "relaxed", "acquire", "aligned"])?;
    d.expect_operands(inst, 0)?;
    let waits = inst.has("wait");
    let foreign = if waits { inst.has("release") || inst.has("relaxed") } else { inst.has("acquire") };
    if waits == inst.has("arrive") || foreign {
        return Err(d.invalid(inst, "expected .arrive with .release or .relaxed, or .wait with .acquire"));
    }
    d.require(inst, 90)?;
    d.set_class(Class::Barrier);
    d.code.orders_blocks = true;
    let (releases, aligned) = (!waits && !inst.has("relaxed"), inst.has("aligned"));
    d.end_waiting(inst, None, |_, next, instruction| {
        Terminator::ClusterBarrier(ClusterBarrier { waits, releases, aligned, next, instruction })
    })
}

/// Decodes `setmaxnreg`.
fn set_registers(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    d.require_specific(inst, 90)?;
    d.expect_modifiers(inst, &["inc", "dec", "sync", "aligned"])?;
    d.expect_operands(inst, 1)?;
    if inst.has("inc") == inst.has("dec") || !inst.has("sync") || !inst.has("aligned") {
        return Err(d.invalid(inst, "expected .inc or .dec, and .sync.aligned"));
    }
    let count = u32::try_from(d.literal(inst, 0)?).ok().filter(|n| (24..=256).contains(n) && n % 8 == 0);
    let count = count.ok_or_else(|| d.invalid(inst, "expected a multiple of 8 from 24 to 256"))?;
    let takes = inst.has("inc");
    d.end_waiting(inst, None, |_, next, instruction| {
        Terminator::SetRegisters(SetRegisters { takes, count, next, instruction })
    })
}

/// Fences between proxies, and the one after `mbarrier.init`.
fn proxy_fence(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    d.require(inst, 90)?;
    let scopes = ["cta", "cluster", "gpu", "sys"];
    let known: Vec<&str> = if inst.has("mbarrier_init") {
        vec!["mbarrier_init", "release", "cluster"]
    } else if inst.has("async") {
        vec!["proxy", "async", "global", "shared::cta", "shared::cluster"]
    } else {
        [&["proxy", "tensormap::generic", "acquire", "release"][..], &scopes].concat()
    };
    d.expect_modifiers(inst, &known)?;
    if inst.opcode == Opcode::Membar {
        return Err(d.invalid(inst, "such a fence is a fence.proxy"));
    }
    if inst.has("async") {
        d.expect_operands(inst, 0)?;
        let spaces = match (inst.has("global"), inst.has("shared::cta") || inst.has("shared::cluster")) {
            (true, false) => fence::GLOBAL,
            (false, true) => fence::SHARED,
            _ => fence::GLOBAL | fence::SHARED,
        };
        d.push(Op { imm: spaces, ..Op::new(d.handler::<fence::Proxy>()) });
        return Ok(());
    }
    let of_maps = inst.has("tensormap::generic");
    if of_maps && (inst.has("acquire") == inst.has("release") || !scopes.iter().any(|scope| inst.has(scope))) {
        return Err(d.invalid(inst, "expected .acquire or .release, and a scope"));
    }
    let handler = if d.checked { d.handler::<fence::Fence<true>>() } else { d.handler::<fence::Fence<false>>() };
    d.push(Op { dst: NONE, imm: scope_of(inst) as i64, ..Op::new(handler) });
    if of_maps && inst.has("acquire") {
        // Each copy reads the map again here, so this matters to the checks only.
        d.expect_operands(inst, 2)?;
        if d.literal(inst, 1)? != 128 {
            return Err(d.invalid(inst, "a tensor map has 128 bytes"));
        }
        let a = address_row(d, inst, 0, Space::Generic)?;
        d.push(Op { a, ..Op::new(d.handler::<fence::AcquireMap>()) });
        return Ok(());
    }
    d.expect_operands(inst, 0)?;
    if of_maps {
        d.push(Op::new(d.handler::<fence::ReleaseMaps>()));
    }
    Ok(())
}

fn fence(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    if ["async", "mbarrier_init", "tensormap::generic"].iter().any(|name| inst.has(name)) {
        return proxy_fence(d, inst);
    }
    let known = ["cta", "cluster", "gpu", "gl", "sys", "sc", "acq_rel", "acquire", "release", "proxy", "alias"];
    let restricted = [("acquire", "sync_restrict::shared::cluster"), ("release", "sync_restrict::shared::cta")];
    let restriction = restricted.iter().find(|(_, name)| inst.has(name));
    if let Some((order, name)) = restriction {
        // The restriction only saves work on hardware: here the fence is unrestricted.
        d.require(inst, 90)?;
        d.expect_modifiers(inst, &["cluster", "proxy", "async::generic", order, name])?;
        if !inst.has(order) || !inst.has("cluster") || inst.has("proxy") != inst.has("async::generic") {
            return Err(d.invalid(inst, format!("expected .{order}.{name}.cluster")));
        }
        if inst.has("proxy") {
            d.push(Op { imm: fence::SHARED, ..Op::new(d.handler::<fence::Proxy>()) });
        }
    } else {
        d.expect_modifiers(inst, &known)?;
    }
    if inst.has("alias") {
        // It orders accesses through two addresses of one location, of which there are none here,
        // and is no fence of the generic proxy.
        d.push(Op::new(d.handler::<Nothing>()));
        return Ok(());
    }
    let handler = if d.checked { d.handler::<fence::Fence<true>>() } else { d.handler::<fence::Fence<false>>() };
    // A restriction frees hardware of work and says what is meant: what is left orders less than
    // this.
    let kind = if inst.opcode == Opcode::Membar || inst.has("sc") {
        FenceKind::Sequential
    } else if restriction.is_some() || !(inst.has("acquire") || inst.has("release")) {
        FenceKind::Both
    } else if inst.has("acquire") {
        FenceKind::Acquire
    } else {
        FenceKind::Release
    };
    d.code.has_fence_sc |= kind == FenceKind::Sequential;
    d.code.has_cluster_scope |= restriction.is_none() && inst.has("cluster");
    d.push(Op { dst: NONE, imm: scope_of(inst) as i64 | fence::kind_bits(kind), ..Op::new(handler) });
    Ok(())
}
