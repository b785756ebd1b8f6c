//! The kernel being recorded: registers, scopes, statements, and requirements on the target.
//!
//! One recorder at a time is current on a thread ([`with`]). A value knows the recorder that made
//! it and the scope it was made in, so that a value used where it is not defined is an error
//! instead of an uninitialised read.

mod lines;
mod names;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::atomic::{AtomicU32, Ordering};

use warpfold_ptx::{self as ptx, Name, Opcode, ScalarType, Statement};

use crate::any_registers::Groups;
use crate::intrinsics::special::Register;
use crate::kernel::Bounds;
use crate::types::Type;
use crate::{Error, ErrorKind, Target, fold, intrinsics};

pub(crate) use lines::Caller;
use lines::{Author, Lines};

/// A register of one recorder: its number in the low half, the recorder's in the high one. One
/// word, so that a [`Raw`] is passed in two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reg(u64);

impl Reg {
    fn new(kernel: u32, index: u32) -> Self {
        Self(u64::from(kernel) << 32 | u64::from(index))
    }

    const fn kernel(self) -> u32 {
        (self.0 >> 32) as u32
    }

    const fn index(self) -> u32 {
        self.0 as u32
    }
}

/// A value without its type: bits known while recording, or a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Raw {
    /// The bits of a constant, zero-extended.
    Const(u64),
    /// A register.
    Reg(Reg),
}

struct RegisterInfo {
    ty: ScalarType,
    scope: u32,
}

/// A variable in shared or local memory, by position in [`Recorder::variables`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Symbol {
    kernel: u32,
    index: u32,
}

/// A value that is uniform throughout a kernel and therefore computed only once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Computed {
    /// A special register, or a component of one.
    Special(Register, Option<char>),
    /// A register with these bits, by the name of its type.
    Constant(&'static str, u64),
    /// The address of a variable.
    Address(Symbol),
    /// An element of an array parameter.
    Param {
        position: usize,
        offset: u32,
    },
    LinearThreadIdx,
    WarpId,
}

/// The kernel being recorded.
pub(crate) struct Recorder {
    id: u32,
    pub(crate) name: String,
    pub(crate) target: Target,
    pub(crate) bounds: Bounds,
    registers: Vec<RegisterInfo>,
    open_scopes: Vec<u32>,
    num_scopes: u32,
    num_labels: u32,
    in_prologue: bool,
    prologue: Vec<Statement>,
    body: Vec<Statement>,
    computed: BTreeMap<Computed, Raw>,
    pub(crate) groups: Groups,
    pub(crate) params: Vec<ptx::Variable>,
    pub(crate) variables: Vec<ptx::Variable>,
    pub(crate) items: Vec<ptx::Item>,
    pub(crate) dynamic_shared: Option<Symbol>,
    pub(crate) static_shared_bytes: u64,
    pub(crate) dynamic_shared_bytes: u64,
    pub(crate) waits_for_dependencies: bool,
    version: (u32, u32),
    author: Author,
    /// `.file` and `.loc`, if they are asked for.
    lines: Option<Lines>,
    error: Option<Error>,
}

/// The result of recording a kernel.
pub(crate) struct Recording {
    pub(crate) module: ptx::Module,
    pub(crate) static_shared_bytes: u64,
    pub(crate) dynamic_shared_bytes: u64,
    pub(crate) waits_for_dependencies: bool,
}

thread_local! {
    static CURRENT: RefCell<Option<Recorder>> = const { RefCell::new(None) };
}

static NUM_RECORDERS: AtomicU32 = AtomicU32::new(0);

/// Calls a function with the recorder of the kernel being recorded on this thread.
///
/// Not for functions that are generic over types of values: they call those of [`crate::untyped`],
/// so that this is compiled in this crate alone.
///
/// # Panics
/// If there is none: operations on values exist only inside the closure given to
/// [`crate::kernel()`].
#[track_caller]
pub(crate) fn with<R>(f: impl FnOnce(&mut Recorder) -> R) -> R {
    let caller = Location::caller();
    CURRENT.with_borrow_mut(|current| match current {
        Some(recorder) => {
            recorder.author.note(caller);
            f(recorder)
        }
        None => none_recorded(),
    })
}

#[cold]
#[inline(never)]
#[track_caller]
fn none_recorded() -> ! {
    panic!("no kernel is being recorded: values can be used only inside the closure of `kernel`")
}

/// The kernel to record: name, target, bounds and origin.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) name: &'a str,
    pub(crate) target: &'a Target,
    pub(crate) bounds: Bounds,
    /// The location of the kernel's definition.
    pub(crate) caller: Caller,
    /// True if instructions carry their source lines.
    pub(crate) with_lines: bool,
}

/// Records `body` and returns the module it wrote.
pub(crate) fn record(subject: Subject<'_>, body: &dyn Fn()) -> Result<Recording, Error> {
    /// Restores the outer recorder, even when `body` panics.
    struct Restore(Option<Recorder>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }
    let restore = Restore(CURRENT.replace(Some(Recorder::new(subject))));
    body();
    let recorder = CURRENT.take().expect("the recorder stays current while its body runs");
    drop(restore);
    recorder.finish()
}

impl Recorder {
    /// The unique id of this recorder.
    pub(crate) const fn id(&self) -> u32 {
        self.id
    }

    fn new(Subject { name, target, bounds, caller, with_lines }: Subject<'_>) -> Self {
        let target = *target;
        let mut recorder = Self {
            id: NUM_RECORDERS.fetch_add(1, Ordering::Relaxed),
            name: name.to_owned(),
            target,
            bounds,
            registers: Vec::new(),
            open_scopes: vec![0],
            num_scopes: 1,
            num_labels: 0,
            in_prologue: false,
            prologue: Vec::new(),
            body: Vec::new(),
            computed: BTreeMap::new(),
            groups: Groups::default(),
            params: Vec::new(),
            variables: Vec::new(),
            items: Vec::new(),
            dynamic_shared: None,
            static_shared_bytes: 0,
            dynamic_shared_bytes: 0,
            waits_for_dependencies: false,
            version: target.arch.min_ptx_version(),
            author: Author::new(caller),
            lines: with_lines.then(Lines::default),
            error: None,
        };
        let (major, minor) = recorder.version;
        recorder.require(&format!("the architecture {}", target.arch), target.arch.number, (major, minor));
        recorder
    }

    /// Notes the first error; recording goes on so that the kernel's closure needs no error path.
    pub(crate) fn fail(&mut self, kind: ErrorKind) {
        if self.error.is_none() {
            self.error = Some(Error::new(&self.name, self.author.caller(), kind));
        }
    }

    /// Notes that the kernel needs this architecture and PTX version.
    pub(crate) fn require(&mut self, what: &str, arch: u32, ptx_version: (u32, u32)) {
        if self.target.has(arch, ptx_version) {
            self.version = self.version.max(ptx_version);
        } else {
            let target = self.target;
            self.fail(ErrorKind::Unsupported { what: what.to_owned(), arch, ptx_version, target });
        }
    }

    /// Notes that the kernel needs a feature of this architecture alone, under its `a` target.
    pub(crate) fn require_specific(&mut self, what: &str, arch: u32, ptx_version: (u32, u32)) {
        self.require(what, arch, ptx_version);
        let target = self.target;
        if target.arch.number != arch || !target.arch.specific {
            self.fail(ErrorKind::NeedsSpecific { what: what.to_owned(), arch, target });
        }
    }

    /// A new register of the current scope.
    pub(crate) fn register(&mut self, ty: ScalarType) -> Reg {
        let scope = if self.in_prologue { 0 } else { *self.open_scopes.last().expect("the root scope stays open") };
        self.registers.push(RegisterInfo { ty, scope });
        Reg::new(self.id, u32::try_from(self.registers.len() - 1).expect("fewer than 2^32 registers"))
    }

    /// The temporary name of a register in the tree, until [`Self::finish`] numbers it.
    pub(crate) fn name_of(&mut self, reg: Reg) -> Name {
        if reg.kernel() != self.id {
            self.fail(ErrorKind::ForeignValue);
        } else if !self.open_scopes.contains(&self.registers[reg.index() as usize].scope) {
            self.fail(ErrorKind::EscapedValue);
        }
        ptx::Name::from(format!("%{}", reg.index()))
    }

    /// A register as an operand.
    pub(crate) fn reg(&mut self, reg: Reg) -> ptx::Operand {
        ptx::Operand::Name { name: self.name_of(reg), component: None }
    }

    /// A value as an operand: an immediate where PTX has one for the type, else a register.
    pub(crate) fn operand(&mut self, ty: Type, raw: Raw) -> ptx::Operand {
        match raw {
            Raw::Const(_) if ty == Type::Bool || ty.is_half() => self.in_register(ty, raw),
            Raw::Const(bits) => ptx::Operand::Immediate(immediate(ty, bits)),
            Raw::Reg(reg) => self.reg(reg),
        }
    }

    /// A value as a register operand; constants are moved into one, once a kernel.
    pub(crate) fn in_register(&mut self, ty: Type, raw: Raw) -> ptx::Operand {
        let reg = match raw {
            Raw::Reg(reg) => reg,
            Raw::Const(bits) => {
                // 8-bit registers are kept extended to 16 bits.
                let extended = if ty == Type::I8 { fold::integer_cast(Type::I8, Type::U16, bits) } else { bits };
                let constant = Computed::Constant(ty.register().name(), extended);
                self.computed_register(constant, |r| intrinsics::convert::constant(r, ty, bits))
            }
        };
        self.reg(reg)
    }

    /// Records at the start of the kernel, where the result can be used everywhere.
    pub(crate) fn prologue<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R {
        let outer = std::mem::replace(&mut self.in_prologue, true);
        let result = f(self);
        self.in_prologue = outer;
        result
    }

    /// A value that is uniform throughout the kernel: computed once, at its start, and cached by
    /// name.
    pub(crate) fn computed(&mut self, name: Computed, compute: impl FnOnce(&mut Self) -> Raw) -> Raw {
        if let Some(raw) = self.computed.get(&name) {
            return *raw;
        }
        let raw = self.prologue(compute);
        self.computed.insert(name, raw);
        raw
    }

    /// Like [`Self::computed`], for values that are always registers.
    pub(crate) fn computed_register(&mut self, name: Computed, compute: impl FnOnce(&mut Self) -> Reg) -> Reg {
        match self.computed(name, |r| Raw::Reg(compute(r))) {
            Raw::Reg(reg) => reg,
            Raw::Const(_) => unreachable!("what was computed under {name:?} is a register"),
        }
    }

    /// Appends a statement.
    pub(crate) fn statement(&mut self, statement: Statement) {
        let list = if self.in_prologue { &mut self.prologue } else { &mut self.body };
        if let (Some(lines), Statement::Instruction(_)) = (&mut self.lines, &statement) {
            list.extend(lines.location(self.author.caller(), self.in_prologue));
        }
        list.push(statement);
    }

    /// Starts a `{ … }`; pass the result to [`Self::end_block`].
    pub(crate) fn begin_block(&mut self) -> Vec<Statement> {
        std::mem::take(&mut self.body)
    }

    /// Ends a `{ … }`.
    pub(crate) fn end_block(&mut self, outer: Vec<Statement>) {
        let block = std::mem::replace(&mut self.body, outer);
        self.body.push(Statement::Scope(block));
    }

    /// Appends an instruction.
    pub(crate) fn push(&mut self, opcode: Opcode, modifiers: &[&'static str], operands: Vec<ptx::Operand>) {
        self.push_guarded(None, opcode, modifiers, operands);
    }

    /// Appends an instruction with a guard, which may be negated.
    pub(crate) fn push_guarded(
        &mut self,
        guard: Option<ptx::Guard>,
        opcode: Opcode,
        modifiers: &[&'static str],
        operands: Vec<ptx::Operand>,
    ) {
        let modifiers = modifiers.iter().map(|text| Name::new_static(text)).collect();
        let span = ptx::Span::default();
        self.statement(Statement::Instruction(ptx::Instruction { guard, opcode, modifiers, operands, span }));
    }

    /// Appends an instruction some of whose modifiers are numbers.
    pub(crate) fn push_named(&mut self, opcode: Opcode, modifiers: Vec<Name>, operands: Vec<ptx::Operand>) {
        let span = ptx::Span::default();
        self.statement(Statement::Instruction(ptx::Instruction { guard: None, opcode, modifiers, operands, span }));
    }

    /// Appends an instruction whose first operand is a fresh register of this type, and returns it.
    pub(crate) fn define(
        &mut self,
        ty: ScalarType,
        opcode: Opcode,
        modifiers: &[&'static str],
        operands: Vec<ptx::Operand>,
    ) -> Raw {
        let reg = self.register(ty);
        let mut all = vec![self.reg(reg)];
        all.extend(operands);
        self.push(opcode, modifiers, all);
        Raw::Reg(reg)
    }

    /// The guard on a predicate value.
    pub(crate) fn guard(&mut self, condition: Raw, negated: bool) -> ptx::Guard {
        let ptx::Operand::Name { name, .. } = self.in_register(Type::Bool, condition) else {
            unreachable!("`in_register` names a register")
        };
        ptx::Guard { predicate: name, negated }
    }

    /// The statements recorded so far outside of branches and loops; `None` inside of one.
    pub(crate) fn straight_line(&self) -> Option<&[Statement]> {
        (self.open_scopes.len() == 1).then_some(&self.body)
    }

    /// A number for the labels of one construct.
    pub(crate) fn label_number(&mut self) -> u32 {
        self.num_labels += 1;
        self.num_labels
    }

    /// Opens a scope: values made in it end with it.
    pub(crate) fn open_scope(&mut self) {
        self.open_scopes.push(self.num_scopes);
        self.num_scopes += 1;
    }

    /// Closes the innermost scope.
    pub(crate) fn close_scope(&mut self) {
        self.open_scopes.pop();
    }

    /// Declares a variable of the kernel's body.
    pub(crate) fn variable(&mut self, variable: ptx::Variable) -> Symbol {
        self.variables.push(variable);
        let index = u32::try_from(self.variables.len() - 1).expect("fewer than 2^32 variables");
        Symbol { kernel: self.id, index }
    }

    /// Raises the alignment of a variable to at least this.
    pub(crate) fn align_variable(&mut self, symbol: Symbol, align: u32) {
        let declared = &mut self.variables[symbol.index as usize].align;
        *declared = (*declared).max(Some(align));
    }

    /// A variable's name.
    pub(crate) fn symbol_name(&mut self, symbol: Symbol) -> Name {
        if symbol.kernel != self.id {
            self.fail(ErrorKind::ForeignValue);
            return Name::new_static("_");
        }
        self.variables[symbol.index as usize].name.clone()
    }

    fn finish(mut self) -> Result<Recording, Error> {
        self.author.end();
        self.check_shared();
        if let Some(error) = self.error {
            return Err(error);
        }
        let types: Vec<_> = self.registers.iter().map(|register| register.ty).collect();
        let mut statements = names::without_unused(self.prologue, &self.body);
        lines::without_idle(&mut statements);
        statements.append(&mut self.body);
        let declarations = names::number_registers(&mut statements, &types);
        let (external, own): (Vec<_>, Vec<_>) = self.variables.into_iter().partition(|v| v.linkage.is_some());
        let body = declarations
            .into_iter()
            .map(Statement::Register)
            .chain(own.into_iter().map(Statement::Variable))
            .chain(statements)
            .collect();
        let files = self.lines.iter().flat_map(Lines::items);
        let mut items: Vec<_> = files.chain(external.into_iter().map(ptx::Item::Variable)).chain(self.items).collect();
        let entry = intrinsics::entry::entry(&self.name, self.params, &self.bounds, body);
        items.push(ptx::Item::Function(entry));
        Ok(Recording {
            module: intrinsics::entry::module(self.version, &self.target, items),
            static_shared_bytes: self.static_shared_bytes,
            dynamic_shared_bytes: self.dynamic_shared_bytes,
            waits_for_dependencies: self.waits_for_dependencies,
        })
    }

    fn check_shared(&mut self) {
        let limits = self.target.limits;
        for (bytes, limit) in [
            (self.static_shared_bytes, limits.max_static_shared_bytes),
            (self.static_shared_bytes + self.dynamic_shared_bytes, limits.max_shared_bytes),
        ] {
            if bytes > u64::from(limit) {
                self.fail(ErrorKind::TooMuchShared { bytes, limit });
            }
        }
    }
}

/// The literal for a constant of a type.
pub(crate) fn immediate(ty: Type, bits: u64) -> ptx::Immediate {
    let shift = 64 - ty.bits();
    match ty {
        Type::F32 => ptx::Immediate::F32(u32::try_from(bits).expect("an f32 has 32 bits")),
        Type::F64 => ptx::Immediate::F64(bits),
        Type::I8 | Type::I16 | Type::I32 | Type::I64 => {
            ptx::Immediate::Int(i128::from((bits << shift).cast_signed() >> shift))
        }
        Type::Bool
        | Type::U8
        | Type::U16
        | Type::U32
        | Type::U64
        | Type::F8E4M3
        | Type::F8E5M2
        | Type::F16
        | Type::Bf16
        | Type::F16x2
        | Type::Bf16x2 => ptx::Immediate::Int(i128::from(bits)),
    }
}
