//! A model on one device or on several.

use std::any::Any;
use std::fmt;

use warpfold::{Device, Dtype, Queue};
use warpfold_engine::{
    Adapter, Batch, CacheShape, Config, DraftModel, Drafter, Limits, Model, ModelError, Moves, Sampled, Ticket,
};
use warpfold_lang::Arch;
use warpfold_models::{
    Error, LanguageModel, ModelFiles, ParallelModel, Rounding, Steps, WarmUp, Warmed, WeightsDigest,
};

use super::{EngineOptions, Quantize, WeightOptions, WeightStorage};
use crate::device_choice;
use crate::failure::Failure;

/// The devices of a model.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// One, with a product for each layer's sums.
    One(Device),
    /// Several that share the model, or one that computes as several do.
    Parallel(Vec<Device>),
}

impl Place {
    /// The device of this name, as [`device_choice::open`] finds it; with a number for
    /// `--tensor-parallel`, or a list of names, several as [`device_choice::open_several`] finds
    /// them, if so many can share the model.
    pub(crate) fn open(
        name: Option<&str>,
        tensor_parallel: Option<usize>,
        files: &ModelFiles,
    ) -> Result<Self, Failure> {
        let wrong = |error: Error| Failure::usage(format!("--tensor-parallel: {error}"));
        let listed = name.and_then(device_choice::list_of).map(|names| names.len());
        let Some(count) = tensor_parallel.or(listed) else { return Ok(Self::One(device_choice::open(name)?)) };
        files.check_parallel(count).map_err(wrong)?;
        device_choice::open_several(name, Some(count), count).map(Self::Parallel)
    }

    pub(super) fn devices(&self) -> &[Device] {
        match self {
            Self::One(device) => std::slice::from_ref(device),
            Self::Parallel(devices) => devices,
        }
    }

    pub(crate) fn is_virtual(&self) -> bool {
        self.devices()[0].is_virtual()
    }

    /// The files, rounded as asked, whose weights of few bits are to be held as asked: unless
    /// asked, as they are stored where a GPU has kernels that multiply them so.
    pub(crate) fn stores(&self, asked: &WeightOptions, files: ModelFiles) -> Result<ModelFiles, Error> {
        let files = match asked.quantize {
            Some(Quantize::Int8) => files.rounded(Rounding::Int8)?,
            Some(Quantize::Int4) => files.rounded(Rounding::Int4)?,
            None => files,
        };
        let multiplies = |device: &Device| !device.is_virtual() && device.target().arch == Arch::SM_90A;
        Ok(match asked.weights {
            Some(WeightStorage::Stored) => files.packed(),
            None if self.devices().iter().all(multiplies) => files.packed(),
            Some(WeightStorage::Converted) | None => files,
        })
    }

    /// The free bytes of the device that has the fewest.
    pub(crate) fn free_memory_bytes(&self) -> Result<u64, Failure> {
        let free: Vec<u64> = self.devices().iter().map(Device::free_memory_bytes).collect::<Result<_, _>>()?;
        Ok(free.into_iter().min().unwrap_or(0))
    }

    /// Bytes that the weights take at least on each device.
    pub(super) fn weight_bytes(&self, files: &ModelFiles, dtype: Dtype) -> u64 {
        files.weight_bytes_of_each(dtype, self.devices().len())
    }

    /// Begins to compile kernels for such steps.
    pub(super) fn warm_up(&self, files: &ModelFiles, dtype: Dtype, steps: Steps) -> Result<WarmUp, Error> {
        match self {
            Self::One(device) => files.warm_up(&Queue::of(device), dtype, steps),
            Self::Parallel(devices) => files.warm_up_parallel(devices, dtype, steps),
        }
    }

    pub(super) fn load(
        &self,
        files: &ModelFiles,
        dtype: Dtype,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<PlacedModel, Error> {
        Ok(match self {
            Self::One(device) => PlacedModel::of(Placed::One(files.load(&Queue::of(device), dtype, progress)?.into())),
            Self::Parallel(devices) => {
                PlacedModel::of(Placed::Parallel(files.load_parallel(devices, dtype, progress)?.into()))
            }
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.devices() {
            [device] => device.fmt(f),
            all => write!(f, "{} devices, the first {}", all.len(), all[0]),
        }
    }
}

/// A model where it runs.
#[derive(Debug)]
pub(crate) struct PlacedModel {
    model: Placed,
    warmed: Option<Warmed>,
    draft: Option<Box<DraftFiles>>,
}

/// The model itself, by the number of its devices.
#[derive(Debug)]
enum Placed {
    One(Box<LanguageModel>),
    Parallel(Box<ParallelModel>),
}

/// A model that drafts, before it has a cache.
#[derive(Debug)]
pub(crate) struct DraftFiles {
    model: LanguageModel,
    max_seqs: usize,
}

impl DraftFiles {
    /// Loads the draft model of the options to the first of the devices.
    pub(crate) fn load(options: &EngineOptions, place: &Place) -> Result<Option<Box<Self>>, Failure> {
        let Some(name) = options.draft.as_deref() else { return Ok(None) };
        let files = super::open(Some(name))?;
        let queue = Queue::of(&place.devices()[0]);
        let model = files.load(&queue, files.dtype(), &mut |_, _| ())?;
        Ok(Some(Box::new(Self { model, max_seqs: options.max_seqs })))
    }
}

impl PlacedModel {
    fn of(model: Placed) -> Self {
        Self { model, warmed: None, draft: None }
    }

    /// Gives it a model that drafts.
    pub(crate) fn set_draft(&mut self, draft: Option<Box<DraftFiles>>) {
        self.draft = draft;
    }

    /// Returns the limits of the model that drafts, if there is one.
    pub(crate) fn draft_limits(&self) -> Option<Limits> {
        self.draft.as_ref().map(|draft| draft.model.limits())
    }

    /// Devices that share the model.
    pub(crate) fn num_devices(&self) -> usize {
        match &self.model {
            Placed::One(_) => 1,
            Placed::Parallel(model) => model.num_devices(),
        }
    }

    /// Returns the heading of sizes: that they are per device, if there are several.
    pub(crate) fn heading(&self) -> String {
        match self.num_devices() {
            1 => String::new(),
            count => format!("on each of {count} devices:\n"),
        }
    }

    /// Bytes of the weights on each device.
    pub(crate) fn weight_bytes(&self) -> u64 {
        match &self.model {
            Placed::One(model) => model.weight_bytes(),
            Placed::Parallel(model) => model.weight_bytes(),
        }
    }

    /// The digest of the weights, if they were compared with the files.
    pub(crate) fn weights_digest(&self) -> Option<WeightsDigest> {
        match &self.model {
            Placed::One(model) => model.weights_digest(),
            Placed::Parallel(model) => model.weights_digest(),
        }
    }

    /// Bytes of a step's activations on each device.
    pub(crate) fn activation_bytes(&self, rows: usize, samples: usize) -> Result<u64, Error> {
        let of_draft = self.draft.as_ref().map_or(0, |draft| draft.model.activation_bytes(rows, samples));
        let own = match &self.model {
            Placed::One(model) => model.activation_bytes(rows, samples),
            Placed::Parallel(model) => model.activation_bytes(rows, samples)?,
        };
        Ok(own + of_draft)
    }

    /// Bytes that the largest step took on each device.
    pub(crate) fn dry_run(&mut self, config: &Config) -> Result<u64, Error> {
        match &mut self.model {
            Placed::One(model) => model.dry_run(config),
            Placed::Parallel(model) => model.dry_run(config),
        }
    }

    /// Notes that kernels were compiled: steps are captured next.
    pub(super) fn set_warmed(&mut self, done: Warmed) {
        self.warmed = Some(done);
    }

    /// Returns the result of the warm-up.
    pub(crate) fn warmed(&self) -> Option<&Warmed> {
        self.warmed.as_ref()
    }

    /// If kernels were compiled, captures steps of so many sequences as soon as there is a cache.
    pub(crate) fn capture_ahead(&mut self, max_seqs: usize) {
        if let (Placed::One(model), Some(_)) = (&mut self.model, &self.warmed) {
            model.capture_ahead(max_seqs, super::CAPTURE_TIME);
        }
    }

    fn model(&self) -> &dyn Model {
        match &self.model {
            Placed::One(model) => &**model,
            Placed::Parallel(model) => &**model,
        }
    }

    fn model_mut(&mut self) -> &mut dyn Model {
        match &mut self.model {
            Placed::One(model) => &mut **model,
            Placed::Parallel(model) => &mut **model,
        }
    }
}

// Everything is the model's own, what the trait would do by itself, too.
impl Model for PlacedModel {
    fn limits(&self) -> Limits {
        self.model().limits()
    }

    fn allocate(&mut self, cache: CacheShape) -> Result<(), ModelError> {
        self.model_mut().allocate(cache)
    }

    fn drafter(&mut self, cache: CacheShape) -> Result<Option<Box<dyn Drafter>>, ModelError> {
        let Some(draft) = self.draft.take() else { return Ok(None) };
        let DraftFiles { model, max_seqs } = *draft;
        let draft = DraftModel::new(model, cache.num_blocks.saturating_sub(1), cache.block_size, max_seqs)?;
        Ok(Some(Box::new(draft)))
    }

    fn copy(&mut self, moves: &Moves) -> Result<(), ModelError> {
        self.model_mut().copy(moves)
    }

    fn load_adapter(&mut self, adapter: &Adapter, weights: &(dyn Any + Send + Sync)) -> Result<(), ModelError> {
        self.model_mut().load_adapter(adapter, weights)
    }

    fn load_weights(&mut self, weights: &(dyn Any + Send + Sync)) -> Result<(), ModelError> {
        self.model_mut().load_weights(weights)
    }

    fn sleep(&mut self) -> Result<(), ModelError> {
        self.model_mut().sleep()
    }

    fn step(&mut self, batch: &Batch) -> Result<Vec<Sampled>, ModelError> {
        self.model_mut().step(batch)
    }

    fn overlaps(&self) -> bool {
        self.model().overlaps()
    }

    fn submit(&mut self, batch: &Batch) -> Result<Ticket, ModelError> {
        self.model_mut().submit(batch)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Vec<Sampled>, ModelError> {
        self.model_mut().wait(ticket)
    }
}

#[cfg(test)]
mod tests {
    use warpfold_device::Profile;

    use super::*;

    #[test]
    fn a_placed_model_overlaps_steps_as_the_model_by_itself_does() {
        let files = ModelFiles::shipped().expect("it is part of the program");
        let load = |place: Place| place.load(&files, files.dtype(), &mut |_, _| ()).expect("there is room");
        assert!(load(Place::One(Device::virtual_gpu(Profile::H200))).overlaps());
        assert!(load(Place::Parallel(Device::virtual_peers(Profile::H200, 1))).overlaps());
    }
}
