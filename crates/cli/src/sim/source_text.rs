//! Source files that PTX names: their lines, and the dimensions that they declare.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use warpfold_sim::{Place, SourceLine};

use crate::host;

/// Source files, read when they are asked for: where the PTX says they are, or beside it.
#[derive(Debug)]
pub(super) struct SourceText {
    folder: PathBuf,
    files: RefCell<BTreeMap<String, Option<Vec<String>>>>,
}

impl SourceText {
    /// Returns the sources of PTX in a folder.
    pub(super) fn of(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), files: RefCell::default() }
    }

    /// Gives a file's lines to `f`, if there is one.
    pub(super) fn with<R>(&self, file: &str, f: impl FnOnce(&[String]) -> R) -> Option<R> {
        let mut files = self.files.borrow_mut();
        let lines = files.entry(file.to_owned()).or_insert_with(|| {
            let path = Path::new(file);
            let beside = self.folder.join(path.file_name()?);
            let text = host::read_to_string(path).or_else(|_| host::read_to_string(beside)).ok()?;
            Some(text.lines().map(str::to_owned).collect())
        });
        lines.as_deref().map(f)
    }

    /// The text of a line, without the blanks around it.
    pub(super) fn line(&self, place: &SourceLine) -> Option<String> {
        self.with(&place.file, |lines| Some(lines.get(place.line.checked_sub(1)? as usize)?.trim().to_owned()))?
    }

    /// The dimensions of a variable of which the PTX says only how many bytes it has: those of the
    /// declaration in the source, if they have just as many.
    pub(super) fn shape(&self, place: &Place, file: &str) -> Option<Vec<u64>> {
        let bytes = place.variable_bytes?;
        let elements = bytes.checked_div(place.element_bytes.into())?;
        self.with(file, |lines| declared(lines, &place.name(), elements))?
    }
}

/// The dimensions of an array of so many elements, as `… name[A][B]` declares it.
fn declared(lines: &[String], name: &str, elements: u64) -> Option<Vec<u64>> {
    let spaces = ["__shared__", "__device__", "__constant__"];
    let candidates = lines.iter().filter(|line| spaces.iter().any(|space| line.contains(space)));
    let mut shapes = candidates.filter_map(|line| {
        let rest = after_word(line, name)?;
        let mut dims = Vec::new();
        let mut rest = rest.trim_start();
        while let Some(inner) = rest.strip_prefix('[') {
            let (dim, after) = inner.split_once(']')?;
            dims.push(Evaluator { lines, depth: 0 }.value(dim));
            rest = after.trim_start();
        }
        // One dimension that is not a number here follows from the others.
        let known: u64 = dims.iter().flatten().try_fold(1_u64, |product, n| product.checked_mul(*n))?;
        let missing = elements.checked_div(known)?;
        if dims.iter().filter(|dim| dim.is_none()).count() > 1 {
            return None;
        }
        let dims: Vec<u64> = dims.into_iter().map(|dim| dim.unwrap_or(missing)).collect();
        let product = dims.iter().try_fold(1_u64, |product, n| product.checked_mul(*n))?;
        (dims.len() > 1 && product == elements).then_some(dims)
    });
    shapes.next()
}

/// Returns the rest of a line after a word.
fn after_word<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).find_map(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        (!before.ends_with(is_part) && !after.starts_with(is_part)).then_some(after)
    })
}

/// Sums and products of numbers and of names that a file gives a value.
struct Evaluator<'a> {
    lines: &'a [String],
    depth: u32,
}

impl Evaluator<'_> {
    fn value(&self, text: &str) -> Option<u64> {
        let text = text.trim();
        if self.depth > 8 || text.contains(['(', '/', '<', '?']) {
            return None;
        }
        if let Some((left, right)) = text.rsplit_once(['+', '-']) {
            let (left, right) = (self.value(left)?, self.value(right)?);
            let is_sum = text.rfind('+') > text.rfind('-');
            return if is_sum { left.checked_add(right) } else { left.checked_sub(right) };
        }
        if let Some((left, right)) = text.rsplit_once('*') {
            return self.value(left)?.checked_mul(self.value(right)?);
        }
        let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            return digits.parse().ok();
        }
        self.name(text)
    }

    /// `#define NAME 32` or `constexpr int NAME = 32;`
    fn name(&self, name: &str) -> Option<u64> {
        let inner = Evaluator { lines: self.lines, depth: self.depth + 1 };
        self.lines.iter().find_map(|line| {
            if let Some(rest) = line.trim_start().strip_prefix("#define") {
                let rest = rest.trim_start().strip_prefix(name)?;
                return rest.starts_with(char::is_whitespace).then(|| inner.value(without_comment(rest)))?;
            }
            if !line.contains("const") {
                return None;
            }
            let value = after_word(line, name)?.trim_start().strip_prefix('=')?;
            inner.value(value.split([';', ',']).next()?)
        })
    }
}

fn without_comment(text: &str) -> &str {
    text.split_once("//").map_or(text, |(code, _)| code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, elements: u64, expected: Option<&[u64]>) {
        let lines: Vec<String> = source.lines().map(str::to_owned).collect();
        assert_eq!(declared(&lines, "tile", elements).as_deref(), expected, "{source}");
    }

    #[test]
    fn dimensions_are_read_from_the_declaration() {
        check("__shared__ float tile[32][33];", 1056, Some(&[32, 33]));
        check("#define N 32 // rows\n  __shared__ T tile[N][N + 1];", 1056, Some(&[32, 33]));
        check("constexpr int N = 2 * 16;\n__shared__ T tile[N] [N+1], other[3];", 1056, Some(&[32, 33]));
        check("template <int N> f() {\n__shared__ T tile[N][33];", 1056, Some(&[32, 33]));
    }

    #[test]
    fn a_declaration_of_another_size_is_not_believed() {
        check("__shared__ float tile[32][32];", 1056, None);
        check("__shared__ float tiles[32][33];", 1056, None);
        check("float tile[32][33];", 1056, None);
        check("__shared__ float tile[A][B];", 1056, None);
        check("#define N N\n__shared__ float tile[N][N];", 1056, None);
    }
}
