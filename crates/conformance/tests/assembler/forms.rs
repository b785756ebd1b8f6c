//! Forms of instructions: what the modules of the repository write, each once, with registers
//! named by their types.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use warpfold_ptx::{
    AddressBase, Function, Immediate, Instruction, Item, Module, Name, Opcode, Operand, ScalarType, StateSpace,
    Statement,
};

/// Lines of [`program`] before its first instruction.
const HEAD: usize = 14;

/// The variables that instructions may name, one of each space.
const DECLARATIONS: &str = "\
.global .align 1024 .b8 v_global[4096];
.const .align 1024 .b8 v_const[4096];
.shared .align 1024 .b8 v_shared[8192];
.func f_unused() { ret; }
.visible .entry k(.param .align 128 .b8 v_param[1024]) {
.local .align 128 .b8 v_local[1024];";

/// How the special registers begin that may stand in a form.
const SPECIALS: [&str; 9] =
    ["%tid", "%ntid", "%ctaid", "%nctaid", "%laneid", "%warpid", "%clock", "%cluster", "%lanemask"];

/// What a name stands for in the text it comes from.
enum Meaning {
    Register(ScalarType),
    Variable(StateSpace),
    Label,
}

/// The forms of all instructions in these modules, in the order of their text.
pub(crate) fn forms(modules: impl Iterator<Item = Module>) -> Vec<Instruction> {
    let mut forms = BTreeMap::new();
    for module in modules {
        for function in module.functions().filter(|f| f.body.is_some()) {
            let meanings = meanings(&module, function);
            for instruction in function.instructions() {
                if let Some(form) = form(instruction, &meanings) {
                    forms.entry(key(&form)).or_insert(form);
                }
            }
        }
    }
    forms.into_values().collect()
}

/// The names of a function and their meanings; sets such as `%r<9>` under their stem.
fn meanings(module: &Module, function: &Function) -> HashMap<Name, Meaning> {
    let mut all = HashMap::new();
    for item in &module.items {
        if let Item::Variable(v) = item {
            all.insert(v.name.clone(), Meaning::Variable(v.space));
        }
    }
    for v in &function.params {
        let is_kernel = function.kind == warpfold_ptx::FunctionKind::Entry;
        if is_kernel {
            all.insert(v.name.clone(), Meaning::Variable(StateSpace::Param));
        }
    }
    for statement in function.statements() {
        match statement {
            Statement::Register(r) => {
                let is_scalar = r.vector == 1;
                for (name, count) in &r.names {
                    let numbered = (0..count.unwrap_or(0).min(1 << 17)).map(|n| Name::from(format!("{name}{n}")));
                    let names = if count.is_some() { numbered.collect() } else { vec![name.clone()] };
                    for name in names {
                        // What means two things, in scopes of their own, is left out.
                        let is_other = matches!(all.get(&name), Some(Meaning::Register(ty)) if *ty != r.ty);
                        let is_known = is_scalar && !is_other;
                        let unknown = Meaning::Variable(StateSpace::Reg);
                        all.insert(name, if is_known { Meaning::Register(r.ty) } else { unknown });
                    }
                }
            }
            Statement::Variable(v) if v.space != StateSpace::Param => {
                all.insert(v.name.clone(), Meaning::Variable(v.space));
            }
            Statement::Label { name, .. } => {
                all.insert(name.clone(), Meaning::Label);
            }
            _ => {}
        }
    }
    all
}

/// An instruction with the names of [`program`]; none if it names what is not declared there.
fn form(instruction: &Instruction, meanings: &HashMap<Name, Meaning>) -> Option<Instruction> {
    if matches!(instruction.opcode, Opcode::Call | Opcode::Brx) {
        return None;
    }
    let mut form = Instruction { guard: None, ..instruction.clone() };
    let mut renamed: HashMap<Name, Name> = HashMap::new();
    let mut counts: HashMap<ScalarType, u32> = HashMap::new();
    for name in names_of(&mut form.operands) {
        if SPECIALS.iter().any(|special| name.starts_with(special)) && !meanings.contains_key(name) {
            continue;
        }
        if let Some(new) = renamed.get(name) {
            *name = new.clone();
            continue;
        }
        let new = match meanings.get(name)? {
            Meaning::Register(ty) => {
                let count = counts.entry(*ty).or_insert(0);
                *count += 1;
                register(*ty, *count - 1)
            }
            Meaning::Variable(StateSpace::Tex | StateSpace::Reg | StateSpace::Sreg) => return None,
            Meaning::Variable(space) => Name::from(format!("v_{}", space.name())),
            Meaning::Label => Name::from("L"),
        };
        renamed.insert(name.clone(), new.clone());
        *name = new;
    }
    Some(form)
}

/// What makes two forms one: numbers do not tell them apart.
fn key(form: &Instruction) -> String {
    let mut plain = form.clone();
    plain.operands.iter_mut().for_each(without_numbers);
    plain.to_string()
}

fn without_numbers(operand: &mut Operand) {
    match operand {
        Operand::Immediate(Immediate::Int(n)) => *n = i128::from(*n < 0),
        Operand::Immediate(Immediate::F32(bits)) => *bits = 0,
        Operand::Immediate(Immediate::F64(bits)) => *bits = 0,
        Operand::Address(address) => {
            address.offset = address.offset.signum();
            address.coordinates.iter_mut().for_each(without_numbers);
        }
        Operand::NameOffset { offset, .. } => *offset = 1,
        Operand::Vector(items) | Operand::List(items) => items.iter_mut().for_each(without_numbers),
        _ => {}
    }
}

/// The name of a register of a type.
pub(crate) fn register(ty: ScalarType, number: u32) -> Name {
    Name::from(format!("{}_{number}", ty.name()))
}

/// The type and number of a register of [`register`].
pub(crate) fn type_of(name: &str) -> Option<(ScalarType, u32)> {
    let (ty, number) = name.rsplit_once('_')?;
    Some((ScalarType::from_modifier(ty)?, number.parse().ok()?))
}

/// Every name in operands, in text order.
pub(crate) fn names_of(operands: &mut [Operand]) -> Vec<&mut Name> {
    let mut names = Vec::new();
    for operand in operands {
        match operand {
            Operand::Name { name, .. } | Operand::Selected { name, .. } | Operand::NameOffset { name, .. } => {
                names.push(name);
            }
            Operand::Address(address) => {
                if let AddressBase::Name(name) = &mut address.base {
                    names.push(name);
                }
                names.extend(names_of(&mut address.coordinates));
            }
            Operand::Vector(items) | Operand::List(items) => names.extend(names_of(items)),
            Operand::Pair(first, second) => {
                names.extend(names_of(std::slice::from_mut(first)));
                names.extend(names_of(std::slice::from_mut(second)));
            }
            Operand::Not(inner) | Operand::Negate(inner) => names.extend(names_of(std::slice::from_mut(inner))),
            Operand::Immediate(_) | Operand::Sink => {}
        }
    }
    names
}

/// What a module is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target(pub u32, pub u32, pub &'static str);

/// The newest one.
pub(crate) const NEWEST: Target = Target(9, 0, "sm_90a");

/// A kernel of these instructions, one a line, and the line of the first.
pub(crate) fn program(target: Target, instructions: &[&Instruction]) -> (String, usize) {
    let Target(major, minor, arch) = target;
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for instruction in instructions {
        let mut operands = instruction.operands.clone();
        for name in names_of(&mut operands) {
            if let Some((ty, number)) = type_of(name) {
                let count = counts.entry(ty.name()).or_insert(0);
                *count = (*count).max(number + 1);
            }
        }
    }
    let mut text =
        format!(".version {major}.{minor}\n.target {arch}\n.address_size 64\n{DECLARATIONS}\n").trim_end().to_owned();
    text.push('\n');
    for (ty, count) in counts {
        write!(text, ".reg .{ty} {ty}_<{count}>; ").expect("a string can be written");
    }
    text.push('\n');
    let lines = text.lines().count();
    text.push_str(&"\n".repeat(HEAD - 1 - lines));
    for instruction in instructions {
        writeln!(text, "{instruction}").expect("a string can be written");
    }
    text.push_str("L: ret;\n}\n");
    (text, HEAD)
}
