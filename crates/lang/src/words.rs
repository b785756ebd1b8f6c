//! Groups of registers as 32-bit words: for transfers that do not depend on the types.

use crate::Val;
use crate::intrinsics::convert;
use crate::recorder::{Raw, with};
use crate::registers::Registers;
use crate::types::Type;

/// Splits a group of registers into 32-bit words: one for each register of up to 32 bits, the low
/// and the high half of a wider one.
///
/// ```
/// use warpfold_lang::{Arch, Global, Registers, Target, Val, join_words, kernel, split_words, thread_idx};
/// let copy = kernel("copy", |data: Global<u32>, from: Global<f64>, to: Global<f64>| {
///     let value = from.at(thread_idx().x).get();
///     let words = split_words(value);
///     words.iter().zip(0_u32..).for_each(|(word, i)| data.at(i).set(*word));
///     to.at(thread_idx().x).set(join_words(value, &words));
/// });
/// assert!(copy.build(&Target::new(Arch::SM_80, (7, 0))).is_ok());
/// ```
#[track_caller]
#[must_use]
pub fn split_words<R: Registers>(registers: R) -> Vec<Val<u32>> {
    let mut words = Vec::new();
    registers.each(&mut |ty, value| {
        split(ty, value.raw(), &mut words);
        value
    });
    words
}

#[track_caller]
fn split(ty: Type, value: Raw, words: &mut Vec<Val<u32>>) {
    with(|r| match ty.bits() {
        64 => words.extend(convert::unpack(r, ty, Type::U32, value).map(Val::from_raw)),
        32 => words.push(Val::from_raw(convert::bitcast(r, ty, Type::U32, value))),
        bits => {
            let bits = if bits == 16 { Type::U16 } else { Type::U8 };
            let narrow = convert::bitcast(r, ty, bits, value);
            words.push(Val::from_raw(convert::convert(r, bits, Type::U32, narrow, None)));
        }
    });
}

/// Joins the words of [`split_words`] to a group with the types of `like`.
///
/// # Panics
/// If there are fewer words, or more.
#[track_caller]
#[must_use]
pub fn join_words<R: Registers>(like: R, words: &[Val<u32>]) -> R {
    let mut words = words.iter();
    let registers = like.each(&mut |ty, _| Val::from_raw(join(ty, &mut words)));
    assert!(words.next().is_none(), "as many words as were split");
    registers
}

#[track_caller]
fn join(ty: Type, words: &mut std::slice::Iter<'_, Val<u32>>) -> Raw {
    let mut next = || words.next().expect("as many words as were split").raw();
    let first = next();
    match ty.bits() {
        64 => {
            let second = next();
            with(|r| convert::pack(r, Type::U32, ty, [first, second]))
        }
        32 => with(|r| convert::bitcast(r, Type::U32, ty, first)),
        bits => with(|r| {
            let bits = if bits == 16 { Type::U16 } else { Type::U8 };
            let narrow = convert::convert(r, Type::U32, bits, first, None);
            convert::bitcast(r, bits, ty, narrow)
        }),
    }
}
