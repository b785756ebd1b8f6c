//! PTX as data: a tree ([`Module`]), a parser ([`parse`]), a printer (`Display` of the tree), a
//! check of names ([`verify()`]).
//!
//! Start with [`ast`]. What the ISA says beside its syntax is in `isa.rs`. This crate knows no kernel and no device; the parser resolves no names, and
//! nothing here checks the types of operands. `parse(print(m)) == m` for every tree that the parser
//! gives. The specification is the PTX ISA; section names in comments refer to it. Two things of it
//! that no compiler writes do not parse: elements as operands (`table[4]`) and `.align` on
//! registers.

pub mod ast;
mod isa;
mod lexer;
mod opcode;
mod parser;
mod print;
mod source;
mod span;
mod types;
mod verify;
mod walk;

pub use ast::*;
pub use isa::{Arch, Major, Order, Scope, UnknownArch};
pub use opcode::Opcode;
pub use parser::parse;
pub use source::{Source, SourceLine, Sources};
pub use span::Span;
pub use types::ScalarType;
pub use verify::{Finding, Problem, verify};
pub use walk::Statements;

/// A name or a piece of text; short ones are stored inline.
pub type Name = smol_str::SmolStr;

/// A syntax error: the token found, its position, and the tokens expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{span}: expected {expected}, found {}", quoted(found))]
pub struct ParseError {
    /// Line and column of the offending token.
    pub span: Span,
    /// The offending token as written (`end of file` at the end).
    pub found: String,
    /// The tokens that are expected there.
    pub expected: String,
}

/// Quotes a token; the end of the file stays unquoted.
fn quoted(found: &str) -> String {
    if found == "end of file" { found.to_owned() } else { format!("`{found}`") }
}
