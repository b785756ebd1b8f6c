//! Source lines: the line of the kernel's author that each instruction comes from.
//!
//! Every operation knows its caller (`#[track_caller]`), and [`super::with`] passes that on. Lines
//! of this crate are not the author's: what the language does on its own counts to the line of the
//! operation that asked for it.

use std::panic::Location;

use warpfold_ptx::{self as ptx, Name, Statement};

/// The place of an operation in Rust source.
pub(crate) type Caller = &'static Location<'static>;

/// Source location of the operation being recorded.
pub(super) struct Author {
    /// The location of the kernel's definition.
    kernel: Caller,
    /// The latest line of user code.
    caller: Caller,
    /// The latest file, and true if it has no user code: few files alternate.
    latest: (*const u8, bool),
}

impl Author {
    pub(super) fn new(caller: Caller) -> Self {
        Self { kernel: caller, caller, latest: (std::ptr::null(), false) }
    }

    pub(super) fn caller(&self) -> Caller {
        self.caller
    }

    /// Attributes what follows to the kernel as a whole.
    pub(super) fn end(&mut self) {
        self.caller = self.kernel;
    }

    /// Starts an operation.
    #[inline]
    pub(super) fn note(&mut self, caller: Caller) {
        let file = caller.file().as_ptr();
        if self.latest.0 != file {
            self.latest = (file, is_nobodys(caller.file()));
        }
        if !self.latest.1 {
            self.caller = caller;
        }
    }
}

/// Returns true if a file has no user code: it is of this crate, or of the standard library, which
/// calls an operation that was passed as a function (`update(Val::exp)`).
fn is_nobodys(file: &str) -> bool {
    file.starts_with("/rustc/") || file.contains("library/core/src") || is_of_this_crate(file)
}

/// Returns true if a file is in the source folder of this crate.
fn is_of_this_crate(file: &str) -> bool {
    let this = file!();
    let folder = this.len() - "recorder/lines.rs".len();
    file.as_bytes().starts_with(&this.as_bytes()[..folder])
}

/// The `.file` and `.loc` of a kernel.
#[derive(Default)]
pub(super) struct Lines {
    files: Vec<&'static str>,
    /// The locations of the latest `.loc` of the body and of the prologue.
    latest: [Option<Caller>; 2],
}

impl Lines {
    /// The `.loc` for an instruction of the body or the prologue, unless the one before is of the
    /// same line: a column for each operator would make the text half as long again.
    pub(super) fn location(&mut self, caller: Caller, in_prologue: bool) -> Option<Statement> {
        let latest = &mut self.latest[usize::from(in_prologue)];
        if latest.is_some_and(|latest| latest.line() == caller.line() && latest.file() == caller.file()) {
            return None;
        }
        *latest = Some(caller);
        let at = self.files.iter().position(|file| *file == caller.file()).unwrap_or_else(|| {
            self.files.push(caller.file());
            self.files.len() - 1
        });
        let file = u32::try_from(at + 1).expect("few files");
        Some(Statement::Location { file, line: caller.line(), column: caller.column(), rest: None })
    }

    /// The `.file` directives of the files named so far.
    pub(super) fn items(&self) -> impl Iterator<Item = ptx::Item> {
        let items = self.files.iter().enumerate();
        items.map(|(at, file)| {
            let file = file.replace('\\', "/").replace('"', "_");
            ptx::Item::Directive(Name::from(format!(".file {} \"{file}\"", at + 1)))
        })
    }
}

/// Removes locations that no instruction follows.
pub(super) fn without_idle(statements: &mut Vec<Statement>) {
    let is_location = |statement: Option<&Statement>| matches!(statement, Some(Statement::Location { .. }));
    let idle: Vec<bool> = (0..statements.len())
        .map(|at| {
            is_location(statements.get(at)) && (at + 1 == statements.len() || is_location(statements.get(at + 1)))
        })
        .collect();
    let mut idle = idle.into_iter();
    statements.retain(|_| !idle.next().unwrap_or(false));
}
