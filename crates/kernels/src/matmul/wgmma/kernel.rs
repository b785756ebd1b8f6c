//! The kernel for warpgroups: one thread copies ahead, one or two warpgroups multiply what is there, and blocks take tile
//! after tile. The ladder `hgemm` comes to it step by step.

use half::{bf16, f16};
use warpfold_lang::{
    Array, Cursor, Global, HalfOfPair, Kernel, Multiplicand, Operands, Pipeline, Sum, Swizzle, TensorMap, Tiles, Val,
    Var, WarpgroupSums, block_idx, bulk_commit, bulk_wait, bulk_wait_read, cluster_block_rank, cluster_idx,
    cluster_sync, fence_async, give_registers, grid_dim, kernel, lane_id, launch_dependents, num_clusters, range,
    sync_threads, sync_warpgroup, take_registers, thread_idx, tiles, var, wait_for_dependencies, warpgroup_idx,
    wgmma_commit, wgmma_fence, wgmma_wait, when, when_else,
};

use super::exchange::Exchange;
use super::maps::Lying;
use super::source::{Arrival, Factor, Source, Walk};
use super::tile::{ROW_BYTES, WgmmaTile};
use crate::Dtype;
use crate::matmul::accumulator::Accumulator;
use crate::matmul::epilogue::{MAX_INPUTS, MAX_SCALARS};
use crate::matmul::finish::{Ending, Finish, Outputs, STRIDES};
use crate::matmul::problem::BATCH_RANK;
use crate::matmul::simt::{MATRICES, SIZES};
use crate::matmul::work::{Bands, Work};

/// What the kernel takes: maps of `a`, `b` and, where copies store it, the result; sizes and strides as the kernel for
/// ordinary cores has them; the result, inputs of the epilogue, their strides, the numbers of the launch.
pub type Wgmma<T> = Kernel<(
    TensorMap<T>,
    TensorMap<T>,
    TensorMap<bf16>,
    [u32; SIZES],
    [i64; MATRICES],
    Global<u8>,
    [Global<u8>; MAX_INPUTS],
    [i64; STRIDES],
    [f64; MAX_SCALARS],
)>;

/// What decides on the code of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WgmmaConfiguration {
    /// The type of both factors.
    pub dtype: Dtype,
    /// The tiles.
    pub tile: WgmmaTile,
    /// How both factors lie.
    pub lying: [Lying; 2],
    /// Whether there is a batch, so that maps have five dimensions in place of two.
    pub is_batch: bool,
    /// The result's type where copies store it: halves.
    pub copied: Option<Dtype>,
    /// Whether the sums of a stage are added up outside of the tensor cores, whose sums of 8-bit floats lose precision.
    pub is_promoted: bool,
    /// For a convolution: how the filters walk; the left factor are pixels then, and the right one filters.
    pub walk: Option<Walk>,
    /// Rows of the left factor that copies bring, a multiple of 8: where there are fewer than a tile has, the others are zero
    /// from the start. (Copies of rows outside of a matrix take their time: 16 rows took 1.3 times as long as 64.)
    pub rows: u32,
    /// Which factors pass by once and are too large for a cache to keep.
    pub read_once: [bool; 2],
    /// What is done to the sums.
    pub ending: Ending,
}

/// Calls `body` for each piece of work of this block.
fn each_work(tile: WgmmaTile, rows: u32, is_gathered: bool, sizes: Array<u32, SIZES>, body: &dyn Fn(&Work)) {
    let WgmmaTile { columns, cluster, split, band, .. } = tile;
    let bands = Bands::new([rows, columns], cluster, band, sizes);
    let bands = if split > 1 { bands.split() } else { bands };
    let (rank, first, step) = match cluster * split {
        1 => (Val::constant(0), block_idx().x, grid_dim().x),
        _ => (cluster_block_rank(), cluster_idx().x, num_clusters().x),
    };
    let work = |i| if is_gathered { bands.row_by_row(i, rank) } else { bands.work(i, rank) };
    range(first, bands.num(), step, |i| body(&work(i)));
}

/// The kernel for factors of one type.
#[must_use]
pub fn wgmma<T: Multiplicand>(configuration: &WgmmaConfiguration) -> Wgmma<T>
where
    T::Sum: Accumulator + Sum,
{
    let WgmmaConfiguration { tile: shape, lying, is_batch, copied, is_promoted, walk, rows, read_once, ending, .. } =
        configuration.clone();
    if let Err(rule) = shape.validate() {
        panic!("{rule}");
    }
    let WgmmaTile { consumers, columns, cluster, panels, split, .. } = shape;
    let blocks = cluster * split;
    // Stages with shorter rows are as many more.
    let row_bytes = walk.map_or(ROW_BYTES, |walk| walk.row_bytes);
    let (depth, stages) = (row_bytes / T::BYTES, shape.stages * (ROW_BYTES / row_bytes));
    let body = move |a: TensorMap<T>,
                     b: TensorMap<T>,
                     c: TensorMap<bf16>,
                     sizes: Array<u32, SIZES>,
                     strides: Array<i64, MATRICES>,
                     result: Global<u8>,
                     inputs: [Global<u8>; MAX_INPUTS],
                     ends: Array<i64, STRIDES>,
                     scalars: Array<f64, MAX_SCALARS>| {
        // Shared-memory map
        let repeats = |which: usize| {
            let stride = |dim| strides.at(which * (3 + BATCH_RANK) + 3 + dim);
            (0..if is_batch { BATCH_RANK } else { 0 }).map(stride).collect()
        };
        let [source_a, source_b] = match walk {
            None => [Source::Matrix(repeats(0)), Source::Matrix(repeats(1))],
            Some(walk) => Source::of_walk(walk, strides),
        };
        let [a, b] = [(a, read_once[0]), (b, read_once[1])].map(|(map, once)| if once { map.read_once() } else { map });
        let of_a = Factor::new(a, lying[0], [stages, panels], [shape.rows(), depth], source_a);
        let of_b = Factor::new(b, lying[1], [stages, panels], [columns, depth], source_b);
        // Barriers
        let pipeline = Pipeline::new(stages);
        when(thread_idx().x.eq(0), || {
            pipeline.init(1, 4 * consumers * cluster);
            a.prefetch();
            b.prefetch();
        });
        if rows < shape.rows() {
            of_a.clear_from(rows, shape.threads());
        }
        let sync_all = || if blocks > 1 { cluster_sync() } else { sync_threads() };
        sync_all();
        // What lies above runs while the launch before this one ends; all memory is behind this line.
        wait_for_dependencies();
        launch_dependents();
        // Roles
        let warpgroup = warpgroup_idx();
        let at = pipeline.start();
        // Main loop: the producer is one thread
        let produce = || {
            if consumers == 2 {
                give_registers(40);
            }
            let shared_columns = columns / cluster;
            let mine = if cluster > 1 { cluster_block_rank() * shared_columns } else { Val::constant(0) };
            let copy = |work: &Work| {
                let (first_a, first_b) = (of_a.line(work.row), of_b.line(work.column + mine));
                range(work.begin, work.end, panels * depth, |step| {
                    pipeline.acquire(at);
                    pipeline.full(at).arrive_expect(panels * (rows + columns) * depth * T::BYTES);
                    let arrival = Arrival { pipeline, at, blocks: None };
                    let blocks = (cluster > 1).then_some((1 << cluster) - 1);
                    for panel in 0..panels {
                        let step = if panel == 0 { step } else { step + panel * depth };
                        of_a.copy(of_a.panel(at, panel), first_a, step, work, arrival);
                        let tile_b = of_b.lines_from(of_b.panel(at, panel), mine, shared_columns);
                        of_b.copy(tile_b, first_b, step, work, Arrival { blocks, ..arrival });
                    }
                    at.advance();
                });
            };
            when(thread_idx().x.eq(0), || each_work(shape, rows, walk.is_some(), sizes, &copy));
        };
        // Main loop: a consumer is a warpgroup with 64 rows
        let consume = || {
            if consumers == 2 {
                take_registers(232);
            }
            let sums = WarpgroupSums::<T>::new(columns);
            let totals = is_promoted.then(|| Totals::new(&sums));
            let first = (warpgroup - 1) * 64;
            // The stage of the product before, where that is still under way.
            let done = (shape.is_ahead() && !is_promoted).then(|| pipeline.start());
            let exchange = (split > 1).then(|| Exchange::new(shape));
            let store = copied.map(|dtype| Store::new(dtype, consumers, columns));
            each_work(shape, rows, walk.is_some(), sizes, &|work| {
                // What the epilogue reads once for all is under way while the sums are made.
                let bytes = ending.result_bytes() as i64;
                let result = result.at(work.part.cast::<i64>() * strides.at(MATRICES - 1) * bytes);
                let outputs = Outputs { result, inputs, strides: ends, scalars };
                // Behind a block's rows come those of the next.
                let is_cut = cluster > 1 && rows < shape.rows();
                let end = if is_cut { sizes.at(0).min(work.row + rows) } else { sizes.at(0) };
                let finish = Finish::<T::Sum>::new(&ending, outputs, [end, sizes.at(1)], work.position);
                totals.iter().for_each(Totals::clear);
                range(work.begin, work.end, panels * depth, |step| {
                    pipeline.wait(at);
                    let factors = (0..panels).map(|panel| {
                        let a = of_a.lines_from(of_a.panel(at, panel), first, 64);
                        let b = of_b.panel(at, panel);
                        Operands { a, a_major: of_a.lying.major(), b, b_major: of_b.lying.major() }
                    });
                    let factors: Vec<_> = factors.collect();
                    let keep = if is_promoted { Val::constant(false) } else { step.ne(work.begin) };
                    wgmma_fence();
                    for (panel, factors) in factors.iter().enumerate() {
                        sums.add_product(factors, if panel == 0 { keep } else { Val::constant(true) });
                    }
                    wgmma_commit();
                    match done {
                        Some(done) => {
                            wgmma_wait(1);
                            when(step.ne(work.begin), || {
                                release(pipeline, done, cluster);
                                done.advance();
                            });
                        }
                        None => {
                            wgmma_wait(0);
                            release(pipeline, at, cluster);
                        }
                    }
                    totals.iter().for_each(|totals| totals.add(&sums));
                    at.advance();
                });
                if let Some(done) = done {
                    wgmma_wait(0);
                    release(pipeline, done, cluster);
                    done.advance();
                }
                // Epilogue
                let pairs = totals.as_ref().map_or_else(|| sums.pairs().collect(), |totals| totals.pairs(&sums));
                let finish_pairs = |pairs: Pairs<T::Sum>| match (&store, walk) {
                    (None, Some(walk)) if walk.has_planes => {
                        let pixels = strides.at(0).cast::<u32>() * strides.at(1).cast::<u32>();
                        finish_planes(
                            &finish,
                            pairs,
                            [work.row + first, work.column],
                            [sizes.at(0), sizes.at(1)],
                            pixels,
                        );
                    }
                    (None, _) => {
                        for (row, column, pair) in pairs {
                            finish.row(&pair, work.row + first + row, work.column + column);
                        }
                    }
                    (Some(store), _) => store.store(c, &finish, pairs, work, first, is_batch),
                };
                match exchange {
                    Some(exchange) => exchange.fold(&pairs, finish_pairs),
                    None => finish_pairs(pairs),
                }
            });
            store.iter().for_each(Store::end);
        };
        when_else(warpgroup.eq(0), produce, consume);
        if cluster > 1 {
            // No block leaves while the other may still write to it.
            cluster_sync();
        }
    };
    let kernel = kernel(name(configuration), body).required_block(shape.threads()).min_blocks(1);
    if blocks > 1 { kernel.cluster(blocks) } else { kernel }
}

/// Stores the results of pixels of image after image, each of whose channels is a plane of `pixels`.
fn finish_planes<S: Accumulator>(
    finish: &Finish<'_, S>,
    pairs: Pairs<S>,
    [row, column]: [Val<u32>; 2],
    [m, n]: [Val<u32>; 2],
    pixels: Val<u32>,
) {
    // A thread has two rows. Between the pixels of two images lie the planes of the other channels.
    let other_planes = pixels * (n - 1);
    let places: Vec<_> = pairs.iter().take(2).map(|(down, ..)| row + *down).collect();
    let places: Vec<_> = places.into_iter().map(|row| (row, row / pixels * other_planes + row)).collect();
    for (i, (_, right, pair)) in pairs.into_iter().enumerate() {
        let (row, place) = places[i % 2];
        for (column, value) in [column + right, column + right + 1].into_iter().zip(pair) {
            when(row.lt(m) & column.lt(n), || finish.inside(&[value], place, column));
        }
    }
}

fn name(configuration: &WgmmaConfiguration) -> String {
    let WgmmaConfiguration { dtype, tile, lying, is_batch, copied, is_promoted, walk, rows, read_once, ending } =
        configuration;
    let flag = |is: bool, name: &'static str| if is { name } else { "" };
    format!(
        "matmul_wgmma_{}x{}x{}_c{}{}{}_{dtype}_{}{}{}{}{}{}{}_{}",
        tile.rows(),
        tile.columns,
        tile.stages,
        tile.cluster,
        if tile.panels > 1 { format!("_p{}", tile.panels) } else { String::new() },
        if tile.split > 1 { format!("_s{}", tile.split) } else { String::new() },
        lying[0].key(),
        lying[1].key(),
        flag(*is_batch, "_batch"),
        flag(copied.is_some(), "_copied"),
        flag(*is_promoted, "_promoted"),
        if *rows < tile.rows() { format!("_m{rows}") } else { String::new() }
            + &walk.as_ref().map(Walk::key).unwrap_or_default(),
        match read_once {
            [false, false] => "",
            [true, false] => "_once_a",
            [false, true] => "_once_b",
            [true, true] => "_once",
        },
        ending.key()
    )
}

/// Tells every block that copies into this stage that the warp is done with it.
fn release(pipeline: Pipeline, at: Cursor, cluster: u32) {
    if cluster == 1 {
        when(lane_id().eq(0), || pipeline.empty(at).arrive());
    } else {
        when(lane_id().lt(cluster), || pipeline.empty(at).arrive_at(lane_id()));
    }
}

/// Pairs of neighbours of a row, with their places in a warpgroup's 64 rows.
pub(super) type Pairs<S> = Vec<(Val<u32>, Val<u32>, [Val<S>; 2])>;

/// Sums of the sums of stages.
struct Totals<S: Sum> {
    sums: Vec<Var<S>>,
}

impl<S: Accumulator + Sum> Totals<S> {
    fn new<T: Multiplicand<Sum = S>>(sums: &WarpgroupSums<T>) -> Self {
        Self { sums: (0..sums.columns() / 2).map(|_| var::<S>(Val::constant(S::ZERO))).collect() }
    }

    fn clear(&self) {
        self.sums.iter().for_each(|sum| sum.set(Val::constant(S::ZERO)));
    }

    fn add<T: Multiplicand<Sum = S>>(&self, sums: &WarpgroupSums<T>) {
        let values = sums.pairs().flat_map(|(_, _, pair)| pair);
        self.sums.iter().zip(values).for_each(|(total, sum)| total.add_assign(sum));
    }

    fn pairs<T: Multiplicand<Sum = S>>(&self, sums: &WarpgroupSums<T>) -> Pairs<S> {
        let totals = self.sums.chunks_exact(2).map(|pair| [pair[0].get(), pair[1].get()]);
        sums.places().zip(totals).map(|((row, column), pair)| (row, column, pair)).collect()
    }
}

/// Stores results of halves by copies: a tile of shared memory for each warpgroup that multiplies.
enum Store {
    F16(Tiles<f16>),
    Bf16(Tiles<bf16>),
}

impl Store {
    fn new(dtype: Dtype, consumers: u32, columns: u32) -> Self {
        match dtype {
            Dtype::F16 => Self::F16(tiles(consumers, 64, columns, Swizzle::Bytes128)),
            Dtype::Bf16 => Self::Bf16(tiles(consumers, 64, columns, Swizzle::Bytes128)),
            dtype => unreachable!("no plan has copies store {dtype}"),
        }
    }

    fn store<S: Accumulator>(
        &self,
        c: TensorMap<bf16>,
        finish: &Finish<'_, S>,
        pairs: Pairs<S>,
        work: &Work,
        first: Val<u32>,
        is_batch: bool,
    ) {
        match self {
            Self::F16(tiles) => store_halves(*tiles, c, finish, pairs, work, first, is_batch),
            Self::Bf16(tiles) => store_halves(*tiles, c, finish, pairs, work, first, is_batch),
        }
    }

    /// Waits for the last copy, before the block ends.
    fn end(&self) {
        when(is_copying(), || bulk_wait(0));
    }
}

/// Whether this thread starts its warpgroup's copies.
fn is_copying() -> Val<bool> {
    (thread_idx().x & 127).eq(0)
}

fn store_halves<S: Accumulator, H: HalfOfPair>(
    tiles: Tiles<H>,
    c: TensorMap<bf16>,
    finish: &Finish<'_, S>,
    pairs: Pairs<S>,
    work: &Work,
    first: Val<u32>,
    is_batch: bool,
) {
    let tile = tiles.at(warpgroup_idx() - 1);
    when(is_copying(), || bulk_wait_read(0));
    sync_warpgroup();
    let words = pairs.into_iter().map(|(row, column, pair)| {
        let [left, right] = finish.pair(pair, work.row + first + row, work.column + column);
        Val::<H::Pair>::from_f32(left.cast::<f32>(), right.cast::<f32>())
    });
    tile.store_pairs(&words.collect::<Vec<_>>());
    fence_async();
    sync_warpgroup();
    when(is_copying(), || {
        let [outer, middle, inner] = work.position.each;
        for (right, panel) in tile.panels() {
            let (panel, column, row) = (panel.reinterpret::<bf16>(), work.column + right, work.row + first);
            if is_batch { c.store(panel, [column, row, inner, middle, outer]) } else { c.store(panel, [column, row]) }
        }
        bulk_commit();
    });
}
