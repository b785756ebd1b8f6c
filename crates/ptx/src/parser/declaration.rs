//! Variables, parameters, initial values and function headers (PTX ISA, "State Spaces, Types, and Variables").

use super::{Parser, Result};
use crate::lexer::{Token, TokenKind};
use crate::{
    Function, FunctionDirective, FunctionKind, Initializer, Item, Linkage, Name, PtrAttribute, ScalarType, StateSpace,
    Variable,
};

/// What stands before the name of a variable.
#[derive(Debug, Clone, Default)]
struct Prefix {
    linkage: Option<Linkage>,
    space: Option<StateSpace>,
    align: Option<u32>,
    vector: Option<u32>,
    ty: Option<ScalarType>,
    ptr: Option<PtrAttribute>,
    attribute: Option<Name>,
}

fn linkage(dotted: &str) -> Option<Linkage> {
    Linkage::ALL.iter().copied().find(|l| l.name() == &dotted[1..])
}

pub(super) fn space(dotted: &str) -> Option<StateSpace> {
    StateSpace::ALL.iter().copied().find(|s| s.name() == &dotted[1..])
}

impl Parser<'_> {
    /// A function or a list of variables at module scope.
    pub(super) fn declaration(&mut self, items: &mut Vec<Item>) -> Result<()> {
        let linkage = self.linkage();
        match self.current() {
            ".entry" => items.push(Item::Function(self.function(linkage, FunctionKind::Entry)?)),
            ".func" => items.push(Item::Function(self.function(linkage, FunctionKind::Func)?)),
            _ => {
                let expected = if linkage.is_some() { "`.entry`, `.func` or a state space" } else { "a directive" };
                items.extend(self.variables(linkage, expected)?.into_iter().map(Item::Variable));
            }
        }
        Ok(())
    }

    pub(super) fn linkage(&mut self) -> Option<Linkage> {
        let found = if self.token.kind == TokenKind::Dotted { linkage(self.current()) } else { None };
        if found.is_some() {
            self.bump();
        }
        found
    }

    /// `.space … name, name…;`
    pub(super) fn variables(&mut self, linkage: Option<Linkage>, expected: &str) -> Result<Vec<Variable>> {
        if self.token.kind != TokenKind::Dotted || space(self.current()).is_none() {
            return self.error(expected);
        }
        let prefix = self.prefix(linkage)?;
        let variables = self.comma_separated(|p| {
            let mut variable = p.declarator(&prefix)?;
            if p.accept(b'=') {
                variable.init = Some(p.initializer()?);
            }
            Ok(variable)
        })?;
        if !self.at(b';') {
            return self.error("`,` or `;`");
        }
        self.bump();
        Ok(variables)
    }

    /// `.param .b64 .ptr .global .align 8 name` and the like, in a parameter list.
    fn parameter(&mut self) -> Result<Variable> {
        let prefix = match self.current() {
            ".param" | ".reg" => self.prefix(None)?,
            _ => return self.error("`.param` or `.reg`"),
        };
        if matches!(self.token.kind, TokenKind::Symbol(b',' | b')' | b'[')) {
            let mut variable = prefix.variable(Name::default(), self.token)?;
            variable.dims = self.dims()?;
            return Ok(variable);
        }
        self.declarator(&prefix)
    }

    /// State space, alignment, vector size, type and attributes, in any order that starts with the space.
    fn prefix(&mut self, linkage: Option<Linkage>) -> Result<Prefix> {
        let mut prefix = Prefix { linkage, ..Prefix::default() };
        while self.token.kind == TokenKind::Dotted {
            let text = self.current();
            match text {
                ".align" if prefix.align.is_none() => {
                    self.bump();
                    prefix.align = Some(self.constant_u32()?);
                    continue;
                }
                ".ptr" if prefix.ptr.is_none() => {
                    prefix.ptr = Some(self.ptr_attribute()?);
                    continue;
                }
                ".attribute" if prefix.attribute.is_none() => {
                    prefix.attribute = Some(self.attribute()?);
                    continue;
                }
                ".v2" | ".v4" if prefix.vector.is_none() => {
                    prefix.vector = Some(u32::from(text.as_bytes()[2] - b'0'));
                }
                _ if prefix.space.is_none() && space(text).is_some() => prefix.space = space(text),
                _ => match ScalarType::from_modifier(&text[1..]).filter(|_| prefix.ty.is_none()) {
                    Some(ty) => prefix.ty = Some(ty),
                    None => return self.error(if prefix.ty.is_some() { "a name" } else { "a type" }),
                },
            }
            self.bump();
        }
        if prefix.ty.is_none() {
            return self.error("a type");
        }
        Ok(prefix)
    }

    /// `.ptr {.space} {.align N}`
    fn ptr_attribute(&mut self) -> Result<PtrAttribute> {
        self.bump();
        let pointee = if self.token.kind == TokenKind::Dotted { space(self.current()) } else { None };
        if pointee.is_some() {
            self.bump();
        }
        let align = if self.accept_dotted(".align") { Some(self.constant_u32()?) } else { None };
        Ok(PtrAttribute { space: pointee, align })
    }

    /// `.attribute(…)`: the text between the parentheses.
    pub(super) fn attribute(&mut self) -> Result<Name> {
        self.bump();
        self.expect(b'(')?;
        let start = self.token.start;
        self.comma_separated(|p| {
            if p.token.kind != TokenKind::Dotted {
                return p.error("an attribute such as `.managed`");
            }
            p.bump();
            if p.accept(b'(') {
                p.list(b')', |p| p.constant_u64())?;
            }
            Ok(())
        })?;
        let text = Name::new(&self.text[start..self.last_end]);
        self.expect(b')')?;
        Ok(text)
    }

    /// `name`, `name<N>`, `name[2][3]`.
    fn declarator(&mut self, prefix: &Prefix) -> Result<Variable> {
        let token = self.token;
        let name = self.name("a name")?;
        let mut variable = prefix.variable(name, token)?;
        variable.count = self.count()?;
        variable.dims = self.dims()?;
        Ok(variable)
    }

    /// `<N>` after a name.
    pub(super) fn count(&mut self) -> Result<Option<u32>> {
        if !self.accept(b'<') {
            return Ok(None);
        }
        let count = self.integer_token_32()?;
        self.expect(b'>')?;
        Ok(Some(count))
    }

    fn dims(&mut self) -> Result<Vec<Option<u64>>> {
        let mut dims = Vec::new();
        while self.accept(b'[') {
            dims.push(if self.at(b']') { None } else { Some(self.constant_u64()?) });
            self.expect(b']')?;
        }
        Ok(dims)
    }

    fn initializer(&mut self) -> Result<Initializer> {
        if self.accept(b'{') {
            return Ok(Initializer::List(self.list(b'}', |p| p.nested(Self::initializer))?));
        }
        if self.token.kind == TokenKind::Word && self.current() != "WARP_SZ" {
            return self.initial_address();
        }
        if self.token.kind != TokenKind::Integer {
            return self.immediate().map(Initializer::Immediate);
        }
        self.masked_or_number()
    }

    /// `0xFF00(address)`, or an expression that starts with an integer.
    fn masked_or_number(&mut self) -> Result<Initializer> {
        let token = self.token;
        let number = self.literal()?;
        if !self.accept(b'(') {
            return self.immediate_from(number).map(Initializer::Immediate);
        }
        let Some(mask) = number.to_u64() else { return Err(self.error_at(token, "a mask")) };
        let address = if self.token.kind == TokenKind::Word && self.current() != "WARP_SZ" {
            self.initial_address()?
        } else {
            Initializer::Immediate(self.immediate()?)
        };
        self.expect(b')')?;
        Ok(Initializer::MaskedAddress { mask, address: Box::new(address) })
    }

    /// `name + offset` or `generic(name) + offset`.
    fn initial_address(&mut self) -> Result<Initializer> {
        let mut name = self.name("a name")?;
        let generic = name == "generic" && self.at(b'(');
        if generic {
            self.bump();
            name = self.name("a name")?;
            self.expect(b')')?;
        }
        Ok(Initializer::Address { generic, name, offset: self.offset()? })
    }

    fn function(&mut self, linkage: Option<Linkage>, kind: FunctionKind) -> Result<Function> {
        self.bump();
        let mut directives = Vec::new();
        if self.at_dotted(".attribute") {
            let strings = vec![self.attribute()?];
            directives.push(FunctionDirective { name: Name::new_static("attribute"), values: Vec::new(), strings });
        }
        let returns = if kind == FunctionKind::Func { self.parameters()? } else { Vec::new() };
        let span = self.token.span;
        let name = self.name("a function name")?;
        let params = self.parameters()?;
        self.function_directives(&mut directives)?;
        let body = if self.accept(b';') { None } else { Some(self.body()?) };
        Ok(Function { linkage, kind, returns, name, params, directives, body, span })
    }

    /// `( parameter, … )`, or nothing.
    pub(super) fn parameters(&mut self) -> Result<Vec<Variable>> {
        if self.accept(b'(') { self.list(b')', Self::parameter) } else { Ok(Vec::new()) }
    }

    /// `.maxntid 128, 1, 1 .noreturn …`
    pub(super) fn function_directives(&mut self, directives: &mut Vec<FunctionDirective>) -> Result<()> {
        while self.token.kind == TokenKind::Dotted {
            let (mut values, mut strings) = (Vec::new(), Vec::new());
            let name = match self.current() {
                ".pragma" => {
                    strings = self.pragma()?;
                    Name::new_static("pragma")
                }
                text @ (".noreturn" | ".explicitcluster" | ".blocksareclusters") => {
                    self.bump();
                    Name::new(&text[1..])
                }
                text @ (".maxntid"
                | ".reqntid"
                | ".reqnctapercluster"
                | ".maxnreg"
                | ".minnctapersm"
                | ".maxnctapersm"
                | ".maxclusterrank"
                | ".abi_preserve"
                | ".abi_preserve_control") => {
                    self.bump();
                    values = self.comma_separated(Self::constant_u64)?;
                    Name::new(&text[1..])
                }
                _ => return self.error("a function directive, `;` or `{`"),
            };
            directives.push(FunctionDirective { name, values, strings });
        }
        Ok(())
    }
}

impl Prefix {
    fn variable(&self, name: Name, token: Token) -> Result<Variable> {
        Ok(Variable {
            linkage: self.linkage,
            space: self.space.unwrap_or(StateSpace::Reg),
            align: self.align,
            vector: self.vector.unwrap_or(1),
            ty: self.ty.unwrap_or(ScalarType::B8),
            ptr: self.ptr,
            name,
            count: None,
            dims: Vec::new(),
            init: None,
            attribute: self.attribute.clone(),
            span: token.span,
        })
    }
}
