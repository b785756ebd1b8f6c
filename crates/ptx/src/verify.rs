//! Verifier of names: finds those that are undeclared, declared twice, or of the wrong kind.
//!
//! Names follow the scopes of the text: a register, a variable or a function holds from its
//! declaration to the end of its scope, a label in the whole scope. Types of operands other than
//! predicates are not checked; `ptxas` does that.

use std::collections::{HashMap, HashSet};
use std::fmt;

use crate::{
    AddressBase, Function, Initializer, Instruction, Item, Linkage, Module, Name, Opcode, Operand, ScalarType, Span,
    StateSpace, Statement, Variable,
};

/// An error in a module that parses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The enclosing function; `None` at module scope.
    pub function: Option<Name>,
    /// The instruction or variable, or the function's name for statements without a position.
    pub span: Span,
    /// The problem found there.
    pub problem: Problem,
}

/// The kinds of problems in a module.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The name is not declared here.
    #[error("`{0}` is not declared")]
    Undeclared(Name),
    /// The name is declared in this scope already.
    #[error("`{0}` is declared twice in one scope")]
    Duplicate(Name),
    /// The name comes after `@` or `!` but is no predicate.
    #[error("`{0}` is not a predicate")]
    NotPredicate(Name),
    /// The name is the target of a branch but no label.
    #[error("`{0}` is not a label")]
    NotLabel(Name),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.span, self.problem)?;
        match &self.function {
            Some(function) => write!(f, " (in `{function}`)"),
            None => Ok(()),
        }
    }
}

/// Returns every undeclared, repeated or misused name of a module, in text order.
///
/// ```
/// let module = warpfold_ptx::parse(".version 8.0 .target sm_80 .entry k() { @%p bra done; }")?;
/// let findings: Vec<_> = warpfold_ptx::verify(&module).iter().map(ToString::to_string).collect();
/// assert_eq!(findings, ["1:41: `%p` is not declared (in `k`)", "1:41: `done` is not declared (in `k`)"]);
/// # Ok::<(), warpfold_ptx::ParseError>(())
/// ```
#[must_use]
pub fn verify(module: &Module) -> Vec<Finding> {
    let mut verifier =
        Verifier { scopes: vec![Scope::default()], findings: Vec::new(), function: None, span: Span::default() };
    let mut defined = HashSet::new();
    for item in &module.items {
        verifier.declare_item(item, &mut defined);
        match item {
            Item::Function(function) => verifier.function(function),
            Item::Variable(variable) => verifier.initial_value(variable),
            Item::Alias { name, target } => {
                verifier.resolve(name);
                verifier.resolve(target);
            }
            Item::Directive(_) => {}
        }
    }
    verifier.findings
}

/// Meaning of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Predicate,
    /// A register of another type, or a special register.
    Register,
    Variable,
    Function,
    Label,
    /// The label of a list or prototype.
    Table,
}

/// The names of one scope; those of `name<N>` under their prefix.
#[derive(Debug, Default)]
struct Scope {
    single: HashMap<Name, Meaning>,
    sets: HashMap<Name, (u32, Meaning)>,
}

impl Scope {
    fn get(&self, name: &str) -> Option<Meaning> {
        if let Some(&meaning) = self.single.get(name) {
            return Some(meaning);
        }
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        (stem..name.len()).find_map(|split| {
            let (prefix, digits) = name.split_at(split);
            let &(count, meaning) = self.sets.get(prefix)?;
            digits.parse::<u32>().is_ok_and(|number| number < count).then_some(meaning)
        })
    }
}

struct Verifier {
    scopes: Vec<Scope>,
    findings: Vec<Finding>,
    function: Option<Name>,
    /// Source position of the statement being checked.
    span: Span,
}

impl Verifier {
    fn report(&mut self, problem: Problem) {
        self.findings.push(Finding { function: self.function.clone(), span: self.span, problem });
    }

    fn resolve(&mut self, name: &Name) -> Option<Meaning> {
        let found = self.scopes.iter().rev().find_map(|scope| scope.get(name));
        let found = found.or_else(|| is_special_register(name).then_some(Meaning::Register));
        if found.is_none() {
            self.report(Problem::Undeclared(name.clone()));
        }
        found
    }

    /// Adds a name to the innermost scope.
    fn declare(&mut self, name: &Name, count: Option<u32>, meaning: Meaning) {
        let Some(scope) = self.scopes.last_mut() else { return };
        let is_repeated = match count {
            None => scope.get(name).is_some() || scope.single.insert(name.clone(), meaning).is_some(),
            Some(count) => scope.sets.insert(name.clone(), (count, meaning)).is_some(),
        };
        if is_repeated {
            self.report(Problem::Duplicate(name.clone()));
        }
    }

    fn declare_variable(&mut self, variable: &Variable) {
        self.span = variable.span;
        self.declare(&variable.name, variable.count, meaning_of(variable));
    }

    /// Declares an item: at module scope a declaration may be repeated, a definition may not.
    fn declare_item(&mut self, item: &Item, defined: &mut HashSet<Name>) {
        let (name, span, meaning, is_definition) = match item {
            Item::Function(f) => (&f.name, f.span, Meaning::Function, f.body.is_some()),
            Item::Variable(v) if v.count.is_some() => return self.declare_variable(v),
            Item::Variable(v) => (&v.name, v.span, meaning_of(v), v.linkage != Some(Linkage::Extern)),
            Item::Alias { .. } | Item::Directive(_) => {
                self.span = Span::default();
                return;
            }
        };
        self.span = span;
        self.scopes[0].single.insert(name.clone(), meaning);
        if is_definition && !defined.insert(name.clone()) {
            self.report(Problem::Duplicate(name.clone()));
        }
    }

    fn initial_value(&mut self, variable: &Variable) {
        self.span = variable.span;
        if let Some(init) = &variable.init {
            self.initializer(init);
        }
    }

    fn initializer(&mut self, init: &Initializer) {
        match init {
            Initializer::List(items) => items.iter().for_each(|item| self.initializer(item)),
            Initializer::Immediate(_) => {}
            Initializer::Address { name, .. } => {
                self.resolve(name);
            }
            Initializer::MaskedAddress { address, .. } => self.initializer(address),
        }
    }

    fn function(&mut self, function: &Function) {
        let Some(body) = &function.body else { return };
        self.function = Some(function.name.clone());
        self.scopes.push(Scope::default());
        function.returns.iter().chain(&function.params).for_each(|variable| self.declare_variable(variable));
        self.span = function.span;
        self.statements(body);
        self.scopes.pop();
        self.function = None;
    }

    /// Checks the statements of the innermost scope.
    fn statements(&mut self, statements: &[Statement]) {
        for statement in statements {
            match statement {
                Statement::Label { name, span } => {
                    self.span = *span;
                    self.declare(name, None, Meaning::Label);
                }
                Statement::BranchTargets { name, .. }
                | Statement::CallTargets { name, .. }
                | Statement::CallPrototype { name, .. } => self.declare(name, None, Meaning::Table),
                _ => {}
            }
        }
        statements.iter().for_each(|statement| self.statement(statement));
    }

    fn statement(&mut self, statement: &Statement) {
        match statement {
            Statement::Register(declaration) => {
                let is_predicate = declaration.ty == ScalarType::Pred;
                let meaning = if is_predicate { Meaning::Predicate } else { Meaning::Register };
                for (name, count) in &declaration.names {
                    self.declare(name, *count, meaning);
                }
            }
            Statement::Variable(variable) => {
                self.declare_variable(variable);
                self.initial_value(variable);
            }
            Statement::Instruction(instruction) => self.instruction(instruction),
            Statement::Scope(inner) => {
                self.scopes.push(Scope::default());
                self.statements(inner);
                self.scopes.pop();
            }
            Statement::BranchTargets { targets, .. } => targets.iter().for_each(|target| self.label(target)),
            Statement::CallTargets { targets, .. } => {
                for target in targets {
                    self.resolve(target);
                }
            }
            Statement::Label { .. }
            | Statement::Location { .. }
            | Statement::Pragma(_)
            | Statement::CallPrototype { .. } => {}
        }
    }

    fn instruction(&mut self, instruction: &Instruction) {
        self.span = instruction.span;
        if let Some(guard) = &instruction.guard {
            self.predicate(&guard.predicate);
        }
        match (instruction.opcode, instruction.operands.as_slice()) {
            (Opcode::Bra, [Operand::Name { name, .. }]) => self.label(name),
            (_, operands) => operands.iter().for_each(|operand| self.operand(operand)),
        }
    }

    fn operand(&mut self, operand: &Operand) {
        match operand {
            Operand::Name { name, .. } | Operand::Selected { name, .. } | Operand::NameOffset { name, .. } => {
                self.resolve(name);
            }
            Operand::Immediate(_) | Operand::Sink => {}
            Operand::Address(address) => {
                if let AddressBase::Name(name) = &address.base {
                    self.resolve(name);
                }
                address.coordinates.iter().for_each(|coordinate| self.operand(coordinate));
            }
            Operand::Vector(items) | Operand::List(items) => items.iter().for_each(|item| self.operand(item)),
            Operand::Pair(first, second) => {
                self.operand(first);
                self.operand(second);
            }
            Operand::Not(inner) => match &**inner {
                Operand::Name { name, .. } => self.predicate(name),
                other => self.operand(other),
            },
            Operand::Negate(inner) => self.operand(inner),
        }
    }

    fn predicate(&mut self, name: &Name) {
        if self.resolve(name).is_some_and(|meaning| meaning != Meaning::Predicate) {
            self.report(Problem::NotPredicate(name.clone()));
        }
    }

    fn label(&mut self, name: &Name) {
        if self.resolve(name).is_some_and(|meaning| meaning != Meaning::Label) {
            self.report(Problem::NotLabel(name.clone()));
        }
    }
}

const fn meaning_of(variable: &Variable) -> Meaning {
    match (variable.space, variable.ty) {
        (StateSpace::Reg, ScalarType::Pred) => Meaning::Predicate,
        (StateSpace::Reg, _) => Meaning::Register,
        _ => Meaning::Variable,
    }
}

/// PTX ISA, "Special Registers".
fn is_special_register(name: &str) -> bool {
    let Some(name) = name.strip_prefix('%') else { return false };
    let numbered = |prefix: &str, count: u32| {
        name.strip_prefix(prefix).and_then(|number| number.parse::<u32>().ok()).is_some_and(|number| number < count)
    };
    SPECIAL_REGISTERS.contains(&name)
        || numbered("envreg", 32)
        || numbered("pm", 8)
        || numbered("reserved_smem_offset_", 2)
        || name.strip_suffix("_64").is_some_and(|stem| matches!(stem.as_bytes(), [b'p', b'm', b'0'..=b'7']))
}

const SPECIAL_REGISTERS: &[&str] = &[
    "tid",
    "ntid",
    "laneid",
    "warpid",
    "nwarpid",
    "ctaid",
    "nctaid",
    "smid",
    "nsmid",
    "gridid",
    "is_explicit_cluster",
    "clusterid",
    "nclusterid",
    "cluster_ctaid",
    "cluster_nctaid",
    "cluster_ctarank",
    "cluster_nctarank",
    "lanemask_eq",
    "lanemask_le",
    "lanemask_lt",
    "lanemask_ge",
    "lanemask_gt",
    "clock",
    "clock_hi",
    "clock64",
    "globaltimer",
    "globaltimer_lo",
    "globaltimer_hi",
    "reserved_smem_offset_begin",
    "reserved_smem_offset_end",
    "reserved_smem_offset_cap",
    "total_smem_size",
    "aggr_smem_size",
    "dynamic_smem_size",
    "current_graph_exec",
];
