//! One model for the engine whose layers are split over several devices: tensor parallelism.
//!
//! Each device is a rank with a thread of its own and a [`LanguageModel`] of some heads and some
//! columns. The engine's scheduler drives all of them: what it asks of a model goes to every rank,
//! so that blocks, copies and swaps are the same everywhere, each of the rank's own heads. The
//! first rank draws. When a rank fails, the others end what they wait for, and the model is of no
//! use any more.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use warpfold::{Device, Dtype, Queue};
use warpfold_collectives::{ErrorKind as GroupErrorKind, Group, PeerOptions};
use warpfold_engine::{Batch, CacheShape, Config, Limits, Model, ModelError, Moves, Sampled, Ticket};

use crate::error::{self, ErrorKind};
use crate::layers::{Shard, check_split};
use crate::{Error, LanguageModel, ModelFiles, WeightsDigest};

/// Time limit for another rank, whose launches may take long on a virtual GPU.
const PATIENCE: Duration = Duration::from_secs(600);

/// Bytes that a rank on a GPU exchanges at a time: a quarter of the sums of a prefill of 8,192 rows
/// of 4,096 columns.
const STAGE_BYTES: usize = 32 << 20;

/// A model on several devices. Its answers have the same bits however many there are, and those of
/// a [`LanguageModel`]: partial sums are added in one tree of eight parts, and experts, which are
/// split whole, in the order of a row's slots.
///
/// ```
/// use warpfold::{Device, Profile};
/// use warpfold_engine::{Config, Engine, Request};
/// use warpfold_models::ModelFiles;
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let files = ModelFiles::shipped()?;
///     let answer = |devices| -> Result<_, Box<dyn std::error::Error>> {
///         let devices = Device::virtual_peers(Profile::H200, devices);
///         let model = files.load_parallel(&devices, files.dtype(), &mut |_, _| ())?;
///         let mut engine = Engine::new(model, Config { num_blocks: 8, ..Config::default() })?;
///         let id = engine.add(Request { logprobs: Some(1), ..Request::greedy(vec![5, 80, 7], 2) })?;
///         Ok(engine.run_to_end()?.remove(&id))
///     };
///     assert_eq!(answer(1)?, answer(2)?);
///     Ok(())
/// }
/// ```
pub struct ParallelModel {
    ranks: Vec<Rank>,
    limits: Limits,
    weight_bytes: u64,
    weights_digest: Option<WeightsDigest>,
}

/// Work of a rank on its shard of the model.
type Job = Box<dyn FnOnce(&mut LanguageModel) + Send>;

/// A rank's thread. It ends when nobody has jobs for it any more.
struct Rank {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl ModelFiles {
    /// Brings the weights to several devices, to each its heads and columns, to compute in `dtype`:
    /// `f32`, `f16` or `bf16`. Where there are more devices than heads of keys and values, some
    /// have the same ones. `progress` is as in [`ModelFiles::load`].
    ///
    /// # Errors
    /// [`ErrorKind::Split`] unless so many devices can share the model; [`ErrorKind::Group`] for
    /// devices that do not reach one another's memory; those of [`ModelFiles::load`].
    pub fn load_parallel(
        &self,
        devices: &[Device],
        dtype: Dtype,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<ParallelModel, Error> {
        self.check_parallel(devices.len())?;
        let options = PeerOptions::of(&devices[0]);
        let stage_bytes = if devices[0].is_virtual() { options.stage_bytes } else { STAGE_BYTES };
        let group =
            Group::new(devices.to_vec())?.with_options(PeerOptions { stage_bytes, ..options }).with_patience(PATIENCE);
        let ranks = group.communicators()?.into_iter().map(|link| Shard::new(link, self.config()));
        let shards = ranks.collect::<Result<Vec<_>, _>>()?;
        let (to, read) = channel::<(usize, u64, u64)>();
        let load = |(rank, shard): (usize, Shard), to: Sender<(usize, u64, u64)>| {
            // The receiver reads until every rank has ended.
            let mut progress = |read, all| {
                let _ = to.send((rank, read, all));
            };
            self.load_shard(&Queue::of(&devices[rank]), dtype, Some(shard), &mut progress)
        };
        let loaded: Vec<_> = std::thread::scope(|scope| {
            let start = |shard| {
                let (to, load) = (to.clone(), &load);
                scope.spawn(move || load(shard, to))
            };
            let threads: Vec<_> = shards.into_iter().enumerate().map(start).collect();
            drop(to);
            // A rank reads about its share of the files.
            let (count, mut shares) = (devices.len() as u64, vec![0; devices.len()]);
            for (rank, read, all) in read {
                shares[rank] = (read * count).min(all);
                progress(shares.iter().sum::<u64>() / count, all);
            }
            let joined = threads.into_iter().map(|thread| thread.join());
            joined
                .map(|model| model.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect::<Result<_, Error>>()
        })?;
        let (models, placed): (Vec<_>, Vec<_>) = loaded.into_iter().unzip();
        Ok(ParallelModel::new(models, self.compare(&placed)?))
    }

    /// Checks that this number of devices can share the model: they divide its heads, its
    /// experts, and the sums over K.
    ///
    /// # Errors
    /// [`ErrorKind::Split`] names both numbers.
    pub fn check_parallel(&self, devices: usize) -> Result<(), Error> {
        check_split(self.config(), devices)
    }

    /// Bytes that the weights take at least on each of so many devices, as
    /// [`ModelFiles::weight_bytes`] says it of one.
    #[must_use]
    pub fn weight_bytes_of_each(&self, dtype: Dtype, devices: usize) -> u64 {
        self.weight_bytes(dtype) / devices.max(1) as u64
    }
}

impl ParallelModel {
    fn new(models: Vec<LanguageModel>, weights_digest: Option<WeightsDigest>) -> Self {
        let limits = models[0].limits();
        let weight_bytes = models.iter().map(LanguageModel::weight_bytes).max().unwrap_or(0);
        Self { ranks: models.into_iter().map(Rank::new).collect(), limits, weight_bytes, weights_digest }
    }

    /// Devices.
    #[must_use]
    pub fn num_devices(&self) -> usize {
        self.ranks.len()
    }

    /// Bytes of the weights on the device that has the most.
    #[must_use]
    pub fn weight_bytes(&self) -> u64 {
        self.weight_bytes
    }

    /// The digest of [`LanguageModel::weights_digest`]: the same number for any number of devices.
    #[must_use]
    pub fn weights_digest(&self) -> Option<WeightsDigest> {
        self.weights_digest
    }

    /// The size of [`LanguageModel::activation_bytes`], on the device that needs the most.
    ///
    /// # Errors
    /// If a rank is gone.
    pub fn activation_bytes(&self, rows: usize, samples: usize) -> Result<u64, Error> {
        let all = self.on_all(move |model| Ok(model.activation_bytes(rows, samples)))?;
        Ok(all.into_iter().max().unwrap_or(0))
    }

    /// Runs [`LanguageModel::dry_run`] on all devices together; returns the largest result.
    ///
    /// # Errors
    /// As [`LanguageModel::dry_run`].
    pub fn dry_run(&mut self, config: &Config) -> Result<u64, Error> {
        let config = config.clone();
        Ok(self.on_all(move |model| model.dry_run(&config))?.into_iter().max().unwrap_or(0))
    }

    /// Does the same on every rank, and gives the results by rank, or the error that came first.
    fn on_all<R: Send + 'static>(
        &self,
        work: impl Fn(&mut LanguageModel) -> Result<R, Error> + Send + Sync + 'static,
    ) -> Result<Vec<R>, Error> {
        self.on(&self.ranks, work)
    }

    fn on<R: Send + 'static>(
        &self,
        ranks: &[Rank],
        work: impl Fn(&mut LanguageModel) -> Result<R, Error> + Send + Sync + 'static,
    ) -> Result<Vec<R>, Error> {
        let work = Arc::new(work);
        let ask = |rank: &Rank| -> Receiver<Result<R, Error>> {
            let ((to, answer), work) = (channel(), work.clone());
            rank.ask(Box::new(move |model| {
                let result = work(model);
                if let (Err(error), Some(link)) = (&result, model.shard().and_then(Shard::communicator)) {
                    // Ends what the others wait for.
                    link.fail(&error.to_string());
                }
                // The caller waits, or is gone with the model.
                let _ = to.send(result);
            }));
            answer
        };
        let answers: Vec<_> = ranks.iter().map(ask).collect();
        let ended = |rank| {
            let reason = "its thread ended".to_owned();
            Error::from(warpfold_collectives::Error::from(GroupErrorKind::RankFailed { rank, reason }))
        };
        let of = |(rank, answer): (usize, Receiver<_>)| answer.recv().unwrap_or_else(|_| Err(ended(rank)));
        let mut results: Vec<Result<R, Error>> = answers.into_iter().enumerate().map(of).collect();
        // What others say of a rank that failed comes after what it says itself.
        let is_cause = |result: &Result<R, Error>| result.as_ref().is_err_and(|error| !is_echo(error));
        match results.iter().position(is_cause) {
            Some(cause) => results.swap_remove(cause).map(|_| Vec::new()),
            None => results.into_iter().collect(),
        }
    }
}

/// Returns whether an error only reports that another rank failed.
fn is_echo(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Group(error) => {
            matches!(error.kind(), GroupErrorKind::RankFailed { .. } | GroupErrorKind::RankEnded { .. })
        }
        _ => false,
    }
}

impl Rank {
    fn new(mut model: LanguageModel) -> Self {
        let (jobs, todo) = channel::<Job>();
        let thread = std::thread::spawn(move || todo.into_iter().for_each(|job| job(&mut model)));
        Self { jobs: Some(jobs), thread: Some(thread) }
    }

    /// Gives the rank a job; one that is gone drops it, and with it who waits for an answer knows.
    fn ask(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send(job);
        }
    }
}

impl Drop for ParallelModel {
    fn drop(&mut self) {
        self.ranks.iter_mut().for_each(|rank| drop(rank.jobs.take()));
        for thread in self.ranks.iter_mut().filter_map(|rank| rank.thread.take()) {
            // A panic was printed, and answered as a rank that ended.
            let _ = thread.join();
        }
    }
}

impl Model for ParallelModel {
    fn limits(&self) -> Limits {
        self.limits.clone()
    }

    fn allocate(&mut self, cache: CacheShape) -> Result<(), ModelError> {
        self.on_all(move |model| model.allocate(cache).map_err(error::of_model))?;
        Ok(())
    }

    fn copy(&mut self, moves: &Moves) -> Result<(), ModelError> {
        let moves = moves.clone();
        self.on_all(move |model| model.copy(&moves).map_err(error::of_model))?;
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
        let batch = batch.clone();
        let mut tickets = self.on_all(move |model| model.submit(&batch).map_err(error::of_model))?;
        // The others answer nothing.
        Ok(tickets.swap_remove(0))
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Vec<Sampled>, ModelError> {
        match ticket.into_answers() {
            Some(answers) => Ok(answers),
            None => {
                let wait = |model: &mut LanguageModel| model.wait(Ticket::running()).map_err(error::of_model);
                Ok(self.on(&self.ranks[..1], wait)?.swap_remove(0))
            }
        }
    }
}

impl fmt::Debug for ParallelModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ParallelModel(on {} devices)", self.ranks.len())
    }
}
