//! Source locations of instructions: `.file` and `.loc`, as compilers write them.
//!
//! The specification is the PTX ISA, "Debugging Directives". A compiler that inlines says of each
//! instruction where it stands and where that function was called; the caller's own call was said
//! before, in a `.loc` of its own, so that a whole chain of calls comes together here.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path};
use std::sync::Arc;

use crate::{Item, Module, Name, Statement};

/// A line of a source file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceLine {
    /// The file, as in `.file`.
    pub file: Name,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1; 0 if it is not given.
    pub column: u32,
    /// The function that the line belongs to, mangled, if it was inlined.
    pub function: Option<Name>,
}

impl SourceLine {
    /// Returns true if the file belongs to a compiler's library.
    fn is_of_library(&self) -> bool {
        LIBRARIES.iter().any(|part| self.file.contains(part))
    }

    /// Short name of the file: without folders if the path is absolute, or a library's.
    #[must_use]
    pub fn short_file(&self) -> &str {
        let path = Path::new(self.file.as_str());
        let is_long =
            path.has_root() || self.is_of_library() || path.components().any(|part| part == Component::ParentDir);
        let name = if is_long { path.file_name().and_then(|name| name.to_str()) } else { None };
        name.unwrap_or(&self.file)
    }
}

/// `k.cu:11`
impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.short_file(), self.line)
    }
}

/// Source location of an instruction: its line, then those of the calls that inlined it.
///
/// Prints as the line of its author, and what library that goes through: `tri.py:8 (in
/// standard.py:287)`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    line: SourceLine,
    inlined_at: Option<Arc<Source>>,
}

/// Path fragments of compilers' libraries, as opposed to code of the report's reader.
const LIBRARIES: [&str; 11] = [
    "triton/language/",
    "/targets/",
    "/nvidia/cu",
    // nvcc's own headers, as it names them wherever it lies; and libcu++.
    "/bin/..//",
    "/include/cuda/",
    "/local/cuda/",
    "/cuda-",
    "/cooperative_groups",
    "/cub/",
    "/thrust/",
    "/rustlib/",
];

impl Source {
    /// A line that was not inlined.
    #[must_use]
    pub fn new(line: SourceLine) -> Self {
        Self { line, inlined_at: None }
    }

    /// The lines, from the instruction's own to that of the outermost call.
    pub fn lines(&self) -> impl Iterator<Item = &SourceLine> {
        std::iter::successors(Some(self), |source| source.inlined_at.as_deref()).map(|source| &source.line)
    }

    /// The line that the kernel's author wrote: the first that is not in a compiler's library.
    #[must_use]
    pub fn author(&self) -> &SourceLine {
        self.lines().find(|line| !line.is_of_library()).or_else(|| self.lines().last()).unwrap_or(&self.line)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let author = self.author();
        write!(f, "{author}")?;
        if *author != self.line { write!(f, " (in {})", self.line) } else { Ok(()) }
    }
}

/// Maximum number of calls in a chain; hostile text could make an endless one.
const MAX_CALLS: usize = 64;

/// File, line and column of a `.loc`.
type Place = (u32, u32, u32);

/// The source files that a module names, and the lines seen so far.
///
/// ```
/// use warpfold_ptx::{Sources, parse};
/// let text = ".version 8.0\n.target sm_80\n.address_size 64\n.entry f() { .loc 1 7 3\n ret; }\n.file 1 \"/home/me/k.cu\"";
/// let module = parse(text)?;
/// let mut sources = Sources::of(&module);
/// let source = module.kernels().flat_map(|f| f.statements()).find_map(|s| sources.at(s));
/// assert_eq!(source.expect("a line").to_string(), "k.cu:7");
/// # Ok::<(), warpfold_ptx::ParseError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Sources {
    files: BTreeMap<u32, Name>,
    /// The bytes of `.debug_str`, and where labels and the section itself stand in them.
    strings: Vec<u8>,
    labels: BTreeMap<Name, usize>,
    seen: BTreeMap<Place, Arc<Source>>,
}

impl Sources {
    /// The files of a module.
    #[must_use]
    pub fn of(module: &Module) -> Self {
        let mut this = Self::default();
        for item in &module.items {
            let Item::Directive(text) = item else { continue };
            if let Some(rest) = text.strip_prefix(".file") {
                this.file(rest);
            } else if let Some(rest) = text.strip_prefix(".section") {
                this.section(rest);
            }
        }
        this
    }

    /// Returns true if the module names no source file.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// ` 1 "k.cu", time, size`
    fn file(&mut self, text: &str) {
        let mut parts = text.splitn(3, '"');
        let (Some(index), Some(path)) = (parts.next(), parts.next()) else { return };
        if let Ok(index) = index.trim().parse() {
            self.files.insert(index, path.into());
        }
    }

    /// ` .debug_str { label: .b8 95,90,0 … }`
    fn section(&mut self, text: &str) {
        let Some((name, body)) = text.split_once('{') else { return };
        if name.trim().trim_start_matches('.') != "debug_str" {
            return;
        }
        self.labels.insert(name.trim().into(), self.strings.len());
        let lines = body.lines().map(|line| line.split_once("//").map_or(line, |(code, _)| code));
        let words = lines.flat_map(|line| line.split(|c: char| c.is_whitespace() || matches!(c, ',' | '}')));
        for word in words {
            if let Some(label) = word.strip_suffix(':') {
                self.labels.insert(label.into(), self.strings.len());
            } else if let Ok(byte) = word.parse() {
                self.strings.push(byte);
            }
        }
    }

    /// Source location of a `.loc`, for the instructions after it; `None` for any other statement
    /// and for code without a line. Statements must be passed in the order of the text.
    pub fn at(&mut self, statement: &Statement) -> Option<Arc<Source>> {
        let Statement::Location { file, line, column, rest } = statement else { return None };
        let (function, call) = rest.as_deref().map_or((None, None), |rest| self.inlined(rest));
        let line = self.line((*file, *line, *column), function)?;
        let inlined_at = call.and_then(|call| match self.seen.get(&call) {
            Some(source) => Some(Arc::clone(source)),
            None => Some(Arc::new(Source::new(self.line(call, None)?))),
        });
        let inlined_at = inlined_at.filter(|call| call.lines().count() < MAX_CALLS);
        let source = Arc::new(Source { line, inlined_at });
        self.seen.insert((*file, source.line.line, *column), Arc::clone(&source));
        Some(source)
    }

    fn line(&self, (file, line, column): Place, function: Option<Name>) -> Option<SourceLine> {
        let file = self.files.get(&file).filter(|_| line != 0)?;
        Some(SourceLine { file: file.clone(), line, column, function })
    }

    /// `function_name label+offset, inlined_at file line column`
    fn inlined(&self, rest: &str) -> (Option<Name>, Option<Place>) {
        let (function, call) = rest.split_once(", inlined_at ").unwrap_or((rest, ""));
        let label = function.trim_start_matches("function_name ").trim();
        let (label, offset) = label.split_once('+').unwrap_or((label, "0"));
        let start = self.labels.get(label).and_then(|start| Some(start + offset.parse::<usize>().ok()?));
        let bytes = start.and_then(|start| self.strings.get(start..)).unwrap_or_default();
        let name = bytes.split(|byte| *byte == 0).next().and_then(|name| std::str::from_utf8(name).ok());
        let mut numbers = call.split_whitespace().map_while(|word| word.parse().ok());
        let call = (|| Some((numbers.next()?, numbers.next()?, numbers.next()?)))();
        (name.filter(|name| !name.is_empty()).map(Name::from), call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text of each `.loc` of a kernel.
    #[track_caller]
    fn lines(locations: &str, tail: &str) -> Vec<String> {
        let text =
            format!(".version 8.0\n.target sm_80\n.address_size 64\n.entry f()\n{{\n{locations}\nret;\n}}\n{tail}\n");
        let module = crate::parse(&text).expect("PTX");
        let mut sources = Sources::of(&module);
        let all = module.kernels().flat_map(|f| f.statements()).filter_map(|s| sources.at(s)).collect::<Vec<_>>();
        all.iter().map(ToString::to_string).collect()
    }

    const FILES: &str = ".file 1 \"/home/me/k.cu\", 1700000000, 99\n.file 2 \"/opt/triton/language/standard.py\"";

    #[test]
    fn a_line_is_named_by_file_and_number() {
        assert_eq!(lines(".loc 1 7 3", FILES), ["k.cu:7"]);
        assert_eq!(lines(".loc 3 7 3", FILES), [""; 0], "a file that is not named");
        assert_eq!(lines(".loc 1 0 0", FILES), [""; 0], "code that no line stands for");
    }

    #[test]
    fn a_chain_of_calls_leads_to_the_author() {
        let inner = ".loc 1 18 26\n.loc 2 314 12, function_name $L, inlined_at 1 18 26\n.loc 2 287 12, function_name $L, inlined_at 2 314 12";
        assert_eq!(lines(inner, FILES), ["k.cu:18", "k.cu:18 (in standard.py:314)", "k.cu:18 (in standard.py:287)"]);
        assert_eq!(lines(".loc 1 5 1, function_name $L, inlined_at 1 11 2", FILES), ["k.cu:5"], "one's own function");
        let itself = ".loc 1 5 1, function_name $L, inlined_at 1 5 1\n.loc 1 5 1, function_name $L, inlined_at 1 5 1";
        assert_eq!(lines(itself, FILES), ["k.cu:5", "k.cu:5"]);
    }

    #[test]
    fn headers_of_nvcc_are_a_library_wherever_it_lies_and_a_folder_named_cuda_is_not() {
        let files = ".file 1 \"/home/me/cuda/k.cu\"\n.file 2 \"/tools/bin/..//include/cuda_pipeline_helpers.h\"";
        let both = ".loc 1 55 3\n.loc 2 201 13, function_name $L, inlined_at 1 55 3";
        assert_eq!(lines(both, files), ["k.cu:55", "k.cu:55 (in cuda_pipeline_helpers.h:201)"]);
        let own = ".loc 1 5 1, function_name $L, inlined_at 1 9 1";
        assert_eq!(lines(own, files), ["k.cu:5"], "one's own function, and not its caller");
    }

    #[test]
    fn inline_assembly_is_of_the_line_before_it() {
        let asm = ".loc 1 7 3\n// begin inline asm\n.loc 1 8 3\nmov.u32 %r0, 0;\n// end inline asm\n.loc 1 9 3";
        assert_eq!(lines(&format!(".reg .b32 %r<1>;\n{asm}"), FILES), ["k.cu:7", "k.cu:9"]);
    }

    #[test]
    fn the_name_of_an_inlined_function_is_read() {
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.entry f()\n{{\n.loc 1 5 1, function_name $L, inlined_at 1 9 1\nret;\n}}\n{FILES}\n.section .debug_str\n{{\n$K:\n.b8 65,0\n$L:\n.b8 102,111,111,0\n}}\n"
        );
        let module = crate::parse(&text).expect("PTX");
        let mut sources = Sources::of(&module);
        let source = module.kernels().flat_map(|f| f.statements()).find_map(|s| sources.at(s)).expect("a line");
        let lines: Vec<_> = source.lines().collect();
        assert_eq!(lines[0].function.as_deref(), Some("foo"));
        assert_eq!((lines.len(), lines[1].line), (2, 9));
    }
}
