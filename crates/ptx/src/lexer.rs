//! Lexer: splits text into tokens, one at a time (PTX ISA, "Syntax").
//!
//! Whitespace and comments fall away here. A modifier with its dot is one token (`.shared::cta`,
//! `.2d`), so that the parser never glues pieces together; a decimal fraction that starts with its
//! point (`.05`) looks the same and is read again by [`Lexer::fraction`] where a number is wanted.

use crate::Span;

/// The kind of a token; its text is a slice of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// An identifier: `foo`, `%r1`, `$L__BB0_2`, `_`.
    Word,
    /// A dot and what follows: `.global`, `.shared::cta`, `.2d`.
    Dotted,
    /// An integer in any base.
    Integer,
    /// A float: decimal, `0f…` or `0d…`.
    Float,
    /// A string with its quotes.
    Text,
    /// A whole `@@DWARF …` line.
    Dwarf,
    /// Punctuation of one character.
    Symbol(u8),
    /// Punctuation of two characters.
    Double([u8; 2]),
    /// The end of the input.
    End,
    /// Not a PTX token; holds what was expected here.
    Bad(&'static str),
}

/// A token and its source position.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) span: Span,
}

/// The lexer's position in the text.
#[derive(Debug)]
pub(crate) struct Lexer<'t> {
    bytes: &'t [u8],
    position: usize,
    line: u32,
    line_start: usize,
    /// UTF-8 continuation bytes since `line_start`, which do not count as columns.
    continuation: usize,
    /// True if the latest token is between `// begin inline asm` and `// end inline asm`.
    is_inline_asm: bool,
}

const fn follows(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'
}

impl<'t> Lexer<'t> {
    pub(crate) const fn new(text: &'t str) -> Self {
        Self { bytes: text.as_bytes(), position: 0, line: 1, line_start: 0, continuation: 0, is_inline_asm: false }
    }

    /// The next token.
    pub(crate) fn next(&mut self) -> Token {
        if let Err(token) = self.skip_blank() {
            return token;
        }
        let (start, span) = (self.position, self.span());
        let kind = match self.peek(0) {
            None => TokenKind::End,
            Some(byte) => self.scan(byte),
        };
        Token { kind, start, end: self.position, span }
    }

    /// Reads `token`, a [`TokenKind::Dotted`] and the latest token, again as a fraction without
    /// leading digits.
    pub(crate) fn fraction(&mut self, token: Token) -> Token {
        self.position = token.start + 1;
        self.take_while(|b| b.is_ascii_digit());
        let digits = self.position > token.start + 1;
        let kind =
            if digits && self.exponent() { self.number_end(TokenKind::Float) } else { TokenKind::Bad("a number") };
        Token { kind, end: self.position, ..token }
    }

    fn span(&self) -> Span {
        let column = self.position - self.line_start - self.continuation + 1;
        Span { line: self.line, column: u32::try_from(column).unwrap_or(u32::MAX) }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.position + ahead).copied()
    }

    fn take_while(&mut self, accept: impl Fn(u8) -> bool) {
        while self.peek(0).is_some_and(&accept) {
            self.position += 1;
        }
    }

    /// Advances by one byte, updating line and column.
    fn step(&mut self, byte: u8) {
        self.position += 1;
        if byte == b'\n' {
            self.line = self.line.saturating_add(1);
            self.line_start = self.position;
            self.continuation = 0;
        } else if byte & 0xC0 == 0x80 {
            self.continuation += 1;
        }
    }

    /// Skips whitespace and comments; an unfinished comment is the error.
    fn skip_blank(&mut self) -> Result<(), Token> {
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\n' | b' ' | b'\t' | b'\r' | 0x0B | 0x0C => self.step(byte),
                b'/' if self.peek(1) == Some(b'/') => self.skip_line(),
                b'/' if self.peek(1) == Some(b'*') => self.skip_block_comment()?,
                b'#' if self.is_line_marker() => self.skip_line(),
                _ => break,
            }
        }
        Ok(())
    }

    /// Returns true if the latest token is inline assembly, which compilers mark with comments.
    pub(crate) const fn is_inline_asm(&self) -> bool {
        self.is_inline_asm
    }

    /// Advances to the end of the line.
    fn skip_line(&mut self) {
        for (comment, begins) in [(&b"// begin inline asm"[..], true), (b"// end inline asm", false)] {
            if self.bytes[self.position..].starts_with(comment) {
                self.is_inline_asm = begins;
            }
        }
        while let Some(byte) = self.peek(0).filter(|&b| b != b'\n') {
            self.step(byte);
        }
    }

    /// Returns true at a C preprocessor's line marker: `# 12 "file"` or `#line 12 "file"`.
    fn is_line_marker(&self) -> bool {
        let rest = &self.bytes[self.position + 1..];
        let rest = rest.strip_prefix(b"line").unwrap_or(rest).trim_ascii_start();
        let line_so_far = &self.bytes[self.line_start..self.position];
        line_so_far.trim_ascii().is_empty() && rest.first().is_some_and(u8::is_ascii_digit)
    }

    fn skip_block_comment(&mut self) -> Result<(), Token> {
        let (start, span) = (self.position, self.span());
        self.position += 2;
        loop {
            match self.peek(0) {
                Some(b'*') if self.peek(1) == Some(b'/') => {
                    self.position += 2;
                    return Ok(());
                }
                Some(byte) => self.step(byte),
                None => {
                    let kind = TokenKind::Bad("a comment that ends with */");
                    return Err(Token { kind, start, end: start + 2, span });
                }
            }
        }
    }

    fn scan(&mut self, byte: u8) -> TokenKind {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => self.word(),
            b'_' | b'$' | b'%' if self.peek(1).is_some_and(follows) => self.word(),
            b'_' => self.word(),
            b'0'..=b'9' => self.number(),
            b'.' => self.dotted(),
            b'"' => self.string(),
            b'@' if self.bytes[self.position..].starts_with(b"@@DWARF") => {
                self.skip_line();
                TokenKind::Dwarf
            }
            _ => self.symbol(byte),
        }
    }

    fn word(&mut self) -> TokenKind {
        self.position += 1;
        self.take_while(follows);
        TokenKind::Word
    }

    fn dotted(&mut self) -> TokenKind {
        self.position += 1;
        let start = self.position;
        self.take_while(follows);
        while self.bytes[self.position..].starts_with(b"::") && self.peek(2).is_some_and(follows) {
            self.position += 2;
            self.take_while(follows);
        }
        if self.position > start { TokenKind::Dotted } else { TokenKind::Bad("a name after the dot") }
    }

    fn string(&mut self) -> TokenKind {
        self.position += 1;
        loop {
            match self.peek(0) {
                Some(b'"') => {
                    self.position += 1;
                    return TokenKind::Text;
                }
                Some(b'\\') if self.peek(1).is_some_and(|b| b != b'\n' && b.is_ascii()) => self.position += 2,
                None | Some(b'\n') => return TokenKind::Bad("a string that ends on its line"),
                Some(byte) => self.step(byte),
            }
        }
    }

    fn symbol(&mut self, byte: u8) -> TokenKind {
        if let Some(second) = self.peek(1)
            && matches!(&[byte, second], b"<<" | b">>" | b"<=" | b">=" | b"==" | b"!=" | b"&&" | b"||")
        {
            self.position += 2;
            return TokenKind::Double([byte, second]);
        }
        if b"{}()[],;:=+-*/%!~&|^<>@?".contains(&byte) {
            self.position += 1;
            return TokenKind::Symbol(byte);
        }
        self.position += 1;
        self.take_while(|b| b & 0xC0 == 0x80);
        TokenKind::Bad("PTX")
    }

    fn number(&mut self) -> TokenKind {
        let exactly = |lexer: &mut Self, digits: usize| {
            let start = lexer.position;
            lexer.take_while(|b| b.is_ascii_hexdigit());
            lexer.position - start == digits
        };
        let prefix = if self.peek(0) == Some(b'0') { self.peek(1).map(|b| b.to_ascii_lowercase()) } else { None };
        if matches!(prefix, Some(b'x' | b'b' | b'f' | b'd')) {
            self.position += 2;
        }
        let start = self.position;
        match prefix {
            Some(b'f') if exactly(self, 8) => self.number_end(TokenKind::Float),
            Some(b'd') if exactly(self, 16) => self.number_end(TokenKind::Float),
            Some(b'x') => {
                self.take_while(|b| b.is_ascii_hexdigit());
                self.integer_end(start)
            }
            Some(b'b') => {
                self.take_while(|b| matches!(b, b'0' | b'1'));
                self.integer_end(start)
            }
            Some(b'f' | b'd') => self.bad_number(),
            _ => self.decimal(),
        }
    }

    fn decimal(&mut self) -> TokenKind {
        let start = self.position;
        self.take_while(|b| b.is_ascii_digit());
        let has_point = self.peek(0) == Some(b'.');
        if has_point {
            self.position += 1;
            self.take_while(|b| b.is_ascii_digit());
        }
        if has_point || matches!(self.peek(0), Some(b'e' | b'E')) {
            return if self.exponent() { self.number_end(TokenKind::Float) } else { self.bad_number() };
        }
        let digits = &self.bytes[start..self.position];
        if digits[0] == b'0' && digits.iter().any(|&b| b > b'7') { self.bad_number() } else { self.integer_end(start) }
    }

    /// Reads an exponent if there is one; false if it has no digits.
    fn exponent(&mut self) -> bool {
        if !matches!(self.peek(0), Some(b'e' | b'E')) {
            return true;
        }
        self.position += 1;
        if matches!(self.peek(0), Some(b'+' | b'-')) {
            self.position += 1;
        }
        let start = self.position;
        self.take_while(|b| b.is_ascii_digit());
        self.position > start
    }

    fn integer_end(&mut self, digits_start: usize) -> TokenKind {
        if self.position == digits_start {
            return self.bad_number();
        }
        if self.peek(0) == Some(b'U') {
            self.position += 1;
        }
        self.number_end(TokenKind::Integer)
    }

    /// Checks that a number does not run into a name.
    fn number_end(&mut self, kind: TokenKind) -> TokenKind {
        if self.peek(0).is_some_and(follows) { self.bad_number() } else { kind }
    }

    fn bad_number(&mut self) -> TokenKind {
        self.take_while(follows);
        TokenKind::Bad("a number")
    }
}
