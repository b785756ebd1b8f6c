//! Function bodies (PTX ISA, "Statements", "Control Flow Directives").

use super::declaration::Unnamed;
use super::operand::Parenthesis;
use super::{MAX_RANGE_LABELS, Parser, Result};
use crate::lexer::{Token, TokenKind};
use crate::{Guard, Instruction, Name, Opcode, RegisterDeclaration, Statement};

impl Parser<'_> {
    /// `{ statements }`
    pub(super) fn body(&mut self) -> Result<Vec<Statement>> {
        if !self.at(b'{') {
            return self.error("a function directive, `;` or `{`");
        }
        self.scope()
    }

    fn scope(&mut self) -> Result<Vec<Statement>> {
        self.bump();
        let mut statements = Vec::new();
        while !self.accept(b'}') {
            self.statement(&mut statements)?;
        }
        Ok(statements)
    }

    fn statement(&mut self, statements: &mut Vec<Statement>) -> Result<()> {
        let statement = match self.token.kind {
            TokenKind::Word => {
                let word = self.bump();
                if self.accept(b':') { self.labelled(word)? } else { self.instruction(None, word, word)? }
            }
            TokenKind::Symbol(b'@') => self.guarded()?,
            TokenKind::Symbol(b'{') => Statement::Scope(self.nested(Self::scope)?),
            TokenKind::Dotted => return self.directive_statement(statements),
            _ => return self.error("a statement or `}`"),
        };
        statements.push(statement);
        Ok(())
    }

    fn directive_statement(&mut self, statements: &mut Vec<Statement>) -> Result<()> {
        match self.current() {
            ".reg" => statements.push(Statement::Register(self.register()?)),
            ".loc" => {
                // LLVM counts a line of source for each line of inline assembly, of which Triton
                // makes loads and stores: the line before it is right.
                let is_made_up = self.lexer.is_inline_asm();
                let location = self.location()?;
                if !is_made_up {
                    statements.push(location);
                }
            }
            ".pragma" => statements.push(Statement::Pragma(self.pragma()?)),
            _ => {
                let variables = self.variables(None, "a statement or `}`")?;
                statements.extend(variables.into_iter().map(Statement::Variable));
            }
        }
        Ok(())
    }

    /// Parses the statement after `label:`.
    fn labelled(&mut self, label: Token) -> Result<Statement> {
        let name = Name::new(self.text_of(label));
        if self.token.kind != TokenKind::Dotted {
            return Ok(Statement::Label { name, span: label.span });
        }
        let statement = match self.current() {
            ".branchtargets" => {
                self.bump();
                let targets = self.comma_separated(Self::label_range)?.concat();
                Statement::BranchTargets { name, targets }
            }
            ".calltargets" => {
                self.bump();
                Statement::CallTargets { name, targets: self.comma_separated(|p| p.name("a function name"))? }
            }
            ".callprototype" => self.call_prototype(name)?,
            _ => return Ok(Statement::Label { name, span: label.span }),
        };
        self.expect(b';')?;
        Ok(statement)
    }

    /// `label`, or `prefix<N>` for `prefix0 … prefixN-1`.
    fn label_range(&mut self) -> Result<Vec<Name>> {
        let token = self.token;
        let prefix = self.name("a label")?;
        let Some(count) = self.count()? else { return Ok(vec![prefix]) };
        self.range_labels = match self.range_labels.checked_sub(count) {
            Some(left) => left,
            None => return Err(self.error_at(token, format!("at most {MAX_RANGE_LABELS} labels in ranges"))),
        };
        Ok((0..count).map(|i| Name::from(format!("{prefix}{i}"))).collect())
    }

    /// `.callprototype (ret) _ (params) .noreturn`
    fn call_prototype(&mut self, name: Name) -> Result<Statement> {
        self.bump();
        let returns = self.parameters(Unnamed::Allowed)?;
        if self.token.kind != TokenKind::Word || self.current() != "_" {
            return self.error("`_`");
        }
        self.bump();
        let params = self.parameters(Unnamed::Allowed)?;
        let mut directives = Vec::new();
        self.function_directives(&mut directives)?;
        Ok(Statement::CallPrototype { name, returns, params, directives })
    }

    /// `.reg {.v2} .type name, name<N>;`
    fn register(&mut self) -> Result<RegisterDeclaration> {
        self.bump();
        let vector = self.vector();
        let ty = self.scalar_type()?;
        let names = self.comma_separated(|p| Ok((p.new_name("a register name")?, p.count()?)))?;
        self.end_of_list(b';')?;
        Ok(RegisterDeclaration { vector, ty, names })
    }

    /// `.loc file line column {, function_name label {+ offset}, inlined_at file line column}`
    fn location(&mut self) -> Result<Statement> {
        self.bump();
        let (file, line, column) = (self.integer_token_32()?, self.integer_token_32()?, self.integer_token_32()?);
        let rest = if self.accept(b',') { Some(self.inlined()?) } else { None };
        Ok(Statement::Location { file, line, column, rest })
    }

    fn inlined(&mut self) -> Result<Name> {
        self.keyword("function_name")?;
        let label = match self.token.kind {
            TokenKind::Word | TokenKind::Dotted => self.bump(),
            _ => return self.error("a label"),
        };
        let label = self.text_of(label);
        let offset = if self.accept(b'+') { format!("+{}", self.integer_token()?) } else { String::new() };
        self.expect(b',')?;
        self.keyword("inlined_at")?;
        let (file, line, column) = (self.integer_token_32()?, self.integer_token_32()?, self.integer_token_32()?);
        Ok(Name::from(format!("function_name {label}{offset}, inlined_at {file} {line} {column}")))
    }

    fn keyword(&mut self, keyword: &str) -> Result<()> {
        if self.token.kind != TokenKind::Word || self.current() != keyword {
            return self.error(format!("`{keyword}`"));
        }
        self.bump();
        Ok(())
    }

    /// `.pragma "…", "…";`
    pub(super) fn pragma(&mut self) -> Result<Vec<Name>> {
        self.bump();
        let strings = self.comma_separated(Self::string)?;
        self.expect(b';')?;
        Ok(strings)
    }

    /// `@p` or `@!p`, then an instruction.
    fn guarded(&mut self) -> Result<Statement> {
        let start = self.bump();
        let negated = self.accept(b'!');
        let predicate = self.name("a predicate")?;
        if self.token.kind != TokenKind::Word {
            return self.error("an instruction");
        }
        let mnemonic = self.bump();
        self.instruction(Some(Guard { predicate, negated }), start, mnemonic)
    }

    /// The rest of an instruction; `mnemonic` is taken already.
    fn instruction(&mut self, guard: Option<Guard>, start: Token, mnemonic: Token) -> Result<Statement> {
        let Some(opcode) = Opcode::from_mnemonic(self.text_of(mnemonic)) else {
            return Err(self.error_at(mnemonic, "an instruction"));
        };
        let mut modifiers = Vec::new();
        while self.token.kind == TokenKind::Dotted {
            modifiers.push(Name::new(&self.current()[1..]));
            self.bump();
        }
        let parenthesis = if opcode == Opcode::Call { Parenthesis::List } else { Parenthesis::Constant };
        let operands = self.list(b';', |p| p.operand(parenthesis))?;
        Ok(Statement::Instruction(Instruction { guard, opcode, modifiers, operands, span: start.span }))
    }
}
