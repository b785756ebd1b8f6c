//! Recursive-descent parser; one file per level of the grammar.
//!
//! `module` holds what stands at the top, `declaration` variables and function headers, `statement`
//! bodies, `operand` operands, `constant` the expressions that are evaluated while parsing.

mod constant;
mod declaration;
mod module;
mod operand;
mod statement;

use crate::lexer::{Lexer, Token, TokenKind};
use crate::{Module, Name, ParseError};

/// Maximum nesting depth of scopes, lists and parentheses.
const MAX_DEPTH: u32 = 128;

/// Maximum number of labels that all `prefix<N>` of a module expand to, so that a short text cannot
/// fill the memory.
const MAX_RANGE_LABELS: u32 = 1 << 16;

/// Parses a PTX module.
///
/// # Errors
///
/// The first place that is not PTX. Names are not resolved and types are not checked.
///
/// ```
/// let module = warpfold_ptx::parse(".version 8.0\n.target sm_80\n.address_size 64\n.entry f() { ret; }")?;
/// assert_eq!(module.version, (8, 0));
/// let error = warpfold_ptx::parse(".version 8.0\n.target sm_80\n.entry f() { jump; }").unwrap_err();
/// assert_eq!(error.to_string(), "3:14: expected an instruction, found `jump`");
/// # Ok::<(), warpfold_ptx::ParseError>(())
/// ```
pub fn parse(text: &str) -> Result<Module, ParseError> {
    Parser::new(text).module()
}

type Result<T, E = ParseError> = std::result::Result<T, E>;

/// The parser's state: the text, the current token, and the nesting depth.
struct Parser<'t> {
    text: &'t str,
    lexer: Lexer<'t>,
    token: Token,
    /// End of the previous token.
    last_end: usize,
    depth: u32,
    /// Number of labels that `prefix<N>` may still expand to.
    range_labels: u32,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Self {
        let mut lexer = Lexer::new(text);
        let token = lexer.next();
        Self { text, lexer, token, last_end: 0, depth: 0, range_labels: MAX_RANGE_LABELS }
    }

    /// Takes the current token.
    fn bump(&mut self) -> Token {
        self.last_end = self.token.end;
        std::mem::replace(&mut self.token, self.lexer.next())
    }

    fn text_of(&self, token: Token) -> &'t str {
        &self.text[token.start..token.end]
    }

    /// The text of the current token.
    fn current(&self) -> &'t str {
        self.text_of(self.token)
    }

    /// The error for a current token that the grammar does not allow here.
    fn error<T>(&self, expected: impl Into<String>) -> Result<T> {
        Err(self.error_at(self.token, expected))
    }

    fn error_at(&self, token: Token, expected: impl Into<String>) -> ParseError {
        const LONGEST: usize = 60;
        let text = self.text_of(token);
        let found = match token.kind {
            TokenKind::End => "end of file".to_owned(),
            _ if text.chars().nth(LONGEST).is_some() => text.chars().take(LONGEST).chain(['…']).collect(),
            _ => text.to_owned(),
        };
        let expected = if let TokenKind::Bad(expected) = token.kind { expected.to_owned() } else { expected.into() };
        ParseError { span: token.span, found, expected }
    }

    fn at(&self, symbol: u8) -> bool {
        self.token.kind == TokenKind::Symbol(symbol)
    }

    /// Takes `symbol` if it is there.
    fn accept(&mut self, symbol: u8) -> bool {
        let found = self.at(symbol);
        if found {
            self.bump();
        }
        found
    }

    fn expect(&mut self, symbol: u8) -> Result<Token> {
        if self.at(symbol) { Ok(self.bump()) } else { self.error(format!("`{}`", char::from(symbol))) }
    }

    /// Returns true if the current token is this dotted word.
    fn at_dotted(&self, dotted: &str) -> bool {
        self.token.kind == TokenKind::Dotted && self.current() == dotted
    }

    fn accept_dotted(&mut self, dotted: &str) -> bool {
        let found = self.at_dotted(dotted);
        if found {
            self.bump();
        }
        found
    }

    /// Takes an identifier; `expected` describes it.
    fn name(&mut self, expected: &str) -> Result<Name> {
        if self.token.kind != TokenKind::Word {
            return self.error(expected);
        }
        let token = self.bump();
        Ok(Name::new(self.text_of(token)))
    }

    /// Takes an identifier that is being declared: not the sink.
    fn new_name(&mut self, expected: &str) -> Result<Name> {
        if self.current() == "_" { self.error(expected) } else { self.name(expected) }
    }

    /// Takes a string; its text without the quotes, escapes untouched.
    fn string(&mut self) -> Result<Name> {
        if self.token.kind != TokenKind::Text {
            return self.error("a string");
        }
        let token = self.bump();
        Ok(Name::new(&self.text[token.start + 1..token.end - 1]))
    }

    /// Items separated by commas, up to `close`, which is taken. An empty list is allowed.
    fn list<T>(&mut self, close: u8, item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        if self.accept(close) {
            return Ok(Vec::new());
        }
        let items = self.comma_separated(item)?;
        self.end_of_list(close)?;
        Ok(items)
    }

    /// Takes the token that ends a list of [`Self::comma_separated`] items.
    fn end_of_list(&mut self, close: u8) -> Result<()> {
        if self.accept(close) { Ok(()) } else { self.error(format!("`,` or `{}`", char::from(close))) }
    }

    /// One or more items separated by commas.
    fn comma_separated<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.accept(b',') {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Runs `inner` one level deeper, so that no input can exhaust the stack.
    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == MAX_DEPTH {
            return self.error(format!("at most {MAX_DEPTH} levels of nesting"));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }
}
