//! Copies of rows into tiles by threads, with conversion, where neither TMA nor `cp.async` can.

use warpfold_lang::{Global, HalfOfPair, Multiplicand, Tile, Val, range, thread_idx, when};

use super::work::bytes_at;
use crate::Dtype;
use crate::elements::{load, of_word};

/// Elements that a thread brings at a time: 16 bytes of shared memory.
const UNIT: u32 = 8;

/// Units that a thread has on their way at once.
const UNROLL: u32 = 4;

/// Where rows come from.
#[derive(Clone, Copy)]
pub(super) struct From {
    pub(super) memory: Global<u8>,
    pub(super) dtype: Dtype,
    /// Whether a unit is loaded at once.
    pub(super) wide: bool,
    /// Between elements of a row.
    pub(super) stride: Val<i64>,
}

/// Copies rows of `dim` elements into a tile, converted to its type; zeros behind each row, and
/// where there is none. The first `threads` of the block come here. `place` says where a row
/// begins, and whether there is one.
pub(super) fn copy_rows<T: Multiplicand + HalfOfPair>(
    to: Tile<T>,
    dim: u32,
    threads: u32,
    from: From,
    place: &dyn Fn(Val<u32>) -> (Val<i64>, Val<bool>),
) {
    let of_row = to.columns() / UNIT;
    let total = to.rows() * of_row;
    range(thread_idx().x, total, threads * UNROLL, |first| {
        let units: Vec<_> = (0..UNROLL)
            .map(|i| {
                let unit = first + i * threads;
                let (row, column) = (unit / of_row, unit % of_row * UNIT);
                let (start, exists) = place(row.min(to.rows() - 1));
                (row, column, unit.lt(total), unit_of::<T>(from, start, column, dim, exists & unit.lt(total)))
            })
            .collect();
        for (row, column, is_there, words) in units {
            when(is_there, || to.at(row, column).reinterpret::<u32>().set_vec(words));
        }
    });
}

/// Eight elements from a column on, as four words.
fn unit_of<T: HalfOfPair>(from: From, start: Val<i64>, column: Val<u32>, dim: u32, exists: Val<bool>) -> [Val<u32>; 4] {
    let From { memory, dtype, wide, stride } = from;
    let at = |column: Val<u32>| memory.at(bytes_at(dtype, start + column.cast::<i64>() * stride));
    if wide {
        // Rows have whole units then.
        let is_inside = exists & column.lt(dim);
        let first = memory.at(bytes_at(dtype, start + column.cast::<i64>()));
        if dtype.bytes() == 2 {
            return first.reinterpret::<u32>().get_vec_or(0_u32, is_inside);
        }
        let bits = first.reinterpret::<u32>().get_vec_or::<2>(0_u32, is_inside);
        return pairs::<T>(&bits.map(|word| of_word::<f32>(dtype, word, 4)).concat());
    }
    let element = |i: u32| {
        let inside = (column + i).min(dim - 1);
        let loaded: Val<f32> = load(dtype, at(inside), 1, false)[0];
        (exists & (column + i).lt(dim)).select(loaded, 0.0)
    };
    pairs::<T>(&(0..UNIT).map(element).collect::<Vec<_>>())
}

fn pairs<T: HalfOfPair>(values: &[Val<f32>]) -> [Val<u32>; 4] {
    std::array::from_fn(|i| Val::<T::Pair>::from_f32(values[2 * i], values[2 * i + 1]).bitcast::<u32>())
}
