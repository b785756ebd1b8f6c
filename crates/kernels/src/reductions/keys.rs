//! Integers in the order of elements of any type, and back: what lists of the largest are made of.

use warpfold_lang::Val;

use crate::Dtype;
use crate::elements::{Compute, Sink, Source};

/// The order of a type's elements as the order of an integer type.
pub(super) trait Key: Compute {
    /// Elements as keys: a NaN above all numbers, and -0 as +0.
    fn source(from: Dtype) -> Source<Val<Self>>;

    /// The first `len` of a list of keys, as elements.
    fn list<const N: usize>(to: Dtype, len: u32) -> Sink<[Val<Self>; N]>;
}

impl Key for i32 {
    fn source(from: Dtype) -> Source<Val<Self>> {
        match from {
            Dtype::U32 => Source::one::<Self>(from).map(|x| x ^ Self::MIN),
            _ if from.is_float() => Source::one::<f32>(from).map(|x| {
                let bits = (x + 0.0).bitcast::<Self>();
                x.is_nan().select(Self::MAX, turned(bits))
            }),
            _ => Source::one::<Self>(from),
        }
    }

    fn list<const N: usize>(to: Dtype, len: u32) -> Sink<[Val<Self>; N]> {
        match to {
            Dtype::U32 => Sink::list(to, len).after(|keys: [Val<Self>; N]| keys.map(|key| key ^ Self::MIN)),
            _ if to.is_float() => {
                Sink::list(to, len).after(|keys: [Val<Self>; N]| keys.map(|key| turned(key).bitcast::<f32>()))
            }
            _ => Sink::list(to, len),
        }
    }
}

impl Key for i64 {
    fn source(from: Dtype) -> Source<Val<Self>> {
        match from {
            Dtype::U64 => Source::one::<Self>(from).map(|x| x ^ Self::MIN),
            Dtype::F64 => Source::one::<f64>(from).map(|x| {
                let bits = (x + 0.0).bitcast::<Self>();
                x.is_nan().select(Self::MAX, turned_long(bits))
            }),
            _ => Source::one::<Self>(from),
        }
    }

    fn list<const N: usize>(to: Dtype, len: u32) -> Sink<[Val<Self>; N]> {
        match to {
            Dtype::U64 => Sink::list(to, len).after(|keys: [Val<Self>; N]| keys.map(|key| key ^ Self::MIN)),
            Dtype::F64 => {
                Sink::list(to, len).after(|keys: [Val<Self>; N]| keys.map(|key| turned_long(key).bitcast::<f64>()))
            }
            _ => Sink::list(to, len),
        }
    }
}

/// Bits of a float in the order of its values: those of negative numbers turned round. Its own
/// inverse.
fn turned(bits: Val<i32>) -> Val<i32> {
    bits ^ ((bits >> 31) & i32::MAX)
}

fn turned_long(bits: Val<i64>) -> Val<i64> {
    bits ^ ((bits >> 63) & i64::MAX)
}
