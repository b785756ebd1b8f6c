//! The kernel and its roles: a thread that draws items, warps that load, warpgroups that multiply.

use warpfold_lang::{
    Cursor, Global, Kernel, Major, Pipeline, Shared, TensorMap, Tiles, Val, dynamic_shared, kernel, lane_id,
    launch_dependents, params, setmaxnreg_dec, setmaxnreg_inc, sync_threads, thread_idx, tiles, warp_id, warpgroup_idx,
    when, when_else,
};

use super::super::args::AttentionArgs;
use super::super::config::{AttentionConfig, Launch, padded, swizzle};
use super::super::factor::Factor;
use super::super::items::Items;
use super::super::work::Item;
use super::attend::Attending;
use super::load::Loader;
use super::tile::WgmmaTile;
use crate::overlap::overlap_launches;

/// Warps of the first warpgroup that load; the last one draws.
pub(super) const LOADERS: u32 = 3;

/// Threads that load.
pub(super) const LOADING: u32 = 32 * LOADERS;

params! {
    /// Parameters of the kernel: also maps of what TMA brings.
    pub(in crate::attention) struct MappedArgs {
        q: Option<TensorMap<u8>>, k: Option<TensorMap<u8>>, v: Option<TensorMap<u8>>,
        common: AttentionArgs,
    }
}

/// What decides on the code of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::attention) struct WgmmaConfig {
    pub(in crate::attention) common: AttentionConfig,
    pub(in crate::attention) tile: WgmmaTile,
    /// Whether TMA brings queries.
    pub(in crate::attention) maps_queries: bool,
    /// Keys of a box, where TMA brings keys and (but for 8-bit ones) values.
    pub(in crate::attention) maps_keys: Option<u32>,
    /// Whether scores are products times a scale above zero, and masks follow from positions.
    pub(in crate::attention) is_plain: bool,
}

impl WgmmaConfig {
    /// Whether results change under the products of the next keys instead of before them: two
    /// warpgroups with all registers gain by it, three lose.
    pub(super) const fn defers(&self) -> bool {
        let Self { tile, maps_queries, maps_keys, is_plain, .. } = self;
        tile.consumers == 2 && tile.element_bytes == 2 && *maps_queries && maps_keys.is_some() && *is_plain
    }

    fn name(&self) -> String {
        let Self { common, tile, maps_queries, maps_keys, is_plain } = self;
        let WgmmaTile { consumers, keys, stages, blocks, ping_pong, keeps_states, element_bytes: _ } = tile;
        let turns = if *ping_pong { "_turns" } else { "" };
        let states = if *keeps_states { "_states" } else { "" };
        let queries = if *maps_queries { "_q" } else { "" };
        let boxes = maps_keys.map_or_else(String::new, |keys| format!("_kv{keys}"));
        let scores = if *is_plain { "" } else { "_general" };
        format!(
            "attention_wgmma_{}x{keys}x{stages}b{blocks}{turns}{states}{queries}{boxes}{scores}_{}",
            64 * consumers,
            common.name()
        )
    }
}

/// Words of scratch memory of a block that folds several segments, where shared memory has no room
/// for the states before.
pub(in crate::attention) fn state_words_of_block(config: &WgmmaConfig) -> u32 {
    if config.tile.keeps_states { 0 } else { config.tile.state_words(config.common.value_dim) }
}

/// What all roles share.
pub(super) struct Block<'a, T> {
    pub(super) config: &'a WgmmaConfig,
    pub(super) launch: Launch<'a>,
    pub(super) maps: [TensorMap<T>; 3],
    /// One tile for each warpgroup that multiplies.
    pub(super) queries: Tiles<T>,
    /// Tiles of keys and of values (8-bit ones transposed), in the order in which they are
    /// multiplied.
    pub(super) stages: [Tiles<T>; 2],
    /// Of queries, and of keys and values.
    pub(super) rings: [Pipeline; 2],
    /// Room for the states of the segments before.
    pub(super) states: Option<Shared<f32>>,
    items: Items,
    /// One for each tile of rows, where the last of its blocks combines parts.
    pub(super) tickets: Global<u32>,
}

/// Where in the rings of queries, and of keys and values, a thread is.
pub(super) type Cursors = [Cursor; 2];

/// The kernel.
pub(in crate::attention) fn attend_wgmma<T: Factor>(config: &WgmmaConfig) -> Kernel<MappedArgs> {
    let config = config.clone();
    let (name, tile) = (config.name(), config.tile);
    // Registers of threads that load and of threads that multiply: 64Ki are shared by all.
    let registers = match tile.consumers {
        1 if tile.blocks == 2 => Some((40, 216)),
        1 => None,
        // Threads that copy compute places, and hold what they copy; those that transpose hold four
        // pieces of rows.
        2 if T::BYTES == 1 && config.maps_keys.is_some() && config.maps_queries => Some((56, 224)),
        2 if T::BYTES == 1 => Some((88, 208)),
        2 if config.maps_keys.is_none() || !config.maps_queries => Some((72, 216)),
        2 => Some((40, 232)),
        _ => Some((32, 160)),
    };
    let body = move |MappedArgs { q, k, v, common: args }: MappedArgs| {
        // Contract: any grid, no larger than there are items; `counter`, and tickets behind it where
        // the last block merges, are zero, and are again at the end. With segments, scratch for the
        // states of each thread that multiplies, unless shared memory has them.
        // Shared-memory map
        let launch = Launch { config: &config.common, args };
        let block = Block::<T>::new(&config, launch, [q, k, v].map(TensorMap::reinterpret));
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
                when_else(
                    warp_id().eq(LOADERS),
                    || when(lane_id().eq(0), || block.items.draw()),
                    || {
                        let loader = Loader::new(&block, at);
                        let load = || block.items.each_loaded(&launch, |item| loader.load(item));
                        if block.by_tma() { when(warp_id().eq(0), load) } else { load() }
                    },
                );
            },
            || {
                registers.iter().for_each(|(_, multiplies)| setmaxnreg_inc(*multiplies));
                let attending = Attending::new(&block, at);
                attending.begin();
                block.items.each(&launch, |item| attending.attend(item));
                attending.end();
            },
        );
    };
    kernel(name, body).required_block(tile.threads()).min_blocks(tile.blocks)
}

impl<'a, T: Factor> Block<'a, T> {
    fn new(config: &'a WgmmaConfig, launch: Launch<'a>, maps: [TensorMap<T>; 3]) -> Self {
        let WgmmaTile { consumers, keys, stages, .. } = config.tile;
        let [head, value] = [config.common.head_dim, config.common.value_dim].map(padded);
        // Where heads of keys and of values differ, a stage has room for the wider ones.
        let wider = tiles(stages, keys, head.max(value), swizzle(T::BYTES * head.max(value)));
        let stage = |rows, columns| wider.share(rows, columns, swizzle(T::BYTES * columns));
        let values = match T::VALUES {
            Major::Mn => stage(keys, value),
            Major::K => stage(value, keys),
        };
        Self {
            config,
            launch,
            maps,
            queries: tiles(consumers, 64, head, swizzle(T::BYTES * head)),
            stages: [stage(keys, head), values],
            rings: [Pipeline::new(1), Pipeline::new(stages)],
            states: config.tile.keeps_states.then(|| dynamic_shared(config.tile.state_words(config.common.value_dim))),
            items: Items::new(&launch),
            tickets: launch.args.counter.at(1),
        }
    }

    /// Makes barriers ready: a stage is full when TMA's thread, or each thread that loads, has
    /// arrived, and empty when each warp that multiplies has.
    fn init(&self) {
        let WgmmaConfig { tile, maps_queries, maps_keys, .. } = self.config;
        let fillers = |by_tma: bool| if by_tma { 1 } else { 32 * LOADERS };
        let warps = 4 * tile.consumers;
        let [queries, stages] = self.rings;
        queries.init(fillers(*maps_queries), warps);
        stages.init(fillers(self.values_by_tma()), warps);
        let loading = if self.by_tma() { 32 } else { LOADING };
        self.items.init(loading + 32 * warps);
        if *maps_queries {
            self.maps[0].prefetch();
        }
        if maps_keys.is_some() {
            let num = if self.values_by_tma() { 2 } else { 1 };
            self.maps[1..=num].iter().for_each(|map| map.prefetch());
        }
    }

    /// Whether TMA brings everything: one warp's work.
    fn by_tma(&self) -> bool {
        self.config.maps_queries && self.values_by_tma()
    }

    /// Whether TMA brings values: then it brings keys, too.
    pub(super) fn values_by_tma(&self) -> bool {
        self.config.maps_keys.is_some() && T::VALUES == Major::Mn
    }

    /// Columns that values have in shared memory.
    pub(super) fn value_columns(&self) -> u32 {
        padded(self.config.common.value_dim)
    }

    /// The tiles of keys of an item: from the first to behind the last.
    pub(super) fn tiles_of(&self, item: &Item) -> [Val<u32>; 2] {
        let keys = self.config.tile.keys;
        [item.keys.0 / keys, item.keys.1.div_ceil(keys)]
    }
}
