//! Kernels compiled ahead, on threads of their own, while the weights load.
//!
//! A driver compiles a kernel when it is loaded, which takes a tenth of a second or more, and a
//! model has some dozens. So every kind of step is given to layers without memory, on a queue that
//! plans and does nothing, and the kernels that it would launch are loaded by several threads. What
//! must not differ from a model's own steps is what kernels are chosen by: shapes, types, layouts.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use warpfold::{CacheShape, Draw, DrawRows, Dtype, Queue, Tensor};
use warpfold_device::Device;
use warpfold_kernels::AnyKernel;

use crate::layers::{Angles, KeptLayers, Loader, Shard, StepShape};
use crate::network::Network;
use crate::{Error, ModelConfig, ModelFiles};

/// The steps that a model will run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steps {
    /// Rows of a step at most.
    pub budget: usize,
    /// Sequences of a step at most.
    pub max_seqs: usize,
    /// Positions of a sequence at most.
    pub longest: usize,
    /// Positions of a block of the cache.
    pub block_size: usize,
}

/// A warm-up that is under way. Dropped, it goes on and nobody hears of it.
#[derive(Debug)]
pub struct WarmUp {
    begin: Instant,
    /// One a device.
    planners: Vec<JoinHandle<Result<(), Error>>>,
    compilers: Vec<JoinHandle<Result<Work, Error>>>,
}

/// Result of a warm-up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Warmed {
    /// Kernels that are loaded.
    pub kernels: usize,
    /// From its beginning until the last of them was.
    pub time: Duration,
    /// Threads that compiled.
    pub threads: usize,
}

/// Work of one thread.
#[derive(Debug, Default)]
struct Work {
    kernels: usize,
    end: Option<Instant>,
}

// THRESHOLD: more cores have nothing to compile; tested by
// crates/models/src/warm_up.rs::compilers_are_shared_out_to_devices
/// Threads that compile at most, but for one a device.
const MOST_THREADS: usize = 16;

/// Threads that compile for each of so many devices.
fn compilers_of_each(devices: usize, cores: usize) -> usize {
    cores.min(MOST_THREADS).div_ceil(devices)
}

impl ModelFiles {
    /// Begins to compile every kernel that such steps launch, on threads of its own, for models
    /// that [`ModelFiles::load`] loads with this queue. Nothing is allocated on the device.
    ///
    /// ```
    /// use warpfold::{Device, Profile, Queue};
    /// use warpfold_models::{ModelFiles, Steps};
    ///
    /// fn main() -> Result<(), warpfold_models::Error> {
    ///     let files = ModelFiles::shipped()?;
    ///     let queue = Queue::of(&Device::virtual_gpu(Profile::H200));
    ///     let steps = Steps { budget: 16, max_seqs: 2, longest: 64, block_size: 16 };
    ///     let warm_up = files.warm_up(&queue, files.dtype(), steps)?;
    ///     let model = files.load(&queue, files.dtype(), &mut |_, _| ())?;
    ///     println!("{:?}: {:?}", warm_up.finish()?, model);
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// What the device says.
    pub fn warm_up(&self, queue: &Queue, dtype: Dtype, steps: Steps) -> Result<WarmUp, Error> {
        self.warm_up_on(std::slice::from_ref(queue), None, dtype, steps)
    }

    /// The same for models that [`ModelFiles::load_parallel`] loads to these devices. What devices
    /// do together is compiled when they first do it.
    ///
    /// # Errors
    /// [`ErrorKind::Split`](crate::ErrorKind::Split) unless so many devices can share the model;
    /// what a device says.
    pub fn warm_up_parallel(&self, devices: &[Device], dtype: Dtype, steps: Steps) -> Result<WarmUp, Error> {
        let shard = Shard::outline(devices.len(), self.config())?;
        let queues: Vec<Queue> = devices.iter().map(Queue::of).collect();
        self.warm_up_on(&queues, Some(&shard), dtype, steps)
    }

    fn warm_up_on(&self, queues: &[Queue], shard: Option<&Shard>, dtype: Dtype, steps: Steps) -> Result<WarmUp, Error> {
        let begin = Instant::now();
        let (mut planners, mut compilers) = (Vec::new(), Vec::new());
        let config = shard.map_or_else(|| self.config().clone(), |shard| shard.config(self.config()));
        let config = one_layer_of_each_kind(&config);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for queue in queues {
            let (sender, kernels) = channel::<AnyKernel>();
            // Nobody listens any more once compilers have failed, and then they say why.
            let outline = queue.outline(move |kernel| sender.send(kernel.clone()).unwrap_or_default());
            let mut progress = |_, _| ();
            let mut loader = Loader::new(self.checkpoint(), &outline, dtype, &mut progress)?;
            loader.is_outline = true;
            loader.is_packed = self.is_packed();
            loader.adapters = self.adapters().filter(|_| shard.is_none());
            loader.shard = shard;
            let network = Network::load(&config, &mut loader)?;
            let kernels = Arc::new(Mutex::new(kernels));
            let compiler = |_| spawn_compiler(queue.device().clone(), kernels.clone());
            compilers.extend((0..compilers_of_each(queues.len(), cores)).map(compiler));
            let (config, shard) = (config.clone(), shard.cloned());
            let plan = move || plan(&outline, &network, &config, shard.as_ref(), dtype, steps);
            planners.push(std::thread::spawn(plan));
        }
        Ok(WarmUp { begin, planners, compilers })
    }
}

impl WarmUp {
    /// Waits until every kernel is loaded.
    ///
    /// # Errors
    /// If a step cannot be planned, or a kernel cannot be compiled.
    pub fn finish(self) -> Result<Warmed, Error> {
        let Self { begin, planners, compilers } = self;
        let threads = compilers.len();
        let work = compilers.into_iter().map(joined).collect::<Result<Vec<Work>, _>>()?;
        planners.into_iter().try_for_each(joined)?;
        let end = work.iter().filter_map(|work| work.end).max().unwrap_or(begin);
        Ok(Warmed { kernels: work.iter().map(|work| work.kernels).sum(), time: end - begin, threads })
    }
}

fn joined<T>(thread: JoinHandle<Result<T, Error>>) -> Result<T, Error> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Loads kernels until there are no more to come.
fn spawn_compiler(device: Device, kernels: Arc<Mutex<Receiver<AnyKernel>>>) -> JoinHandle<Result<Work, Error>> {
    std::thread::spawn(move || {
        let mut work = Work::default();
        let next = || kernels.lock().unwrap_or_else(PoisonError::into_inner).recv();
        while let Ok(kernel) = next() {
            kernel.prepare(&device)?;
            work = Work { kernels: work.kernels + 1, end: Some(Instant::now()) };
        }
        Ok(work)
    })
}

/// The same model with one layer of those that are alike.
fn one_layer_of_each_kind(config: &ModelConfig) -> ModelConfig {
    let is_dense = |layer: &usize| config.experts.as_ref().is_some_and(|experts| experts.dense_layers.contains(layer));
    let is_delta = |layer: &usize| config.delta_of(*layer).is_some();
    let kind = |layer: &usize| (config.windows[*layer], is_dense(layer), is_delta(layer));
    let mut kinds = BTreeSet::new();
    let layers: Vec<usize> = (0..config.num_layers).filter(|layer| kinds.insert(kind(layer))).collect();
    let mut few = ModelConfig {
        num_layers: layers.len(),
        windows: layers.iter().map(|layer| config.windows[*layer]).collect(),
        local_layers: layers.iter().map(|layer| config.local_layers[*layer]).collect(),
        ..config.clone()
    };
    if let Some(experts) = &mut few.experts {
        experts.dense_layers = (0..layers.len()).filter(|i| is_dense(&layers[*i])).collect();
    }
    if let Some(delta) = &mut few.delta {
        delta.layers = layers.iter().map(is_delta).collect();
    }
    few
}

/// Numbers at whose multiples and powers kernels change: all few ones, and ever fewer up to the
/// last, which is among them.
fn ladder(last: usize) -> impl Iterator<Item = usize> {
    let step = move |n: &usize| Some((n + (1_usize << n.ilog2()).div_ceil(16).min(128)).min(last));
    std::iter::successors(Some(1), step).take_while(move |n| *n < last).chain([last])
}

/// Powers of two, what is half-way between them, and the last.
fn halves(last: usize) -> impl Iterator<Item = usize> {
    let powers = (0..usize::BITS).map(|i| 1_usize << i);
    powers.flat_map(|n| [n, n + n / 2]).skip(1).take_while(move |n| *n < last).chain([last])
}

/// Powers of two, and the last.
fn powers(last: usize) -> impl Iterator<Item = usize> {
    (0..usize::BITS).map(|i| 1_usize << i).take_while(move |n| *n < last).chain([last])
}

/// Plans every kind of step.
fn plan(
    outline: &Queue,
    network: &Network,
    config: &ModelConfig,
    shard: Option<&Shard>,
    dtype: Dtype,
    steps: Steps,
) -> Result<(), Error> {
    let Steps { budget, max_seqs, longest, block_size } = steps;
    let (budget, max_seqs, block_size) = (budget.max(1), max_seqs.clamp(1, budget.max(1)), block_size.max(1));
    let blocks = longest.min(config.max_len).div_ceil(block_size).max(1);
    let shape = CacheShape {
        // Kernels are the same for any number.
        pages: 1024,
        page: block_size,
        kv_heads: config.num_kv_heads,
        head_dim: config.head_dim,
        value_dim: config.head_dim,
    };
    let mut kept = KeptLayers::new(outline, dtype, config, shape, max_seqs)?;
    let table = || Tensor::uninitialized(outline, Dtype::F32, &[config.max_len, config.head_dim / 2]);
    let angles = [Angles { cos: table()?, sin: table()? }, Angles { cos: table()?, sin: table()? }];
    let drawn = Tensor::uninitialized(outline, Dtype::I32, &[1 << 16])?;
    let mut plan_step = |shape: StepShape| {
        let words = Tensor::uninitialized(outline, Dtype::I32, &[shape.words()])?;
        if let Some(rows) = network.rows([&words, &drawn], shape, [&angles[0], &angles[1]], &mut kept)? {
            let logits = network.logits(&rows, None)?;
            if let Some(shard) = shard.filter(|shard| shard.vocab(config.vocab).is_some()) {
                shard.gather(&logits)?;
            }
        }
        Ok::<_, Error>(())
    };
    // The largest ones first: they take the longest to compile, and the first prompt runs them.
    plan_step(StepShape::mixed(budget, max_seqs, blocks, max_seqs))?;
    for shape in StepShape::decodes(max_seqs, blocks) {
        plan_step(shape)?;
    }
    plan_draws(outline, config)?;
    for rows in ladder(budget) {
        plan_step(StepShape::mixed(rows, 1, blocks, rows.min(max_seqs)))?;
    }
    for rows in halves(budget) {
        for sequences in powers(rows.min(max_seqs)) {
            for width in powers(blocks) {
                plan_step(StepShape::mixed(rows, sequences, width, sequences))?;
            }
        }
    }
    Ok(())
}

/// Plans draws of every kind.
fn plan_draws(outline: &Queue, config: &ModelConfig) -> Result<(), Error> {
    let logits = Tensor::uninitialized(outline, Dtype::F32, &[1, config.vocab])?;
    for (top_p, top, bias) in [(1.0, 0, &[][..]), (0.5, 0, &[]), (1.0, 1, &[]), (0.5, 1, &[(0, 1.0)])] {
        let mut rows = DrawRows::default();
        rows.push(&Draw { temperature: 1.0, top_p, top, bias, ..Draw::default() });
        let records = Tensor::uninitialized(outline, Dtype::I32, &[rows.num_words()])?;
        logits.sample(&rows, &records)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ladders_end_with_their_last_number() {
        assert_eq!(ladder(1).collect::<Vec<_>>(), [1]);
        assert_eq!(ladder(20).collect::<Vec<_>>(), (1..=20).collect::<Vec<_>>());
        let rows: Vec<usize> = ladder(8192).collect();
        assert!(rows.is_sorted() && rows.len() < 200, "{}", rows.len());
        assert!((8..=256).step_by(8).chain([512, 1024, 8192]).all(|n| rows.contains(&n)));
        assert_eq!(halves(16).collect::<Vec<_>>(), [1, 2, 3, 4, 6, 8, 12, 16]);
        assert_eq!(powers(9).collect::<Vec<_>>(), [1, 2, 4, 8, 9]);
    }

    #[test]
    fn compilers_are_shared_out_to_devices() {
        assert_eq!([1, 2, 15, 16, 17, 224].map(|cores| compilers_of_each(1, cores)), [1, 2, 15, 16, 16, 16]);
        assert_eq!([1, 8, 16, 17].map(|cores| compilers_of_each(8, cores)), [1, 1, 2, 2]);
    }
}
