//! Source of the functions that kernels of rungs call: items of shared files, found by name.
//!
//! A rung is a lesson of one idea, and what does not change stands elsewhere. A reader of its
//! source needs both. Items are told apart by lines that begin without an indent, as rustfmt
//! writes them.

use std::collections::BTreeSet;

/// Files that rungs share, with the folder whose rungs see them; `""` is all of them.
macro_rules! shared {
    ($($folder:literal: $($file:literal)+;)+) => {
        const SHARED: &[(&str, &str, &str)] = &[$($(($folder, $file, include_str!($file))),+),+];
    };
}

shared! {
    "": "row/mod.rs" "row/walk.rs" "row/in_registers.rs";
    "vector_add/": "vector_add/ladder/mod.rs";
    "elementwise/": "elementwise/mod.rs" "elementwise/sigmoid/mod.rs";
    "dot/": "dot/ladder/mod.rs";
    "reduce/ladder": "reduce/ladder/mod.rs";
    "reduce/lessons": "reduce/lessons/mod.rs";
    "groups/": "groups/ladder/mod.rs";
    "scan/": "scan/ladder/mod.rs";
    "softmax/ladder": "softmax/ladder/mod.rs";
    "softmax/vector": "softmax/vector/mod.rs";
    "norm/": "norm/mod.rs" "norm/ladder/mod.rs" "norm/rms/mod.rs";
    "scale/": "scale/ladder/mod.rs";
    "gemv/": "gemv/ladder/mod.rs";
    "histogram/": "histogram/ladder/mod.rs";
    "gemm/": "gemm/ladder/mod.rs";
    "hgemm/": "hgemm/block.rs" "hgemm/mod.rs";
    "conv/": "conv/shape.rs" "conv/ladder/mod.rs";
    "attention/": "attention/cache.rs" "attention/rows.rs" "attention/softmax.rs" "attention/softmax_rows.rs"
        "attention/tiles.rs" "attention/warpgroup.rs" "attention/work.rs";
}

/// An item of a file: its name, its text with documentation, and the file.
struct Item {
    name: String,
    text: String,
    file: &'static str,
}

/// Words that begin an item.
const BEGINNINGS: [&str; 9] = ["pub", "fn", "const", "struct", "enum", "trait", "impl", "type", "static"];

/// The items that a rung's source names, those that these name, and so on, each after a comment
/// with its file; empty where it names none.
pub(crate) fn helpers(folder: &str, source: &str) -> String {
    let files = SHARED.iter().filter(|(of, _, _)| folder.starts_with(of)).map(|(_, file, text)| (*file, *text));
    let files = files.chain(warpfold_kernels::fold::Fold::SOURCES.iter().copied());
    let items: Vec<Item> = files.flat_map(|(file, text)| items(file, text)).collect();
    let mut known = words(source);
    let mut shown = vec![false; items.len()];
    while let Some(at) = (0..items.len()).find(|&at| !shown[at] && known.contains(items[at].name.as_str())) {
        shown[at] = true;
        known.extend(words(&items[at].text));
    }
    let mut page = String::new();
    let mut last = "";
    for item in items.iter().zip(shown).filter_map(|(item, is_shown)| is_shown.then_some(item)) {
        if item.file != last {
            page += &format!("\n// of {}\n", item.file);
            last = item.file;
        }
        page += &format!("\n{}", item.text);
    }
    page
}

/// The words of the code of a text: names that comments have say nothing.
fn words(text: &str) -> BTreeSet<&str> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_')).filter(|word| word.len() > 2).collect()
}

/// The functions, types and constants of a file; `use` and `mod` are none, tests end it.
fn items(file: &'static str, text: &str) -> Vec<Item> {
    let mut items = Vec::new();
    let (mut before, mut open) = (String::new(), None::<(String, String)>);
    for line in text.lines() {
        if line.starts_with("#[cfg(test)]") {
            break;
        }
        if open.is_none() {
            match name_of(line) {
                Some(name) => open = Some((name.to_owned(), std::mem::take(&mut before))),
                None if line.starts_with("///") || line.starts_with("#[") => before += &format!("{line}\n"),
                None => before.clear(),
            }
        }
        let Some((_, body)) = &mut open else { continue };
        *body += &format!("{line}\n");
        let ends = line.starts_with('}') || (!line.starts_with(' ') && line.ends_with([';', '}']));
        if ends && let Some((name, text)) = open.take() {
            items.push(Item { name, text, file });
        }
    }
    items
}

/// The name of the item that a line begins: of an implementation that of its type.
fn name_of(line: &str) -> Option<&str> {
    let first = line.split([' ', '<', '(']).next()?;
    if !BEGINNINGS.contains(&first) || line.starts_with("pub use") || line.contains("mod ") {
        return None;
    }
    let named = match line.strip_prefix("impl") {
        Some(rest) => match rest.split_once(" for ") {
            Some((_, of)) => of,
            None => rest.split_once("> ").filter(|_| rest.starts_with('<')).map_or(rest, |(_, of)| of),
        },
        None => {
            let words = ["fn ", "struct ", "enum ", "trait ", "const ", "type ", "static "];
            words.iter().find_map(|word| line.split_once(word)).map(|(_, rest)| rest)?
        }
    };
    named.trim_start().split(|c: char| !c.is_alphanumeric() && c != '_').next().filter(|name| !name.is_empty())
}
