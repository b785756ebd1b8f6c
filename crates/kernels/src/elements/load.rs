//! Loads of neighbouring elements of any type into a type to compute in.

use half::f16;
use warpfold_lang::{Element, F8E4M3, F8E5M2, F16x2, Pointer, Scalar, Space, Val};

use super::Compute;
use crate::Dtype;

/// The `n` elements from `from` on. With `wide`, which promises that they are aligned to their size
/// together (or of 16 bytes, if they have more), as few accesses as possible; else one per element.
#[track_caller]
pub(crate) fn load<C: Compute, S: Space>(dtype: Dtype, from: Pointer<u8, S>, n: u32, wide: bool) -> Vec<Val<C>> {
    let bytes = n * dtype.bytes() as u32;
    if !wide || n == 1 || bytes < 4 {
        return (0..n).map(|i| one(dtype, from.at(i * dtype.bytes() as u32))).collect();
    }
    match dtype {
        Dtype::F32 => four_bytes::<f32, S>(from, n).into_iter().map(Val::cast).collect(),
        Dtype::I32 => four_bytes::<i32, S>(from, n).into_iter().map(Val::cast).collect(),
        Dtype::U32 => four_bytes::<u32, S>(from, n).into_iter().map(Val::cast).collect(),
        Dtype::F64 => eight_bytes::<f64, S>(from, n).into_iter().map(Val::cast).collect(),
        Dtype::I64 => eight_bytes::<i64, S>(from, n).into_iter().map(Val::cast).collect(),
        Dtype::U64 => eight_bytes::<u64, S>(from, n).into_iter().map(Val::cast).collect(),
        Dtype::Bool
        | Dtype::U8
        | Dtype::U16
        | Dtype::I8
        | Dtype::I16
        | Dtype::F16
        | Dtype::Bf16
        | Dtype::F8E4M3
        | Dtype::F8E5M2 => {
            four_bytes::<u32, S>(from, bytes / 4).into_iter().flat_map(|word| unpack::<C>(dtype, word)).collect()
        }
    }
}

/// The position that an index names among `size`: an index below 0 counts from the end. At or above
/// `size` where it names none.
#[track_caller]
pub(crate) fn load_position<S: Space>(dtype: Dtype, from: Pointer<u8, S>, size: Val<u64>) -> Val<u64> {
    let index = load::<i64, S>(dtype, from, 1, false)[0];
    // The largest of 64 bits without a sign have become negative: they name no position.
    let is_from_end = if dtype == Dtype::U64 { Val::constant(false) } else { index.lt(0) };
    is_from_end.select(index + size.bitcast::<i64>(), index).bitcast::<u64>()
}

fn as_value<E: Element, C: Scalar>(from: Pointer<u8, impl Space>) -> Val<C> {
    from.reinterpret::<E>().get().cast()
}

#[track_caller]
fn one<C: Compute>(dtype: Dtype, from: Pointer<u8, impl Space>) -> Val<C> {
    match dtype {
        Dtype::Bool | Dtype::U8 => as_value::<u8, C>(from),
        Dtype::I8 => as_value::<i8, C>(from),
        Dtype::U16 => as_value::<u16, C>(from),
        Dtype::I16 => as_value::<i16, C>(from),
        Dtype::U32 => as_value::<u32, C>(from),
        Dtype::I32 => as_value::<i32, C>(from),
        Dtype::U64 => as_value::<u64, C>(from),
        Dtype::I64 => as_value::<i64, C>(from),
        Dtype::F16 => as_value::<f16, C>(from),
        Dtype::Bf16 => high_half(as_value::<u16, u32>(from) << 16),
        Dtype::F32 => as_value::<f32, C>(from),
        Dtype::F64 => as_value::<f64, C>(from),
        Dtype::F8E4M3 => as_value::<F8E4M3, C>(from),
        Dtype::F8E5M2 => as_value::<F8E5M2, C>(from),
    }
}

/// A `bf16` is the upper half of an `f32`.
fn high_half<C: Compute>(word: Val<u32>) -> Val<C> {
    word.bitcast::<f32>().cast()
}

/// The elements of a 32-bit word, the first in its low bits.
fn unpack<C: Compute>(dtype: Dtype, word: Val<u32>) -> Vec<Val<C>> {
    // One byte permutation each: a bit field with a sign would cost a shift and an extension.
    let unsigned = |bits: u32| (0..32 / bits).map(move |i| word.prmt(0, bytes_of(i, bits / 8, 4)));
    let signed = |bits: u32| {
        (0..32 / bits).map(move |i| word.prmt(0, bytes_of(i, bits / 8, 8 + (i + 1) * bits / 8 - 1)).bitcast::<i32>())
    };
    match dtype {
        Dtype::Bool | Dtype::U8 => unsigned(8).map(Val::cast).collect(),
        Dtype::I8 => signed(8).map(Val::cast).collect(),
        Dtype::U16 => unsigned(16).map(Val::cast).collect(),
        Dtype::I16 => signed(16).map(Val::cast).collect(),
        Dtype::F8E4M3 => word.unpack_eight_bits::<F8E4M3>().map(Val::cast).to_vec(),
        Dtype::F8E5M2 => word.unpack_eight_bits::<F8E5M2>().map(Val::cast).to_vec(),
        Dtype::F16 => word.bitcast::<F16x2>().unpack().map(Val::cast).to_vec(),
        Dtype::Bf16 => vec![high_half(word << 16), high_half(word & 0xffff_0000)],
        Dtype::U32 | Dtype::U64 | Dtype::I32 | Dtype::I64 | Dtype::F32 | Dtype::F64 => {
            unreachable!("{dtype} does not share a word")
        }
    }
}

/// The selector of a permutation that takes the `i`-th element of `bytes` bytes, and `above` for
/// each byte above it.
fn bytes_of(i: u32, bytes: u32, above: u32) -> u32 {
    (0..4).fold(0, |selector, byte| selector | (if byte < bytes { i * bytes + byte } else { above }) << (4 * byte))
}

/// The first `n` elements of a word.
pub(crate) fn of_word<C: Compute>(dtype: Dtype, word: Val<u32>, n: u32) -> Vec<Val<C>> {
    match dtype {
        Dtype::F32 => vec![word.bitcast::<f32>().cast()],
        Dtype::I32 => vec![word.bitcast::<i32>().cast()],
        Dtype::U32 => vec![word.cast()],
        _ => unpack(dtype, word)[..n as usize].to_vec(),
    }
}

/// The element of eight bytes with these bits.
pub(super) fn of_long<C: Compute>(dtype: Dtype, bits: Val<u64>) -> Val<C> {
    match dtype {
        Dtype::F64 => bits.bitcast::<f64>().cast(),
        Dtype::I64 => bits.bitcast::<i64>().cast(),
        _ => bits.cast(),
    }
}

/// `n` elements of four bytes, a power of two.
fn four_bytes<E: Element, S: Space>(from: Pointer<u8, S>, n: u32) -> Vec<Val<E>> {
    let from = from.reinterpret::<E>();
    match n {
        1 => vec![from.get()],
        2 => from.get_vec::<2>().to_vec(),
        _ => (0..n / 4).flat_map(|i| from.at(i * 4).get_vec::<4>()).collect(),
    }
}

/// `n` elements of eight bytes, a power of two.
fn eight_bytes<E: Element, S: Space>(from: Pointer<u8, S>, n: u32) -> Vec<Val<E>> {
    let from = from.reinterpret::<E>();
    if n == 1 {
        return vec![from.get()];
    }
    (0..n / 2).flat_map(|i| from.at(i * 2).get_vec::<2>()).collect()
}
