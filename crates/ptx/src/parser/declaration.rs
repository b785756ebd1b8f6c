//! Variables, parameters, initial values and function headers (PTX ISA, "State Spaces, Types, and
//! Variables").

use super::{Parser, Result};
use crate::lexer::TokenKind;
use crate::{
    Function, FunctionDirective, FunctionKind, Initializer, Item, Linkage, Name, PtrAttribute, ScalarType, StateSpace,
    Variable,
};

/// The part of a variable declaration before its name.
#[derive(Debug, Clone)]
struct Prefix {
    linkage: Option<Linkage>,
    space: StateSpace,
    align: Option<u32>,
    vector: u32,
    ty: ScalarType,
    ptr: Option<PtrAttribute>,
    attribute: Option<Name>,
}

/// Rule for parameters called `_`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unnamed {
    /// Allowed: in call prototypes.
    Allowed,
    /// Forbidden: everywhere else.
    Forbidden,
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

    fn linkage(&mut self) -> Option<Linkage> {
        self.dotted_from(Linkage::ALL, Linkage::name)
    }

    /// Takes the current token if it names one of `all`.
    fn dotted_from<T: Copy>(&mut self, all: &[T], name: impl Fn(T) -> &'static str) -> Option<T> {
        if self.token.kind != TokenKind::Dotted {
            return None;
        }
        let text = &self.current()[1..];
        let found = all.iter().copied().find(|&candidate| name(candidate) == text)?;
        self.bump();
        Some(found)
    }

    /// `.space … name, name = value…;`; `expected` is the error text if there is no state space.
    pub(super) fn variables(&mut self, linkage: Option<Linkage>, expected: &str) -> Result<Vec<Variable>> {
        let prefix = self.prefix(linkage, expected)?;
        let variables = self.comma_separated(|p| {
            let mut variable = p.declarator(&prefix, Unnamed::Forbidden)?;
            // A set of variables has no initial value.
            if variable.count.is_none() && p.accept(b'=') {
                variable.init = Some(p.initializer()?);
            }
            Ok(variable)
        })?;
        self.end_of_list(b';')?;
        Ok(variables)
    }

    /// `.param .b64 .ptr .global .align 8 name` and the like, in a parameter list.
    fn parameter(&mut self, unnamed: Unnamed) -> Result<Variable> {
        if !matches!(self.current(), ".param" | ".reg") {
            return self.error("`.param` or `.reg`");
        }
        let prefix = self.prefix(None, "`.param` or `.reg`")?;
        self.declarator(&prefix, unnamed)
    }

    /// `{.align N} .space {.attribute(…)} {.align N} {.v4} .type {.ptr …}`
    fn prefix(&mut self, linkage: Option<Linkage>, expected: &str) -> Result<Prefix> {
        let mut align = self.align()?;
        let Some(space) = self.space() else { return self.error(expected) };
        let mut attribute = None;
        loop {
            match self.current() {
                ".align" if align.is_none() => align = self.align()?,
                ".attribute" if attribute.is_none() => attribute = Some(self.attribute()?),
                _ => break,
            }
        }
        let vector = self.vector();
        let ty = self.scalar_type()?;
        let ptr = if self.accept_dotted(".ptr") {
            Some(PtrAttribute { space: self.space(), align: self.align()? })
        } else {
            None
        };
        Ok(Prefix { linkage, space, align, vector, ty, ptr, attribute })
    }

    fn space(&mut self) -> Option<StateSpace> {
        self.dotted_from(StateSpace::ALL, StateSpace::name)
    }

    /// `.v2` or `.v4`; 1 when there is none.
    pub(super) fn vector(&mut self) -> u32 {
        if self.accept_dotted(".v2") {
            2
        } else if self.accept_dotted(".v4") {
            4
        } else {
            1
        }
    }

    pub(super) fn scalar_type(&mut self) -> Result<ScalarType> {
        let text = if self.token.kind == TokenKind::Dotted { &self.current()[1..] } else { "" };
        let Some(ty) = ScalarType::from_modifier(text) else { return self.error("a type") };
        self.bump();
        Ok(ty)
    }

    /// `.align N`, if it is there.
    fn align(&mut self) -> Result<Option<u32>> {
        if self.accept_dotted(".align") { self.integer_token_32().map(Some) } else { Ok(None) }
    }

    /// `.attribute(…)`: the text between the parentheses.
    fn attribute(&mut self) -> Result<Name> {
        self.bump();
        self.expect(b'(')?;
        let start = self.token.start;
        self.comma_separated(|p| {
            if p.token.kind != TokenKind::Dotted {
                return p.error("an attribute such as `.managed`");
            }
            p.bump();
            if p.accept(b'(') {
                p.list(b')', |p| p.integer_token())?;
            }
            Ok(())
        })?;
        let text = Name::new(&self.text[start..self.last_end]);
        self.expect(b')')?;
        Ok(text)
    }

    /// `name`, `name<N>`, `name[2][3]`.
    fn declarator(&mut self, prefix: &Prefix, unnamed: Unnamed) -> Result<Variable> {
        let span = self.token.span;
        let name = match unnamed {
            Unnamed::Allowed => self.name("a name or `_`")?,
            Unnamed::Forbidden => self.new_name("a name")?,
        };
        let count = self.count()?;
        let dims = if count.is_none() { self.dims()? } else { Vec::new() };
        let Prefix { linkage, space, align, vector, ty, ptr, attribute } = prefix.clone();
        Ok(Variable { linkage, space, align, vector, ty, ptr, name, count, dims, init: None, attribute, span })
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
        match self.token.kind {
            TokenKind::Symbol(b'{') => {
                self.bump();
                self.list(b'}', |p| p.nested(Self::initializer)).map(Initializer::List)
            }
            TokenKind::Integer => self.masked_or_number(),
            _ => self.initial_value(),
        }
    }

    /// `0xFF00(address)`, or an expression that starts with an integer.
    fn masked_or_number(&mut self) -> Result<Initializer> {
        let token = self.token;
        let number = self.literal()?;
        if !self.accept(b'(') {
            return self.immediate_from(number).map(Initializer::Immediate);
        }
        let Some(mask) = number.to_u64() else { return Err(self.error_at(token, "a mask")) };
        let address = Box::new(self.initial_value()?);
        self.expect(b')')?;
        Ok(Initializer::MaskedAddress { mask, address })
    }

    /// A number, `name + offset` or `generic(name) + offset`.
    fn initial_value(&mut self) -> Result<Initializer> {
        if self.token.kind != TokenKind::Word || self.current() == "WARP_SZ" {
            return self.immediate().map(Initializer::Immediate);
        }
        let mut name = self.name("a name")?;
        let generic = name == "generic" && self.accept(b'(');
        if generic {
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
        let returns = if kind == FunctionKind::Func { self.parameters(Unnamed::Forbidden)? } else { Vec::new() };
        let span = self.token.span;
        let name = self.new_name("a function name")?;
        let params = self.parameters(Unnamed::Forbidden)?;
        self.function_directives(&mut directives)?;
        let body = if self.accept(b';') { None } else { Some(self.body()?) };
        Ok(Function { linkage, kind, returns, name, params, directives, body, span })
    }

    /// `( parameter, … )`, or nothing.
    pub(super) fn parameters(&mut self, unnamed: Unnamed) -> Result<Vec<Variable>> {
        if self.accept(b'(') { self.list(b')', |p| p.parameter(unnamed)) } else { Ok(Vec::new()) }
    }

    /// `.maxntid 128, 1, 1 .noreturn …`
    pub(super) fn function_directives(&mut self, directives: &mut Vec<FunctionDirective>) -> Result<()> {
        while self.token.kind == TokenKind::Dotted {
            let text = self.current();
            if text == ".pragma" {
                let strings = self.pragma()?;
                directives.push(FunctionDirective { name: Name::new_static("pragma"), values: Vec::new(), strings });
                continue;
            }
            let Some((_, arguments)) = FUNCTION_DIRECTIVES.iter().find(|(name, _)| *name == &text[1..]) else { break };
            self.bump();
            let mut values = Vec::new();
            while values.len() < *arguments && (values.is_empty() || self.accept(b',')) {
                values.push(self.integer_token()?);
            }
            directives.push(FunctionDirective { name: Name::new(&text[1..]), values, strings: Vec::new() });
        }
        Ok(())
    }
}

/// Directives between the parameters and the body, each with the most numbers it takes; it takes at
/// least one unless that is zero.
const FUNCTION_DIRECTIVES: &[(&str, usize)] = &[
    ("maxntid", 3),
    ("reqntid", 3),
    ("reqnctapercluster", 3),
    ("maxnreg", 1),
    ("minnctapersm", 1),
    ("maxnctapersm", 1),
    ("maxclusterrank", 1),
    ("abi_preserve", 1),
    ("abi_preserve_control", 1),
    ("noreturn", 0),
    ("explicitcluster", 0),
    ("blocksareclusters", 0),
];
