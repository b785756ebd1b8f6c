//! Signs of how the code speaks, counted: each figure may only fall.
//!
//! They are signs and no laws: no name is lengthened for a count.

use std::collections::BTreeMap;

use super::sources;

/// Doc comments that open with a relative word, in thousandths of all.
const RELATIVE_OPENINGS: usize = 56;
/// Types with a name of one word, in thousandths of all.
const ONE_WORD_TYPES: usize = 740;
/// Types that share their name with another, in thousandths of all.
const SHARED_TYPE_NAMES: usize = 571;
/// Signatures that take a tuple or an array apart.
const TUPLES_IN_SIGNATURES: usize = 135;

/// Words that make the reader wait for what a comment is about.
const RELATIVE: [&str; 14] =
    ["What", "How", "Where", "Of", "As", "Which", "Whose", "Whether", "When", "Who", "That", "Those", "By", "In"];

/// The text of a line of documentation.
fn documentation(line: &str) -> Option<&str> {
    let rest = line.trim_start();
    rest.strip_prefix("///").or_else(|| rest.strip_prefix("//!"))
}

fn is_relative(opening: &str) -> bool {
    let opening = opening.trim_start_matches(|c: char| !c.is_alphabetic());
    RELATIVE.contains(&opening.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default())
}

/// The name of the type that a line of code declares.
fn declared(line: &str) -> Option<&str> {
    let rest = line.trim_start();
    let rest = match rest.strip_prefix("pub") {
        Some(rest) => rest.strip_prefix('(').map_or(rest, |rest| rest.split_once(')').map_or(rest, |(_, rest)| rest)),
        None => rest,
    };
    let kinds = ["struct ", "enum ", "trait ", "type ", "union "];
    let name = kinds.iter().find_map(|kind| rest.trim_start().strip_prefix(kind))?;
    let name = name.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    name.starts_with(|c: char| c.is_ascii_uppercase()).then_some(name)
}

/// Whether the line of a signature has a pattern such as `(a, b): …` among its parameters.
fn takes_apart(line: &str) -> bool {
    let Some((_, signature)) = line.split_once("fn ") else { return false };
    let ends = signature.match_indices("): ").chain(signature.match_indices("]: "));
    ends.into_iter().any(|(end, _)| {
        let pattern = signature[..end].rsplit(['(', '[']).next().unwrap_or_default();
        pattern.contains(", ") && pattern.chars().all(|c| c.is_ascii_lowercase() || ", _".contains(c))
    })
}

#[test]
fn what_the_code_says_first_becomes_no_harder_to_read() {
    let (mut openings, mut relative, mut tuples) = (0, 0, 0);
    let mut types: BTreeMap<String, usize> = BTreeMap::new();
    for file in sources().iter().filter(|file| file.path.contains("/src/") && !file.path.contains("/tests/")) {
        let mut goes_on = false;
        for line in file.text.lines() {
            let text = documentation(line);
            if let Some(text) = text.filter(|text| !goes_on && !text.trim().is_empty()) {
                openings += 1;
                relative += usize::from(is_relative(text));
            }
            goes_on = text.is_some();
            if let Some(name) = declared(line) {
                *types.entry(name.to_owned()).or_default() += 1;
            }
            tuples += usize::from(takes_apart(line));
        }
    }
    let all: usize = types.values().sum();
    let words = |name: &str| name.matches(|c: char| c.is_ascii_uppercase()).count();
    let one_word: usize = types.iter().filter(|(name, _)| words(name) == 1).map(|(_, count)| count).sum();
    let shared: usize = types.values().filter(|count| **count > 1).sum();
    let found = [
        ("doc comments that open with a relative word, of 1,000", relative * 1000 / openings, RELATIVE_OPENINGS),
        ("types with a name of one word, of 1,000", one_word * 1000 / all, ONE_WORD_TYPES),
        ("types that share their name, of 1,000", shared * 1000 / all, SHARED_TYPE_NAMES),
        ("signatures that take tuples apart", tuples, TUPLES_IN_SIGNATURES),
    ];
    for (what, count, most) in found {
        println!("{what}: {count} (at most {most})");
    }
    assert!(found.iter().all(|(_, count, most)| count <= most), "a figure has risen: {found:#?}");
    // A bound that is out of date would let it rise again.
    assert!(
        found.iter().all(|(_, count, most)| count + 25 > *most),
        "a figure has fallen, its bound has not: {found:#?}"
    );
}

#[test]
fn the_counts_count_what_they_look_for() {
    assert!(is_relative(" [`What`] it is") && is_relative("Of the rows") && !is_relative("Whatever it is"));
    assert_eq!(declared("    pub(crate) struct Rows<T> {"), Some("Rows"));
    assert_eq!(declared("pub type A1 = u8;"), Some("A1"));
    assert_eq!(declared("let structure = 1;"), None);
    assert!(takes_apart("fn a(&self, (x, y): (u8, u8)) -> u8 {") && takes_apart("fn a([x, y]: [u8; 2]) {"));
    assert!(!takes_apart("fn a(x: (u8, u8), y: u8) {") && !takes_apart("let (a, b): (u8, u8) = c;"));
}
