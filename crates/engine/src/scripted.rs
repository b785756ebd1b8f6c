//! A model without weights, by which every schedule is tested.
//!
//! It keeps a cache of slots, as a real model does, and each slot holds what was written: the
//! position and a hash of the token. A row's logits are a hash of everything that it reads through
//! its table, from position 0 to its own: a wrong table, a missed copy, a block that was freed too
//! early or a swap that went astray gives another answer, and mostly a panic that says which slot
//! holds what it should not.

use std::any::Any;
use std::collections::{HashMap, VecDeque};

use crate::batch::{Batch, Moves, SequenceId};
use crate::block::BlockCopy;
use crate::error::ModelError;
use crate::model::{CacheShape, Limits, Model, Ticket};
use crate::request::Adapter;
use crate::sampling::{Sampled, sample};

/// Cache content of a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Written {
    position: u32,
    token: u32,
}

/// The model.
#[derive(Debug, Clone)]
pub struct Scripted {
    limits: Limits,
    cache: Vec<Option<Written>>,
    host: Vec<Option<Written>>,
    block_size: usize,
    /// The next position of each sequence that has not been run before.
    next: HashMap<SequenceId, u32>,
    rerun: u64,
    is_batch_dependent: bool,
    fails_at: Option<u64>,
    overlaps: bool,
    /// Samples of submitted steps that nobody has waited for.
    answers: VecDeque<Result<Vec<Sampled>, String>>,
    /// Tokens that the last submitted step drew.
    drawn: Vec<u32>,
    /// Label of its weights.
    weights: u32,
    /// It has none.
    is_asleep: bool,
}

impl Scripted {
    /// A model of `vocab` tokens and sequences of up to `max_len`. Token 0 ends answers.
    #[must_use]
    pub fn new(vocab: usize, max_len: usize) -> Self {
        let limits = Limits { vocab, max_len, eos: vec![0], hidden: HIDDEN, kv_bytes_per_token: 8, state_bytes: 0 };
        Self {
            limits,
            cache: Vec::new(),
            host: Vec::new(),
            block_size: 1,
            next: HashMap::new(),
            rerun: 0,
            is_batch_dependent: false,
            fails_at: None,
            overlaps: false,
            answers: VecDeque::new(),
            drawn: Vec::new(),
            weights: 0,
            is_asleep: false,
        }
    }

    /// The same model, whose steps run while the next one is prepared.
    #[must_use]
    pub fn overlapping(mut self) -> Self {
        self.overlaps = true;
        self
    }

    /// A wrong model, whose answers depend on how many rows a batch has: the control that tests of
    /// invariance must catch.
    #[must_use]
    pub fn batch_dependent(vocab: usize, max_len: usize) -> Self {
        Self { is_batch_dependent: true, ..Self::new(vocab, max_len) }
    }

    /// A model that fails in one step.
    #[must_use]
    pub fn failing_at(mut self, step: u64) -> Self {
        self.fails_at = Some(step);
        self
    }

    /// Rows of positions that had been run before: by a recompute, a rejected guess, or without a
    /// cache.
    #[must_use]
    pub fn num_rerun(&self) -> u64 {
        self.rerun
    }

    /// The logits of what follows `tokens`, from the tokens alone.
    #[must_use]
    pub fn logits(&self, tokens: &[u32]) -> Vec<f32> {
        let read = |state, (position, token): (u32, &u32)| mix(state, Written { position, token: *token });
        self.logits_of((0..).zip(tokens).fold(START, read))
    }

    fn logits_of(&self, state: u64) -> Vec<f32> {
        let logit = |id: u64| (scramble(state ^ scramble(id)) >> 40) as f32 / (1 << 21) as f32;
        (0..self.limits.vocab as u64).map(logit).collect()
    }

    /// No sequence may read a block that another one writes in the same step.
    fn check_writers(&self, batch: &Batch) {
        let mut writers = HashMap::new();
        for s in 0..batch.sequences.len() {
            for row in batch.cu_q[s]..batch.cu_q[s + 1] {
                writers.insert(batch.slots[row as usize] as usize / self.block_size, s);
            }
        }
        for s in 0..batch.sequences.len() {
            let num_read = (batch.kv_lens[s] as usize).div_ceil(self.block_size);
            for block in &batch.table(s)[..num_read] {
                let writer = writers.get(&(*block as usize));
                assert!(writer.is_none_or(|w| *w == s), "sequence {s} reads block {block}, which {writer:?} writes");
            }
        }
    }

    /// Runs the rows of one sequence, and returns what each has read.
    fn run(&mut self, batch: &Batch, sequence: usize) -> Vec<u64> {
        let rows = batch.cu_q[sequence] as usize..batch.cu_q[sequence + 1] as usize;
        let (table, id) = (batch.table(sequence).to_vec(), batch.sequences[sequence]);
        let end = batch.kv_lens[sequence];
        // Other weights write something else for the same token.
        let mark =
            batch.adapters.get(sequence).copied().flatten().map_or(0, |slot| (slot + 1) << 24) ^ (self.weights << 16);
        let first = batch.positions[rows.start];
        assert_eq!(first as usize + rows.len(), end as usize, "the rows of sequence {id} are its last");
        self.note_progress(id, first, end);
        let mut state = START;
        let mut states = Vec::new();
        for position in 0..end {
            let block = table[position as usize / self.block_size] as usize;
            let slot = block * self.block_size + position as usize % self.block_size;
            if position >= first {
                let row = rows.start + (position - first) as usize;
                let written = Written { position, token: batch.ids[row] ^ mark };
                assert_eq!(batch.positions[row], position, "positions of sequence {id} follow one another");
                let writes = batch.slots[row] as usize;
                if writes >= self.block_size {
                    assert_eq!(writes, slot, "sequence {id} writes position {position} where its table says");
                    self.cache[slot] = Some(written);
                }
                assert_eq!(self.cache[slot], Some(written), "sequence {id} reads back position {position}");
            }
            let read = self.cache[slot];
            let read = read.unwrap_or_else(|| panic!("sequence {id} reads position {position}, slot {slot}: empty"));
            assert_eq!(read.position, position, "slot {slot} that sequence {id} reads");
            state = mix(state, read);
            if position >= first {
                states.push(state);
            }
        }
        states
    }

    /// Counts positions that a sequence runs again. Its first rows may begin anywhere: what comes
    /// before was found in the cache, or it forked.
    fn note_progress(&mut self, id: SequenceId, first: u32, end: u32) {
        let next = self.next.entry(id).or_insert(first);
        self.rerun += u64::from(end.min(*next).saturating_sub(first));
        *next = end.max(*next);
    }

    fn copy_all(block_size: usize, from: &[Option<Written>], to: &mut [Option<Written>], copies: &[BlockCopy]) {
        let range = |block: u32| block as usize * block_size..(block as usize + 1) * block_size;
        for (source, target) in copies {
            to[range(*target)].copy_from_slice(&from[range(*source)]);
        }
    }
}

impl Model for Scripted {
    fn limits(&self) -> Limits {
        self.limits.clone()
    }

    fn allocate(&mut self, cache: CacheShape) -> Result<(), ModelError> {
        self.block_size = cache.block_size;
        self.cache = vec![None; cache.num_blocks * cache.block_size];
        self.host = vec![None; cache.num_host_blocks * cache.block_size];
        Ok(())
    }

    fn copy(&mut self, moves: &Moves) -> Result<(), ModelError> {
        let is_written = |block: u32| moves.copies.iter().any(|(_, to)| *to == block);
        assert!(!moves.copies.iter().any(|(from, _)| is_written(*from)), "a copy reads what another writes");
        let is_read = |block: u32| moves.swap_in.iter().any(|(from, _)| *from == block);
        assert!(!moves.swap_out.iter().any(|(_, to)| is_read(*to)), "a block goes out over one that comes in");
        Self::copy_all(self.block_size, &self.cache, &mut self.host, &moves.swap_out);
        Self::copy_all(self.block_size, &self.host, &mut self.cache, &moves.swap_in);
        let before = self.cache.clone();
        Self::copy_all(self.block_size, &before, &mut self.cache, &moves.copies);
        Ok(())
    }

    fn load_adapter(&mut self, _: &Adapter, _: &(dyn Any + Send + Sync)) -> Result<(), ModelError> {
        Ok(())
    }

    /// Weights are a number below 256.
    fn load_weights(&mut self, weights: &(dyn Any + Send + Sync)) -> Result<(), ModelError> {
        let known = weights.downcast_ref().filter(|number| **number < 256);
        self.weights = *known.ok_or("the weights of a scripted model are a number below 256")?;
        self.is_asleep = false;
        Ok(())
    }

    fn sleep(&mut self) -> Result<(), ModelError> {
        (self.cache, self.host, self.is_asleep) = (Vec::new(), Vec::new(), true);
        Ok(())
    }

    fn step(&mut self, batch: &Batch) -> Result<Vec<Sampled>, ModelError> {
        assert!(batch.feeds.is_empty(), "a step that is not submitted runs after all others, and knows its tokens");
        Ok(self.answer(batch)?)
    }

    fn overlaps(&self) -> bool {
        self.overlaps
    }

    fn submit(&mut self, batch: &Batch) -> Result<Ticket, ModelError> {
        if !self.overlaps {
            return self.step(batch).map(Ticket::answered);
        }
        assert!(self.answers.len() < 2, "three steps are in flight");
        let mut batch = batch.clone();
        let mut fed = Ok(());
        for feed in std::mem::take(&mut batch.feeds) {
            let id = &mut batch.ids[feed.row as usize];
            assert_eq!(*id, 0, "a row has a token and is fed one");
            match self.drawn.get(feed.sample as usize) {
                Some(token) => *id = *token,
                None => fed = Err("the step before has failed".to_owned()),
            }
        }
        let answers = fed.and_then(|()| self.answer(&batch));
        self.drawn = answers.iter().flatten().map(|a| a.token).collect();
        self.answers.push_back(answers);
        Ok(Ticket::running())
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Vec<Sampled>, ModelError> {
        match ticket.into_answers() {
            Some(answers) => Ok(answers),
            None => Ok(self.answers.pop_front().expect("a ticket is for a step that was submitted")?),
        }
    }
}

impl Scripted {
    fn answer(&mut self, batch: &Batch) -> Result<Vec<Sampled>, String> {
        if self.fails_at == Some(batch.step) {
            return Err(format!("step {} was to fail", batch.step));
        }
        assert!(!self.is_asleep, "a step runs without weights");
        assert!(batch.ids.iter().all(|id| (*id as usize) < self.limits.vocab), "a row runs what is no token");
        let padding = &batch.slots[batch.num_rows()..];
        assert!(padding.iter().all(|slot| (*slot as usize) < self.block_size), "padding writes to the null block");
        self.check_writers(batch);
        let states: Vec<u64> = (0..batch.sequences.len()).flat_map(|s| self.run(batch, s)).collect();
        let noise = if self.is_batch_dependent { states.len() as u64 } else { 0 };
        let state = |row: u32| states[row as usize] ^ noise;
        let sampled = batch.samples.iter().map(|row| sample(&self.logits_of(state(row.row)), row));
        let hidden = batch.hidden.iter().map(|row| Sampled { hidden: hidden_of(state(*row)), ..Sampled::default() });
        Ok(sampled.chain(hidden).collect())
    }
}

const START: u64 = 0x5EED;

/// Numbers of a hidden state.
const HIDDEN: usize = 8;

/// Numbers from -1 to 1.
fn hidden_of(state: u64) -> Vec<f32> {
    (0..HIDDEN as u64).map(|i| (scramble(state ^ !i) >> 40) as f32 / (1 << 23) as f32 - 1.0).collect()
}

fn mix(state: u64, read: Written) -> u64 {
    scramble(state ^ scramble(u64::from(read.position) << 32 | u64::from(read.token)))
}

/// The finisher of SplitMix64.
fn scramble(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
