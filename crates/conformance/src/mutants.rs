//! Kernels without one of their synchronisations, or with plain accesses in place of an atomic:
//! what the checks have to object to.
//!
//! `griddepcontrol.launch_dependents` stays: without it the next launch begins later, and nothing
//! else can differ. Without its `griddepcontrol.wait` a kernel goes wrong only behind a launch that
//! touches the same memory: see [`touch`].

use warpfold_device::{Buffer, Element, Error, LaunchConfig};
use warpfold_lang::{Global, kernel};
use warpfold_ptx::{Immediate, Instruction, Item, Module, Opcode, Operand, Statement};

/// The kind of removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    /// The whole instruction: a barrier, a fence, a wait.
    Delete,
    /// Its order, down to relaxed.
    Relax,
    /// A wait at an mbarrier, which then finds what it waits for at once.
    Pass,
    /// An atomic, which becomes a plain load and a plain store.
    Split,
    /// Its scope, down to the block.
    Narrow,
    /// A `fence.sc`, which becomes a `fence.acq_rel`.
    Demote,
}

/// A module without one of its synchronisations.
#[derive(Debug)]
pub struct Mutant {
    /// The instruction, as it was.
    pub instruction: String,
    /// The mutation applied.
    pub mutation: Mutation,
    /// The text.
    pub text: String,
}

/// Orders of memory that can be relaxed.
const ORDERS: &[&str] = &["acq_rel", "release", "acquire"];
/// Scopes beyond the block.
const WIDE: [&str; 4] = ["cluster", "gpu", "sys", "gl"];
/// Instructions that mention a scope which cannot be changed.
const UNSCOPED: [&str; 3] = ["async", "proxy", "mbarrier_init"];

fn has_one_of(instruction: &Instruction, names: &[&str]) -> bool {
    names.iter().any(|name| instruction.has(name))
}

/// Returns the mutation of an instruction, if there is one. `bar.warp.sync` waits as well: lanes
/// may run apart behind a branch.
fn mutation_of(instruction: &Instruction) -> Option<Mutation> {
    let has_one_of = |names: &[&str]| has_one_of(instruction, names);
    let is_deleted = match instruction.opcode {
        Opcode::Fence | Opcode::Membar => true,
        Opcode::Griddepcontrol => instruction.has("wait"),
        Opcode::Bar | Opcode::Barrier => has_one_of(&["sync", "cluster"]),
        Opcode::Mbarrier if has_one_of(&["try_wait", "test_wait"]) => return Some(Mutation::Pass),
        Opcode::Mbarrier => instruction.has("arrive"),
        Opcode::Wgmma => has_one_of(&["fence", "commit_group", "wait_group"]),
        Opcode::Cp => has_one_of(&["commit_group", "wait_group", "wait_all"]),
        _ => false,
    };
    if is_deleted {
        return Some(Mutation::Delete);
    }
    has_one_of(ORDERS).then_some(Mutation::Relax)
}

/// Launches a kernel that writes the first byte of a buffer, as it was: a launch behind it that
/// reads all of the buffer has to wait for it.
///
/// # Errors
/// What the device says.
pub fn touch<T: Element>(buffer: &mut Buffer<T>) -> Result<(), Error> {
    let body = |bytes: Global<u8>| bytes.at(0).set(bytes.at(0).get());
    let device = buffer.device().clone();
    device.launch(&kernel("touch", body), LaunchConfig::new(1, 1), (&mut buffer.as_view_mut().bytes(),))
}

impl Mutant {
    /// Returns whether the mutant lacks a wait for the previous launch.
    #[must_use]
    pub fn overlaps(&self) -> bool {
        self.instruction.starts_with("griddepcontrol")
    }
}

/// Returns whether a mutant is among those tested: one in six, or all with `WARPFOLD_ALL_TESTS`
/// set.
#[must_use]
pub fn is_sampled(kernel: &str, number: usize) -> bool {
    crate::sample::tries_all() || (number + kernel.len()).is_multiple_of(6)
}

/// Every module that differs from one by the loss of one synchronisation; those that no longer wait
/// for the launch before come last.
///
/// # Panics
/// For a text that is no PTX.
#[must_use]
pub fn mutants(text: &str) -> Vec<Mutant> {
    let mut mutants = each_mutant(text, mutation_of);
    mutants.sort_by_key(Mutant::overlaps);
    mutants
}

/// Every module that differs from one by an atomic that is none any more. Without its atomicity
/// alone, that is: other threads may still see its value, as those of a `volatile` access.
///
/// # Panics
/// For a text that is no PTX.
#[must_use]
pub fn split_atomics(text: &str) -> Vec<Mutant> {
    each_mutant(text, |instruction| {
        let is_atomic = matches!(instruction.opcode, Opcode::Atom | Opcode::Red);
        (is_atomic && !instruction.has("async")).then_some(Mutation::Split)
    })
}

/// Every module that differs from one by the scope of a fence or a strong access, which ends at the
/// block, or by a `fence.sc` that is a `fence.acq_rel`.
///
/// # Panics
/// For a text that is no PTX.
#[must_use]
pub fn weakened(text: &str) -> Vec<Mutant> {
    let mut all = each_mutant(text, |instruction| {
        let is_scoped = matches!(
            instruction.opcode,
            Opcode::Fence | Opcode::Membar | Opcode::Ld | Opcode::St | Opcode::Atom | Opcode::Red
        );
        (is_scoped && has_one_of(instruction, &WIDE) && !has_one_of(instruction, &UNSCOPED)).then_some(Mutation::Narrow)
    });
    all.extend(each_mutant(text, |i| (i.opcode == Opcode::Fence && i.has("sc")).then_some(Mutation::Demote)));
    all
}

/// A function from an instruction to its mutation, if any.
type Change = fn(&Instruction) -> Option<Mutation>;

fn each_mutant(text: &str, change: Change) -> Vec<Mutant> {
    let module = warpfold_ptx::parse(text).unwrap_or_else(|error| panic!("{error}"));
    let count = module.kernels().flat_map(|kernel| kernel.instructions()).filter(|i| change(i).is_some()).count();
    (0..count).map(|n| mutant(module.clone(), n, change)).collect()
}

/// The module without its `n`-th synchronisation.
fn mutant(mut module: Module, n: usize, change: Change) -> Mutant {
    let (mut left, mut found) = (n, None);
    for item in &mut module.items {
        if let Item::Function(function) = item {
            mutate(function.body.iter_mut().flatten(), (&mut left, change), &mut found);
        }
    }
    let (instruction, mutation) = found.expect("there are more than n synchronisations");
    Mutant { instruction, mutation, text: module.to_string() }
}

fn mutate<'a>(
    statements: impl Iterator<Item = &'a mut Statement>,
    (left, change): (&mut usize, Change),
    found: &mut Option<(String, Mutation)>,
) {
    for statement in statements {
        match statement {
            Statement::Scope(inner) => mutate(inner.iter_mut(), (left, change), found),
            Statement::Instruction(instruction) if found.is_none() => {
                let Some(mutation) = change(instruction) else { continue };
                if *left > 0 {
                    *left -= 1;
                    continue;
                }
                *found = Some((instruction.to_string(), mutation));
                match mutation {
                    Mutation::Delete => *statement = Statement::Scope(Vec::new()),
                    Mutation::Relax => relax(instruction),
                    Mutation::Pass => pass(instruction),
                    Mutation::Split => *statement = Statement::Scope(split(instruction)),
                    Mutation::Narrow => replace(instruction, &WIDE, "cta"),
                    Mutation::Demote => replace(instruction, &["sc"], "acq_rel"),
                }
            }
            _ => {}
        }
    }
}

fn pass(instruction: &mut Instruction) {
    instruction.opcode = Opcode::Mov;
    instruction.modifiers = vec!["pred".into()];
    instruction.operands.truncate(1);
    instruction.operands.push(Operand::Immediate(Immediate::Int(1)));
}

/// A plain load of what the atomic gives, and a plain store of its operand. The sum, or whatever it
/// makes, is not made: the accesses alone matter.
fn split(instruction: &Instruction) -> Vec<Statement> {
    let spaces = ["global", "shared", "shared::cta", "shared::cluster"];
    let ty = instruction.modifiers.last().map_or("", |name| name.as_str());
    let ty = match ty {
        "f16x2" | "bf16x2" => "b32",
        "f16" | "bf16" => "b16",
        other => other,
    };
    let mut modifiers: Vec<_> =
        instruction.modifiers.iter().filter(|m| spaces.contains(&m.as_str())).cloned().collect();
    modifiers.push(ty.into());
    let gives = usize::from(instruction.opcode == Opcode::Atom);
    let access = |opcode, operands: Vec<Operand>| {
        Statement::Instruction(Instruction { opcode, modifiers: modifiers.clone(), operands, ..instruction.clone() })
    };
    let operand = |n: usize| instruction.operands[n].clone();
    let value = if instruction.has("cas") { gives + 2 } else { gives + 1 };
    let store = access(Opcode::St, vec![operand(gives), operand(value)]);
    let is_given = gives == 1 && operand(0) != Operand::Sink;
    let load = is_given.then(|| access(Opcode::Ld, vec![operand(0), operand(1)]));
    load.into_iter().chain([store]).collect()
}

fn relax(instruction: &mut Instruction) {
    replace(instruction, ORDERS, "relaxed");
}

fn replace(instruction: &mut Instruction, from: &[&str], to: &str) {
    for modifier in &mut instruction.modifiers {
        if from.iter().any(|name| modifier == name) {
            *modifier = to.into();
        }
    }
}
