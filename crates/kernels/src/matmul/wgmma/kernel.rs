//! The WGMMA kernel: producer threads issue TMA loads into rings of stages, one or two warpgroups
//! multiply, and blocks take tile after tile (persistent). The ladder `hgemm` builds it step by
//! step. The roles are in `produce` and `consume`.

use warpfold_lang::{
    Kernel, Multiplicand, Sum, Val, block_idx, cluster_block_rank, cluster_idx, cluster_sync, grid_dim, kernel,
    launch_dependents, num_clusters, range, sync_threads, thread_idx, wait_for_dependencies,
    wait_for_dependencies_after_constants, warpgroup_idx, when, when_else,
};

use super::consume::consume;
use super::l2_prefetch::prefetch_to_l2;
use super::produce::{copy_weights, produce};
use super::rings::Rings;
use super::source::{Factor, Im2col, Source};
use super::tile::{ROW_BYTES, WgmmaTile};
use crate::Dtype;
use crate::kernel_name::KernelName;
use crate::matmul::accumulator::Accumulator;
use crate::matmul::args::WgmmaArgs;
use crate::matmul::epilogue_writer::{BatchCoord, EpilogueKey};
use crate::matmul::operand_major::OperandMajor;
use crate::matmul::problem::BATCH_RANK;
use crate::matmul::tile_scheduler::{TileScheduler, TileWork};

/// What decides on the code of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct WgmmaProductConfig {
    /// The type of both factors.
    pub dtype: Dtype,
    /// The tiles.
    pub tile: WgmmaTile,
    /// How both factors lie.
    pub majors: [OperandMajor; 2],
    /// Whether there is a batch, so that maps have five dimensions instead of two.
    pub is_batch: bool,
    /// True if parts of the sums are no whole stages: maps have those of a batch then, and copies
    /// bring zeros behind each.
    pub is_ragged: bool,
    /// The result's type where copies store it: halves.
    pub copied: Option<Dtype>,
    /// Whether the sums of a stage are added up outside of the tensor cores, whose sums of 8-bit
    /// floats lose precision.
    pub is_promoted: bool,
    /// For a convolution: how the filters walk; the left factor are pixels then, and the right one
    /// filters.
    pub im2col: Option<Im2col>,
    /// Rows of the left factor that copies bring, a multiple of 8: where there are fewer than a
    /// tile has, the others are zero from the start. (Copies of rows outside of a matrix take their
    /// time: 16 rows took 1.3 times as long as 64.)
    pub rows: u32,
    /// Which factors pass by once and are too large for a cache to keep.
    pub read_once: [bool; 2],
    /// Parts of a block's sums that are added in a balanced tree.
    pub parts: u32,
    /// Whether the right factor are weights, whose first stages are copied before launches before
    /// this one have ended.
    pub weights: bool,
    /// What is done to the sums.
    pub epilogue: EpilogueKey,
}

impl WgmmaProductConfig {
    /// Columns of the result that a tile gives: a gate leaves half of them.
    pub(super) fn result_columns(&self) -> u32 {
        if self.epilogue.gate().is_some() { self.tile.columns / 2 } else { self.tile.columns }
    }

    /// Columns that a copy of the result stores.
    pub(in crate::matmul) fn result_panel(&self) -> Option<u32> {
        self.tile.panel_of(self.result_columns())
    }
}

/// The kernel for factors of one type.
#[must_use]
pub(crate) fn wgmma<T: Multiplicand>(config: &WgmmaProductConfig) -> Kernel<WgmmaArgs>
where
    T::Sum: Accumulator + Sum,
{
    let shape = config.tile;
    if let Err(rule) = shape.validate() {
        panic!("{rule}");
    }
    let (blocks, shared) = (shape.cluster * shape.split, config.clone());
    let body = move |args: WgmmaArgs| {
        // Contract: a grid of whole clusters, one for each piece of work where a block has one.
        // Shared-memory map
        let block = Block::<T>::new(&shared, args);
        if shared.tile.once {
            // One wave of blocks: those of the next launch take what is left.
            launch_dependents();
        }
        // Barriers
        block.prepare();
        if !shared.weights && !shared.is_ragged {
            prefetch_to_l2(&block);
        }
        if blocks > 1 {
            cluster_sync()
        } else {
            sync_threads()
        }
        // What stands above runs while the launch before this one ends, as do the first copies of
        // weights; all other accesses to memory are after this line.
        let ahead = if shared.weights {
            let ahead = copy_weights(&block);
            wait_for_dependencies_after_constants();
            Some(ahead)
        } else {
            wait_for_dependencies();
            None
        };
        if !shared.tile.once {
            launch_dependents();
        }
        // Roles
        let (warpgroup, at) = (warpgroup_idx(), block.rings.start());
        when_else(warpgroup.eq(0), || produce(&block, at, ahead), || consume(&block, at, warpgroup));
    };
    let kernel = kernel(name(config), body).required_block(shape.threads()).min_blocks(1);
    if blocks > 1 { kernel.cluster(blocks) } else { kernel }
}

/// What both roles of a block use: where factors lie in shared memory, and the barriers between the
/// roles.
pub(super) struct Block<'a, T> {
    pub(super) config: &'a WgmmaProductConfig,
    pub(super) a: Factor<T>,
    pub(super) b: Factor<T>,
    pub(super) args: WgmmaArgs,
    pub(super) rings: Rings,
    /// The block's work, where it is one tile: known before launches before this one have ended.
    work: Option<TileWork>,
    /// Elements of a line of a panel.
    pub(super) depth: u32,
}

impl<'a, T: Multiplicand> Block<'a, T> {
    fn new(config: &'a WgmmaProductConfig, args: WgmmaArgs) -> Self {
        let &WgmmaProductConfig { tile, majors, is_batch, is_ragged, im2col, read_once, .. } = config;
        // Stages with shorter rows are as many more.
        let row_bytes = im2col.map_or(ROW_BYTES, |im2col| im2col.row_bytes);
        let depth = row_bytes / T::BYTES;
        let stages = tile.each_stages().map(|stages| stages * (ROW_BYTES / row_bytes));
        let dims = if is_batch || is_ragged { 0..BATCH_RANK } else { 0..0 };
        let [source_a, source_b] = match im2col {
            None => [args.batch_a, args.batch_b]
                .map(|batch| Source::Matrix(dims.clone().map(|dim| batch.at(dim)).collect())),
            Some(im2col) => {
                let size = [args.height.get().cast(), args.width.get().cast()];
                [Source::Pixels(im2col, size), Source::Filters(im2col)]
            }
        };
        let [a, b] = [(args.a, read_once[0]), (args.b, read_once[1])]
            .map(|(map, once)| if once { map.read_once() } else { map }.reinterpret());
        let a = Factor::new(a, majors[0], [stages[0], tile.panels], [tile.rows(), depth], source_a);
        let b = Factor::new(b, majors[1], [stages[1], tile.panels], [tile.columns, depth], source_b);
        let rings = Rings::new(tile, stages);
        let block = Self { config, a, b, args, rings, work: None, depth };
        Self { work: (tile.once || tile.split > 1).then(|| block.first_work()), ..block }
    }

    /// Makes barriers, maps and rows that no copy brings ready, for a synchronisation to follow.
    fn prepare(&self) {
        let WgmmaProductConfig { tile, rows, .. } = *self.config;
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
    pub(super) fn each_work(&self, body: &dyn Fn(&TileWork)) {
        if let Some(work) = &self.work {
            return body(work);
        }
        let (scheduler, [rank, first, step]) = self.scheduler();
        let is_im2col = self.config.im2col.is_some();
        let work = |i| if is_im2col { scheduler.row_by_row(i, rank) } else { scheduler.work(i, rank) };
        range(first, scheduler.num(), step, |i| body(&work(i)));
    }

    /// Whether this block has one piece of work.
    pub(super) fn has_one_work(&self) -> bool {
        self.work.is_some()
    }

    /// The first piece of work of this block, for a product of matrices.
    pub(super) fn first_work(&self) -> TileWork {
        if let Some(work) = self.work {
            return work;
        }
        let (scheduler, [rank, first, _]) = self.scheduler();
        scheduler.work(first, rank)
    }

    /// How work is numbered; this block's rank in its cluster, its first number, and the step to
    /// its next one.
    fn scheduler(&self) -> (TileScheduler, [Val<u32>; 3]) {
        let WgmmaProductConfig { tile, rows, is_batch, .. } = *self.config;
        let WgmmaTile { columns, cluster, split, band, .. } = tile;
        let scheduler = TileScheduler::new([rows, columns], cluster, band, self.args.sizes);
        let scheduler = if split > 1 { scheduler.split() } else { scheduler };
        let scheduler = if is_batch { scheduler } else { scheduler.of_one_product() };
        let mine = match cluster * split {
            1 => [Val::constant(0), block_idx().x, grid_dim().x],
            _ => [cluster_block_rank(), cluster_idx().x, num_clusters().x],
        };
        (scheduler, mine)
    }

    /// The first of the columns of a tile that this block copies, to all blocks of its cluster.
    pub(super) fn my_columns(&self) -> Val<u32> {
        let tile = self.config.tile;
        if tile.cluster > 1 { cluster_block_rank() * tile.copied_columns() } else { Val::constant(0) }
    }

    /// The place along the sums of a panel of the stage at `step`.
    pub(super) fn step_of(&self, panel: u32, step: Val<u32>) -> Val<u32> {
        if panel == 0 { step } else { step + panel * self.depth }
    }

    /// The steps of a part of the sums of a piece of work, which may be those of a batch.
    pub(super) fn part_of(&self, work: &TileWork, part: Val<u32>, parts: u32) -> TileWork {
        let len = (work.end - work.begin) >> parts.ilog2();
        if self.config.is_ragged {
            let (none, [outer, middle, _]) = (Val::constant(0), work.position.each);
            let position = BatchCoord { each: [outer, middle, part], ..work.position };
            return TileWork { begin: none, end: len, position, ..*work };
        }
        let begin = work.begin + len * part;
        TileWork { begin, end: begin + len, ..*work }
    }

    /// Calls `body` for the steps that copies go through one after the other: all of a piece of
    /// work, or those of each part.
    pub(super) fn each_run(&self, work: &TileWork, body: impl Fn(&TileWork)) {
        let WgmmaProductConfig { is_ragged, parts, .. } = *self.config;
        if !is_ragged {
            return body(work);
        }
        range(0, parts, 1, |part| body(&self.part_of(work, part, parts)));
    }

    /// Calls `body` at each stage that a piece of work goes through, with its place along the sums.
    pub(super) fn each_stage(&self, work: &TileWork, body: impl FnOnce(Val<u32>)) {
        range(work.begin, work.end, self.config.tile.panels * self.depth, body);
    }
}

fn name(config: &WgmmaProductConfig) -> String {
    let &WgmmaProductConfig {
        dtype,
        tile,
        majors,
        is_batch,
        is_ragged,
        copied,
        is_promoted,
        im2col,
        rows,
        read_once,
        parts,
        weights,
        ..
    } = config;
    let read_once = match read_once {
        [false, false] => None,
        [true, false] => Some("once_a"),
        [false, true] => Some("once_b"),
        [true, true] => Some("once"),
    };
    KernelName::new("matmul_wgmma")
        .part(format_args!("{}x{}x{}", tile.rows(), tile.columns, tile.stages))
        .part(format_args!("c{}", tile.cluster))
        .part_if(tile.panels > 1, format_args!("p{}", tile.panels))
        .part_if(tile.split > 1, format_args!("s{}", tile.split))
        .option(tile.rows_stages.map(|stages| format!("r{stages}")))
        .part_if(tile.once, "one")
        .part(dtype)
        .part(majors.map(OperandMajor::key).concat())
        .part_if(is_batch, "batch")
        .part_if(copied.is_some(), "copied")
        .part_if(is_promoted, "promoted")
        .part_if(rows < tile.rows(), format_args!("m{rows}"))
        .option(im2col.as_ref().map(Im2col::key))
        .option(read_once)
        .part_if(parts > 1, format_args!("tree{parts}"))
        .part_if(is_ragged, "ragged")
        .part_if(weights, "weights")
        .part(config.epilogue.key())
        .into()
}
