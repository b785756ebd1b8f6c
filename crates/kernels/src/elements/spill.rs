//! Registers of any types between two launches: as they are, with no format that a user has to
//! name.

use std::sync::Arc;

use warpfold_lang::{Element, FixedRegisters, MapRegisters, TakeRegister, Val, join_words, split_words};

use super::load::load;
use super::{Destination, Origin, Place, Sink, Source};
use crate::Dtype;

/// Arrays at most.
const MAX_ARRAYS: usize = 2;

/// The unsigned type that has as many bytes as a register does in memory.
const fn bits_of<T: Element>() -> Dtype {
    match T::BYTES {
        1 => Dtype::U8,
        2 => Dtype::U16,
        4 => Dtype::U32,
        _ => Dtype::U64,
    }
}

/// The types of the registers of a group.
fn dtypes_of<R: FixedRegisters>() -> Vec<Dtype> {
    struct Types(Vec<Dtype>);
    impl TakeRegister for Types {
        fn take<T: Element>(&mut self) -> Val<T> {
            self.0.push(bits_of::<T>());
            Val::constant(T::from_bits(0))
        }
    }
    let mut types = Types(Vec::new());
    let _ = R::assemble(&mut types);
    types.0
}

/// How results are stored to memory that only another kernel loads, and how that one loads them: an
/// array for each register of up to two, else one array with all words of a result side by side.
pub(crate) fn spill<R: FixedRegisters + 'static>() -> (Sink<R>, Source<R>) {
    let dtypes = dtypes_of::<R>();
    if (1..=MAX_ARRAYS).contains(&dtypes.len()) { arrays(dtypes) } else { words(&dtypes) }
}

fn arrays<R: FixedRegisters + 'static>(dtypes: Vec<Dtype>) -> (Sink<R>, Source<R>) {
    struct Store<'a>(std::slice::Iter<'a, Destination>);
    impl MapRegisters for Store<'_> {
        fn map<T: Element>(&mut self, value: Val<T>) -> Val<T> {
            match self.0.next().expect("an array for each register") {
                Destination::Global(to) => to.reinterpret::<T>().set(value),
                Destination::Shared(to) => to.reinterpret::<T>().set(value),
            }
            value
        }
    }
    struct Load<'a>(std::slice::Iter<'a, Origin>);
    impl TakeRegister for Load<'_> {
        fn take<T: Element>(&mut self) -> Val<T> {
            match self.0.next().expect("an array for each register") {
                Origin::Global(Place { pointer, .. }) => pointer.reinterpret::<T>().get(),
                Origin::Shared { .. } | Origin::Word(_) | Origin::Long(_) => unreachable!("it is loaded from memory"),
            }
        }
    }
    let sink = Sink {
        lens: vec![1; dtypes.len()],
        dtypes: dtypes.clone(),
        store: Arc::new(|to: &[Destination], values: &[R], _| {
            for value in values {
                let _ = value.map(&mut Store(to.iter()));
            }
        }),
    };
    let load = |origins: &[Origin], n: u32| (0..n).map(|_| R::assemble(&mut Load(origins.iter()))).collect();
    (sink, Source { dtypes, load: Arc::new(load) })
}

fn words<R: FixedRegisters + 'static>(dtypes: &[Dtype]) -> (Sink<R>, Source<R>) {
    let len: u64 = dtypes.iter().map(|dtype| dtype.bytes().div_ceil(4)).sum();
    let sink = Sink {
        dtypes: vec![Dtype::U32],
        lens: vec![len as u32],
        store: Arc::new(move |to: &[Destination], values: &[R], _| {
            let words: Vec<_> = values.iter().flat_map(|value| split_words(*value)).collect();
            to[0].store(Dtype::U32, &words, false);
        }),
    };
    let load_records = move |origins: &[Origin], n: u32| {
        let words = load_words(&origins[0], len as u32 * n);
        (0..n as usize).map(|i| join_words(R::any(), &words[i * len as usize..][..len as usize])).collect()
    };
    (sink, Source { dtypes: vec![Dtype::U32], load: Arc::new(load_records) })
}

fn load_words(origin: &Origin, n: u32) -> Vec<Val<u32>> {
    match origin {
        Origin::Global(Place { pointer, .. }) => load(Dtype::U32, *pointer, n, false),
        Origin::Shared { .. } | Origin::Word(_) | Origin::Long(_) => unreachable!("it is loaded from memory"),
    }
}
