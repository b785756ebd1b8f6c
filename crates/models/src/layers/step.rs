//! What the layers of a step share: where its rows belong, and the cache.

use warpfold::{Attention, CacheRotary, Dtype, NewTokens, PagedCache, Pairs, Queue, RotaryOptions, Tensor};
use warpfold_engine::Batch;

use crate::Error;

/// Cosines and sines, a row a position.
#[derive(Debug)]
pub(crate) struct Angles {
    pub(crate) cos: Tensor,
    pub(crate) sin: Tensor,
}

/// A batch on the device.
pub(crate) struct Step<'a> {
    /// The token of each row.
    pub(crate) ids: Tensor,
    /// `[rows]`.
    positions: Tensor,
    slots: Tensor,
    cu_q: Tensor,
    kv_lens: Tensor,
    table: Tensor,
    num_rows: usize,
    angles: [&'a Angles; 2],
    /// Of each layer.
    caches: &'a mut [PagedCache],
}

/// Which angles a layer turns by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Those of [`crate::ModelConfig::rope`].
    Global,
    /// Those of [`crate::ModelConfig::local_rope`].
    Local,
}

impl<'a> Step<'a> {
    pub(crate) fn new(
        queue: &Queue,
        batch: &Batch,
        angles: [&'a Angles; 2],
        caches: &'a mut [PagedCache],
    ) -> Result<Self, Error> {
        let num_rows = batch.num_rows();
        let list = |values: &[u32]| list(queue, values);
        // Rows of the null block are not written: several may name the same slot.
        let slot = |slot: &u32| if (*slot as usize) < batch.block_size { -1 } else { i64::from(*slot) };
        let slots: Vec<i64> = batch.slots[..num_rows].iter().map(slot).collect();
        Ok(Self {
            ids: list(&batch.ids[..num_rows])?,
            positions: list(&batch.positions[..num_rows])?,
            slots: Tensor::from_bytes(queue, Dtype::I64, bytemuck::cast_slice(&slots), &[num_rows])?,
            cu_q: list(&batch.cu_q)?,
            kv_lens: list(&batch.kv_lens)?,
            table: list(&batch.tables)?.reshape(&[batch.kv_lens.len(), batch.table_width])?,
            num_rows,
            angles,
            caches,
        })
    }

    /// Turns queries and keys of a layer, writes its keys and values to the cache, and attends.
    /// Queries, keys and values are `[rows, heads, head size]`, and so is the result.
    pub(crate) fn attend(
        &mut self,
        layer: usize,
        turn: Turn,
        attention: &Attention<'_>,
        [q, k, v]: [&Tensor; 3],
    ) -> Result<Tensor, Error> {
        let Angles { cos, sin } = self.angles[usize::from(turn == Turn::Local)];
        let [rows, heads, head_dim] = [q.shape()[0], q.shape()[1], q.shape()[2]];
        let positions = self.positions.reshape(&[1, self.num_rows])?;
        let options = RotaryOptions { num_heads: Some(heads), ..RotaryOptions::default() };
        let q = q.reshape(&[1, rows, heads * head_dim])?.rotary_embedding(cos, sin, Some(&positions), options)?;
        let q = q.reshape(&[rows, heads, head_dim])?;
        let cache = &mut self.caches[layer];
        let rotary = CacheRotary { cos, sin, positions: &self.positions, pairs: Pairs::Halves, queries: None };
        cache.write(NewTokens { keys: k, values: v, slots: &self.slots }, Some(rotary))?;
        let pages = cache.pages(&self.table, &self.kv_lens);
        Ok(attention.run_paged(&q, pages, Some(&self.cu_q))?.output)
    }
}

/// Numbers as kernels read them: tokens, positions and rows are below 2^31.
pub(crate) fn list(queue: &Queue, values: &[u32]) -> Result<Tensor, Error> {
    Ok(Tensor::from_bytes(queue, Dtype::I32, bytemuck::cast_slice(values), &[values.len()])?)
}
