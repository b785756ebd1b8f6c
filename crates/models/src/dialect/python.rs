//! Arguments as Python writes them, `city="Paris", days=3, warm=True`: JSON but for three words and
//! for quotes of texts.

use serde_json::Value;

/// Values of one word, in Python and in JSON.
pub(super) const WORDS: [(&str, &str); 3] = [("True", "true"), ("False", "false"), ("None", "null")];

/// Separator of arguments.
pub(super) const BETWEEN: &str = ", ";

/// A text between single quotes, as a regular expression.
pub(super) const SINGLE: &str = r#"'([^'\\\n\r]|\\['"\\nrt])*'"#;

/// A text between single quotes.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = "'".to_owned();
    for c in text.chars() {
        match c {
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\'' | '\\' => quoted.extend(['\\', c]),
            c => quoted.push(c),
        }
    }
    quoted + "'"
}

/// The end of a value: the place of what comes after it, or nothing where that has not come.
pub(super) fn end_of_value(text: &str) -> Option<usize> {
    let (mut quote, mut is_escaped, mut depth) = (None, false, 0_usize);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(_), _) if is_escaped => is_escaped = false,
            (Some(_), '\\') => is_escaped = true,
            (Some(open), c) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, ',' | ')') if depth == 0 => return Some(at),
            (None, _) => {}
        }
    }
    None
}

/// A value as JSON, also one that was cut off, whose text then stays open.
pub(super) fn json_of(value: &str) -> String {
    if let Some((_, json)) = WORDS.iter().find(|(word, _)| *word == value) {
        return (*json).to_owned();
    }
    let Some(inner) = value.strip_prefix('\'') else { return value.to_owned() };
    let (mut text, mut is_escaped, mut is_closed) = (String::new(), false, false);
    for c in inner.chars() {
        match (is_escaped, c) {
            (true, c) => {
                text.push(match c {
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    c => c,
                });
                is_escaped = false;
            }
            (false, '\\') => is_escaped = true,
            (false, '\'') => is_closed = true,
            (false, c) => text.push(c),
        }
    }
    let mut json = Value::from(text).to_string();
    if !is_closed {
        json.pop();
    }
    json
}
