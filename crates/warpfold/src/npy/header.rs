//! The header of a `.npy` file: a magic number, a version, and a dictionary as a Python literal.

use warpfold_kernels::Dtype;

use super::types;

/// The fields of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub type_string: String,
    pub fortran_order: bool,
    pub shape: Vec<u64>,
}

const MAGIC: &[u8] = b"\x93NUMPY";

/// Splits a file into its header and its data.
pub(super) fn split(file: &[u8]) -> Result<(Header, &[u8]), String> {
    let rest = file.strip_prefix(MAGIC).ok_or("it is not a .npy file")?;
    let cut_off = "its header is cut off";
    let [major, _minor, rest @ ..] = rest else { return Err(cut_off.to_owned()) };
    let (len, rest) = match (major, rest) {
        (1, [a, b, rest @ ..]) => (usize::from(u16::from_le_bytes([*a, *b])), rest),
        (2 | 3, [a, b, c, d, rest @ ..]) => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest),
        (1..=3, _) => return Err(cut_off.to_owned()),
        (other, _) => return Err(format!("it has .npy version {other}, expected 1 to 3")),
    };
    let (text, data) = rest.split_at_checked(len).ok_or(cut_off)?;
    let text = std::str::from_utf8(text).map_err(|_| "its header is not text")?;
    let header = Literal { rest: text }.header().map_err(|reason| format!("its header is malformed: {reason}"))?;
    Ok((header, data))
}

/// The bytes before the data, a multiple of 64 of them.
pub(super) fn text(dtype: Dtype, shape: &[u64]) -> Vec<u8> {
    let sizes: String = shape.iter().map(|n| format!("{n}, ")).collect();
    // A tuple of one has its comma, one of more needs none at its end.
    let sizes = if shape.len() == 1 { sizes.trim_end() } else { sizes.trim_end_matches(", ") };
    let descr = types::type_string(dtype);
    let dictionary = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({sizes}), }}");
    // Version 1 has two bytes for the length of the dictionary, version 2 has four.
    let version = if dictionary.len() < 60_000 { 1 } else { 2 };
    let before = MAGIC.len() + 2 + 2 * version;
    let len = (before + dictionary.len() + 1).next_multiple_of(64) - before;
    let mut file = MAGIC.to_vec();
    file.extend([version as u8, 0]);
    file.extend(&(len as u32).to_le_bytes()[..2 * version]);
    file.extend(dictionary.as_bytes());
    file.resize(before + len - 1, b' ');
    file.push(b'\n');
    file
}

/// The part of a Python literal that is still to be read.
struct Literal<'a> {
    rest: &'a str,
}

impl Literal<'_> {
    fn header(&mut self) -> Result<Header, String> {
        let (mut type_string, mut fortran_order, mut shape) = (None, None, None);
        self.expect("{")?;
        while !self.eat("}") {
            let key = self.string()?;
            self.expect(":")?;
            match key.as_str() {
                "descr" => type_string = Some(self.string()?),
                "fortran_order" => fortran_order = Some(self.boolean()?),
                "shape" => shape = Some(self.tuple()?),
                _ => return Err(format!("unknown key '{key}'")),
            }
            if !self.eat(",") {
                self.expect("}")?;
                break;
            }
        }
        let missing = |key: &str| format!("it has no '{key}'");
        Ok(Header {
            type_string: type_string.ok_or_else(|| missing("descr"))?,
            fortran_order: fortran_order.ok_or_else(|| missing("fortran_order"))?,
            shape: shape.ok_or_else(|| missing("shape"))?,
        })
    }

    fn eat(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        self.rest.strip_prefix(token).map(|rest| self.rest = rest).is_some()
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.eat(token) { Ok(()) } else { Err(self.unexpected(&format!("'{token}'"))) }
    }

    fn unexpected(&self, expected: &str) -> String {
        let at: String = self.rest.trim().chars().take(14).collect();
        format!("expected {expected} at `{}`", at.escape_default().to_string().replace("\\'", "'"))
    }

    fn string(&mut self) -> Result<String, String> {
        for quote in ["'", "\""] {
            if self.eat(quote) {
                let (text, rest) = self.rest.split_once(quote).ok_or_else(|| self.unexpected("the end of a string"))?;
                self.rest = rest;
                return Ok(text.to_owned());
            }
        }
        Err(self.unexpected("a string"))
    }

    fn boolean(&mut self) -> Result<bool, String> {
        if self.eat("True") {
            return Ok(true);
        }
        if self.eat("False") { Ok(false) } else { Err(self.unexpected("True or False")) }
    }

    fn tuple(&mut self) -> Result<Vec<u64>, String> {
        self.expect("(")?;
        let mut sizes = Vec::new();
        while !self.eat(")") {
            self.rest = self.rest.trim_start();
            let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
            let size = self.rest[..end].parse().map_err(|_| self.unexpected("a size"))?;
            sizes.push(size);
            self.rest = &self.rest[end..];
            // Python 2 wrote long integers with this letter.
            self.eat("L");
            if !self.eat(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(sizes)
    }
}
