//! The kernel: a block draws items, and attends to one after the other.

use warpfold_lang::{Array, Global, Kernel, TileCounter, Val, kernel, wait_for_dependencies, when};

use super::super::config::{Config, FLOATS, Launch, MAX_INPUTS};
use super::super::factor::Factor;
use super::super::running::state_words;
use super::super::work::{SIZES, STRIDES, Size, find};
use super::attend::Attending;
use super::tile::{MmaTile, THREADS, multiplied};

/// What the kernel takes: inputs; results and log-sum-exp; running and partial states; the counter
/// of items; sizes, strides, floats.
pub(in crate::attention) type AttendMma = Kernel<(
    [Global<u8>; MAX_INPUTS],
    Global<u8>,
    Global<f32>,
    Global<f32>,
    Global<f32>,
    Global<u32>,
    [u32; SIZES],
    [i64; STRIDES],
    [f32; FLOATS],
)>;

/// What decides on the code of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::attention) struct MmaConfig {
    pub(in crate::attention) common: Config,
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
pub(in crate::attention) fn attend_mma<T: Factor>(config: &MmaConfig) -> AttendMma {
    let config = config.clone();
    let (name, tile) = (config.name(), config.tile);
    let body = move |inputs: [Global<u8>; MAX_INPUTS],
                     out: Global<u8>,
                     lse: Global<f32>,
                     states: Global<f32>,
                     partials: Global<f32>,
                     counter: Global<u32>,
                     sizes: Array<u32, SIZES>,
                     strides: Array<i64, STRIDES>,
                     floats: Array<f32, FLOATS>| {
        wait_for_dependencies();
        // Contract: any grid, no larger than there are items; `counter`, and tickets behind it where
        // the last block merges, are zero, and are again at the end. With segments, scratch for the
        // states of each thread of the grid.
        let common = &config.common;
        let launch = Launch { config: common, tensors: common.tensors(inputs, out, lse), sizes, strides, floats };
        let attending = Attending::<T>::new(&config, launch, [states, partials], counter.at(1));
        TileCounter::new(counter, launch.size(Size::Items)).each_together(|number: Val<u32>| {
            let item = find(&common.work, sizes, &launch.tensors.lists, number);
            when(item.exists, || attending.attend(&item));
        });
    };
    kernel(name, body).required_block(tile.threads()).min_blocks(tile.blocks)
}
