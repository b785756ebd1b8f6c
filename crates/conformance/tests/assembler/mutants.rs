//! Mutants of an instruction: one operand or one qualifier is another one.

use warpfold_ptx::{Address, AddressBase, Immediate, Instruction, Name, Operand, ScalarType as T};

use super::forms::{NEWEST, Target, names_of, register, type_of};

/// An instruction with one change.
#[derive(Debug, Clone)]
pub(crate) struct Mutant {
    /// What was changed.
    pub change: &'static str,
    /// What the module is written for.
    pub target: Target,
    /// The result.
    pub instruction: Instruction,
}

/// Types that registers have.
const REGISTERS: [T; 18] = [
    T::Pred,
    T::B8,
    T::B16,
    T::B32,
    T::B64,
    T::B128,
    T::U8,
    T::U16,
    T::U32,
    T::U64,
    T::S8,
    T::S16,
    T::S32,
    T::S64,
    T::F16,
    T::F16x2,
    T::F32,
    T::F64,
];

/// Qualifiers of which an instruction has one.
const CHOICES: [&[&str]; 12] = [
    &["global", "shared", "shared::cta", "shared::cluster", "local", "const", "param"],
    &["rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "rna", "approx", "full"],
    &["relaxed", "acquire", "release", "acq_rel", "volatile", "weak", "sc", "mmio"],
    &["cta", "cluster", "gpu", "sys", "gl"],
    &["v2", "v4", "v8"],
    &["lo", "hi", "wide"],
    &["add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec", "popc"],
    &["eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "num", "nan"],
    &["row", "col"],
    &["x1", "x2", "x4"],
    &["up", "down", "bfly", "idx"],
    &["ca", "cg", "cs", "cv", "lu", "wb", "wt", "nc"],
];

/// Qualifiers that are put in where none was.
const ADDED: [&str; 22] = [
    "sat",
    "ftz",
    "rn",
    "approx",
    "relu",
    "satfinite",
    "noftz",
    "cc",
    "wide",
    "v2",
    "volatile",
    "relaxed",
    "gpu",
    "cta",
    "global",
    "shared",
    "sync",
    "aligned",
    "trans",
    "nc",
    "L2::cache_hint",
    "NaN",
];

/// Versions and targets below what an instruction may need.
const TARGETS: [Target; 8] = [
    Target(7, 0, "sm_80"),
    Target(7, 4, "sm_80"),
    Target(7, 8, "sm_80"),
    Target(8, 0, "sm_90a"),
    Target(8, 3, "sm_90a"),
    Target(8, 6, "sm_90a"),
    Target(9, 0, "sm_80"),
    Target(9, 0, "sm_90"),
];

/// Every mutant of a form.
pub(crate) fn mutants(form: &Instruction) -> Vec<Mutant> {
    let mut all = Vec::new();
    let mut add = |change: &'static str, instruction: Instruction| {
        if instruction != *form {
            all.push(Mutant { change, target: NEWEST, instruction });
        }
    };
    modifiers(form, &mut add);
    for index in 0..form.operands.len() {
        registers(form, index, &mut add);
        kinds(form, index, &mut add);
        arities(form, index, &mut add);
    }
    counts(form, &mut add);
    all.extend(TARGETS.map(|target| Mutant { change: "target", target, instruction: form.clone() }));
    all
}

type Add<'a> = &'a mut dyn FnMut(&'static str, Instruction);

fn modifiers(form: &Instruction, add: Add<'_>) {
    let changed = |change: &dyn Fn(&mut Vec<Name>)| {
        let mut instruction = form.clone();
        change(&mut instruction.modifiers);
        instruction
    };
    for (n, modifier) in form.modifiers.iter().enumerate() {
        add("qualifier dropped", changed(&|all| drop(all.remove(n))));
        add("qualifier doubled", changed(&|all| all.insert(n, modifier.clone())));
        if n + 1 < form.modifiers.len() {
            add("qualifiers exchanged", changed(&|all| all.swap(n, n + 1)));
        }
        if T::from_modifier(modifier).is_some() {
            for ty in T::ALL {
                add("type of the instruction", changed(&|all| all[n] = ty.name().into()));
            }
        }
        for choices in CHOICES.iter().filter(|choices| choices.contains(&modifier.as_str())) {
            for other in *choices {
                add("qualifier", changed(&|all| all[n] = (*other).into()));
            }
        }
    }
    let before_types = form.modifiers.iter().position(|m| T::from_modifier(m).is_some());
    let at = before_types.unwrap_or(form.modifiers.len());
    for added in ADDED {
        add("qualifier added", changed(&|all| all.insert(at, added.into())));
    }
}

/// Registers of other types in one operand, all of them or the last.
fn registers(form: &Instruction, index: usize, add: Add<'_>) {
    for ty in REGISTERS {
        let mut instruction = form.clone();
        let mut names = names_of(&mut instruction.operands[index..=index]);
        let count = names.len();
        for name in &mut names {
            if let Some((_, number)) = type_of(name) {
                **name = register(ty, number + 100);
            }
        }
        add("type of a register", instruction);
        if count > 1 {
            let mut instruction = form.clone();
            let names = names_of(&mut instruction.operands[index..=index]);
            let last = names.into_iter().last().expect("there are several");
            if type_of(last).is_some() {
                *last = register(ty, 100);
                add("type of an element", instruction);
            }
        }
    }
}

/// Operands of another kind.
fn kinds(form: &Instruction, index: usize, add: Add<'_>) {
    let name = |text: &str| Operand::Name { name: text.into(), component: None };
    let int = |n: i128| Operand::Immediate(Immediate::Int(n));
    let own = &form.operands[index];
    let address = |base: &str, offset| {
        Operand::Address(Address { base: AddressBase::Name(base.into()), offset, coordinates: Vec::new() })
    };
    let mut kinds = vec![
        int(1),
        int(-1),
        int(1 << 40),
        Operand::Immediate(Immediate::F32(0x3f80_0000)),
        Operand::Immediate(Immediate::F64(0x3ff0_0000_0000_0000)),
        Operand::Sink,
        name("v_global"),
        name("v_shared"),
        name("f_unused"),
        name("L"),
        name("undeclared"),
        Operand::Name { name: "%tid".into(), component: Some('x') },
        name("%tid"),
        name("%clock64"),
        name("%laneid"),
        Operand::Not(Box::new(own.clone())),
        Operand::Negate(Box::new(own.clone())),
        Operand::Vector(vec![own.clone()]),
        Operand::Vector(vec![own.clone(), own.clone()]),
        Operand::Pair(Box::new(own.clone()), Box::new(name("pred_50"))),
        address("u64_50", 0),
        address("v_shared", 1),
        address("v_global", 16),
    ];
    match own {
        Operand::Name { name, component: None } => {
            kinds.push(Operand::NameOffset { name: name.clone(), offset: 4 });
            kinds.push(Operand::Name { name: name.clone(), component: Some('x') });
            kinds.push(address(name, 0));
        }
        Operand::Address(own) => {
            kinds.push(Operand::Address(Address { offset: own.offset + 1, ..own.clone() }));
            kinds.push(Operand::Address(Address { offset: 1 << 33, ..own.clone() }));
            kinds.push(Operand::Address(Address { base: AddressBase::Immediate(64), ..own.clone() }));
            if let AddressBase::Name(base) = &own.base {
                kinds.push(name(base));
            }
        }
        Operand::Vector(items) => kinds.extend(items.first().cloned()),
        Operand::Pair(first, _) => kinds.push((**first).clone()),
        Operand::Not(inner) | Operand::Negate(inner) => kinds.push((**inner).clone()),
        _ => {}
    }
    for kind in kinds {
        let mut instruction = form.clone();
        instruction.operands[index] = kind;
        add("kind of an operand", instruction);
    }
}

fn arities(form: &Instruction, index: usize, add: Add<'_>) {
    let Operand::Vector(items) = &form.operands[index] else { return };
    let mut with = |items: Vec<Operand>| {
        let mut instruction = form.clone();
        instruction.operands[index] = Operand::Vector(items);
        add("elements of a vector", instruction);
    };
    if let Some((last, rest)) = items.split_last() {
        if !rest.is_empty() {
            with(rest.to_vec());
        }
        with([&items[..], std::slice::from_ref(last)].concat());
        with([&items[..], items].concat());
        for other in [Operand::Immediate(Immediate::Int(1)), Operand::Sink] {
            with([rest, &[other]].concat());
        }
    }
}

fn counts(form: &Instruction, add: Add<'_>) {
    let mut with = |change: &dyn Fn(&mut Vec<Operand>)| {
        let mut instruction = form.clone();
        change(&mut instruction.operands);
        add("number or order of operands", instruction);
    };
    for n in 0..form.operands.len() {
        with(&|all| drop(all.remove(n)));
        with(&|all| all.insert(n, all[n].clone()));
        if n + 1 < form.operands.len() {
            with(&|all| all.swap(n, n + 1));
        }
    }
    with(&|all| all.push(Operand::Name { name: register(T::Pred, 50), component: None }));
    with(&|all| all.push(Operand::Immediate(Immediate::Int(1))));
}
