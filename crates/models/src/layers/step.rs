//! Data that the layers of a step share: sequences of the rows, and the cache.

use std::ops::Range;

use warpfold::{
    Attention, CacheShape, DeltaRows, DeltaState, DeltaWeights, Dtype, NewHeads, PageLayout, PagedCache, Queue, Tensor,
};
use warpfold_engine::Batch;

use super::Norm;
use crate::{Error, ModelConfig};

/// Cosines and sines, a row a position.
#[derive(Debug)]
pub(crate) struct Angles {
    pub(crate) cos: Tensor,
    pub(crate) sin: Tensor,
}

/// Sizes of a step: everything its launches depend on, except the numbers they read on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StepShape {
    pub(crate) rows: usize,
    sequences: usize,
    /// Blocks of a row of the table.
    width: usize,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Each sequence has one row, and each row one sample.
    Decode,
    /// Sequences of several rows, samples of some, and hidden states of others.
    Mixed { samples: usize, hidden: usize },
}

impl StepShape {
    /// The shape of a batch. A step that decodes alone is padded, so that few shapes come again and
    /// again: to 1, 2, 4, 8 or a multiple of 16 rows, and tables of a power of two of blocks.
    pub(crate) fn of(batch: &Batch) -> Self {
        let (rows, sequences) = (batch.num_rows(), batch.kv_lens.len());
        let is_one_by_one = batch.samples.iter().zip(0..).all(|(sample, row)| sample.row == row);
        if rows == sequences && batch.samples.len() == rows && is_one_by_one {
            // THRESHOLD: steps that decode are padded to multiples of 16 rows; tested by
            // crates/models/src/layers/step.rs::steps_that_decode_alone_are_padded_to_few_shapes
            // and
            // crates/models/src/layers/step.rs::shapes_that_are_captured_ahead_are_those_that_come
            let rows = if rows <= 8 { rows.next_power_of_two() } else { rows.next_multiple_of(16) };
            let width = batch.table_width.next_power_of_two().max(16);
            return Self { rows, sequences: rows, width, kind: Kind::Decode };
        }
        let kind = Kind::Mixed { samples: batch.samples.len(), hidden: batch.hidden.len() };
        Self { rows, sequences, width: batch.table_width, kind }
    }

    /// The shapes of steps that decode, of up to so many sequences with tables of up to so many
    /// blocks: the shortest tables first, and of those the most rows.
    pub(crate) fn decodes(max_seqs: usize, most: usize) -> impl Iterator<Item = Self> {
        let decode = |rows: usize, width| Self { rows, sequences: rows, width, kind: Kind::Decode };
        let widths = std::iter::successors(Some(16), |width| Some(width * 2));
        let last = most.next_power_of_two().max(16);
        let rows = move || {
            let tens = (1..=max_seqs.div_ceil(16)).rev().map(|i| 16 * i).filter(move |_| max_seqs > 8);
            let few = [8, 4, 2, 1].into_iter().filter(move |rows| *rows < 2 * max_seqs);
            tens.chain(few)
        };
        let widths = widths.take_while(move |width| *width <= last);
        widths.flat_map(move |width| rows().map(move |rows| decode(rows, width)))
    }

    /// A step of sequences of several rows.
    pub(crate) const fn mixed(rows: usize, sequences: usize, width: usize, samples: usize) -> Self {
        Self { rows, sequences, width, kind: Kind::Mixed { samples, hidden: 0 } }
    }

    /// Returns whether the same shape is likely to recur.
    pub(crate) fn is_decode(&self) -> bool {
        self.kind == Kind::Decode
    }

    /// Splits the network's rows into those of samples and those whose hidden states are requested.
    pub(crate) fn split(&self, rows: Tensor) -> Result<[Option<Tensor>; 2], Error> {
        match self.kind {
            Kind::Decode | Kind::Mixed { hidden: 0, .. } => Ok([Some(rows), None]),
            Kind::Mixed { samples: 0, .. } => Ok([None, Some(rows)]),
            Kind::Mixed { samples, .. } => Ok([Some(rows.slice(0, ..samples)?), Some(rows.slice(0, samples..)?)]),
        }
    }

    /// Returns the ranges of the lists in the words of a step: tokens, words that hold those of
    /// rows which are fed, adapters, positions, slots, lengths, tables, starts of sequences, rows
    /// of samples and after them of hidden states, places of states. Each begins at a multiple of
    /// four words.
    fn places(&self) -> [Range<usize>; 10] {
        let (starts, samples) = match self.kind {
            Kind::Decode => (0, 0),
            Kind::Mixed { samples, hidden } => (self.sequences + 1, samples + hidden),
        };
        let (rows, tables) = (self.rows, self.sequences * self.width);
        let lens = [rows, rows, rows, rows, rows, self.sequences, tables, starts, samples, self.sequences];
        let mut next = 0;
        lens.map(|len| {
            let place = next..next + len;
            next = place.end.next_multiple_of(4);
            place
        })
    }

    /// Words of 32 bits that the lists take.
    pub(crate) fn words(&self) -> usize {
        let [.., last] = self.places();
        last.end.next_multiple_of(4)
    }

    /// Writes the lists of a batch of this shape, as little-endian words. Rows beyond the batch's
    /// write nothing to the cache and see none of it. The words that the step before drew are
    /// `stride` a sample.
    pub(crate) fn pack(&self, batch: &Batch, stride: usize, bytes: &mut [u8]) {
        let [ids, feeds, adapters, positions, slots, lens, tables, starts, samples, states] = self.places();
        // Rows of the null block are not written: several may name the same slot.
        let slot = |slot: &u32| if (*slot as usize) < batch.block_size { u32::MAX } else { *slot };
        let rows = batch.num_rows();
        put(bytes, ids, batch.ids[..rows].iter().copied(), 0);
        let mut fed = batch.feeds.iter().peekable();
        let of_row = |row: u32| fed.next_if(|feed| feed.row == row).map_or(NOT_FED, |f| f.sample * stride as u32);
        put(bytes, feeds, (0..self.rows as u32).map(of_row), NOT_FED);
        let of_sequence = |(ends, adapter): (&[u32], &Option<u32>)| {
            std::iter::repeat_n(adapter.unwrap_or(NO_ADAPTER), (ends[1] - ends[0]) as usize)
        };
        let of_rows: Vec<u32> = batch.cu_q.windows(2).zip(&batch.adapters).flat_map(of_sequence).collect();
        put(bytes, adapters, of_rows.into_iter(), NO_ADAPTER);
        put(bytes, positions, batch.positions[..rows].iter().copied(), 0);
        put(bytes, slots, batch.slots[..rows].iter().map(slot), u32::MAX);
        put(bytes, lens, batch.kv_lens.iter().copied(), 0);
        put(bytes, states, batch.states.iter().copied(), NO_STATE);
        for sequence in 0..self.sequences {
            let first = tables.start + sequence * self.width;
            let known = if sequence < batch.kv_lens.len() { batch.table(sequence) } else { &[] };
            put(bytes, first..first + self.width, known.iter().copied(), 0);
        }
        if !self.is_decode() {
            put(bytes, starts, batch.cu_q.iter().copied(), 0);
            let hidden = (samples.start + batch.samples.len()).min(samples.end)..samples.end;
            put(bytes, samples.start..hidden.start, batch.samples.iter().map(|sample| sample.row), 0);
            put(bytes, hidden, batch.hidden.iter().copied(), 0);
        }
    }
}

// THRESHOLD: a list that is longer than its place is a batch of another shape, and no step; tested
// by crates/models/src/layers/step.rs::a_batch_of_another_shape_is_not_cut_to_fit
/// Writes a list to its place, and `padding` to what is left of that.
fn put(bytes: &mut [u8], place: Range<usize>, values: impl ExactSizeIterator<Item = u32>, padding: u32) {
    assert!(values.len() <= place.len(), "{} values for {} places: another shape's batch", values.len(), place.len());
    let (known, rest) = bytes[4 * place.start..4 * place.end].split_at_mut(4 * values.len());
    known.chunks_exact_mut(4).zip(values).for_each(|(word, value)| word.copy_from_slice(&value.to_le_bytes()));
    rest.chunks_exact_mut(4).for_each(|word| word.copy_from_slice(&padding.to_le_bytes()));
}

/// Names no word: such a row has its token.
const NOT_FED: u32 = i32::MAX.cast_unsigned();

/// Names no adapter.
const NO_ADAPTER: u32 = u32::MAX;

/// Names no place of a state.
const NO_STATE: u32 = u32::MAX;

/// Caches and states of layers, kept between steps.
#[derive(Debug)]
pub(crate) struct KeptLayers {
    /// Caches of the layers that attend.
    pub(crate) pages: Vec<PagedCache>,
    /// States of the others.
    pub(crate) states: Vec<DeltaState>,
}

impl KeptLayers {
    /// Room of any content, for so many states.
    pub(crate) fn new(
        queue: &Queue,
        dtype: Dtype,
        config: &ModelConfig,
        pages: CacheShape,
        num_states: usize,
    ) -> Result<Self, Error> {
        let page = |_| PagedCache::new(queue, dtype, pages, PageLayout::Nhd);
        let state = |heads| DeltaState::new(queue, dtype, heads, num_states);
        let states = (0..config.num_layers).filter_map(|layer| config.delta_of(layer)).map(|(_, heads)| state(heads));
        Ok(Self {
            pages: (0..config.num_caches()).map(page).collect::<Result<_, _>>()?,
            states: states.collect::<Result<_, _>>()?,
        })
    }
}

/// A batch on the device.
pub(crate) struct Step<'a> {
    /// The token of each row.
    pub(crate) ids: Tensor,
    /// Rows whose logits or hidden states are wanted: all of them, without a list.
    pub(crate) samples: Option<Tensor>,
    /// The adapter of each row.
    pub(crate) adapters: Tensor,
    positions: Tensor,
    slots: Tensor,
    /// First row of each sequence; without it each has one row.
    cu_q: Option<Tensor>,
    kv_lens: Tensor,
    table: Tensor,
    /// The place of each sequence's states.
    places: Tensor,
    angles: [&'a Angles; 2],
    kept: &'a mut KeptLayers,
}

/// The rotary angles of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Angles of [`crate::ModelConfig::rope`].
    Global,
    /// Angles of [`crate::ModelConfig::local_rope`].
    Local,
}

impl<'a> Step<'a> {
    /// A step whose lists are `words`, as [`StepShape::pack`] writes them. `drawn` is what the step
    /// before drew.
    pub(crate) fn new(
        words: &Tensor,
        drawn: &Tensor,
        shape: StepShape,
        angles: [&'a Angles; 2],
        kept: &'a mut KeptLayers,
    ) -> Result<Self, Error> {
        let list = |place: Range<usize>| words.slice(0, place);
        let [ids, feeds, adapters, positions, slots, lens, tables, starts, samples, states] = shape.places();
        let is_mixed = !shape.is_decode();
        Ok(Self {
            // One of the two is zero.
            ids: list(ids)?.add(&drawn.gather_rows_known(&list(feeds)?)?)?,
            samples: is_mixed.then(|| list(samples)).transpose()?,
            adapters: list(adapters)?,
            positions: list(positions)?,
            slots: list(slots)?,
            cu_q: is_mixed.then(|| list(starts)).transpose()?,
            kv_lens: list(lens)?,
            table: list(tables)?.reshape(&[shape.sequences, shape.width])?,
            places: list(states)?,
            angles,
            kept,
        })
    }

    /// Norms and turns queries and keys of a layer, writes its keys and values to the cache, and
    /// attends. The product is `[rows, heads, head size]` of queries, keys and values; the result
    /// that of the queries.
    pub(crate) fn attend(
        &mut self,
        layer: usize,
        turn: Turn,
        attention: &Attention<'_>,
        product: &Tensor,
        norms: Option<&[Norm; 2]>,
    ) -> Result<Tensor, Error> {
        let Angles { cos, sin } = self.angles[usize::from(turn == Turn::Local)];
        let cache = &mut self.kept.pages[layer];
        let q = cache.write_heads(NewHeads {
            product,
            slots: &self.slots,
            positions: &self.positions,
            angles: [cos, sin],
            norms: norms.map(|[q, k]| ([&q.scale, &k.scale], q.eps)),
        })?;
        let pages = cache.pages(&self.table, &self.kv_lens);
        Ok(attention.run_paged(&q, pages, self.cu_q.as_ref())?.output)
    }

    /// Runs the rows of a gated delta net, and keeps its state.
    pub(crate) fn run_delta(&mut self, layer: usize, rows: &Tensor, weights: &DeltaWeights) -> Result<Tensor, Error> {
        let of = DeltaRows { positions: &self.positions, places: &self.places, starts: self.cu_q.as_ref() };
        Ok(self.kept.states[layer].run(rows, weights, of)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpfold_engine::SampleRow;

    fn decode(rows: u32) -> Batch {
        let sample = |row| SampleRow { row, ..SampleRow::default() };
        Batch {
            block_size: 4,
            ids: (10..10 + rows).collect(),
            positions: vec![5; rows as usize],
            slots: (0..rows).map(|row| 4 * (2 * row + 2) + 1).collect(),
            cu_q: (0..=rows).collect(),
            kv_lens: vec![6; rows as usize],
            tables: (0..2 * rows).map(|i| i + 1).collect(),
            table_width: 2,
            samples: (0..rows).map(sample).collect(),
            ..Batch::default()
        }
    }

    #[test]
    fn steps_that_decode_alone_are_padded_to_few_shapes() {
        let rows = |rows| StepShape::of(&decode(rows)).rows;
        assert_eq!([1, 2, 3, 5, 8, 9, 17, 250].map(rows), [1, 2, 4, 8, 8, 16, 32, 256]);
        let mut mixed = decode(3);
        mixed.samples.pop();
        assert_eq!(StepShape::of(&mixed).rows, 3);
        assert!(!StepShape::of(&mixed).is_decode());
    }

    #[test]
    fn shapes_that_are_captured_ahead_are_those_that_come() {
        for max_seqs in [1, 3, 8, 9, 20, 32] {
            let ahead: Vec<StepShape> = StepShape::decodes(max_seqs, 40).collect();
            let width = |width| move |shape: &&StepShape| shape.width == width;
            let mut come: Vec<usize> = (1..=max_seqs).map(|rows| StepShape::of(&decode(rows as u32)).rows).collect();
            come.dedup();
            come.reverse();
            for blocks in [16, 32, 64] {
                let rows: Vec<usize> = ahead.iter().filter(width(blocks)).map(|shape| shape.rows).collect();
                assert_eq!(rows, come, "{max_seqs} sequences, {blocks} blocks");
            }
            assert_eq!(ahead.len(), 3 * come.len());
            assert!(ahead.contains(&StepShape::of(&decode(max_seqs as u32))));
        }
    }

    #[test]
    fn rows_that_are_fed_name_the_words_of_their_samples() {
        let feed = |row, sample| warpfold_engine::Feed { row, sample };
        let batch = Batch { feeds: vec![feed(0, 5), feed(2, 1)], ..decode(3) };
        let shape = StepShape::of(&batch);
        let mut bytes = vec![0; 4 * shape.words()];
        shape.pack(&batch, 6, &mut bytes);
        let word = |i: usize| u32::from_le_bytes(bytes[4 * i..4 * i + 4].try_into().expect("four bytes"));
        let [_, feeds, ..] = shape.places();
        assert_eq!(feeds.map(word).collect::<Vec<_>>(), [30, NOT_FED, 6, NOT_FED]);
    }

    #[test]
    fn a_batch_of_another_shape_is_not_cut_to_fit() {
        for (rows, fits) in [(8, true), (9, false)] {
            let shape = StepShape::of(&decode(5));
            let packed = std::panic::catch_unwind(|| shape.pack(&decode(rows), 2, &mut vec![0; 4 * shape.words()]));
            assert_eq!(packed.is_ok(), fits, "{rows} rows in a shape of {}", shape.rows);
        }
    }

    #[test]
    fn padded_rows_neither_write_nor_see_the_cache() {
        let batch = Batch { states: vec![2, 0, 1], ..decode(3) };
        let shape = StepShape::of(&batch);
        let mut bytes = vec![0xff; 4 * shape.words()];
        shape.pack(&batch, 2, &mut bytes);
        let word = |i: usize| u32::from_le_bytes(bytes[4 * i..4 * i + 4].try_into().expect("four bytes"));
        let [ids, _, _, _, slots, lens, tables, .., states] = shape.places();
        assert_eq!(states.map(word).collect::<Vec<_>>(), [2, 0, 1, NO_STATE]);
        assert_eq!(ids.map(word).collect::<Vec<_>>(), [10, 11, 12, 0]);
        assert_eq!(slots.map(word).collect::<Vec<_>>(), [9, 17, 25, u32::MAX]);
        assert_eq!(lens.map(word).collect::<Vec<_>>(), [6, 6, 6, 0]);
        let tables: Vec<_> = tables.map(word).collect();
        assert_eq!((&tables[..3], &tables[16..19], &tables[48..]), (&[1, 2, 0][..], &[3, 4, 0][..], &[0; 16][..]));
    }
}
