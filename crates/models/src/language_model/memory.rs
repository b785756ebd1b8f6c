//! The memory that a step of a model takes, by arithmetic.

use warpfold::Dtype;
use warpfold_kernels::matmul::Matmul;
use warpfold_kernels::matmul::quantized::Quantized;

use super::LanguageModel;
use crate::ModelConfig;
use crate::layers::{PARTS, parts_of};

impl LanguageModel {
    /// Bytes that the activations of a step of `rows` rows take at most: one layer's tensors at a
    /// time, logits of `samples` of the rows, and those that captured steps keep.
    #[must_use]
    pub fn activation_bytes(&self, rows: usize, samples: usize) -> u64 {
        let ModelConfig { hidden, intermediate, vocab, .. } = self.config;
        let (queries, kv) = (self.config.query_len(), self.config.kv_len());
        let row = 4 * hidden + 3 * intermediate + 4 * queries + 4 * kv;
        // Each captured step keeps its logits: of 1, 2, 4, 8, 16, 32, 48 … rows.
        let captured: usize = if self.graphs.is_some() { (0..=samples).step_by(16).sum::<usize>() + 15 } else { 0 };
        let logits = samples + captured.max(samples);
        let shared = self.shard.as_ref().map_or(0_u64, |_| {
            // The device's sums, and logits as they come from all devices.
            4 * (rows * hidden + 2 * samples * vocab) as u64
        });
        // What a second launch adds, where one does not.
        let limits = self.queue.device().limits();
        let apart = [queries, intermediate].map(|own| {
            let parts = self.shard.as_ref().map_or_else(|| parts_of(own), |shard| shard.parts(own));
            let is_one = Matmul::adds_parts_in_one_launch(self.dtype, own as u64, parts as u64, limits);
            if is_one { 0 } else { 4 * rows * hidden * parts }
        });
        let shared = shared + apart[0].max(apart[1]) as u64;
        let shared = shared + (samples * hidden) as u64;
        // What adapters add to the widest product, in 32 bits, and to a residual.
        let adapted =
            self.adapters.map_or(0, |room| 4 * rows * (2 * intermediate.max(queries) + hidden + 3 * room.rank));
        let shared = shared + adapted as u64;
        // Of each slot of a mixture its row, what is between its products, and the terms of its
        // sum, twice where devices bring them together.
        let slots = self.config.experts.as_ref().map_or(0, |experts| {
            let (copies, bytes) = (1 + usize::from(self.shard.is_some()), self.dtype.bytes() as usize);
            rows * experts.chosen * (4 * hidden * copies + (hidden + experts.inner) * bytes)
        });
        let shared = shared + slots as u64 + self.decoded_bytes(rows, samples);
        // Rows of a gated delta net, what it mixes, and its results before and after the norm; what
        // gates attention, and the gated.
        let delta = self.config.delta.as_ref().map_or(0, |delta| {
            delta.heads.row_len() + delta.heads.channels() + 2 * delta.heads.values() + 3 * queries as u64
        });
        let shared = shared + rows as u64 * delta * self.dtype.bytes();
        rows as u64 * row as u64 * self.dtype.bytes() + logits as u64 * 4 * vocab as u64 + shared
    }

    /// Bytes of the largest matrix that a step decodes to scratch memory, and of the parts of sums
    /// beside it, where weights are packed.
    fn decoded_bytes(&self, rows: usize, samples: usize) -> u64 {
        if !self.is_packed {
            return 0;
        }
        let ModelConfig { hidden, intermediate, vocab, .. } = self.config;
        let in_registers = self.queue.device().limits().has_wgmma && self.dtype != Dtype::F32;
        let decodes = |rows: usize| rows as u64 > Quantized::MOST_ROWS || !in_registers;
        let queries = self.config.query_len() + 2 * self.config.kv_len();
        // Of few rows what is summed in parts that are no whole stages.
        let largest = if decodes(rows) { (2 * intermediate).max(queries) } else { queries.max(intermediate) };
        let largest = if decodes(samples) { largest.max(vocab) } else { largest };
        let parts = 4 * PARTS * rows.min(Quantized::MOST_ROWS as usize) * hidden;
        (largest * hidden) as u64 * self.dtype.bytes() + parts as u64
    }
}
