//! JSON as Python's `json.dumps` spells it, which is what chat templates were written with.

use std::io;

use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, PrettyFormatter, Serializer};

/// Formatting options of `json.dumps`.
#[derive(Debug, Clone)]
pub(crate) struct Style {
    pub(crate) item_separator: String,
    pub(crate) key_separator: String,
    /// Spaces of a level, each item on a line of its own.
    pub(crate) indent: Option<String>,
    /// Writes what is not ASCII as escapes.
    pub(crate) is_ascii: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self { item_separator: ", ".to_owned(), key_separator: ": ".to_owned(), indent: None, is_ascii: false }
    }
}

/// A value as a text.
pub(crate) fn dumps(value: &impl Serialize, style: &Style) -> Result<String, serde_json::Error> {
    let mut bytes = Vec::new();
    let indent = style.indent.clone().unwrap_or_default();
    let inner = style.indent.as_ref().map(|_| PrettyFormatter::with_indent(indent.as_bytes()));
    value.serialize(&mut Serializer::with_formatter(&mut bytes, Spelling { style, inner }))?;
    Ok(String::from_utf8(bytes).expect("JSON is text"))
}

struct Spelling<'a> {
    style: &'a Style,
    /// Writes the lines, where there are some.
    inner: Option<PrettyFormatter<'a>>,
}

macro_rules! with_lines {
    ($($name:ident($($argument:ident: $kind:ty),*)),*) => {$(
        fn $name<W: ?Sized + io::Write>(&mut self, writer: &mut W, $($argument: $kind),*) -> io::Result<()> {
            match &mut self.inner {
                Some(inner) => inner.$name(writer, $($argument),*),
                None => CompactFormatter.$name(writer, $($argument),*),
            }
        }
    )*};
}

impl Formatter for Spelling<'_> {
    with_lines!(begin_array(), end_array(), end_array_value(), begin_object(), end_object(), end_object_value());

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        match &mut self.inner {
            Some(inner) => inner.begin_array_value(writer, first),
            None if first => Ok(()),
            None => writer.write_all(self.style.item_separator.as_bytes()),
        }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        match &mut self.inner {
            Some(inner) => inner.begin_object_key(writer, first),
            None if first => Ok(()),
            None => writer.write_all(self.style.item_separator.as_bytes()),
        }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(self.style.key_separator.as_bytes())
    }

    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        if !self.style.is_ascii {
            return writer.write_all(fragment.as_bytes());
        }
        for c in fragment.chars() {
            if c.is_ascii() {
                writer.write_all(&[c as u8])?;
            } else {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }

    fn write_char_escape<W: ?Sized + io::Write>(&mut self, writer: &mut W, escape: CharEscape) -> io::Result<()> {
        CompactFormatter.write_char_escape(writer, escape)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_is_spelled_as_python_does() {
        let value = json!({"a": [1, "é</b>"], "b": {}, "c": null});
        let text = dumps(&value, &Style::default()).expect("it is JSON");
        assert_eq!(text, r#"{"a": [1, "é</b>"], "b": {}, "c": null}"#);
        let lines = Style { indent: Some("  ".to_owned()), is_ascii: true, ..Style::default() };
        let text = dumps(&value, &lines).expect("it is JSON");
        assert_eq!(text, "{\n  \"a\": [\n    1,\n    \"\\u00e9</b>\"\n  ],\n  \"b\": {},\n  \"c\": null\n}");
    }
}
