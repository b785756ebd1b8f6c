//! Malformed text never panics: real files with random damage, and plain noise.

use std::path::Path;
use std::sync::LazyLock;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// The files of this crate; all are small.
static FILES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).expect("test files").map(|e| e.expect("an entry").path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read_to_string(path).expect("a readable file")).collect()
});

/// Pieces such as the grammar is made of.
const PIECES: &[&str] = &[
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "<",
    ">",
    ",",
    ";",
    ":",
    "|",
    "!",
    "-",
    "+",
    "@",
    "?",
    "%",
    "%r1",
    "_",
    "x",
    "0x1",
    "1.5",
    ".5",
    "0f3F800000",
    "\"s\"",
    "\"",
    "/*",
    "*/",
    "//",
    "\n",
    " ",
    "é",
    ".",
    "::",
    ".global",
    ".u32",
    ".reg",
    ".entry",
    ".func",
    ".loc",
    ".file",
    ".section",
    ".align",
    ".ptr",
    ".pragma",
    ".branchtargets",
    ".callprototype",
    "call",
    "mov",
    "ret",
    "WARP_SZ",
    "generic",
    "@@DWARF",
    "# 1",
];

/// One piece of damage.
#[derive(Debug, Clone)]
enum Damage {
    FlipByte(Index, u8),
    DeleteToken(Index),
    DuplicateToken(Index),
    SwapTokens(Index, Index),
    Insert(Index, &'static str),
    Truncate(Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let index = any::<Index>;
    prop_oneof![
        (index(), any::<u8>()).prop_map(|(at, with)| Damage::FlipByte(at, with)),
        index().prop_map(Damage::DeleteToken),
        index().prop_map(Damage::DuplicateToken),
        (index(), index()).prop_map(|(a, b)| Damage::SwapTokens(a, b)),
        (index(), proptest::sample::select(PIECES)).prop_map(|(at, piece)| Damage::Insert(at, piece)),
        index().prop_map(Damage::Truncate),
    ]
}

/// Runs of name characters, and every other character by itself.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut in_word = false;
    for c in text.chars() {
        let is_word = c.is_alphanumeric() || "_$%.".contains(c);
        match tokens.last_mut() {
            Some(last) if is_word && in_word => last.push(c),
            _ => tokens.push(c.into()),
        }
        in_word = is_word;
    }
    tokens
}

fn apply(text: &str, damage: &Damage) -> String {
    if text.is_empty() {
        return String::new();
    }
    let mut tokens = tokens(text);
    let count = tokens.len();
    match damage {
        Damage::FlipByte(at, with) => {
            let mut bytes = text.as_bytes().to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= with;
            return String::from_utf8_lossy(&bytes).into_owned();
        }
        Damage::DeleteToken(at) => drop(tokens.remove(at.index(count))),
        Damage::DuplicateToken(at) => tokens.insert(at.index(count), tokens[at.index(count)].clone()),
        Damage::SwapTokens(a, b) => tokens.swap(a.index(count), b.index(count)),
        Damage::Insert(at, piece) => tokens.insert(at.index(count), (*piece).to_owned()),
        Damage::Truncate(at) => tokens.truncate(at.index(count)),
    }
    tokens.concat()
}

/// Parsing ends in a tree that survives printing, or in an error that points into the text.
fn check(text: &str) -> Result<(), TestCaseError> {
    match warpfold_ptx::parse(text) {
        Ok(module) => prop_assert_eq!(warpfold_ptx::parse(&module.to_string()), Ok(module)),
        Err(error) => {
            let lines = u32::try_from(text.matches('\n').count()).expect("a short text") + 1;
            prop_assert!((1..=lines).contains(&error.span.line) && error.span.column >= 1, "{}", error);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files_never_panic(file in any::<Index>(), damages in vec(damage(), 1..6)) {
        let text = damages.iter().fold(file.get(&FILES).clone(), |text, damage| apply(&text, damage));
        check(&text)?;
    }

    #[test]
    fn noise_never_panics(pieces in vec(proptest::sample::select(PIECES), 0..60), in_body in any::<bool>()) {
        let start = if in_body { ".version 8.0 .target sm_80 .entry k() { " } else { ".version 8.0 .target sm_80 " };
        check(&format!("{start}{}", pieces.join(" ")))?;
    }

    #[test]
    fn any_text_never_panics(text in any::<String>()) {
        check(&text)?;
    }
}
