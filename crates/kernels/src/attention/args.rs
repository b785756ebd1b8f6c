//! The parameters of all attention kernels.

use warpfold_lang::{Global, Lazy, Val, params};

params! {
    /// A tensor of sequences (or pages), heads, positions and elements.
    pub(super) struct HeadsArgs {
        memory: Global<u8>,
        /// Elements from one to the next.
        sequence: Lazy<i64>, head: Lazy<i64>, position: Lazy<i64>, element: Lazy<i64>,
    }
}

params! {
    /// Parameters of every attention kernel.
    pub(super) struct AttentionArgs {
        q: HeadsArgs, k: HeadsArgs, v: HeadsArgs,
        /// The mask: its positions are queries, its elements keys.
        mask: Option<HeadsArgs>,
        sinks: Option<Global<u8>>,
        /// First query of each sequence.
        cu_queries: Option<Global<i32>>,
        /// First key of each sequence, or its number of keys.
        key_lens: Option<Global<i32>>,
        /// The pages of each sequence.
        block_table: Option<Global<i32>>,
        /// Results, whose elements lie side by side, and log-sum-exp.
        out: HeadsArgs, lse: Option<Global<f32>>,
        /// Running states of segments, and states of parts.
        states: Option<Global<f32>>, partials: Option<Global<f32>>,
        /// The counter of items, and tickets of tiles behind it.
        counter: Option<Global<u32>>,
        /// Sequences.
        batch: Lazy<u32>,
        /// Tiles of rows of each sequence, or of all together at most.
        tiles: Lazy<u32>,
        /// Heads of keys, and query heads of each.
        kv_heads: Lazy<u32>, group: Lazy<u32>,
        /// Queries of a sequence, and keys at most.
        queries: Lazy<u32>, keys: Lazy<u32>,
        /// Tokens of a page, and entries of a row of the block table.
        page: Lazy<u32>, width: Lazy<u32>,
        /// Parts that keys are split into, and segments of a part.
        splits: Lazy<u32>, segments: Lazy<u32>,
        /// Everything that there is to do.
        items: Lazy<u32>,
        /// Keys of a window before a query's position, and after it.
        window_left: Lazy<u32>, window_right: Lazy<u32>,
        /// Keys that the mask has.
        mask_keys: Lazy<u32>,
        /// Rows of all sequences and heads.
        rows: Lazy<u32>,
        /// Heads of keys, of all sequences, that are attended to before the next ones.
        section: Lazy<u32>,
        /// Factors of scores and of results, the soft cap of scores.
        scale: Lazy<f32>, value_scale: Lazy<f32>,
        softcap: Lazy<f32>, softcap_reciprocal: Lazy<f32>,
    }
}

impl HeadsArgs {
    /// Elements from one sequence, head, position and element to the next.
    pub(super) fn strides(&self) -> [Val<i64>; 4] {
        [self.sequence, self.head, self.position, self.element].map(|stride| stride.get())
    }
}
