//! Printer: the tree as PTX text, by `Display` of every node.
//!
//! The text is what `ptxas` accepts, and parsing it gives the tree back. An [`Instruction`] stands
//! on one line, so that reports can quote it; statements, functions and modules bring their own
//! line ends.

use std::fmt::{Display, Formatter, Result, Write as _};

use crate::{
    Address, AddressBase, Function, FunctionDirective, FunctionKind, Guard, Immediate, Initializer, Instruction, Item,
    Linkage, Module, Opcode, Operand, PtrAttribute, RegisterDeclaration, ScalarType, StateSpace, Statement, Variable,
};

const INDENT: usize = 4;

/// `items` separated by commas.
fn write_list<T: Display>(f: &mut Formatter<'_>, items: &[T]) -> Result {
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        item.fmt(f)?;
    }
    Ok(())
}

fn write_indent(f: &mut Formatter<'_>, depth: usize) -> Result {
    write!(f, "{:width$}", "", width = depth * INDENT)
}

/// `+offset`, or nothing.
fn write_offset(f: &mut Formatter<'_>, offset: i64) -> Result {
    if offset == 0 { Ok(()) } else { write!(f, "+{offset}") }
}

/// `"a", "b";`
fn write_strings(f: &mut Formatter<'_>, strings: &[crate::Name]) -> Result {
    for (i, string) in strings.iter().enumerate() {
        write!(f, "{}\"{string}\"", if i > 0 { ", " } else { "" })?;
    }
    f.write_char(';')
}

impl Display for Module {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        writeln!(f, ".version {}.{}", self.version.0, self.version.1)?;
        f.write_str(".target ")?;
        write_list(f, &self.target)?;
        writeln!(f, "\n.address_size {}", self.address_size)?;
        let mut previous = None;
        for item in &self.items {
            let is_function = matches!(item, Item::Function(_));
            if is_function || previous != Some(false) {
                writeln!(f)?;
            }
            writeln!(f, "{item}")?;
            previous = Some(is_function);
        }
        Ok(())
    }
}

impl Display for Item {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Function(function) => function.fmt(f),
            Self::Variable(variable) => write!(f, "{variable};"),
            Self::Alias { name, target } => write!(f, ".alias {name}, {target};"),
            Self::Directive(text) => f.write_str(text),
        }
    }
}

/// With its dot.
impl Display for Linkage {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, ".{}", self.name())
    }
}

/// With its dot.
impl Display for StateSpace {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, ".{}", self.name())
    }
}

/// With its dot.
impl Display for ScalarType {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, ".{}", self.name())
    }
}

impl Display for Opcode {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(self.mnemonic())
    }
}

impl Display for Function {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if let Some(linkage) = self.linkage {
            write!(f, "{linkage} ")?;
        }
        f.write_str(if self.kind == FunctionKind::Entry { ".entry " } else { ".func " })?;
        let (before, after): (Vec<_>, Vec<_>) = self.directives.iter().partition(|d| d.name == "attribute");
        for directive in before {
            write!(f, "{directive} ")?;
        }
        if !self.returns.is_empty() {
            f.write_char('(')?;
            write_list(f, &self.returns)?;
            f.write_str(") ")?;
        }
        write!(f, "{}(", self.name)?;
        for (i, param) in self.params.iter().enumerate() {
            write!(f, "{}\n{:INDENT$}{param}", if i > 0 { "," } else { "" }, "")?;
        }
        f.write_str(if self.params.is_empty() { ")" } else { "\n)" })?;
        for directive in after {
            write!(f, "\n{directive}")?;
        }
        match &self.body {
            None => f.write_char(';'),
            Some(body) => {
                f.write_str("\n{\n")?;
                write_body(f, body)?;
                f.write_char('}')
            }
        }
    }
}

/// The statements of a function, with an empty line after the declarations.
fn write_body(f: &mut Formatter<'_>, body: &[Statement]) -> Result {
    let declares = |s: &Statement| matches!(s, Statement::Register(_) | Statement::Variable(_));
    let declarations = body.iter().take_while(|s| declares(s)).count();
    let (head, rest) = body.split_at(declarations);
    write_statements(f, head, 1)?;
    if !head.is_empty() && !rest.is_empty() {
        writeln!(f)?;
    }
    write_statements(f, rest, 1)
}

fn write_statements(f: &mut Formatter<'_>, statements: &[Statement], depth: usize) -> Result {
    for statement in statements {
        write_statement(f, statement, depth)?;
        writeln!(f)?;
    }
    Ok(())
}

/// One statement without its line end; labels stand one level to the left.
fn write_statement(f: &mut Formatter<'_>, statement: &Statement, depth: usize) -> Result {
    let is_label = matches!(statement, Statement::Label { .. });
    write_indent(f, if is_label { depth.saturating_sub(1) } else { depth })?;
    match statement {
        Statement::Label { name, .. } => write!(f, "{name}:"),
        Statement::Register(declaration) => write!(f, "{declaration};"),
        Statement::Variable(variable) => write!(f, "{variable};"),
        Statement::Instruction(instruction) => instruction.fmt(f),
        Statement::Scope(inner) => {
            f.write_str("{\n")?;
            write_statements(f, inner, depth + 1)?;
            write_indent(f, depth)?;
            f.write_char('}')
        }
        Statement::Location { file, line, column, rest } => {
            write!(f, ".loc {file} {line} {column}")?;
            rest.iter().try_for_each(|rest| write!(f, ", {rest}"))
        }
        Statement::Pragma(strings) => {
            f.write_str(".pragma ")?;
            write_strings(f, strings)
        }
        Statement::BranchTargets { name, targets } => {
            write!(f, "{name}: .branchtargets ")?;
            write_list(f, targets)?;
            f.write_char(';')
        }
        Statement::CallTargets { name, targets } => {
            write!(f, "{name}: .calltargets ")?;
            write_list(f, targets)?;
            f.write_char(';')
        }
        Statement::CallPrototype { name, returns, params, directives } => {
            write!(f, "{name}: .callprototype ")?;
            if !returns.is_empty() {
                f.write_char('(')?;
                write_list(f, returns)?;
                f.write_str(") ")?;
            }
            f.write_str("_ (")?;
            write_list(f, params)?;
            f.write_char(')')?;
            directives.iter().try_for_each(|directive| write!(f, " {directive}"))?;
            f.write_char(';')
        }
    }
}

impl Display for Statement {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write_statement(f, self, 0)
    }
}

impl Display for FunctionDirective {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, ".{}", self.name)?;
        match (self.name.as_str(), self.strings.as_slice()) {
            ("attribute", [text]) => return write!(f, "({text})"),
            (_, []) => {}
            (_, strings) => {
                f.write_char(' ')?;
                return write_strings(f, strings);
            }
        }
        if !self.values.is_empty() {
            f.write_char(' ')?;
        }
        write_list(f, &self.values)
    }
}

/// Without the semicolon, as parameters have none.
impl Display for Variable {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if let Some(linkage) = self.linkage {
            write!(f, "{linkage} ")?;
        }
        self.space.fmt(f)?;
        if let Some(attribute) = &self.attribute {
            write!(f, " .attribute({attribute})")?;
        }
        if let Some(align) = self.align {
            write!(f, " .align {align}")?;
        }
        if self.vector > 1 {
            write!(f, " .v{}", self.vector)?;
        }
        write!(f, " {}", self.ty)?;
        if let Some(ptr) = self.ptr {
            write!(f, " {ptr}")?;
        }
        write!(f, " {}", self.name)?;
        if let Some(count) = self.count {
            write!(f, "<{count}>")?;
        }
        for dim in &self.dims {
            match dim {
                Some(dim) => write!(f, "[{dim}]")?,
                None => f.write_str("[]")?,
            }
        }
        match &self.init {
            Some(init) => write!(f, " = {init}"),
            None => Ok(()),
        }
    }
}

impl Display for PtrAttribute {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(".ptr")?;
        if let Some(space) = self.space {
            write!(f, " {space}")?;
        }
        match self.align {
            Some(align) => write!(f, " .align {align}"),
            None => Ok(()),
        }
    }
}

impl Display for Initializer {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::List(items) => {
                f.write_char('{')?;
                write_list(f, items)?;
                f.write_char('}')
            }
            Self::Immediate(value) => value.fmt(f),
            Self::Address { generic, name, offset } => {
                if *generic {
                    write!(f, "generic({name})")?;
                } else {
                    f.write_str(name)?;
                }
                write_offset(f, *offset)
            }
            Self::MaskedAddress { mask, address } => write!(f, "{mask:#X}({address})"),
        }
    }
}

/// Without the semicolon.
impl Display for RegisterDeclaration {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(".reg ")?;
        if self.vector > 1 {
            write!(f, ".v{} ", self.vector)?;
        }
        write!(f, "{} ", self.ty)?;
        for (i, (name, count)) in self.names.iter().enumerate() {
            write!(f, "{}{name}", if i > 0 { ", " } else { "" })?;
            if let Some(count) = count {
                write!(f, "<{count}>")?;
            }
        }
        Ok(())
    }
}

impl Display for Guard {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "@{}{}", if self.negated { "!" } else { "" }, self.predicate)
    }
}

impl Display for Instruction {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if let Some(guard) = &self.guard {
            write!(f, "{guard} ")?;
        }
        f.write_str(self.opcode.mnemonic())?;
        for modifier in &self.modifiers {
            f.write_char('.')?;
            f.write_str(modifier)?;
        }
        if !self.operands.is_empty() {
            f.write_char(' ')?;
        }
        write_list(f, &self.operands)?;
        f.write_char(';')
    }
}

impl Display for Operand {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Name { name, component: None } => f.write_str(name),
            Self::Name { name, component: Some(component) } => write!(f, "{name}.{component}"),
            Self::Selected { name, selector } => write!(f, "{name}.{selector}"),
            Self::Immediate(value) => value.fmt(f),
            Self::Address(address) => address.fmt(f),
            Self::NameOffset { name, offset } => write!(f, "{name}+{offset}"),
            Self::Vector(items) => {
                f.write_char('{')?;
                write_list(f, items)?;
                f.write_char('}')
            }
            Self::Pair(first, second) => write!(f, "{first}|{second}"),
            Self::Not(operand) => write!(f, "!{operand}"),
            Self::Negate(operand) => write!(f, "-{operand}"),
            Self::Sink => f.write_char('_'),
            Self::List(items) => {
                f.write_char('(')?;
                write_list(f, items)?;
                f.write_char(')')
            }
        }
    }
}

impl Display for Address {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "[{}", self.base)?;
        write_offset(f, self.offset)?;
        for coordinate in &self.coordinates {
            write!(f, ", {coordinate}")?;
        }
        f.write_char(']')
    }
}

impl Display for AddressBase {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Immediate(value) => value.fmt(f),
        }
    }
}

/// Floats print their bits, so that no digit is lost.
impl Display for Immediate {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Int(value) => value.fmt(f),
            Self::F32(bits) => write!(f, "0f{bits:08X}"),
            Self::F64(bits) => write!(f, "0d{bits:016X}"),
        }
    }
}
