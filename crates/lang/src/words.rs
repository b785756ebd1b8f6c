//! Groups of registers cut into words of 32 bits, and put together again: for what travels in words whatever it is.

use crate::Val;
use crate::intrinsics::convert;
use crate::recorder::{Raw, with};
use crate::registers::{MapRegisters, Registers};
use crate::types::{Element, Type};

/// The bits of a group of registers: one word for each of up to 32 bits, the low and the high half of a wider one.
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
    struct Split(Vec<Val<u32>>);
    impl MapRegisters for Split {
        fn map<T: Element>(&mut self, value: Val<T>) -> Val<T> {
            let words = with(|r| match T::TYPE.bits() {
                64 => convert::unpack(r, T::TYPE, Type::U32, value.raw()).to_vec(),
                32 => vec![convert::bitcast(r, T::TYPE, Type::U32, value.raw())],
                bits => {
                    let bits = if bits == 16 { Type::U16 } else { Type::U8 };
                    let narrow = convert::bitcast(r, T::TYPE, bits, value.raw());
                    vec![convert::convert(r, bits, Type::U32, narrow, None)]
                }
            });
            self.0.extend(words.into_iter().map(Val::<u32>::from_raw));
            value
        }
    }
    let mut split = Split(Vec::new());
    let _ = registers.map(&mut split);
    split.0
}

/// The group, of the registers that another has, that [`split_words`] makes these words of.
///
/// # Panics
/// If there are fewer words, or more.
#[track_caller]
#[must_use]
pub fn join_words<R: Registers>(like: R, words: &[Val<u32>]) -> R {
    struct Join<'a>(std::slice::Iter<'a, Val<u32>>);
    impl Join<'_> {
        fn next(&mut self) -> Raw {
            self.0.next().expect("as many words as were split").raw()
        }
    }
    impl MapRegisters for Join<'_> {
        fn map<T: Element>(&mut self, _: Val<T>) -> Val<T> {
            let first = self.next();
            Val::from_raw(match T::TYPE.bits() {
                64 => {
                    let second = self.next();
                    with(|r| convert::pack(r, Type::U32, T::TYPE, [first, second]))
                }
                32 => with(|r| convert::bitcast(r, Type::U32, T::TYPE, first)),
                bits => with(|r| {
                    let bits = if bits == 16 { Type::U16 } else { Type::U8 };
                    let narrow = convert::convert(r, Type::U32, bits, first, None);
                    convert::bitcast(r, bits, T::TYPE, narrow)
                }),
            })
        }
    }
    let mut join = Join(words.iter());
    let registers = like.map(&mut join);
    assert!(join.0.next().is_none(), "as many words as were split");
    registers
}
