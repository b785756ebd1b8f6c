//! Statements at module scope (PTX ISA, "PTX Module Directives", "Debugging Directives").

use super::{Parser, Result};
use crate::lexer::TokenKind;
use crate::{Item, Module, Name};

impl Parser<'_> {
    pub(super) fn module(mut self) -> Result<Module> {
        let version = self.version()?;
        if !self.accept_dotted(".target") {
            return self.error("`.target`");
        }
        let target = self.comma_separated(|p| p.name("a target such as `sm_90`"))?;
        // The PTX ISA lets the address size default to 32 bits.
        let address_size = if self.accept_dotted(".address_size") { self.address_size()? } else { 32 };
        let mut items = Vec::new();
        while self.token.kind != TokenKind::End {
            self.item(&mut items)?;
        }
        Ok(Module { version, target, address_size, items })
    }

    fn version(&mut self) -> Result<(u32, u32)> {
        if !self.accept_dotted(".version") {
            return self.error("`.version`");
        }
        let version = self.current().split_once('.').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        match version {
            Some(version) if self.token.kind == TokenKind::Float => {
                self.bump();
                Ok(version)
            }
            _ => self.error("a version such as `8.0`"),
        }
    }

    fn address_size(&mut self) -> Result<u32> {
        let token = self.token;
        match self.integer_token_32()? {
            size @ (32 | 64) => Ok(size),
            _ => Err(self.error_at(token, "`32` or `64`")),
        }
    }

    fn item(&mut self, items: &mut Vec<Item>) -> Result<()> {
        match (self.token.kind, self.current()) {
            (TokenKind::Dwarf, line) => {
                items.push(Item::Directive(Name::new(line.trim_end())));
                self.bump();
            }
            (TokenKind::Dotted, ".file") => items.push(self.directive(Self::file)?),
            (TokenKind::Dotted, ".section") => items.push(self.directive(Self::section)?),
            (TokenKind::Dotted, ".pragma") => items.push(self.directive(|p| p.pragma().map(drop))?),
            (TokenKind::Dotted, ".alias") => items.push(self.alias()?),
            (TokenKind::Dotted, _) => self.declaration(items)?,
            _ => return self.error("a directive"),
        }
        Ok(())
    }

    /// Runs `parse` and keeps the text that it took.
    fn directive(&mut self, parse: impl FnOnce(&mut Self) -> Result<()>) -> Result<Item> {
        let start = self.token.start;
        parse(self)?;
        let text = self.text[start..self.last_end].trim_end();
        Ok(Item::Directive(Name::new(text)))
    }

    /// `.file index "name" {, timestamp, size}`
    fn file(&mut self) -> Result<()> {
        self.bump();
        self.integer_token()?;
        self.string()?;
        if self.accept(b',') {
            self.integer_token()?;
            self.expect(b',')?;
            self.integer_token()?;
        }
        Ok(())
    }

    /// `.section name { … }`: DWARF data, which is skipped.
    fn section(&mut self) -> Result<()> {
        self.bump();
        match self.token.kind {
            TokenKind::Dotted | TokenKind::Word => self.bump(),
            _ => return self.error("a section name"),
        };
        self.expect(b'{')?;
        loop {
            match self.token.kind {
                TokenKind::Symbol(b'}') => break,
                TokenKind::Word | TokenKind::Dotted | TokenKind::Integer => self.bump(),
                TokenKind::Symbol(b',' | b':' | b'+' | b'-' | b'(' | b')') => self.bump(),
                _ => return self.error("DWARF data or `}`"),
            };
        }
        self.bump();
        Ok(())
    }

    fn alias(&mut self) -> Result<Item> {
        self.bump();
        let name = self.name("a function name")?;
        self.expect(b',')?;
        let target = self.name("a function name")?;
        self.expect(b';')?;
        Ok(Item::Alias { name, target })
    }

    /// An integer that is a single token.
    pub(super) fn integer_token(&mut self) -> Result<u64> {
        let token = self.token;
        if token.kind != TokenKind::Integer {
            return self.error("an integer");
        }
        let value = self.literal()?;
        value.to_u64().ok_or_else(|| self.error_at(token, "an integer of 64 bits"))
    }

    /// An integer that is a single token and fits 32 bits.
    pub(super) fn integer_token_32(&mut self) -> Result<u32> {
        let token = self.token;
        let value = self.integer_token()?;
        u32::try_from(value).map_err(|_| self.error_at(token, "an integer of 32 bits"))
    }
}
