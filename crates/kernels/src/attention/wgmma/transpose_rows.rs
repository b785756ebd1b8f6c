//! Values of 8 bits on their way to shared memory: transposed, as WGMMA takes B of such types along
//! `k` alone, and in the order in which weights lie in registers.

use warpfold_lang::{F8E4M3, Tile, Val, WarpgroupFragment, range, thread_idx};

use super::super::copy_rows::From;
use super::super::factor::Factor;
use super::super::work::bytes_at;

/// Elements of a row that a thread brings at once: 16 bytes.
const WIDE: u32 = 16;

/// Copies rows of `dim` elements into the columns of a tile; zeros where there are none. A thread
/// brings pieces of the four rows that share a word, and no two lanes of a warp store to a bank.
pub(super) fn transpose_rows<T: Factor>(
    to: Tile<T>,
    dim: u32,
    threads: u32,
    from: From,
    place: &dyn Fn(Val<u32>) -> (Val<i64>, Val<bool>),
) {
    let words = to.columns() / 4;
    range(thread_idx().x, words * (to.rows() / WIDE), threads, |number| {
        let (word, piece) = (number % words, number / words);
        let first = piece * WIDE;
        let starts = [0, 1, 2, 3].map(|i| {
            // What `WarpgroupFragment::column` says, of an element that is known at run time.
            let in_turn = WarpgroupFragment::<F8E4M3>::column(i);
            place(word / 4 * 16 + (word % 4) * 2 + in_turn)
        });
        // Rows of 64 bytes share the banks with every second one: half of the lanes begin with the
        // other.
        let swaps = (words < 32).then(|| piece & 1);
        let store = |row: Val<u32>, rows: [Val<u32>; 4]| {
            let columns = transposed(rows);
            for (i, column) in (0..4_u32).zip(columns) {
                let (i, bits) = match swaps {
                    None => (Val::constant(i), column),
                    Some(swap) => (swap ^ i, swap.ne(0).select(columns[(i ^ 1) as usize], column)),
                };
                to.at(row + i, word * 4).reinterpret::<u32>().set(bits);
            }
        };
        if from.wide {
            let rows = starts.map(|(start, exists)| {
                let place = from.memory.at(bytes_at(from.dtype, start + first.cast::<i64>()));
                place.reinterpret::<u32>().get_vec_or::<4>(0_u32, exists & first.lt(dim))
            });
            (0..4_u32).for_each(|four| store(first + 4 * four, rows.map(|row| row[four as usize])));
        } else {
            range(first, first + WIDE, 4_u32, |row| {
                store(row, starts.map(|(start, exists)| one_by_one(&from, start, row, dim, exists)));
            });
        }
    });
}

/// Four elements of a row from a column on, as a word; zeros behind its end.
fn one_by_one(from: &From, start: Val<i64>, column: Val<u32>, dim: u32, exists: Val<bool>) -> Val<u32> {
    let byte = |i: u32| {
        let inside = (column + i).min(dim - 1);
        let place = from.memory.at(start + inside.cast::<i64>() * from.stride);
        place.get_or(0, exists & (column + i).lt(dim)).cast::<u32>() << (8 * i)
    };
    byte(0) | byte(1) | byte(2) | byte(3)
}

/// The transpose of four by four bytes.
fn transposed([a, b, c, d]: [Val<u32>; 4]) -> [Val<u32>; 4] {
    // Bytes of two rows in turns, then of all.
    let [ab, cd] = [[a, b], [c, d]].map(|[upper, lower]| [0x5140, 0x7362].map(|order| upper.prmt(lower, order)));
    let of = |i: usize, order: u32| ab[i].prmt(cd[i], order);
    [of(0, 0x5410), of(0, 0x7632), of(1, 0x5410), of(1, 0x7632)]
}
