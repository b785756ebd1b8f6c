//! Element types of arrays in files, as NumPy names them.

use std::fmt;
use std::str::FromStr;

/// An element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dtype {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F16,
    /// NumPy has no such type: stored as `u16`.
    Bf16,
    F32,
    F64,
}

/// Every type with its name, its size, and how a `.npy` header names it.
const ALL: [(Dtype, &str, u64, &str); 12] = [
    (Dtype::U8, "u8", 1, "|u1"),
    (Dtype::I8, "i8", 1, "|i1"),
    (Dtype::U16, "u16", 2, "<u2"),
    (Dtype::I16, "i16", 2, "<i2"),
    (Dtype::U32, "u32", 4, "<u4"),
    (Dtype::I32, "i32", 4, "<i4"),
    (Dtype::U64, "u64", 8, "<u8"),
    (Dtype::I64, "i64", 8, "<i8"),
    (Dtype::F16, "f16", 2, "<f2"),
    (Dtype::F32, "f32", 4, "<f4"),
    (Dtype::F64, "f64", 8, "<f8"),
    (Dtype::Bf16, "bf16", 2, "<u2"),
];

impl Dtype {
    fn entry(self) -> (Self, &'static str, u64, &'static str) {
        *ALL.iter().find(|entry| entry.0 == self).expect("the table has every type")
    }

    /// Bytes of an element.
    pub(crate) fn bytes(self) -> u64 {
        self.entry().2
    }

    /// The type string of a `.npy` header.
    pub(crate) fn type_string(self) -> &'static str {
        self.entry().3
    }

    /// The type of a type string, if it is one of ours and little-endian.
    pub(crate) fn of_type_string(text: &str) -> Option<Self> {
        // Single bytes have no order; some writers give them one.
        let is_same_byte = |known: &str| match (known.strip_prefix('|'), text.strip_prefix(['<', '>', '='])) {
            (Some(known), Some(found)) => known == found,
            _ => false,
        };
        ALL.iter().find(|entry| entry.3 == text || is_same_byte(entry.3)).map(|entry| entry.0)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.entry().1)
    }
}

impl FromStr for Dtype {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        ALL.iter().find(|entry| entry.1 == text).map(|entry| entry.0).ok_or_else(|| {
            format!("unknown element type '{text}': expected u8 i8 u16 i16 u32 i32 u64 i64 f16 bf16 f32 or f64")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_found_again_by_its_names() {
        for (dtype, name, bytes, text) in ALL {
            assert_eq!(name.parse(), Ok(dtype));
            assert_eq!((dtype.to_string().as_str(), dtype.bytes()), (name, bytes));
            let stored = if dtype == Dtype::Bf16 { Dtype::U16 } else { dtype };
            assert_eq!(Dtype::of_type_string(text), Some(stored));
        }
        assert_eq!(Dtype::of_type_string("<i1"), Some(Dtype::I8));
    }

    #[test]
    fn other_byte_orders_and_types_are_not_ours() {
        for text in [">f4", "<c8", "|O", "|b1", "<f16", "", "é1"] {
            assert_eq!(Dtype::of_type_string(text), None, "{text}");
        }
    }
}
