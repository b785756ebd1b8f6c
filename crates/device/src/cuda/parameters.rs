//! Number of parameters of the kernels in a PTX text.
//!
//! The driver tells offset and size of a kernel's parameter by number, and their number only from
//! CUDA 13.2 on. Asking for one that is not there is an error, which compute-sanitizer reports, so
//! the number comes from the text.

use std::collections::HashMap;

/// Returns the number of parameters of each `.entry`.
pub(super) fn counts(ptx: &str) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    let mut tokens = tokens(ptx).peekable();
    while let Some(token) = tokens.next() {
        if token != ".entry" {
            continue;
        }
        let Some(name) = tokens.next() else { break };
        let params = match tokens.next_if_eq(&"(") {
            Some(_) => tokens.by_ref().take_while(|token| *token != ")").filter(|token| *token == ".param").count(),
            None => 0,
        };
        counts.insert(name.to_owned(), params);
    }
    counts
}

/// Splits text into words (a dot begins one) and single other characters, without white space,
/// comments and strings.
fn tokens(mut text: &str) -> impl Iterator<Item = &str> {
    let is_word = |c: char| c.is_alphanumeric() || "_$%".contains(c);
    std::iter::from_fn(move || {
        loop {
            text = text.trim_start();
            let first = text.chars().next()?;
            let skipped = match first {
                '/' if text.starts_with("//") => text.find('\n'),
                '/' if text.starts_with("/*") => text[2..].find("*/").map(|end| end + 4),
                '"' => text[1..].find('"').map(|end| end + 2),
                _ => {
                    let rest = &text[first.len_utf8()..];
                    let more = if is_word(first) || first == '.' { rest.find(|c| !is_word(c)) } else { Some(0) };
                    let (token, rest) = text.split_at(first.len_utf8() + more.unwrap_or(rest.len()));
                    text = rest;
                    return Some(token);
                }
            };
            text = &text[skipped.unwrap_or(text.len())..];
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_counted_where_they_are_declared_and_nowhere_else() {
        let ptx = "// .entry no(.param .u32 a)
            .file 1 \"/* .entry neither( // .param\"
            .func (.param .b32 r) helper (.param .b32 x) { ld.param.u32 %r0, [x]; ret; }
            .visible .entry none() { ret; }
            .weak .entry bare .maxntid 32, 1, 1 { ret; }
            .visible .entry $three$4(
                .param .u64 .ptr .global .align 8 a, /* .param .u32 b, */
                .param .align 64 .b8 map[128],
                .param.u32 c
            ) .reqntid 64 { .param .b32 local; ld.param.u32 %r0, [c]; ret; }";
        let counts = counts(ptx);
        let of = |name: &str| counts.get(name).copied();
        assert_eq!([of("none"), of("bare"), of("$three$4")], [Some(0), Some(0), Some(3)]);
        assert_eq!(counts.len(), 3);
    }
}
