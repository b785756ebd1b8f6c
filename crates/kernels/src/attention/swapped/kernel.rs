//! The kernel and its roles: a thread that draws items, warps that load, a warpgroup that converts
//! and multiplies.

use warpfold_lang::{
    Cursor, Global, HalfOfPair, Kernel, Pipeline, Shared, TensorMap, Tile, Tiles, Val, dynamic_shared, kernel, lane_id,
    launch_dependents, params, setmaxnreg_dec, setmaxnreg_inc, sync_threads, thread_idx, tile, tiles, warp_id,
    warpgroup_idx, when, when_else,
};

use super::super::args::AttentionArgs;
use super::super::config::{AttentionConfig, Launch, padded, swizzle};
use super::super::factor::Factor;
use super::super::items::Items;
use super::super::work::Item;
use super::attend::Attending;
use super::load::Loader;
use super::tile::{GAP, QUERIES, SwappedTile};
use crate::overlap::overlap_launches;

params! {
    /// Parameters of the kernel: also maps of keys and values.
    pub(in crate::attention) struct SwappedArgs {
        k: TensorMap<u8>, v: TensorMap<u8>,
        common: AttentionArgs,
    }
}

/// What decides on the code of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::attention) struct SwappedConfig {
    pub(in crate::attention) common: AttentionConfig,
    pub(in crate::attention) tile: SwappedTile,
    /// Keys of a box.
    pub(in crate::attention) box_keys: u32,
    /// Whether scores are products times a scale above zero, and masks follow from positions.
    pub(in crate::attention) is_plain: bool,
}

impl SwappedConfig {
    fn name(&self) -> String {
        let Self { common, tile: SwappedTile { rows, keys, stages, blocks }, box_keys, is_plain } = self;
        let scores = if *is_plain { "" } else { "_general" };
        format!("attention_swapped_{rows}x{keys}x{stages}b{blocks}_kv{box_keys}{scores}_{}", common.name())
    }
}

/// The warp that draws; the first one loads keys and values, those between them queries.
const DRAWING: u32 = 3;

/// Threads that load queries.
pub(super) const LOADING: u32 = 64;

/// What all roles share.
pub(super) struct Block<'a, T> {
    pub(super) config: &'a SwappedConfig,
    pub(super) launch: Launch<'a>,
    pub(super) maps: [TensorMap<u8>; 2],
    pub(super) queries: Tiles<T>,
    /// Tiles of keys and of values, in the order in which they are multiplied.
    pub(super) stages: [Tiles<u8>; 2],
    /// Of queries, and of keys and values.
    pub(super) rings: [Pipeline; 2],
    /// Weights as they are multiplied, `[rows, keys]`.
    pub(super) weights: Tile<T>,
    /// The same before they were rounded, `[rows, keys + GAP]`.
    pub(super) exact: Shared<f32>,
    /// What warps tell one another of each row: the largest score of each of four, what multiplies
    /// results, the sum of weights.
    pub(super) maxima: Shared<f32>,
    pub(super) factors: Shared<f32>,
    pub(super) sums: Shared<f32>,
    /// Room for the states of the segments before.
    pub(super) states: Option<Shared<f32>>,
    items: Items,
    /// One for each tile of rows, where the last of its blocks combines parts.
    pub(super) tickets: Global<u32>,
}

/// Where in the rings of queries, and of keys and values, a thread is.
pub(super) type Cursors = [Cursor; 2];

/// The kernel.
pub(in crate::attention) fn attend_swapped<T: Factor + HalfOfPair>(config: &SwappedConfig) -> Kernel<SwappedArgs> {
    let config = config.clone();
    let (name, blocks) = (config.name(), config.tile.blocks);
    // Registers of threads that load and of threads that multiply: 64Ki are shared by all.
    let registers = (blocks == 2).then_some((40, 216));
    let body = move |SwappedArgs { k, v, common: args }: SwappedArgs| {
        // Contract: any grid, no larger than there are items; `counter`, and tickets behind it where
        // the last block merges, are zero, and are again at the end.
        // Shared-memory map
        let launch = Launch { config: &config.common, args };
        let block = Block::<T>::new(&config, launch, [k, v]);
        // Barriers
        when(thread_idx().x.eq(0), || block.init());
        sync_threads();
        overlap_launches();
        launch_dependents();
        // Roles
        let at = block.rings.map(Pipeline::start);
        when_else(
            warpgroup_idx().eq(0),
            || {
                registers.iter().for_each(|(loads, _)| setmaxnreg_dec(*loads));
                let loader = Loader::new(&block, at);
                when_else(
                    warp_id().eq(DRAWING),
                    || when(lane_id().eq(0), || block.items.draw()),
                    || {
                        when_else(
                            warp_id().eq(0),
                            || block.items.each_loaded(&launch, |item| loader.keys(item)),
                            || block.items.each(&launch, |item| loader.queries(item)),
                        );
                    },
                );
            },
            || {
                registers.iter().for_each(|(_, multiplies)| setmaxnreg_inc(*multiplies));
                let attending = Attending::new(&block, at);
                block.items.each(&launch, |item| attending.attend(item));
            },
        );
    };
    kernel(name, body).required_block(SwappedTile::THREADS).min_blocks(blocks)
}

impl<'a, T: Factor + HalfOfPair> Block<'a, T> {
    fn new(config: &'a SwappedConfig, launch: Launch<'a>, maps: [TensorMap<u8>; 2]) -> Self {
        let SwappedTile { rows, keys, stages, .. } = config.tile;
        let [head, value] = [config.common.head_dim, config.common.value_dim].map(padded);
        let queries = tiles(QUERIES, rows, head, swizzle(2 * head));
        // Where heads of keys and of values differ, a stage has room for the wider ones.
        let wider = tiles(stages, keys, head.max(value), swizzle(head.max(value)));
        Self {
            config,
            launch,
            maps,
            queries,
            stages: [head, value].map(|columns| wider.share(keys, columns, swizzle(columns))),
            rings: [Pipeline::new(QUERIES), Pipeline::new(stages)],
            weights: tile(rows, keys, swizzle(2 * keys)),
            exact: dynamic_shared(rows * (keys + GAP)),
            maxima: dynamic_shared(4 * rows),
            factors: dynamic_shared(rows),
            sums: dynamic_shared(rows),
            states: launch.config.folds().then(|| dynamic_shared(config.tile.state_words(config.common.value_dim))),
            items: Items::new(&launch),
            tickets: launch.args.counter.at(1),
        }
    }

    /// Makes barriers ready: a stage is full when TMA's thread, or each thread that loads queries,
    /// has arrived, and empty when each warp that multiplies has.
    fn init(&self) {
        let [queries, stages] = self.rings;
        queries.init(LOADING, 4);
        stages.init(1, 4);
        self.items.init(SwappedTile::THREADS - 32);
        self.maps.iter().for_each(|map| map.prefetch());
    }

    /// The tiles of keys of an item: from the first to behind the last.
    pub(super) fn tiles_of(&self, item: &Item) -> [Val<u32>; 2] {
        let keys = self.config.tile.keys;
        [item.keys.0 / keys, item.keys.1.div_ceil(keys)]
    }
}
