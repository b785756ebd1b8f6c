//! Operands (PTX ISA, "Instruction Operands").

use super::{Parser, Result};
use crate::lexer::TokenKind;
use crate::{Address, AddressBase, Immediate, Name, Operand};

/// Meaning of a parenthesis at the start of an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parenthesis {
    /// The argument list of a call.
    List,
    /// A constant expression.
    Constant,
}

impl Parser<'_> {
    pub(super) fn operand(&mut self, parenthesis: Parenthesis) -> Result<Operand> {
        let operand = self.nested(|p| p.single_operand(parenthesis))?;
        if !self.accept(b'|') {
            return Ok(operand);
        }
        let second = self.nested(|p| p.single_operand(Parenthesis::Constant))?;
        Ok(Operand::Pair(Box::new(operand), Box::new(second)))
    }

    fn single_operand(&mut self, parenthesis: Parenthesis) -> Result<Operand> {
        match self.token.kind {
            TokenKind::Word if self.current() == "WARP_SZ" => self.immediate().map(Operand::Immediate),
            TokenKind::Word => self.name_operand(),
            TokenKind::Symbol(b'[') => self.address().map(Operand::Address),
            TokenKind::Symbol(b'{') => {
                self.bump();
                let elements = self.comma_separated(Self::list_element)?;
                self.end_of_list(b'}')?;
                Ok(Operand::Vector(elements))
            }
            TokenKind::Symbol(b'(') if parenthesis == Parenthesis::List => {
                self.bump();
                self.list(b')', Self::list_element).map(Operand::List)
            }
            TokenKind::Symbol(b'!' | b'-') => self.signed_operand(),
            TokenKind::Integer | TokenKind::Float | TokenKind::Dotted | TokenKind::Symbol(b'(' | b'+' | b'~') => {
                self.immediate().map(Operand::Immediate)
            }
            _ => self.error("an operand"),
        }
    }

    fn list_element(&mut self) -> Result<Operand> {
        self.operand(Parenthesis::Constant)
    }

    /// `!p`, `-r`, or a constant expression that starts with such a sign.
    fn signed_operand(&mut self) -> Result<Operand> {
        let sign = self.bump();
        if self.token.kind != TokenKind::Word || self.current() == "WARP_SZ" {
            return self.constant_after(sign).map(Operand::Immediate);
        }
        let operand = Box::new(self.name_operand()?);
        Ok(if sign.kind == TokenKind::Symbol(b'!') { Operand::Not(operand) } else { Operand::Negate(operand) })
    }

    /// `name`, `name.x`, `name.h0`, `name + offset`, `_`.
    fn name_operand(&mut self) -> Result<Operand> {
        let name = self.name("a name")?;
        match self.token.kind {
            TokenKind::Dotted => self.component(name),
            TokenKind::Symbol(b'+') => Ok(Operand::NameOffset { name, offset: self.offset()? }),
            _ if name == "_" => Ok(Operand::Sink),
            _ => Ok(Operand::Name { name, component: None }),
        }
    }

    fn component(&mut self, name: Name) -> Result<Operand> {
        let text = &self.current()[1..];
        let operand = match text.as_bytes() {
            [letter @ (b'x' | b'y' | b'z' | b'w' | b'r' | b'g' | b'b' | b'a')] => {
                Operand::Name { name, component: Some(char::from(*letter)) }
            }
            [b'b', digits @ ..]
                if (1..=4).contains(&digits.len()) && digits.iter().all(|d| (b'0'..=b'7').contains(d)) =>
            {
                Operand::Selected { name, selector: Name::new(text) }
            }
            [b'h', digits @ ..]
                if (1..=2).contains(&digits.len()) && digits.iter().all(|d| (b'0'..=b'3').contains(d)) =>
            {
                Operand::Selected { name, selector: Name::new(text) }
            }
            _ => return self.error("a component such as `.x`"),
        };
        self.bump();
        Ok(operand)
    }

    /// `[base + offset, coordinates…]`
    fn address(&mut self) -> Result<Address> {
        self.bump();
        let (base, offset) = self.address_base()?;
        let coordinates = if self.accept(b',') { self.comma_separated(Self::list_element)? } else { Vec::new() };
        if !self.at(b']') {
            return self.error("`+`, `,` or `]`");
        }
        self.bump();
        Ok(Address { base, offset, coordinates })
    }

    fn address_base(&mut self) -> Result<(AddressBase, i64)> {
        if self.token.kind == TokenKind::Word && self.current() != "WARP_SZ" {
            let name = self.name("a name")?;
            return Ok((AddressBase::Name(name), self.offset()?));
        }
        if !matches!(
            self.token.kind,
            TokenKind::Integer | TokenKind::Word | TokenKind::Symbol(b'(' | b'+' | b'-' | b'~')
        ) {
            return self.error("an address");
        }
        let token = self.token;
        match self.immediate()? {
            Immediate::Int(value) => Ok((AddressBase::Immediate(wrap(value)), 0)),
            Immediate::F32(_) | Immediate::F64(_) => Err(self.error_at(token, "an address")),
        }
    }
}

/// The 64 bits of an integer that an expression gave.
const fn wrap(value: i128) -> u64 {
    value as u64
}
