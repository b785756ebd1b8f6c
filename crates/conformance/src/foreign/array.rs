//! An array of one number type as the bytes that a device sees.

use serde::Deserialize;

/// A number type of an array. The half types are stored as their 16 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names are the types")]
pub enum DType {
    U8,
    U16,
    U32,
    U64,
    I32,
    I64,
    F16,
    Bf16,
    F32,
    F64,
}

impl DType {
    /// Bytes of one element.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }
}

/// A flat array in device byte order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Array {
    /// Element type of the bytes.
    pub dtype: DType,
    /// The elements, little endian, one after the other.
    pub bytes: Vec<u8>,
}

impl Array {
    /// The elements as Rust numbers.
    ///
    /// # Panics
    /// If `T` is another type than the array's: a mistake in the case or in its reference.
    #[must_use]
    pub fn elements<T: Element>(&self) -> Vec<T> {
        assert!(T::DTYPES.contains(&self.dtype), "an array of {:?} read as {:?}", self.dtype, T::DTYPES);
        self.bytes.chunks_exact(self.dtype.bytes()).map(T::decode).collect()
    }

    /// An array of these elements.
    #[must_use]
    pub fn of<T: Element>(dtype: DType, elements: impl IntoIterator<Item = T>) -> Self {
        assert!(T::DTYPES.contains(&dtype), "an array of {dtype:?} made of {:?}", T::DTYPES);
        let mut bytes = Vec::new();
        elements.into_iter().for_each(|x| x.encode(&mut bytes));
        Self { dtype, bytes }
    }
}

/// A Rust number that an array can hold.
pub trait Element: Copy {
    /// The array types that it reads and writes.
    const DTYPES: &[DType];
    /// One element from exactly its bytes.
    fn decode(bytes: &[u8]) -> Self;
    /// Appends its bytes.
    fn encode(self, to: &mut Vec<u8>);
}

macro_rules! element {
    ($($rust:ty: $($dtype:ident),+;)*) => {$(
        impl Element for $rust {
            const DTYPES: &[DType] = &[$(DType::$dtype),+];
            fn decode(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("a chunk is one element long"))
            }
            fn encode(self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}
element! {
    u8: U8;
    u16: U16, F16, Bf16;
    u32: U32;
    u64: U64;
    i32: I32;
    i64: I64;
    f32: F32;
    f64: F64;
}
