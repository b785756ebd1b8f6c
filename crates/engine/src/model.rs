//! The seam between the engine and a model: the engine decides what runs, the model runs it.

use std::any::Any;

use crate::batch::{Batch, Moves};
use crate::error::ModelError;
use crate::request::Adapter;
use crate::sampling::Sampled;
use crate::speculate::Drafter;

/// Limits of a model that the engine depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Tokens are below this.
    pub vocab: usize,
    /// The longest sequence, prompt included.
    pub max_len: usize,
    /// Tokens that end a sequence.
    pub eos: Vec<u32>,
    /// Numbers of a row's hidden state.
    pub hidden: usize,
    /// Bytes of the cache that one position takes, over all layers; for messages.
    pub kv_bytes_per_token: u64,
    /// Bytes that the model keeps of a running sequence as a whole, beside its positions: of linear
    /// attention. It cannot go back from there, so such sequences share no blocks, are not swapped,
    /// and run no guesses. 0 without.
    pub state_bytes: u64,
}

/// The cache that a model keeps for the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheShape {
    /// Positions in a block.
    pub block_size: usize,
    /// Blocks on the device, the null block included.
    pub num_blocks: usize,
    /// Blocks on the host, the null block included, which is never used there.
    pub num_host_blocks: usize,
    /// Places for what the model keeps of running sequences as a whole
    /// ([`Limits::state_bytes`]).
    pub num_states: usize,
}

/// A model that runs batches over a paged KV cache.
///
/// What it answers for a sequence must depend on nothing but that sequence: not on the other rows
/// of the batch, nor on how its own rows were cut into steps. The engine's promise that answers
/// never depend on who else is served rests on that, and [`crate::scripted`] shows how it is
/// tested.
pub trait Model {
    /// Returns the limits of the model.
    fn limits(&self) -> Limits;

    /// Makes room for the cache. Called once before any step, and after each
    /// [sleep](Model::sleep).
    ///
    /// # Errors
    /// If there is not enough memory.
    fn allocate(&mut self, cache: CacheShape) -> Result<(), ModelError>;

    /// Takes what guesses tokens for this model, if anything does, with a cache for as many
    /// positions. Called once, after [`Model::allocate`].
    ///
    /// # Errors
    /// If there is not enough memory.
    fn drafter(&mut self, cache: CacheShape) -> Result<Option<Box<dyn Drafter>>, ModelError> {
        let _ = cache;
        Ok(None)
    }

    /// Copies blocks. What [`Model::step`] runs next must see them, and copies out must have read
    /// their blocks before anything else writes them.
    ///
    /// # Errors
    /// If a copy fails.
    fn copy(&mut self, moves: &Moves) -> Result<(), ModelError>;

    /// Runs a batch and answers each of its `samples`, in their order, then each row of `hidden`.
    ///
    /// # Errors
    /// If the batch cannot be run; the engine then ends all requests that hold blocks.
    fn step(&mut self, batch: &Batch) -> Result<Vec<Sampled>, ModelError>;

    /// Brings weights of an adapter, of a type that the model knows, to the place that the adapter
    /// names. No request has an adapter that is there then. Called between two steps.
    ///
    /// # Errors
    /// If the model takes no adapters, or not these weights.
    fn load_adapter(&mut self, adapter: &Adapter, weights: &(dyn Any + Send + Sync)) -> Result<(), ModelError> {
        let (_, _) = (adapter, weights);
        Err("the model takes no adapters".into())
    }

    /// Puts weights, of a type that the model knows, in the place of its own. No request is there
    /// then, and nothing that the cache holds is read again.
    ///
    /// # Errors
    /// If the model takes no others, or not these; it then has its own.
    fn load_weights(&mut self, weights: &(dyn Any + Send + Sync)) -> Result<(), ModelError> {
        let _ = weights;
        Err("the model takes no other weights".into())
    }

    /// Frees the memory of weights and cache. No request is there then, and none comes until
    /// [`Model::load_weights`] and then [`Model::allocate`] have brought both back.
    ///
    /// # Errors
    /// If the model cannot do without; it then has both.
    fn sleep(&mut self) -> Result<(), ModelError> {
        Err("the model cannot sleep".into())
    }

    /// Returns whether [`Model::submit`] returns before its step has run, so that the engine
    /// prepares the next one meanwhile. Such a model draws the tokens of [`Batch::feeds`] into its
    /// rows itself.
    fn overlaps(&self) -> bool {
        false
    }

    /// Begins a step. It runs after all steps and copies that were asked for before; `batch` is the
    /// engine's again when this returns. At most two steps are submitted and not waited for. What
    /// follows a step that failed may fail or answer anything.
    ///
    /// # Errors
    /// Those of [`Model::step`].
    fn submit(&mut self, batch: &Batch) -> Result<Ticket, ModelError> {
        self.step(batch).map(Ticket::answered)
    }

    /// The answers of the oldest step that was submitted and not waited for, whose ticket this is.
    ///
    /// # Errors
    /// If that step failed.
    fn wait(&mut self, ticket: Ticket) -> Result<Vec<Sampled>, ModelError> {
        ticket.into_answers().ok_or_else(|| "a step that runs has a model that waits for it".into())
    }
}

/// A step that was submitted.
#[derive(Debug)]
pub struct Ticket(Option<Vec<Sampled>>);

impl Ticket {
    /// The step has run, and these are its answers.
    #[must_use]
    pub fn answered(answers: Vec<Sampled>) -> Self {
        Self(Some(answers))
    }

    /// The step may still run.
    #[must_use]
    pub fn running() -> Self {
        Self(None)
    }

    /// The answers, unless the step may still run.
    #[must_use]
    pub fn into_answers(self) -> Option<Vec<Sampled>> {
        self.0
    }
}
