//! The syntax tree of a PTX module: plain values, without references to the parsed text.
//!
//! The tree keeps what the text says and no more: names are not resolved, types are not checked.
//! Two trees are equal when they print the same text; spans do not take part in the comparison.

use crate::{Name, Opcode, ScalarType, Span};

/// A whole PTX module (PTX ISA, "PTX Module Directives").
#[derive(Debug, Clone, PartialEq)]
pub struct Module {
    /// `.version major.minor`.
    pub version: (u32, u32),
    /// `.target sm_90a, debug, …`: the architecture first, then any platform options.
    pub target: Vec<Name>,
    /// `.address_size 32|64`.
    pub address_size: u32,
    /// Everything else, in text order.
    pub items: Vec<Item>,
}

/// A module-scope declaration.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// `.entry` or `.func`, with or without a body.
    Function(Function),
    /// A module-scope variable.
    Variable(Variable),
    /// `.alias name, target;`
    Alias {
        /// The new name.
        name: Name,
        /// The function it stands for.
        target: Name,
    },
    /// `.file`, `.section`, module-scope `.pragma` and the like: kept and printed as text.
    Directive(Name),
}

/// `.extern`, `.visible`, `.weak`, `.common`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linkage {
    /// `.extern`: defined in another module.
    Extern,
    /// `.visible`: can be seen by other modules.
    Visible,
    /// `.weak`.
    Weak,
    /// `.common`.
    Common,
}

/// `.entry` starts a kernel, `.func` a device function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FunctionKind {
    /// A kernel, launched from the host.
    Entry,
    /// A device function, called from device code.
    Func,
}

/// A kernel or a device function.
#[derive(Debug, Clone, PartialEq)]
pub struct Function {
    /// Linkage, if any is written.
    pub linkage: Option<Linkage>,
    /// Kernel or device function.
    pub kind: FunctionKind,
    /// Return parameters (`.func` only; usually none or one).
    pub returns: Vec<Variable>,
    /// Its name.
    pub name: Name,
    /// Parameters in order.
    pub params: Vec<Variable>,
    /// `.maxntid`, `.reqntid`, `.minnctapersm`, `.maxnreg`, `.noreturn`, `.explicitcluster`, … in
    /// text order; `.attribute(…)`, which the text has before the name, comes first, its argument
    /// in `strings`.
    pub directives: Vec<FunctionDirective>,
    /// Statements of the body; `None` for a declaration.
    pub body: Option<Vec<Statement>>,
    /// Source position of the name.
    pub span: Span,
}

/// A performance-tuning or cluster directive between the parameter list and the body.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionDirective {
    /// Name without the dot: `maxntid`, `reqntid`, `minnctapersm`, `maxnreg`, `noreturn`,
    /// `reqnctapercluster`, `pragma` …
    pub name: Name,
    /// Its numeric arguments (empty for flags).
    pub values: Vec<u64>,
    /// Its string arguments (`.pragma "nounroll"`).
    pub strings: Vec<Name>,
}

/// A state space (PTX ISA, "State Spaces").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StateSpace {
    /// Registers.
    Reg,
    /// Constant memory.
    Const,
    /// Global memory.
    Global,
    /// Per-thread memory.
    Local,
    /// Parameters of kernels, functions and call sequences.
    Param,
    /// Per-block memory.
    Shared,
    /// Read-only special registers.
    Sreg,
    /// Texture references (deprecated).
    Tex,
}

/// A variable outside the register space, or a parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Variable {
    /// Linkage, if any is written (module scope only).
    pub linkage: Option<Linkage>,
    /// The state space; `.func` parameters may be in `Reg`.
    pub space: StateSpace,
    /// `.align N`, in bytes.
    pub align: Option<u32>,
    /// `.v2`, `.v4`: elements per vector; 1 for a scalar.
    pub vector: u32,
    /// Element type.
    pub ty: ScalarType,
    /// `.ptr .space .align N` of a kernel parameter, if written.
    pub ptr: Option<PtrAttribute>,
    /// Its name; `_` if a prototype omits it.
    pub name: Name,
    /// `name<N>`: a set of N variables `name0 … nameN-1`.
    pub count: Option<u32>,
    /// Array dimensions; `None` is an empty `[]` (size from the initialiser or from the launch).
    pub dims: Vec<Option<u64>>,
    /// Initial value.
    pub init: Option<Initializer>,
    /// `.attribute(.managed)`, `.attribute(.unified(a,b))`: kept as text.
    pub attribute: Option<Name>,
    /// Source position of the name.
    pub span: Span,
}

/// `.ptr{.space}{.align N}` on a kernel parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PtrAttribute {
    /// State space of the pointer, if written.
    pub space: Option<StateSpace>,
    /// Alignment of the pointer, if written.
    pub align: Option<u32>,
}

/// An initial value.
#[derive(Debug, Clone, PartialEq)]
pub enum Initializer {
    /// `{ a, b, … }`, possibly nested.
    List(Vec<Initializer>),
    /// A number.
    Immediate(Immediate),
    /// The address of a variable or function, plus a byte offset.
    Address {
        /// `generic(name)`.
        generic: bool,
        /// The variable or function.
        name: Name,
        /// Byte offset.
        offset: i64,
    },
    /// `0xFF(name)`-style masked addresses: one byte of an address.
    MaskedAddress {
        /// The mask, a byte of ones at the wanted position.
        mask: u64,
        /// The address.
        address: Box<Initializer>,
    },
}

/// A statement of a function body.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// `name:`
    Label {
        /// Its name.
        name: Name,
        /// Source position of the label.
        span: Span,
    },
    /// `.reg .type a, b<10>;`
    Register(RegisterDeclaration),
    /// A `.local`, `.shared`, `.param`, `.global` or `.const` variable of this scope.
    Variable(Variable),
    /// An instruction.
    Instruction(Instruction),
    /// `{ … }`: a scope with its own names.
    Scope(Vec<Statement>),
    /// `.loc file line column …`: kept as text after the word `.loc`, with the first three numbers
    /// decoded.
    Location {
        /// File index.
        file: u32,
        /// Line in that file.
        line: u32,
        /// Column in that line.
        column: u32,
        /// The rest of the directive (`function_name …, inlined_at …`), without its leading comma.
        rest: Option<Name>,
    },
    /// `.pragma "…", …;`
    Pragma(Vec<Name>),
    /// `name: .branchtargets a, b;`
    BranchTargets {
        /// Label of the list.
        name: Name,
        /// Labels in order.
        targets: Vec<Name>,
    },
    /// `name: .calltargets f, g;`
    CallTargets {
        /// Label of the list.
        name: Name,
        /// Functions in order.
        targets: Vec<Name>,
    },
    /// `name: .callprototype (ret) _ (params);`
    CallPrototype {
        /// Label of the prototype.
        name: Name,
        /// Return parameters.
        returns: Vec<Variable>,
        /// Parameters.
        params: Vec<Variable>,
        /// `.noreturn`, `.abi_preserve N`, `.abi_preserve_control N`, in text order.
        directives: Vec<FunctionDirective>,
    },
}

/// `.reg .v2 .f32 name<count>, …;`
#[derive(Debug, Clone, PartialEq)]
pub struct RegisterDeclaration {
    /// Elements per vector; 1 for a scalar.
    pub vector: u32,
    /// Element type (`Pred` for predicates).
    pub ty: ScalarType,
    /// Names, each with the count of `name<count>`.
    pub names: Vec<(Name, Option<u32>)>,
}

/// `@p` or `@!p` before an instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// The predicate register.
    pub predicate: Name,
    /// `@!p`.
    pub negated: bool,
}

/// One instruction.
#[derive(Debug, Clone, PartialEq)]
pub struct Instruction {
    /// Guard, if any.
    pub guard: Option<Guard>,
    /// The mnemonic before the first dot.
    pub opcode: Opcode,
    /// Modifiers after the opcode, without the dots, in text order: `["global", "v4", "f32"]`.
    pub modifiers: Vec<Name>,
    /// Operands in text order.
    pub operands: Vec<Operand>,
    /// Source position of the mnemonic (or of its guard).
    pub span: Span,
}

/// An operand.
#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    /// A register, variable, label, function or special register: `%r1`, `smem`, `$L_1`, `%laneid`,
    /// `%tid.x`.
    Name {
        /// Name without the component: `%tid`.
        name: Name,
        /// `.x .y .z .w .r .g .b .a` selects a component of a vector.
        component: Option<char>,
    },
    /// `r.b0`, `r.h1`, `r.b3210`: bytes or half words of a register, in video instructions.
    Selected {
        /// The register.
        name: Name,
        /// Selector without the dot: `b0`, `h1`, `b3210`.
        selector: Name,
    },
    /// A number.
    Immediate(Immediate),
    /// `[base + offset]`, also `[base][index]`-free forms such as `[tensor, {c0, c1}]`.
    Address(Address),
    /// `name + offset` outside brackets (`mov.u64 %rd1, table+8`).
    NameOffset {
        /// A variable.
        name: Name,
        /// Byte offset.
        offset: i64,
    },
    /// `{a, b, …}`
    Vector(Vec<Operand>),
    /// `d|p`: two destinations.
    Pair(Box<Operand>, Box<Operand>),
    /// `!p`
    Not(Box<Operand>),
    /// `-r` (negated register operand of a few instructions).
    Negate(Box<Operand>),
    /// `_`: a discarded destination.
    Sink,
    /// `(a, b)`: return or argument list of `call`.
    List(Vec<Operand>),
}

/// `[base + offset]`, or `[base, {coordinates}]` for tensor instructions.
#[derive(Debug, Clone, PartialEq)]
pub struct Address {
    /// A register or variable, or a plain number.
    pub base: AddressBase,
    /// Byte offset.
    pub offset: i64,
    /// `{c0, c1, …}` of tensor and texture instructions, and any operand after a comma inside the
    /// brackets.
    pub coordinates: Vec<Operand>,
}

/// The base of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressBase {
    /// A register or a variable.
    Name(Name),
    /// A literal address.
    Immediate(u64),
}

/// A literal number, with the form that decides how it prints.
#[derive(Debug, Clone, Copy)]
pub enum Immediate {
    /// A signed or unsigned integer; all of `i64` and `u64` fit.
    Int(i128),
    /// `0f3F800000`: the bits of an f32.
    F32(u32),
    /// `0d3FF0000000000000` or a decimal literal: the bits of an f64.
    F64(u64),
}

impl PartialEq for Immediate {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::F32(a), Self::F32(b)) => a == b,
            (Self::F64(a), Self::F64(b)) => a == b,
            (Self::Int(_) | Self::F32(_) | Self::F64(_), _) => false,
        }
    }
}

impl Linkage {
    /// Every linkage.
    pub const ALL: &[Self] = &[Self::Extern, Self::Visible, Self::Weak, Self::Common];

    /// Its directive without the dot.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Extern => "extern",
            Self::Visible => "visible",
            Self::Weak => "weak",
            Self::Common => "common",
        }
    }
}

impl StateSpace {
    /// Every state space.
    pub const ALL: &[Self] =
        &[Self::Reg, Self::Const, Self::Global, Self::Local, Self::Param, Self::Shared, Self::Sreg, Self::Tex];

    /// Its directive without the dot.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reg => "reg",
            Self::Const => "const",
            Self::Global => "global",
            Self::Local => "local",
            Self::Param => "param",
            Self::Shared => "shared",
            Self::Sreg => "sreg",
            Self::Tex => "tex",
        }
    }
}

impl Instruction {
    /// Returns true if `modifier` (without its dot) is among the modifiers.
    #[must_use]
    pub fn has(&self, modifier: &str) -> bool {
        self.modifiers.iter().any(|m| m == modifier)
    }

    /// The scalar types among the modifiers, in order (`cvt.rn.f16.f32` gives `[F16, F32]`).
    pub fn types(&self) -> impl Iterator<Item = ScalarType> + '_ {
        self.modifiers.iter().filter_map(|m| ScalarType::from_modifier(m))
    }
}
