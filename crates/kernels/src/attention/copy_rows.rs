//! Copies of rows into tiles by threads, with conversion, where neither TMA nor `cp.async` can.

use warpfold_lang::{Global, Tile, Val, range, thread_idx, when};

use super::factor::Factor;
use super::work::bytes_at;
use crate::Dtype;
use crate::elements::{load, of_word};

/// Elements that a thread loads at once, where tensors allow it: 16 bytes.
pub(super) const fn wide(dtype: Dtype) -> u64 {
    16 / dtype.bytes()
}

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

/// Elements that a thread brings at a time: 16 bytes of memory, or of the tile one by one.
const fn unit<T: Factor>(from: &From) -> u32 {
    if from.wide { wide(from.dtype) as u32 } else { 16 / T::BYTES }
}

/// Copies rows of `dim` elements into a tile, converted to its type; zeros behind each row, and
/// where there is none. The first `threads` of the block come here, each with `unroll` loads under
/// way. `place` says where a row begins, and whether there is one.
pub(super) fn copy_rows<T: Factor>(
    to: Tile<T>,
    dim: u32,
    (threads, unroll): (u32, u32),
    from: From,
    place: &dyn Fn(Val<u32>) -> (Val<i64>, Val<bool>),
) {
    // Panel after panel: so the swizzle puts what neighbours write into different banks, also where
    // each of them writes every second piece.
    let (unit, rows, panel) = (unit::<T>(&from), to.rows(), to.panel_columns());
    let of_row = panel / unit;
    let of_panel = rows * of_row;
    let total = of_panel * (to.columns() / panel);
    range(thread_idx().x, total, threads * unroll, |first| {
        let loaded: Vec<_> = (0..unroll)
            .map(|i| {
                let number = first + i * threads;
                let row = number / of_row % rows;
                let column = number / of_panel * panel + number % of_row * unit;
                let (start, exists) = place(row);
                (row, column, number.lt(total), bits_of::<T>(from, start, column, dim, exists & number.lt(total)))
            })
            .collect();
        for (row, column, is_there, bits) in loaded {
            let words = if from.wide && from.dtype.bytes() < u64::from(T::BYTES) {
                let elements = bits.iter().flat_map(|word| of_word::<f32>(from.dtype, *word, 4));
                T::words(&elements.collect::<Vec<_>>())
            } else {
                bits.to_vec()
            };
            when(is_there, || {
                for (four, i) in words.chunks_exact(4).zip(0_u32..) {
                    to.at(row, column + 16 / T::BYTES * i)
                        .reinterpret::<u32>()
                        .set_vec([four[0], four[1], four[2], four[3]]);
                }
            });
        }
    });
}

/// What a unit has from a column on: its bits in memory, or the words that it becomes.
fn bits_of<T: Factor>(from: From, start: Val<i64>, column: Val<u32>, dim: u32, exists: Val<bool>) -> [Val<u32>; 4] {
    let From { memory, dtype, wide, stride } = from;
    if wide {
        // Rows have whole units then.
        let first = memory.at(bytes_at(dtype, start + column.cast::<i64>()));
        return first.reinterpret::<u32>().get_vec_or(0_u32, exists & column.lt(dim));
    }
    let element = |i: u32| {
        let inside = (column + i).min(dim - 1);
        let at = memory.at(bytes_at(dtype, start + inside.cast::<i64>() * stride));
        let loaded: Val<f32> = load(dtype, at, 1, false)[0];
        (exists & (column + i).lt(dim)).select(loaded, 0.0)
    };
    let words = T::words(&(0..16 / T::BYTES).map(element).collect::<Vec<_>>());
    std::array::from_fn(|i| words[i])
}
