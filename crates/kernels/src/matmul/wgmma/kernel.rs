//! The kernel for warpgroups: a thread for each ring copies ahead, one or two warpgroups multiply what is there, and blocks take tile
//! after tile. The ladder `hgemm` comes to it step by step. What each role does stands in `produce` and `consume`.

use half::bf16;
use warpfold_lang::{
    Array, Global, Kernel, Multiplicand, Sum, TensorMap, Val, block_idx, cluster_block_rank, cluster_idx, cluster_sync,
    grid_dim, kernel, launch_dependents, num_clusters, range, sync_threads, thread_idx, wait_for_dependencies,
    warpgroup_idx, when, when_else,
};

use super::ahead::fetch_ahead;
use super::consume::consume;
use super::maps::Lying;
use super::produce::produce;
use super::rings::Rings;
use super::source::{Factor, Source, Walk};
use super::store::Results;
use super::tile::{ROW_BYTES, WgmmaTile};
use crate::Dtype;
use crate::matmul::accumulator::Accumulator;
use crate::matmul::epilogue::{MAX_INPUTS, MAX_SCALARS};
use crate::matmul::finish::{Ending, Outputs, STRIDES};
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
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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

/// The kernel for factors of one type.
#[must_use]
pub fn wgmma<T: Multiplicand>(configuration: &WgmmaConfiguration) -> Wgmma<T>
where
    T::Sum: Accumulator + Sum,
{
    let shape = configuration.tile;
    if let Err(rule) = shape.validate() {
        panic!("{rule}");
    }
    let (blocks, shared) = (shape.cluster * shape.split, configuration.clone());
    let body = move |a: TensorMap<T>,
                     b: TensorMap<T>,
                     c: TensorMap<bf16>,
                     sizes: Array<u32, SIZES>,
                     strides: Array<i64, MATRICES>,
                     result: Global<u8>,
                     inputs: [Global<u8>; MAX_INPUTS],
                     ends: Array<i64, STRIDES>,
                     scalars: Array<f64, MAX_SCALARS>| {
        let block = Block::new(&shared, [a, b], sizes, strides);
        block.prepare();
        fetch_ahead(&block);
        if blocks > 1 {
            cluster_sync()
        } else {
            sync_threads()
        }
        // What lies above runs while the launch before this one ends; all memory is behind this line.
        wait_for_dependencies();
        launch_dependents();
        let (warpgroup, at) = (warpgroup_idx(), block.rings.start());
        let results = Results { c, outputs: Outputs { result, inputs, strides: ends, scalars } };
        when_else(warpgroup.eq(0), || produce(&block, at), || consume(&block, at, warpgroup, results));
    };
    let kernel = kernel(name(configuration), body).required_block(shape.threads()).min_blocks(1);
    if blocks > 1 { kernel.cluster(blocks) } else { kernel }
}

/// What both roles of a block use: where factors lie in shared memory, and the barriers between the roles.
pub(super) struct Block<'a, T> {
    pub(super) configuration: &'a WgmmaConfiguration,
    pub(super) a: Factor<T>,
    pub(super) b: Factor<T>,
    pub(super) sizes: Array<u32, SIZES>,
    pub(super) strides: Array<i64, MATRICES>,
    pub(super) rings: Rings,
    /// The block's work, where it is one tile: known before launches before this one have ended.
    work: Option<Work>,
    /// Elements of a line of a panel.
    pub(super) depth: u32,
}

impl<'a, T: Multiplicand> Block<'a, T> {
    fn new(
        configuration: &'a WgmmaConfiguration,
        [a, b]: [TensorMap<T>; 2],
        sizes: Array<u32, SIZES>,
        strides: Array<i64, MATRICES>,
    ) -> Self {
        let &WgmmaConfiguration { tile, lying, is_batch, walk, read_once, .. } = configuration;
        // Stages with shorter rows are as many more.
        let row_bytes = walk.map_or(ROW_BYTES, |walk| walk.row_bytes);
        let depth = row_bytes / T::BYTES;
        let stages = tile.each_stages().map(|stages| stages * (ROW_BYTES / row_bytes));
        let repeats = |which: usize| {
            let stride = |dim| strides.at(which * (3 + BATCH_RANK) + 3 + dim);
            (0..if is_batch { BATCH_RANK } else { 0 }).map(stride).collect()
        };
        let [source_a, source_b] = match walk {
            None => [Source::Matrix(repeats(0)), Source::Matrix(repeats(1))],
            Some(walk) => Source::of_walk(walk, strides),
        };
        let [a, b] = [(a, read_once[0]), (b, read_once[1])].map(|(map, once)| if once { map.read_once() } else { map });
        let a = Factor::new(a, lying[0], [stages[0], tile.panels], [tile.rows(), depth], source_a);
        let b = Factor::new(b, lying[1], [stages[1], tile.panels], [tile.columns, depth], source_b);
        let rings = Rings::new(tile, stages);
        let block = Self { configuration, a, b, sizes, strides, rings, work: None, depth };
        Self { work: (tile.once || tile.split > 1).then(|| block.first_work()), ..block }
    }

    /// Makes barriers, maps and rows that no copy brings ready, for a synchronisation to follow.
    fn prepare(&self) {
        let WgmmaConfiguration { tile, rows, .. } = *self.configuration;
        when(thread_idx().x.eq(0), || {
            self.rings.init();
            self.a.map.prefetch();
            self.b.map.prefetch();
        });
        if rows < tile.rows() {
            self.a.clear_from(rows, tile.threads());
        }
    }

    /// Calls `body` for each piece of work of this block.
    pub(super) fn each_work(&self, body: &dyn Fn(&Work)) {
        if let Some(work) = &self.work {
            return body(work);
        }
        let (bands, [rank, first, step]) = self.bands();
        let has_walk = self.configuration.walk.is_some();
        let work = |i| if has_walk { bands.row_by_row(i, rank) } else { bands.work(i, rank) };
        range(first, bands.num(), step, |i| body(&work(i)));
    }

    /// Whether this block has one piece of work.
    pub(super) fn has_one_work(&self) -> bool {
        self.work.is_some()
    }

    /// The first piece of work of this block, for a product of matrices.
    pub(super) fn first_work(&self) -> Work {
        if let Some(work) = self.work {
            return work;
        }
        let (bands, [rank, first, _]) = self.bands();
        bands.work(first, rank)
    }

    /// How work is numbered; this block's rank in its cluster, its first number, and the step to its next one.
    fn bands(&self) -> (Bands, [Val<u32>; 3]) {
        let WgmmaConfiguration { tile, rows, is_batch, .. } = *self.configuration;
        let WgmmaTile { columns, cluster, split, band, .. } = tile;
        let bands = Bands::new([rows, columns], cluster, band, self.sizes);
        let bands = if split > 1 { bands.split() } else { bands };
        let bands = if is_batch { bands } else { bands.of_one_product() };
        let mine = match cluster * split {
            1 => [Val::constant(0), block_idx().x, grid_dim().x],
            _ => [cluster_block_rank(), cluster_idx().x, num_clusters().x],
        };
        (bands, mine)
    }

    /// The first of the columns of a tile that this block copies, to all blocks of its cluster.
    pub(super) fn my_columns(&self) -> Val<u32> {
        let tile = self.configuration.tile;
        if tile.cluster > 1 { cluster_block_rank() * tile.copied_columns() } else { Val::constant(0) }
    }

    /// Calls `body` at each stage that a piece of work goes through, with its place along the sums.
    pub(super) fn each_stage(&self, work: &Work, body: impl FnOnce(Val<u32>)) {
        range(work.begin, work.end, self.configuration.tile.panels * self.depth, body);
    }
}

fn name(configuration: &WgmmaConfiguration) -> String {
    let WgmmaConfiguration { dtype, tile, lying, is_batch, copied, is_promoted, walk, rows, read_once, ending } =
        configuration;
    let flag = |is: bool, name: &'static str| if is { name } else { "" };
    format!(
        "matmul_wgmma_{}x{}x{}_c{}{}{}{}_{dtype}_{}{}{}{}{}{}{}_{}",
        tile.rows(),
        tile.columns,
        tile.stages,
        tile.cluster,
        if tile.panels > 1 { format!("_p{}", tile.panels) } else { String::new() },
        if tile.split > 1 { format!("_s{}", tile.split) } else { String::new() },
        tile.rows_stages.map_or_else(String::new, |stages| format!("_r{stages}")) + flag(tile.once, "_one"),
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
