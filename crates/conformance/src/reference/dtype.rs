//! Element types: names, sizes, ranges, and how a `.npy` file names them.

use super::format::Format;

/// An element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are the types")]
pub enum Dtype {
    Bool,
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F8E4M3,
    F8E5M2,
    F16,
    Bf16,
    F32,
    F64,
}

use Dtype::{Bf16, Bool, F8E4M3, F8E5M2, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};

/// Every type with its name on the command line, its bytes, and its type string in a `.npy` header.
const TABLE: [(Dtype, &str, usize, &str); 15] = [
    (Bool, "bool", 1, "|b1"),
    (U8, "u8", 1, "|u1"),
    (U16, "u16", 2, "<u2"),
    (U32, "u32", 4, "<u4"),
    (U64, "u64", 8, "<u8"),
    (I8, "i8", 1, "|i1"),
    (I16, "i16", 2, "<i2"),
    (I32, "i32", 4, "<i4"),
    (I64, "i64", 8, "<i8"),
    (F8E4M3, "f8e4m3", 1, "|u1"),
    (F8E5M2, "f8e5m2", 1, "|u1"),
    (F16, "f16", 2, "<f2"),
    (Bf16, "bf16", 2, "<V2"),
    (F32, "f32", 4, "<f4"),
    (F64, "f64", 8, "<f8"),
];

impl Dtype {
    /// Integers, narrow to wide, without bool.
    pub const INTEGERS: [Self; 8] = [U8, U16, U32, U64, I8, I16, I32, I64];
    /// Floats that results may have.
    pub const FLOATS: [Self; 4] = [F16, Bf16, F32, F64];
    /// Floats of one byte.
    pub const TINY_FLOATS: [Self; 2] = [F8E4M3, F8E5M2];

    /// Every type.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.0)
    }

    fn row(self) -> (Self, &'static str, usize, &'static str) {
        *TABLE.iter().find(|row| row.0 == self).expect("the table has every type")
    }

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Bytes of an element.
    #[must_use]
    pub fn bytes(self) -> usize {
        self.row().2
    }

    /// Returns the type string of a `.npy` header. The one-byte floats have no name there and are
    /// stored as bytes.
    #[must_use]
    pub fn type_string(self) -> &'static str {
        self.row().3
    }

    /// The type that a file's type string stands for; bytes are `u8`.
    #[must_use]
    pub fn of_type_string(text: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.3 == text).map(|row| row.0)
    }

    /// Returns whether it is a float.
    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(self, F8E4M3 | F8E5M2 | F16 | Bf16 | F32 | F64)
    }

    /// Returns whether it is a signed integer.
    #[must_use]
    pub fn is_signed(self) -> bool {
        matches!(self, I8 | I16 | I32 | I64)
    }

    /// Its float format.
    ///
    /// # Panics
    ///
    /// Integers have none.
    #[must_use]
    pub fn format(self) -> Format {
        match self {
            F8E4M3 => Format::F8E4M3,
            F8E5M2 => Format::F8E5M2,
            F16 => Format::F16,
            Bf16 => Format::BF16,
            F32 => Format::F32,
            F64 => Format::F64,
            Bool | U8 | U16 | U32 | U64 | I8 | I16 | I32 | I64 => panic!("{self:?} is no float"),
        }
    }

    /// The type in which sums of it are at least accumulated.
    #[must_use]
    pub fn accumulator(self) -> Self {
        if self == F64 { F64 } else { F32 }
    }

    /// The smallest and the largest integer.
    ///
    /// # Panics
    ///
    /// Floats have infinities instead.
    #[must_use]
    pub fn range(self) -> (i128, i128) {
        assert!(!self.is_float(), "{self:?} is no integer");
        let bits = if self == Bool { 1 } else { 8 * self.bytes() as u32 };
        if self.is_signed() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
    }

    /// An integer modulo the type's 2^bits.
    #[must_use]
    pub fn wrap(self, value: i128) -> i128 {
        let (low, high) = self.range();
        (value - low).rem_euclid(high - low + 1) + low
    }

    /// A product of two of its numbers modulo the type's 2^bits.
    #[must_use]
    pub fn wrap_product(self, x: i128, y: i128) -> i128 {
        // Two numbers of 64 bits without sign would not fit; modulo 2^64 the signed ones do as
        // well.
        self.wrap(I64.wrap(x) * I64.wrap(y))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_as_rust_wraps_them() {
        for value in [-129_i128, -128, -1, 0, 127, 128, 255, 256, 70_000, i128::from(u64::MAX), 1 << 64] {
            assert_eq!(I8.wrap(value), i128::from(value as i8));
            assert_eq!(U8.wrap(value), i128::from(value as u8));
            assert_eq!(I32.wrap(value), i128::from(value as i32));
            assert_eq!(U64.wrap(value), i128::from(value as u64));
        }
        let largest = i128::from(u64::MAX);
        assert_eq!(U64.wrap_product(largest, largest), 1);
        assert_eq!(U8.wrap_product(200, 200), i128::from(200u8.wrapping_mul(200)));
        assert_eq!(I64.range(), (i128::from(i64::MIN), i128::from(i64::MAX)));
    }

    #[test]
    fn the_table_has_a_row_for_every_type_in_order() {
        let all: Vec<_> = Dtype::all().collect();
        assert!(all.is_sorted());
        assert!(Dtype::INTEGERS.iter().chain(&Dtype::FLOATS).all(|d| all.contains(d)));
    }
}
