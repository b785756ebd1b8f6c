//! The GEMM kernel by `mma.sync`.

use warpfold_lang::{Array, Global, Multiplicand, Sum, Val, block_idx, kernel, wait_for_dependencies};

use super::main_loop::WarpTile;
use super::pieces::Pieces;
use super::ring::{Ring, Strided};
use super::tile::MmaTile;
use crate::Dtype;
use crate::kernel_name::KernelName;
use crate::matmul::accumulator::Accumulator;
use crate::matmul::epilogue::{MAX_INPUTS, MAX_SCALARS};
use crate::matmul::epilogue_writer::{EpilogueKey, EpilogueOperands, EpilogueWriter, STRIDES};
use crate::matmul::problem::BATCH_RANK;
use crate::matmul::simt::{MATRICES, SIZES, Simt};
use crate::matmul::tile_scheduler::TileScheduler;

/// What decides on the code of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct MmaConfiguration {
    /// The type of both factors.
    pub dtype: Dtype,
    /// The tiles.
    pub tile: MmaTile,
    /// How both factors are copied.
    pub pieces: [Pieces; 2],
    /// Whether a stage may reach beyond the last product.
    pub has_rest: bool,
    /// What is done to the sums.
    pub epilogue: EpilogueKey,
}

/// The kernel for factors of one type; it takes what that for CUDA cores takes.
#[must_use]
pub(crate) fn mma<T: Multiplicand>(configuration: &MmaConfiguration) -> Simt
where
    T::Sum: Accumulator + Sum,
{
    let MmaConfiguration { tile: shape, pieces, has_rest, epilogue, .. } = configuration.clone();
    if let Err(rule) = shape.validate() {
        panic!("{rule}");
    }
    let body = move |a: Global<u8>,
                     b: Global<u8>,
                     sizes: Array<u32, SIZES>,
                     strides: Array<i64, MATRICES>,
                     result: Global<u8>,
                     inputs: [Global<u8>; MAX_INPUTS],
                     ends: Array<i64, STRIDES>,
                     scalars: Array<f64, MAX_SCALARS>| {
        wait_for_dependencies();
        // Shared-memory map
        let sides = [shape.rows(), shape.columns()];
        let rings = [0, 1].map(|i| Ring::<T>::new(pieces[i], shape, sides[i]));
        // Roles
        let work = TileScheduler::new(sides, 1, shape.band, sizes).work(block_idx().x, Val::constant(0));
        let (first, lines) = ([work.row, work.column], [sizes.at(0), sizes.at(1)]);
        let strided = |which: usize, ring: Ring<T>, memory: Global<u8>| {
            let word = |i: usize| strides.at(which * (3 + BATCH_RANK) + i);
            let in_batch =
                |first: Val<i64>, dim: usize| work.position.each[dim].cast::<i64>().mul_add(word(3 + dim), first);
            let memory = memory.reinterpret::<T>().at((0..BATCH_RANK).fold(word(0), in_batch));
            let end = has_rest.then_some(work.end);
            Strided::new(ring, memory, [word(1), word(2)], [first[which], lines[which]], end)
        };
        let [ring_a, ring_b] = rings;
        let (of_a, of_b) = (strided(0, ring_a, a), strided(1, ring_b, b));
        // Main loop
        let sums = WarpTile::new(shape);
        sums.add_products([&of_a, &of_b], [work.begin, work.end]);
        // Epilogue
        let bytes = epilogue.result_bytes() as i64;
        let result = result.at(work.part.cast::<i64>() * strides.at(MATRICES - 1) * bytes);
        let outputs = EpilogueOperands { result, inputs, strides: ends, scalars };
        let writer = EpilogueWriter::<T::Sum>::new(&epilogue, outputs, lines, work.position);
        sums.store(&writer, first);
    };
    kernel(name(configuration), body).required_block(shape.threads()).min_blocks(1)
}

fn name(configuration: &MmaConfiguration) -> String {
    let MmaConfiguration { dtype, tile, pieces, has_rest, epilogue } = configuration;
    let [a, b] = pieces.map(Pieces::key);
    let name = KernelName::new("matmul_mma").part(tile.key()).part(dtype).part(a).part(b);
    name.part_if(*has_rest, "rest").part(epilogue.key()).into()
}
