//! The kernel: a block draws items, and attends to one after the other.

use warpfold_lang::{Kernel, TileCounter, Val, kernel, wait_for_dependencies, when};

use super::super::args::AttentionArgs;
use super::super::config::{AttentionConfig, Launch};
use super::super::factor::Factor;
use super::super::running::state_words;
use super::super::work::find;
use super::attend::Attending;
use super::tile::{MmaTile, THREADS, multiplied};

/// What decides on the code of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::attention) struct MmaConfig {
    pub(in crate::attention) common: AttentionConfig,
    pub(in crate::attention) tile: MmaTile,
    /// Whether scores are products times a scale above zero, and masks follow from positions.
    pub(in crate::attention) is_plain: bool,
}

impl MmaConfig {
    fn name(&self) -> String {
        let Self { common, tile: MmaTile { keys, blocks }, is_plain } = self;
        let wide = common.wide.map(|wide| if wide { "w" } else { "n" }).concat();
        let scores = if *is_plain { "" } else { "_general" };
        format!("attention_mma_64x{keys}b{blocks}{scores}_{wide}_{}", common.name())
    }
}

/// Words of scratch memory of a block that folds several segments.
pub(in crate::attention) fn state_words_of_block(config: &MmaConfig) -> u32 {
    THREADS * state_words(2, multiplied(config.common.value_dim) / 4)
}

/// The kernel.
pub(in crate::attention) fn attend_mma<T: Factor>(config: &MmaConfig) -> Kernel<AttentionArgs> {
    let config = config.clone();
    let (name, tile) = (config.name(), config.tile);
    let body = move |args: AttentionArgs| {
        wait_for_dependencies();
        // Contract: any grid, no larger than there are items; `counter`, and tickets behind it where
        // the last block merges, are zero, and are again at the end. With segments, scratch for the
        // states of each thread of the grid.
        let common = &config.common;
        let launch = Launch { config: common, args };
        let attending = Attending::<T>::new(&config, launch);
        TileCounter::new(args.counter, launch.args.items.get()).each_together(|number: Val<u32>| {
            let item = find(&common.work, &args, number);
            when(item.exists, || attending.attend(&item));
        });
    };
    kernel(name, body).required_block(tile.threads()).min_blocks(tile.blocks)
}
