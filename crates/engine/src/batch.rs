//! The model's input for one step: flat arrays, as kernels take them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::block::{BlockCopy, BlockId};
use crate::constraint::LateMask;
use crate::sampling::Sampling;

/// Masks that a thread makes, at least: to begin one takes about as long as a mask.
const MASKS_OF_A_THREAD: usize = 2;

/// The rows of one forward pass.
///
/// Row `r` runs token `ids[r]` at `positions[r]`, writes its keys and values to `slots[r]`, and
/// attends to all positions of its sequence up to its own, its own included, as they lie in the
/// cache. Rows of sequence `s` are `cu_q[s]..cu_q[s + 1]`; they are its last ones, so that the row
/// at its end sees `kv_lens[s]` positions. Rows after `cu_q`'s last are padding: they belong to no
/// sequence and write to the null block.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Batch {
    /// The number of the step, from 1.
    pub step: u64,
    /// Positions in a block.
    pub block_size: usize,
    /// The token of each row.
    pub ids: Vec<u32>,
    /// The absolute position of each row.
    pub positions: Vec<u32>,
    /// Slot that each row writes: `block * block_size + offset`. A row whose position came with a
    /// prefix hit is run for its logits alone and writes to the null block (slots below
    /// `block_size`), as padding does; its keys and values are in the cache.
    pub slots: Vec<u32>,
    /// Start of each sequence's rows, then the end of the last (`cu_seqlens`).
    pub cu_q: Vec<u32>,
    /// Positions that each sequence has in the cache once its rows are written.
    pub kv_lens: Vec<u32>,
    /// The blocks of each sequence, `table_width` a sequence; what is beyond a sequence's end is
    /// the null block.
    pub tables: Vec<BlockId>,
    /// Blocks in a row of `tables`.
    pub table_width: usize,
    /// Identity of each sequence, for checkers.
    pub sequences: Vec<SequenceId>,
    /// Place of what the model keeps of each sequence as a whole, if it keeps anything. Its rows
    /// come in order, each once, and from position 0 again after it was given up.
    pub states: Vec<u32>,
    /// The adapter of each sequence, if it has one.
    pub adapters: Vec<Option<u32>>,
    /// Rows that want a token or a probability.
    pub samples: Vec<SampleRow>,
    /// Rows whose hidden states are wanted: what a head would make logits of, normed.
    pub hidden: Vec<u32>,
    /// Rows whose token the step that was submitted before draws, and which still may run. Empty
    /// unless the model [overlaps](crate::Model::overlaps) steps.
    pub feeds: Vec<Feed>,
}

/// A row that runs what the step before draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feed {
    /// The row. Its place in [`Batch::ids`] holds 0.
    pub row: u32,
    /// Index among the samples of the previous step.
    pub sample: u32,
}

/// The number of a sequence, never given twice.
pub type SequenceId = u64;

impl Batch {
    /// Empties the arrays and keeps their memory.
    pub(crate) fn clear(&mut self, step: u64, block_size: usize) {
        (self.step, self.block_size, self.table_width) = (step, block_size, 0);
        let rows = [&mut self.ids, &mut self.positions, &mut self.slots];
        rows.into_iter().chain([&mut self.cu_q, &mut self.kv_lens, &mut self.tables]).for_each(Vec::clear);
        self.sequences.clear();
        self.states.clear();
        self.adapters.clear();
        self.samples.clear();
        self.hidden.clear();
        self.feeds.clear();
        self.cu_q.push(0);
    }

    /// Rows that belong to sequences.
    #[must_use]
    pub fn num_rows(&self) -> usize {
        self.cu_q.last().map_or(0, |end| *end as usize)
    }

    /// Returns whether there is nothing to run.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Makes the masks of all rows, on up to so many threads. Rows make those that are missing when
    /// they are asked, one by one: a model calls this once its forward pass is on its way.
    pub fn make_masks(&self, num_threads: usize) {
        let masks: Vec<&LateMask> = self.samples.iter().filter_map(|row| row.mask.as_ref()).collect();
        let next = AtomicUsize::new(0);
        let make = || {
            while let Some(mask) = masks.get(next.fetch_add(1, Ordering::Relaxed)) {
                mask.get();
            }
        };
        std::thread::scope(|scope| {
            (1..num_threads.min(masks.len() / MASKS_OF_A_THREAD)).for_each(|_| drop(scope.spawn(make)));
            make();
        });
    }

    /// The blocks of a sequence.
    #[must_use]
    pub fn table(&self, sequence: usize) -> &[BlockId] {
        &self.tables[sequence * self.table_width..][..self.table_width]
    }
}

/// A row whose logits are wanted, and what for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SampleRow {
    /// Row of the batch.
    pub row: u32,
    /// The absolute position of the token that is drawn: that of the row and one more.
    pub position: u32,
    /// The key of the noise.
    pub seed: u64,
    /// Sampling parameters.
    pub sampling: Arc<Sampling>,
    /// Tokens so far in increasing order, where penalties ask for them.
    pub counts: Option<Arc<Vec<TokenCount>>>,
    /// Tokens that a constraint lets come.
    pub mask: Option<LateMask>,
    /// Tokens that end a sequence, before it has its least length: they must not be drawn.
    pub banned: Option<Arc<[u32]>>,
    /// Number of most likely tokens to report beside the log-probability of the drawn one; `None`
    /// reports neither.
    pub top: Option<usize>,
    /// A token to be measured instead of drawn.
    pub given: Option<u32>,
}

impl SampleRow {
    /// A bit for each token that says whether the constraint lets it come: the first in the lowest
    /// bit of the first word. Makes the mask if nobody has.
    #[must_use]
    pub fn mask_bits(&self) -> Option<&[u32]> {
        self.mask.as_ref()?.get().as_deref().ok()
    }
}

/// Number of occurrences of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenCount {
    /// The token.
    pub token: u32,
    /// Occurrences among the generated tokens; 0 if it is in the prompt only.
    pub in_output: u32,
}

/// Copies that run before a forward pass, in this order: out, in, copies. A list's copies may run
/// side by side.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moves {
    /// From blocks of the device to blocks of the host.
    pub swap_out: Vec<BlockCopy>,
    /// From blocks of the host to blocks of the device. None of them was written by `swap_out`.
    pub swap_in: Vec<BlockCopy>,
    /// From blocks of the device to blocks of the device. No block is read by one copy and written
    /// by another.
    pub copies: Vec<BlockCopy>,
}
