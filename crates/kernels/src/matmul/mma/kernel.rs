//! The GEMM kernel by `mma.sync`.

use warpfold_lang::{Kernel, Multiplicand, Sum, Val, block_idx, kernel, wait_for_dependencies};

use super::main_loop::WarpTile;
use super::pieces::Pieces;
use super::ring::{Ring, Strided};
use super::tile::MmaTile;
use crate::Dtype;
use crate::kernel_name::KernelName;
use crate::matmul::accumulator::Accumulator;
use crate::matmul::args::{MatrixArgs, ProductArgs};
use crate::matmul::epilogue_writer::{EpilogueKey, EpilogueWriter};
use crate::matmul::tile_scheduler::TileScheduler;

/// What decides on the code of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct MmaProductConfig {
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
pub(crate) fn mma<T: Multiplicand>(config: &MmaProductConfig) -> Kernel<ProductArgs>
where
    T::Sum: Accumulator + Sum,
{
    let MmaProductConfig { tile: shape, pieces, has_rest, epilogue, .. } = config.clone();
    if let Err(rule) = shape.validate() {
        panic!("{rule}");
    }
    let body = move |ProductArgs { a, b, sizes, part_stride, end: outputs }: ProductArgs| {
        wait_for_dependencies();
        // Shared-memory map
        let sides = [shape.rows(), shape.columns()];
        let rings = [0, 1].map(|i| Ring::<T>::new(pieces[i], shape, sides[i]));
        // Roles
        let work = TileScheduler::new(sides, 1, shape.band, sizes).work(block_idx().x, Val::constant(0));
        let (first, lines) = ([work.row, work.column], [sizes.m.get(), sizes.n.get()]);
        let strided = |which: usize, ring: Ring<T>, matrix: MatrixArgs| {
            let memory = matrix.memory.reinterpret::<T>().at(matrix.offset(&work.position));
            let end = has_rest.then_some(work.end);
            let strides = [matrix.row.get(), matrix.column.get()];
            Strided::new(ring, memory, strides, [first[which], lines[which]], end)
        };
        let [ring_a, ring_b] = rings;
        let (of_a, of_b) = (strided(0, ring_a, a), strided(1, ring_b, b));
        // Main loop
        let sums = WarpTile::new(shape);
        sums.add_products([&of_a, &of_b], [work.begin, work.end]);
        // Epilogue
        let bytes = epilogue.result_bytes() as i64;
        let outputs = outputs.result_at(work.part.cast::<i64>() * part_stride.get() * bytes);
        let writer = EpilogueWriter::<T::Sum>::new(&epilogue, outputs, lines, work.position);
        sums.store(&writer, first);
    };
    kernel(name(config), body).required_block(shape.threads()).min_blocks(1)
}

fn name(config: &MmaProductConfig) -> String {
    let MmaProductConfig { dtype, tile, pieces, has_rest, epilogue } = config;
    let [a, b] = pieces.map(Pieces::key);
    let name = KernelName::new("matmul_mma").part(tile.key()).part(dtype).part(a).part(b);
    name.part_if(*has_rest, "rest").part(epilogue.key()).into()
}
