//! Stores of neighbouring values of a computed type as elements of any type.

use half::f16;
use warpfold_lang::{Bf16x2, Element, F8E4M3, F8E5M2, F16x2, Operand, Pointer, Space, Val};

use super::Compute;
use crate::Dtype;

/// Stores the values from `to` on, converted as Rust's `as` does it: integers wrap, floats become
/// integers towards zero, saturating and 0 for NaN, and round to nearest even otherwise; eight-bit
/// floats saturate; a `bool` is whether the value differs from zero. With `wide`, which promises
/// that they are aligned to their size together (or to 16 bytes, if they have more), as few
/// accesses as possible; else one per element.
#[track_caller]
pub(crate) fn store<C: Compute>(dtype: Dtype, to: Pointer<u8, impl Space>, values: &[Val<C>], wide: bool) {
    // PTX ISA, `cvt`: where 64 bits are involved, a NaN becomes `1 << 63`.
    if C::DTYPE.is_float() && dtype.is_integer() && C::DTYPE.bytes().max(dtype.bytes()) == 8 {
        let number = |value: &Val<C>| value.eq(*value).select(*value, Val::constant(C::ZERO));
        return convert(dtype, to, &values.iter().map(number).collect::<Vec<_>>(), wide);
    }
    convert(dtype, to, values, wide);
}

fn convert<C: Compute, S: Space>(dtype: Dtype, to: Pointer<u8, S>, values: &[Val<C>], wide: bool) {
    let bytes = values.len() as u32 * dtype.bytes() as u32;
    if !wide || values.len() == 1 || bytes < 4 {
        return values.iter().zip(0_u32..).for_each(|(v, i)| one(dtype, to.at(i * dtype.bytes() as u32), *v));
    }
    match dtype {
        Dtype::F32 => four_bytes::<f32, S>(to, &cast(values)),
        Dtype::I32 => four_bytes::<i32, S>(to, &cast(values)),
        Dtype::U32 => four_bytes::<u32, S>(to, &cast(values)),
        Dtype::F64 => eight_bytes::<f64, S>(to, &cast(values)),
        Dtype::I64 => eight_bytes::<i64, S>(to, &cast(values)),
        Dtype::U64 => eight_bytes::<u64, S>(to, &cast(values)),
        Dtype::F16 => {
            let pair = |two: &[Val<C>]| Val::<F16x2>::pack(two[0].cast::<f16>(), two[1].cast::<f16>()).bitcast::<u32>();
            four_bytes::<u32, S>(to, &values.chunks(2).map(pair).collect::<Vec<_>>());
        }
        Dtype::Bf16 => {
            let pair = |two: &[Val<C>]| {
                Val::<Bf16x2>::pack(two[0].cast::<half::bf16>(), two[1].cast::<half::bf16>()).bitcast::<u32>()
            };
            four_bytes::<u32, S>(to, &values.chunks(2).map(pair).collect::<Vec<_>>());
        }
        Dtype::Bool | Dtype::U8 | Dtype::I8 | Dtype::U16 | Dtype::I16 | Dtype::F8E4M3 | Dtype::F8E5M2 => {
            let bits = 8 * dtype.bytes() as u32;
            let words: Vec<_> = values.chunks(32 / bits as usize).map(|chunk| pack(dtype, chunk)).collect();
            four_bytes::<u32, S>(to, &words);
        }
    }
}

fn cast<C: Compute, S: Element>(values: &[Val<C>]) -> Vec<Val<S>> {
    values.iter().map(|value| value.cast()).collect()
}

/// The bits of a narrow element, in the low bits; above them is whatever.
fn narrow<C: Compute>(dtype: Dtype, value: Val<C>) -> Val<u32> {
    let is_integer = !C::TYPE.is_float();
    match dtype {
        Dtype::Bool => value.ne(Val::constant(C::ZERO)).cast(),
        Dtype::I8 | Dtype::I16 | Dtype::U8 | Dtype::U16 if is_integer => value.cast(),
        Dtype::I8 => value.cast::<i8>().cast(),
        Dtype::I16 => value.cast::<i16>().cast(),
        Dtype::U8 => value.cast::<u8>().cast(),
        Dtype::U16 => value.cast::<u16>().cast(),
        Dtype::F8E4M3 => value.cast::<F8E4M3>().bitcast::<u8>().cast(),
        Dtype::F8E5M2 => value.cast::<F8E5M2>().bitcast::<u8>().cast(),
        _ => unreachable!("{dtype} does not share a word"),
    }
}

/// Two or four elements in a word.
fn pack<C: Compute>(dtype: Dtype, values: &[Val<C>]) -> Val<u32> {
    let words: Vec<_> = values.iter().map(|value| narrow(dtype, *value)).collect();
    match words[..] {
        [a, b] => a.prmt(b, 0x5410),
        [a, b, c, d] => a.prmt(b, 0x0040).prmt(c.prmt(d, 0x0040), 0x5410),
        _ => unreachable!("a word has two elements or four"),
    }
}

#[track_caller]
fn one<C: Compute>(dtype: Dtype, to: Pointer<u8, impl Space>, value: Val<C>) {
    match dtype {
        Dtype::Bool | Dtype::F8E4M3 | Dtype::F8E5M2 => to.set(narrow(dtype, value).cast::<u8>()),
        Dtype::U8 => to.set(value.cast::<u8>()),
        Dtype::I8 => to.reinterpret::<i8>().set(value.cast::<i8>()),
        Dtype::U16 => to.reinterpret::<u16>().set(value.cast::<u16>()),
        Dtype::I16 => to.reinterpret::<i16>().set(value.cast::<i16>()),
        Dtype::U32 => to.reinterpret::<u32>().set(value.cast::<u32>()),
        Dtype::I32 => to.reinterpret::<i32>().set(value.cast::<i32>()),
        Dtype::U64 => to.reinterpret::<u64>().set(value.cast::<u64>()),
        Dtype::I64 => to.reinterpret::<i64>().set(value.cast::<i64>()),
        Dtype::F16 => to.reinterpret::<f16>().set(value.cast::<f16>()),
        Dtype::Bf16 => to.reinterpret::<half::bf16>().set(value.cast::<half::bf16>()),
        Dtype::F32 => to.reinterpret::<f32>().set(value.cast::<f32>()),
        Dtype::F64 => to.reinterpret::<f64>().set(value.cast::<f64>()),
    }
}

/// Elements of four bytes, a power of two of them.
fn four_bytes<E: Element, S: Space>(to: Pointer<u8, S>, values: &[Val<E>])
where
    Val<E>: Operand<E>,
{
    let to = to.reinterpret::<E>();
    match values {
        [a] => to.set(*a),
        [a, b] => to.set_vec([*a, *b]),
        _ => {
            for (four, i) in values.chunks(4).zip(0_u32..) {
                to.at(i * 4).set_vec([four[0], four[1], four[2], four[3]]);
            }
        }
    }
}

/// Elements of eight bytes, a power of two of them.
fn eight_bytes<E: Element, S: Space>(to: Pointer<u8, S>, values: &[Val<E>])
where
    Val<E>: Operand<E>,
{
    let to = to.reinterpret::<E>();
    for (two, i) in values.chunks(2).zip(0_u32..) {
        match two {
            [a, b] => to.at(i * 2).set_vec([*a, *b]),
            _ => to.at(i * 2).set(two[0]),
        }
    }
}
