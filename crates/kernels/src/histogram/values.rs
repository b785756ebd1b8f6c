//! The values that are counted: unsigned, of 1 to 8 bytes. Signed ones are read as unsigned.

use warpfold_lang::{Cache, Element, Global, Index, Integer, Operand, Val};

/// A type of values. A signed value of the same width counts as the unsigned one with its bits: a
/// negative one is then beyond every bin that a value of the signed type can have.
pub trait Value: Integer + Operand<Self> {
    /// As part of a kernel's name.
    const NAME: &'static str;
    /// Values in 16 bytes.
    const VECTOR: u32 = 16 / <Self as Element>::BYTES;

    /// The 16 bytes there, as one access.
    fn load_vector(from: Global<Self>) -> Vec<Val<Self>>;
    /// The same where the condition holds; zeros elsewhere.
    fn load_vector_if(from: Global<Self>, condition: Val<bool>) -> Vec<Val<Self>>;
    /// The bin of a value: `limit` for all from `limit` on.
    fn bin(value: Val<Self>, limit: Val<u32>) -> Val<u32>;
}

macro_rules! values {
    ($($rust:ident $vector:literal |$value:ident, $limit:ident| $bin:expr;)*) => {$(
        impl Value for $rust {
            const NAME: &'static str = stringify!($rust);

            #[track_caller]
            fn load_vector(from: Global<Self>) -> Vec<Val<Self>> {
                from.cache(Cache::ReadOnlyStreaming).get_vec::<$vector>().to_vec()
            }

            #[track_caller]
            fn load_vector_if(from: Global<Self>, condition: Val<bool>) -> Vec<Val<Self>> {
                from.cache(Cache::ReadOnlyStreaming).get_vec_or::<$vector>(0 as $rust, condition).to_vec()
            }

            #[track_caller]
            fn bin($value: Val<Self>, $limit: Val<u32>) -> Val<u32> {
                $bin
            }
        }
    )*};
}

values! {
    u8 16 |value, limit| value.cast::<u32>().min(limit);
    u16 8 |value, limit| value.cast::<u32>().min(limit);
    u32 4 |value, limit| value.min(limit);
    u64 2 |value, limit| value.min(limit.cast::<u64>()).cast();
}

/// The element there, read once.
#[track_caller]
pub(super) fn load<T: Value>(from: Global<T>, index: impl Index) -> Val<T> {
    from.at(index).cache(Cache::ReadOnlyStreaming).get()
}
