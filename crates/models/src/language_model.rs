//! A model on a device, as the engine runs it: a batch in, drawn tokens out.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use warpfold::{Arena, CacheShape as PageShape, DrawRows, Dtype, Queue, Tensor};
use warpfold_collectives::Communicator;
use warpfold_device::{HostBuffer, HostView, Stream};
use warpfold_engine::{Adapter, Batch, CacheShape, Limits, Model, ModelError, Moves, Sampled, Ticket};

use crate::adapter::{AdapterRoom, AdapterWeights};
use crate::draws;
use crate::error::ErrorKind;
use crate::graphs::Graphs;
use crate::layers::{Angles, KeptLayers, Shard, StepShape};
use crate::network::Network;
use crate::{Error, ModelConfig, WeightsDigest, config};

mod memory;
mod model_files;

pub use model_files::{ModelFiles, Rounding};

/// A model on a device.
pub struct LanguageModel {
    config: ModelConfig,
    queue: Queue,
    dtype: Dtype,
    /// Nothing while it sleeps.
    network: Option<Network>,
    weight_bytes: u64,
    weights_digest: Option<WeightsDigest>,
    /// Quantized weights stay packed.
    is_packed: bool,
    /// Adapters that there is room for.
    adapters: Option<AdapterRoom>,
    cache: Option<Cache>,
    /// Memory of a step's tensors.
    arena: Arena,
    /// Steps that were captured, unless every step runs launch by launch.
    graphs: Option<Graphs>,
    /// Steps to capture as soon as there is a cache.
    pub(crate) ahead: Option<Ahead>,
    /// Pinned memory of the next step, and of the previous one, which may still run.
    pinned: [Pinned; 2],
    drawn: Drawn,
    /// Steps that nobody has waited for, the oldest first.
    running: VecDeque<Running>,
    draws: DrawRows,
    /// The device's place, if several share the model. The sizes are those of what it has then.
    shard: Option<Shard>,
}

/// Other weights for a model ([`Model::load_weights`]), which are compared with their files.
#[derive(Debug)]
pub struct NewWeights {
    files: ModelFiles,
    digest: Arc<OnceLock<WeightsDigest>>,
}

impl NewWeights {
    /// Those of some files: of a model with the same configuration.
    #[must_use]
    pub fn new(files: ModelFiles) -> Self {
        Self { files: files.verified(), digest: Arc::default() }
    }

    /// Their digest, once a model has them.
    #[must_use]
    pub fn digest(&self) -> Arc<OnceLock<WeightsDigest>> {
        self.digest.clone()
    }
}

/// The cache, once there is one.
fn known(cache: &mut Option<Cache>) -> Result<&mut Cache, Error> {
    cache.as_mut().ok_or_else(|| ErrorKind::Batch("there is no cache yet".to_owned()).into())
}

/// The weights, unless it sleeps.
fn awake(network: &Option<Network>) -> Result<&Network, Error> {
    network.as_ref().ok_or_else(|| ErrorKind::Batch("the model has no weights".to_owned()).into())
}

/// The forward pass of a step.
struct Forward<'a> {
    network: &'a Network,
    cache: &'a mut Cache,
    drawn: &'a Drawn,
    shard: Option<&'a Shard>,
    /// Tokens of all devices.
    vocab: usize,
}

impl Forward<'_> {
    /// The logits of the samples of a step of words on the device, in a tensor that is given or in
    /// one of its own, and the hidden states that are wanted; nothing where none are.
    fn run(&mut self, words: &Tensor, shape: StepShape, logits: Option<Tensor>) -> Result<[Option<Tensor>; 2], Error> {
        let Cache { layers, angles: [global, local], .. } = &mut *self.cache;
        let rows = self.network.rows([words, &self.drawn.words], shape, [global, local], layers)?;
        let Some(rows) = rows else { return Ok([None, None]) };
        let [rows, hidden] = shape.split(rows)?;
        let Some(rows) = rows else { return Ok([None, hidden]) };
        let shard = self.shard.filter(|shard| shard.vocab(self.vocab).is_some());
        let logits = match shard {
            Some(shard) => shard.gather(&self.network.logits(&rows, None)?)?,
            None => self.network.logits(&rows, logits)?,
        };
        Ok([Some(logits), hidden])
    }

    /// The same of a step in which each row has a sample.
    fn of_all(&mut self, words: &Tensor, shape: StepShape, logits: Option<Tensor>) -> Result<Tensor, Error> {
        let [logits, _] = self.run(words, shape, logits)?;
        Ok(logits.expect("each row of a step that decodes has a sample"))
    }
}

/// Steps to be captured before the first request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ahead {
    max_seqs: usize,
    limit: Duration,
}

impl Ahead {
    /// Blocks of the longest sequences of such steps.
    const WIDTH: usize = 128;
}

/// Tokens drawn by the last step, inputs of the next one.
struct Drawn {
    words: Tensor,
    /// Words of a sample; the first is the token.
    stride: usize,
}

impl Drawn {
    /// Words that there is room for from the start.
    const WORDS: usize = 1 << 16;

    fn room(queue: &Queue, words: usize) -> Result<Tensor, Error> {
        Ok(Tensor::filled(queue, Dtype::I32, 0, &[words])?)
    }
}

/// A step that was submitted.
struct Running {
    /// Index of its pinned memory.
    pinned: usize,
    /// Bytes of its answers, and of its hidden states.
    num_bytes: [usize; 2],
    /// Number of likely tokens for each sample.
    tops: Vec<usize>,
}

/// Pinned memory of what a step brings to the device and back.
struct Pinned {
    /// Tokens, positions, slots, lengths, tables.
    words: HostBuffer<u8>,
    /// Sampling parameters.
    records: HostBuffer<u8>,
    /// Drawn tokens.
    answers: HostBuffer<u8>,
    /// Hidden states, in 32 bits.
    hidden: HostBuffer<u8>,
}

impl Pinned {
    fn empty(queue: &Queue) -> Result<Self, Error> {
        let buffer = || queue.device().host_buffer(0);
        Ok(Self { words: buffer()?, records: buffer()?, answers: buffer()?, hidden: buffer()? })
    }

    /// So many bytes of a buffer, which grows.
    fn bytes(buffer: &mut HostBuffer<u8>, queue: &Queue, len: usize) -> Result<(), Error> {
        if buffer.len() < len {
            *buffer = queue.device().host_buffer(len.next_power_of_two())?;
        }
        Ok(())
    }
}

/// Keys, values and states, and what their positions are turned by.
struct Cache {
    layers: KeptLayers,
    angles: [Angles; 2],
    /// Stream of swap copies: a layer waits for its own pages only, while the layers before it run.
    copies: Stream,
    /// Blocks on the host, each with the pages of all layers one after the other.
    host: HostBuffer<u8>,
    /// Bytes of a block of one layer, keys or values.
    page_bytes: usize,
}

impl fmt::Debug for LanguageModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LanguageModel")
            .field("config", &self.config)
            .field("dtype", &self.dtype)
            .finish_non_exhaustive()
    }
}

impl LanguageModel {
    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    pub(crate) fn shard(&self) -> Option<&Shard> {
        self.shard.as_ref()
    }

    /// Bytes of the weights on the device.
    #[must_use]
    pub fn weight_bytes(&self) -> u64 {
        self.weight_bytes
    }

    /// The digest of the weights, if they were compared with [verified](ModelFiles::verified)
    /// files.
    #[must_use]
    pub fn weights_digest(&self) -> Option<WeightsDigest> {
        self.weights_digest
    }

    /// Why it takes no other weights than its own, if that is so.
    fn keeps_weights(&self) -> Option<&'static str> {
        let is_bound = self.adapters.is_some() || self.shard.is_some();
        is_bound.then_some("it has room for adapters, or a share of several devices")
    }

    fn make_cache(&self, shape: CacheShape) -> Result<Cache, Error> {
        let config = &self.config;
        let pages = PageShape {
            pages: shape.num_blocks,
            page: shape.block_size,
            kv_heads: config.num_kv_heads,
            head_dim: config.head_dim,
            value_dim: config.head_dim,
        };
        let layers = KeptLayers::new(&self.queue, self.dtype, config, pages, shape.num_states)?;
        // No sequence is longer than all blocks.
        let positions = config.max_len.min(shape.num_blocks.saturating_mul(shape.block_size));
        let angles = |rope: &config::Rope| {
            let shape = [positions, config.head_dim / 2];
            let [cos, sin] = rope.tables(config.head_dim, positions);
            let upload =
                |table: &[f32]| Tensor::from_bytes(&self.queue, Dtype::F32, bytemuck::cast_slice(table), &shape);
            Ok::<_, Error>(Angles { cos: upload(&cos)?, sin: upload(&sin)? })
        };
        let angles = [angles(&config.rope)?, angles(config.local_rope.as_ref().unwrap_or(&config.rope))?];
        let page_bytes = shape.block_size * config.kv_len() * self.dtype.bytes() as usize;
        let host_blocks = if shape.num_host_blocks > 1 { shape.num_host_blocks } else { 0 };
        let host = self.queue.device().host_buffer(host_blocks * 2 * config.num_caches() * page_bytes)?;
        let copies = self.queue.device().new_stream()?;
        Ok(Cache { layers, angles, copies, host, page_bytes })
    }

    /// Runs every step launch by launch, instead of capturing those that come again. Answers are
    /// the same, bit by bit.
    #[must_use]
    pub fn without_graphs(self) -> Self {
        Self { graphs: None, ..self }
    }

    /// The logits of a batch's samples, and perhaps of further rows after them; its hidden states.
    fn forward(&mut self, batch: &Batch) -> Result<[Option<Tensor>; 2], Error> {
        let Self { config, network, queue, cache, graphs, pinned: [pinned, _], drawn, shard, .. } = self;
        if batch.num_rows() == 0 {
            return Ok([None, None]);
        }
        let shape = StepShape::of(batch);
        let num_bytes = 4 * shape.words();
        Pinned::bytes(&mut pinned.words, queue, num_bytes)?;
        shape.pack(batch, drawn.stride, pinned.words.range_mut(..num_bytes)?);
        let (network, cache) = (awake(network)?, known(cache)?);
        let mut forward = Forward { network, drawn, cache, shard: shard.as_ref(), vocab: config.vocab };
        if let Some(graphs) = graphs.as_mut().filter(|_| shape.is_decode()) {
            let of_all = |words: &Tensor, logits| forward.of_all(words, shape, logits);
            if let Some(logits) = graphs.run(queue, shape, &pinned.words, of_all)? {
                return Ok([Some(logits), None]);
            }
        }
        forward.run(&uploaded(queue, pinned.words.view(..num_bytes)?)?, shape, None)
    }

    /// From here on captures decode steps as soon as there is a cache, before the first request:
    /// those of few and of many sequences up to `max_seqs`, until `limit` is over.
    pub fn capture_ahead(&mut self, max_seqs: usize, limit: Duration) {
        self.ahead = Some(Ahead { max_seqs, limit });
    }

    /// Steps that are captured.
    #[must_use]
    pub fn num_captured(&self) -> usize {
        self.graphs.as_ref().map_or(0, Graphs::len)
    }

    fn capture_all(&mut self, shape: CacheShape) -> Result<(), Error> {
        let Self { config, network, queue, cache, arena, graphs, ahead, drawn, shard, .. } = self;
        let (Some(Ahead { max_seqs, limit }), Some(graphs)) = (*ahead, graphs.as_mut()) else { return Ok(()) };
        let begin = Instant::now();
        let most = config.max_len.div_ceil(shape.block_size).min(shape.num_blocks).min(Ahead::WIDTH);
        let (network, cache) = (awake(network)?, known(cache)?);
        let mut forward = Forward { network, drawn, cache, shard: shard.as_ref(), vocab: config.vocab };
        queue.reuse(arena, || {
            for shape in StepShape::decodes(max_seqs, most).take_while(|_| begin.elapsed() < limit) {
                graphs.capture(queue, shape, |words, logits| forward.of_all(words, shape, logits))?;
            }
            Ok(())
        })
    }

    /// Draws a token of each of a batch's samples, from logits of at least as many rows: keeps them
    /// for the next step, and starts to bring them to the host. Returns how many bytes they have.
    fn draw(&mut self, logits: &Tensor, batch: &Batch) -> Result<usize, Error> {
        let Self { queue, pinned: [pinned, _], draws, drawn, .. } = self;
        // The forward pass is on its way, and what is drawn from it is not.
        batch.make_masks(std::thread::available_parallelism().map_or(1, usize::from));
        draws::rows_of(&batch.samples, draws);
        let mut words = Vec::new();
        draws.words(&mut words);
        Pinned::bytes(&mut pinned.records, queue, 4 * words.len())?;
        let bytes = pinned.records.range_mut(..4 * words.len())?.chunks_exact_mut(4);
        bytes.zip(&words).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_le_bytes()));
        let records = uploaded(queue, pinned.records.view(..4 * words.len())?)?;
        let logits = logits.slice(0, ..batch.samples.len())?;
        let sampled = logits.sample(draws, &records)?;
        drawn.words.copy_over_first(&sampled)?;
        drawn.stride = sampled.shape()[1];
        let num_bytes = 4 * sampled.len();
        Pinned::bytes(&mut pinned.answers, queue, num_bytes)?;
        sampled.copy_to_pinned(pinned.answers.view_mut(..num_bytes)?)?;
        Ok(num_bytes)
    }

    /// Starts to bring hidden states to the host. Returns how many bytes they have.
    fn bring(&mut self, hidden: &Tensor) -> Result<usize, Error> {
        let Self { queue, pinned: [pinned, _], .. } = self;
        let hidden = hidden.cast(Dtype::F32)?.contiguous()?;
        let num_bytes = 4 * hidden.len();
        Pinned::bytes(&mut pinned.hidden, queue, num_bytes)?;
        hidden.copy_to_pinned(pinned.hidden.view_mut(..num_bytes)?)?;
        Ok(num_bytes)
    }

    /// Makes room for so many words that a step draws. Captured steps read the old ones.
    fn reserve_drawn(&mut self, words: usize) -> Result<(), Error> {
        if self.drawn.words.len() < words {
            self.drawn.words = Drawn::room(&self.queue, words.next_power_of_two())?;
            self.graphs.iter_mut().for_each(Graphs::clear);
        }
        Ok(())
    }

    /// Gives what the first device has drawn to the others, for the next step.
    fn share_drawn(&mut self, link: &Communicator, batch: &Batch) -> Result<(), Error> {
        let Self { config, queue, draws, drawn, .. } = self;
        if batch.samples.is_empty() {
            return Ok(());
        }
        draws::rows_of(&batch.samples, draws);
        drawn.stride = draws.problem(config.vocab as u64, 1).stride() as usize;
        let num_bytes = 4 * batch.samples.len() * drawn.stride;
        let words = drawn.words.device_bytes_mut()?.slice(..num_bytes)?;
        Ok(link.broadcast(queue.stream(), 0, words)?)
    }

    /// Enqueues a step, and nothing waits for it, unless the steps before have not left room.
    fn enqueue(&mut self, batch: &Batch) -> Result<Ticket, Error> {
        self.pinned.swap(0, 1);
        self.running.iter_mut().for_each(|step| step.pinned = 1 - step.pinned);
        self.reserve_drawn(draws::num_words(&batch.samples))?;
        let (queue, arena) = (self.queue.clone(), self.arena.clone());
        let shard = self.shard.clone();
        let num_bytes = queue.reuse(&arena, || {
            // The first device has the logits of all, and draws.
            let draws = shard.as_ref().is_none_or(Shard::is_first);
            let [logits, hidden] = self.forward(batch)?.map(|rows| rows.filter(|_| draws));
            let drawn = logits.map(|logits| self.draw(&logits, batch)).transpose()?;
            let brought = hidden.map(|hidden| self.bring(&hidden)).transpose()?;
            if let Some(link) = shard.as_ref().and_then(Shard::communicator) {
                self.share_drawn(link, batch)?;
            }
            Ok::<_, Error>([drawn, brought])
        })?;
        if num_bytes == [None, None] {
            return Ok(Ticket::answered(Vec::new()));
        }
        let num_bytes = num_bytes.map(Option::unwrap_or_default);
        let tops = batch.samples.iter().map(|sample| sample.top.unwrap_or(0)).collect();
        self.running.push_back(Running { pinned: 0, num_bytes, tops });
        Ok(Ticket::running())
    }

    fn answers(&mut self) -> Result<Vec<Sampled>, Error> {
        let running = self.running.pop_front();
        let Running { pinned, num_bytes, tops } =
            running.ok_or_else(|| ErrorKind::Batch("no step runs that could be waited for".to_owned()))?;
        let words = self.pinned[pinned].answers.range(..num_bytes[0])?;
        let hidden = self.pinned[pinned].hidden.range(..num_bytes[1])?;
        // They came from all devices, whose kernels may have waited in vain.
        self.shard.as_ref().and_then(Shard::communicator).map_or(Ok(()), Communicator::expect_none_lost)?;
        let mut answers = draws::sampled(words, &tops, self.config.vocab);
        answers.extend(draws::hidden(hidden, self.config.hidden));
        Ok(answers)
    }

    fn move_blocks(&mut self, moves: &Moves) -> Result<(), Error> {
        let Cache { layers: KeptLayers { pages: layers, .. }, host, copies, page_bytes, .. } = known(&mut self.cache)?;
        let block_bytes = 2 * layers.len() * *page_bytes;
        let place = |block: u32, layer: usize, part: usize| {
            let start = block as usize * block_bytes + (2 * layer + part) * *page_bytes;
            start..start + *page_bytes
        };
        for (number, layer) in layers.iter_mut().enumerate() {
            for (from, to) in &moves.swap_out {
                layer.page_to_host(copies, *from, [0, 1].map(|part| place(*to, number, part)), host)?;
            }
            for (from, to) in &moves.swap_in {
                layer.page_from_host(copies, [0, 1].map(|part| place(*from, number, part)), host, *to)?;
            }
            for (from, to) in &moves.copies {
                layer.copy_page(*from, *to)?;
            }
        }
        Ok(())
    }
}

impl Model for LanguageModel {
    fn limits(&self) -> Limits {
        let ModelConfig { vocab, max_len, hidden, ref eos, .. } = self.config;
        let kv_bytes_per_token = 2 * self.config.num_caches() as u64 * self.config.kv_len() as u64 * self.dtype.bytes();
        let state_bytes = self.config.state_bytes(self.dtype);
        Limits { vocab, max_len, eos: eos.clone(), hidden, kv_bytes_per_token, state_bytes }
    }

    fn allocate(&mut self, cache: CacheShape) -> Result<(), ModelError> {
        // They hold the old cache.
        self.graphs.iter_mut().for_each(Graphs::clear);
        self.cache = Some(self.make_cache(cache)?);
        Ok(self.capture_all(cache)?)
    }

    fn copy(&mut self, moves: &Moves) -> Result<(), ModelError> {
        Ok(self.move_blocks(moves)?)
    }

    fn load_adapter(&mut self, adapter: &Adapter, weights: &(dyn Any + Send + Sync)) -> Result<(), ModelError> {
        let room = self.adapters.filter(|room| (adapter.slot as usize) < room.adapters);
        let weights = weights.downcast_ref::<AdapterWeights>();
        match (room.and(weights), &mut self.network) {
            (Some(weights), Some(network)) => {
                let weights = weights.in_order(self.config.head_order())?;
                Ok(network.load_adapter(adapter.slot as usize, &weights)?)
            }
            _ => Err("the model has no room for this adapter".into()),
        }
    }

    fn load_weights(&mut self, weights: &(dyn Any + Send + Sync)) -> Result<(), ModelError> {
        let NewWeights { files, digest } = weights.downcast_ref().ok_or("the model does not know such weights")?;
        files.load_into(self)?;
        if let Some(found) = self.weights_digest {
            // Another model may have had them before.
            digest.set(found).ok();
        }
        Ok(())
    }

    fn sleep(&mut self) -> Result<(), ModelError> {
        if let Some(reason) = self.keeps_weights() {
            return Err(format!("the model cannot sleep: {reason}").into());
        }
        self.queue.stream().synchronize().map_err(warpfold::Error::from)?;
        self.graphs.iter_mut().for_each(Graphs::clear);
        (self.network, self.cache, self.arena) = (None, None, Arena::default());
        Ok(())
    }

    fn step(&mut self, batch: &Batch) -> Result<Vec<Sampled>, ModelError> {
        let ticket = self.submit(batch)?;
        self.wait(ticket)
    }

    fn overlaps(&self) -> bool {
        true
    }

    fn submit(&mut self, batch: &Batch) -> Result<Ticket, ModelError> {
        Ok(self.enqueue(batch)?)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Vec<Sampled>, ModelError> {
        Ok(match ticket.into_answers() {
            Some(answers) => answers,
            None => self.answers()?,
        })
    }
}

/// Words of a step on the device; the copy may still be under way.
fn uploaded(queue: &Queue, bytes: HostView<'_, u8>) -> Result<Tensor, Error> {
    let len = bytes.len() / 4;
    let mut words = Tensor::uninitialized(queue, Dtype::I32, &[len])?;
    words.copy_from_pinned(bytes)?;
    Ok(words)
}
