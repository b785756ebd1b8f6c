//! The JSON of a safetensors header: an object of objects, whose values are strings and lists of
//! numbers.

use std::fmt::Write;

use warpfold_kernels::Dtype;

use super::type_name;
use crate::Tensor;

/// One tensor of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
    /// The first byte of the data that is its, and the one after its last.
    pub(super) data_offsets: [u64; 2],
}

/// The header of tensors that lie one after the other, with spaces up to a multiple of 8 bytes.
pub(super) fn text(tensors: &[(&str, &Tensor)]) -> String {
    let (mut text, mut start) = ("{".to_owned(), 0);
    for (i, (name, tensor)) in tensors.iter().enumerate() {
        let end = start + tensor.nbytes();
        let (comma, dtype, shape) = (if i == 0 { "" } else { "," }, type_name(tensor.dtype()), tensor.shape());
        text += comma;
        quote(&mut text, name);
        write!(text, r#":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{start},{end}]}}"#)
            .expect("a string takes all");
        start = end;
    }
    text.push('}');
    text.extend(std::iter::repeat_n(' ', text.len().next_multiple_of(8) - text.len()));
    text
}

fn quote(text: &mut String, name: &str) {
    text.push('"');
    for c in name.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            c if c < ' ' => write!(text, "\\u{:04x}", c as u32).expect("a string takes all"),
            c => text.push(c),
        }
    }
    text.push('"');
}

/// Parses the entries of the tensors; `__metadata__` is skipped.
pub(super) fn parse(text: &[u8]) -> Result<Vec<Entry>, String> {
    let text = std::str::from_utf8(text).map_err(|_| "the header is not UTF-8".to_owned())?;
    let mut reader = Reader { text, at: 0 };
    let mut entries = Vec::new();
    reader.object(|reader, name| {
        if name == "__metadata__" {
            return reader.object(|reader, _| reader.string().map(drop));
        }
        let (mut dtype, mut shape, mut offsets) = (None, None, None);
        reader.object(|reader, key| {
            match key.as_str() {
                "dtype" => dtype = Some(reader.string()?),
                "shape" => shape = Some(reader.numbers()?),
                "data_offsets" => offsets = Some(reader.numbers()?),
                _ => return Err(reader.expected("dtype, shape or data_offsets")),
            }
            Ok(())
        })?;
        let missing = |what: &str| format!("'{name}' has no {what}");
        let dtype = dtype.ok_or_else(|| missing("dtype"))?;
        let known = Dtype::ALL.into_iter().find(|known| type_name(*known) == dtype);
        let shape = shape.ok_or_else(|| missing("shape"))?;
        let offsets: Option<[u64; 2]> = offsets.and_then(|offsets| offsets.try_into().ok());
        entries.push(Entry {
            dtype: known.ok_or_else(|| format!("'{name}' has the type {dtype}, which warpfold has not"))?,
            shape: shape.into_iter().map(|size| size as usize).collect(),
            data_offsets: offsets.ok_or_else(|| missing("pair of data_offsets"))?,
            name,
        });
        Ok(())
    })?;
    if reader.peek().is_some() { Err(reader.expected("the end")) } else { Ok(entries) }
}

/// A place in the text.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    /// The next character that is no space.
    fn peek(&mut self) -> Option<char> {
        let rest = self.text[self.at..].trim_start();
        self.at = self.text.len() - rest.len();
        rest.chars().next()
    }

    fn takes(&mut self, c: char) -> bool {
        let is_next = self.peek() == Some(c);
        self.at += if is_next { c.len_utf8() } else { 0 };
        is_next
    }

    fn expect(&mut self, c: char) -> Result<(), String> {
        if self.takes(c) { Ok(()) } else { Err(self.expected(&format!("'{c}'"))) }
    }

    fn expected(&self, what: &str) -> String {
        format!("the header is not that of tensors: {what} is expected at byte {}", self.at)
    }

    /// Each value of an object by its key.
    fn object(&mut self, mut value: impl FnMut(&mut Self, String) -> Result<(), String>) -> Result<(), String> {
        self.expect('{')?;
        if self.takes('}') {
            return Ok(());
        }
        loop {
            let key = self.string()?;
            self.expect(':')?;
            value(self, key)?;
            if !self.takes(',') {
                return self.expect('}');
            }
        }
    }

    fn numbers(&mut self) -> Result<Vec<u64>, String> {
        self.expect('[')?;
        let mut numbers = Vec::new();
        while !self.takes(']') {
            if !numbers.is_empty() {
                self.expect(',')?;
                self.peek();
            }
            let rest = &self.text[self.at..];
            let digits = &rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())];
            numbers.push(digits.parse().map_err(|_| self.expected("a number"))?);
            self.at += digits.len();
        }
        Ok(numbers)
    }

    fn string(&mut self) -> Result<String, String> {
        self.expect('"')?;
        let mut string = String::new();
        loop {
            let mut rest = self.text[self.at..].chars();
            let c = rest.next().ok_or_else(|| self.expected("the end of a string"))?;
            self.at += c.len_utf8();
            match c {
                '"' => return Ok(string),
                '\\' => string.push(self.escaped()?),
                c => string.push(c),
            }
        }
    }

    fn escaped(&mut self) -> Result<char, String> {
        let c = self.text[self.at..].chars().next().ok_or_else(|| self.expected("an escape"))?;
        self.at += c.len_utf8();
        Ok(match c {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'u' => {
                let first = self.unit()?;
                let is_pair = (0xd800..0xdc00).contains(&first) && self.text[self.at..].starts_with("\\u");
                let units = if is_pair {
                    self.at += 2;
                    vec![first, self.unit()?]
                } else {
                    vec![first]
                };
                let decoded = char::decode_utf16(units).next().and_then(Result::ok);
                decoded.ok_or_else(|| self.expected("a character"))?
            }
            '"' | '\\' | '/' => c,
            _ => return Err(self.expected("an escape")),
        })
    }

    /// Four hexadecimal digits.
    fn unit(&mut self) -> Result<u16, String> {
        let digits = self.text.get(self.at..self.at + 4).ok_or_else(|| self.expected("four digits"))?;
        let unit = u16::from_str_radix(digits, 16).map_err(|_| self.expected("four digits"))?;
        self.at += 4;
        Ok(unit)
    }
}
