//! Keys in the order of the elements, with the positions that these had.

use std::ops::Range;

use warpfold_lang::{Global, Val};

use crate::Dtype;
use crate::elements::{load, store};

/// A key and the position of its element, in one word for keys of 32 bits.
#[derive(Clone, Copy)]
pub(super) struct Pair {
    pub(super) key: Val<u64>,
    pub(super) position: Option<Val<u32>>,
}

impl Pair {
    pub(super) fn is_above(self, other: Self) -> Val<bool> {
        match (self.position, other.position) {
            (Some(mine), Some(theirs)) => self.key.gt(other.key) | (self.key.eq(other.key) & mine.gt(theirs)),
            _ => self.key.gt(other.key),
        }
    }

    pub(super) fn select(which: Val<bool>, yes: Self, no: Self) -> Self {
        let position = yes.position.zip(no.position).map(|(yes, no)| which.select(yes, no));
        Self { key: which.select(yes.key, no.key), position }
    }

    pub(super) fn position(self) -> Val<u32> {
        self.position.unwrap_or_else(|| self.key.cast::<u32>())
    }
}

/// An element as a pair: unsigned keys in the order of the values, NaN above all, zeros alike.
pub(super) fn pair_of(dtype: Dtype, descending: bool, element: Global<u8>, position: Val<u32>) -> Pair {
    const SIGN: u32 = 1 << 31;
    const LONG_SIGN: u64 = 1 << 63;
    if dtype.bytes() == 8 {
        let key = match dtype {
            Dtype::F64 => {
                let x = load::<f64, _>(dtype, element, 1, false)[0];
                let bits = (x + 0.0).bitcast::<u64>();
                x.is_nan().select(u64::MAX, (bits & LONG_SIGN).eq(0).select(bits | LONG_SIGN, !bits))
            }
            Dtype::I64 => load::<u64, _>(Dtype::U64, element, 1, false)[0] ^ LONG_SIGN,
            _ => load::<u64, _>(Dtype::U64, element, 1, false)[0],
        };
        return Pair { key: if descending { !key } else { key }, position: Some(position) };
    }
    let key = match dtype {
        _ if dtype.is_float() => {
            let x = load::<f32, _>(dtype, element, 1, false)[0];
            let bits = (x + 0.0).bitcast::<u32>();
            x.is_nan().select(u32::MAX, (bits & SIGN).eq(0).select(bits | SIGN, !bits))
        }
        Dtype::I8 | Dtype::I16 | Dtype::I32 => {
            load::<i32, _>(dtype, element, 1, false)[0].cast::<u32>() + (1_u32 << (8 * dtype.bytes() - 1))
        }
        _ => load::<u32, _>(dtype, element, 1, false)[0],
    };
    let key = if descending { !key } else { key };
    Pair { key: (key.cast::<u64>() << 32) | position.cast::<u64>(), position: None }
}

/// The bits of a key that tell elements apart.
pub(super) const fn key_bits(dtype: Dtype) -> Range<u32> {
    match dtype {
        Dtype::F64 | Dtype::I64 | Dtype::U64 => 0..64,
        Dtype::F32 | Dtype::I32 | Dtype::U32 => 0..32,
        // As `f32`, of which their exponents need all bits and their mantissas the first ones.
        Dtype::F16 => 13..32,
        Dtype::Bf16 => 16..32,
        Dtype::F8E4M3 | Dtype::F8E5M2 => 20..32,
        Dtype::I16 | Dtype::U16 => 0..16,
        Dtype::I8 | Dtype::U8 | Dtype::Bool => 0..8,
    }
}

/// Pairs in scratch memory between two kernels.
pub(super) struct Scratch {
    pub(super) keys: Global<u64>,
    pub(super) positions: Option<Global<u32>>,
}

impl Scratch {
    pub(super) fn get(&self, i: Val<u64>) -> Pair {
        Pair { key: self.keys.at(i).get(), position: self.positions.map(|positions| positions.at(i).get()) }
    }

    pub(super) fn set(&self, i: Val<u64>, pair: Pair) {
        self.keys.at(i).set(pair.key);
        self.positions.zip(pair.position).into_iter().for_each(|(to, position)| to.at(i).set(position));
    }
}

/// The elements as they were, and where they go.
pub(super) struct Results {
    pub(super) dtype: Dtype,
    pub(super) rows: Global<u8>,
    pub(super) sorted: Global<u8>,
    pub(super) positions: Global<i64>,
}

impl Results {
    /// The element at a position of the row that begins at `first` comes to this column.
    pub(super) fn set(&self, first: Val<u64>, column: Val<u64>, position: Val<u32>) {
        let (bytes, to) = (self.dtype.bytes(), first + column);
        let (from, sorted) = (self.rows.at((first + position.cast::<u64>()) * bytes), self.sorted.at(to * bytes));
        // Bits are moved as they are: a zero keeps its sign.
        if bytes == 8 {
            store(Dtype::U64, sorted, &load::<u64, _>(Dtype::U64, from, 1, false), false);
        } else {
            store(self.dtype.bits(), sorted, &load::<u32, _>(self.dtype.bits(), from, 1, false), false);
        }
        self.positions.at(to).set(position.cast::<i64>());
    }
}
