//! The kernel for warps: all threads copy a few stages ahead, and each warp multiplies its lines of the stage at hand.

use warpfold_lang::{
    Array, Global, Multiplicand, Sum, Val, WarpSums, block_idx, commit_copies, kernel, range, sync_threads, var,
    wait_for_copies, warp_id, when,
};

use super::pieces::Pieces;
use super::source::{Factor, Strided};
use super::tile::MmaTile;
use crate::Dtype;
use crate::matmul::accumulator::Accumulator;
use crate::matmul::epilogue::MAX_SCALARS;
use crate::matmul::finish::{Ending, Finish, Outputs, STRIDES};
use crate::matmul::problem::BATCH_RANK;
use crate::matmul::simt::{MATRICES, SIZES, Simt};
use crate::matmul::work::Bands;

/// What decides on the code of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MmaConfiguration {
    /// The type of both factors.
    pub dtype: Dtype,
    /// The tiles.
    pub tile: MmaTile,
    /// How both factors are copied.
    pub pieces: [Pieces; 2],
    /// Whether a stage may reach beyond the last product.
    pub has_rest: bool,
    /// What is done to the sums.
    pub ending: Ending,
}

/// The kernel for factors of one type; it takes what that for ordinary cores takes.
#[must_use]
pub fn mma<T: Multiplicand>(configuration: &MmaConfiguration) -> Simt
where
    T::Sum: Accumulator + Sum,
{
    let MmaConfiguration { tile: shape, pieces, has_rest, ending, .. } = configuration.clone();
    if let Err(rule) = shape.validate() {
        panic!("{rule}");
    }
    let MmaTile { warp: [warp_m, warp_n], warps, stages, band, .. } = shape;
    let depth = shape.depth(T::BYTES);
    let body = move |a: Global<u8>,
                     b: Global<u8>,
                     sizes: Array<u32, SIZES>,
                     strides: Array<i64, MATRICES>,
                     result: Global<u8>,
                     x: Global<u8>,
                     y: Global<u8>,
                     z: Global<u8>,
                     ends: Array<i64, STRIDES>,
                     scalars: Array<f64, MAX_SCALARS>| {
        // Shared-memory map
        let sides = [shape.rows(), shape.columns()];
        let [of_a, of_b] = [0, 1].map(|i| Factor::<T>::new(pieces[i], stages, sides[i], depth, shape.threads()));
        // Roles
        let work = Bands::new(sides, 1, band, sizes).work(block_idx().x, Val::constant(0));
        let (warp_row, warp_column) = (warp_id() / warps[1], warp_id() % warps[1]);
        let lines_a = of_a.tiles.lines_of_a(of_a.pieces.major(), warp_row, warp_m);
        let lines_b = of_b.tiles.lines_of_b(of_b.pieces.major(), warp_column, warp_n);
        let strided = |which: usize, factor: Factor<T>, memory: Global<u8>, lines: [Val<u32>; 2]| {
            let word = |i: usize| strides.at(which * (3 + BATCH_RANK) + i);
            let of_batch =
                |first: Val<i64>, dim: usize| work.position.each[dim].cast::<i64>().mul_add(word(3 + dim), first);
            let first = memory.reinterpret::<T>().at((0..BATCH_RANK).fold(word(0), of_batch));
            Strided::new(factor, first, [word(1), word(2)], lines, has_rest.then_some(work.end))
        };
        let of_a = strided(0, of_a, a, [work.row, sizes.at(0)]);
        let of_b = strided(1, of_b, b, [work.column, sizes.at(1)]);
        // Main loop
        let copy = |stage: Val<u32>, step: Val<u32>| {
            when(step.lt(work.end), || {
                of_a.copy(stage, step);
                of_b.copy(stage, step);
            });
            // A group for every stage, also where there is nothing left to copy, so that waits can count.
            commit_copies();
        };
        let ahead = stages - 1;
        for stage in 0..ahead {
            copy(Val::constant(stage), work.begin + stage * depth);
        }
        let sums: Vec<Vec<WarpSums<T>>> =
            (0..warp_m / 16).map(|_| (0..warp_n / 8).map(|_| WarpSums::zero()).collect()).collect();
        let (full, empty) = (var(0_u32), var(ahead));
        range(work.begin, work.end, depth, |step| {
            wait_for_copies(ahead - 1);
            // The stage is there for all, and the one before it nobody reads any more.
            sync_threads();
            copy(empty.get(), step + ahead * depth);
            let (a, b) = (lines_a.of_tile(full), lines_b.of_tile(full));
            for step in (0..depth).step_by(T::STEP as usize) {
                let left: Vec<_> = (0..warp_m / 16).map(|i| a.fragment(16 * i, step)).collect();
                let right: Vec<_> = (0..warp_n / 16).flat_map(|j| b.fragments(16 * j, step)).collect();
                for (row_of_sums, a) in sums.iter().zip(left) {
                    row_of_sums.iter().zip(&right).for_each(|(sums, b)| sums.add_product(a, *b));
                }
            }
            for stage in [full, empty] {
                stage.set(stage.get().eq(ahead).select(0_u32, stage.get() + 1));
            }
        });
        // Epilogue
        let bytes = ending.result_bytes() as i64;
        let result = result.at(work.part.cast::<i64>() * strides.at(MATRICES - 1) * bytes);
        let outputs = Outputs { result, inputs: [x, y, z], strides: ends, scalars };
        let finish = Finish::<T::Sum>::new(&ending, outputs, [sizes.at(0), sizes.at(1)], work.position);
        let (row, column) = (work.row + warp_row * warp_m, work.column + warp_column * warp_n);
        for (i, row_of_sums) in (0..).zip(sums) {
            for (j, sums) in (0..).zip(row_of_sums) {
                for (down, along, pair) in sums.pairs() {
                    finish.row(&pair, row + 16 * i + down, column + 8 * j + along);
                }
            }
        }
    };
    kernel(name(configuration), body).required_block(shape.threads()).min_blocks(1)
}

fn name(configuration: &MmaConfiguration) -> String {
    let MmaConfiguration { dtype, tile, pieces, has_rest, ending } = configuration;
    let [a, b] = pieces.map(Pieces::key);
    let rest = if *has_rest { "_rest" } else { "" };
    let (rows, columns, [warp_rows, warp_columns]) = (tile.rows(), tile.columns(), tile.warp);
    let key = ending.key();
    format!(
        "matmul_mma_{rows}x{columns}_{warp_rows}x{warp_columns}_{}x{}_{dtype}_{a}_{b}{rest}_{key}",
        tile.step_bytes, tile.stages
    )
}
