//! A model on one device or on several.

use std::any::Any;
use std::fmt;

use warpfold::{Device, Dtype, Queue};
use warpfold_engine::{Adapter, Batch, CacheShape, Config, Limits, Model, ModelError, Moves, Sampled, Ticket};
use warpfold_lang::Arch;
use warpfold_models::{Error, LanguageModel, ModelFiles, ParallelModel, Steps, WarmUp, Warmed, WeightsDigest};

use super::WeightStorage;
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

    /// The files, whose weights of few bits are to be held as asked: unless asked, as they are
    /// stored where a GPU has kernels that multiply them so.
    pub(crate) fn stores(&self, asked: Option<WeightStorage>, files: ModelFiles) -> ModelFiles {
        let multiplies = |device: &Device| !device.is_virtual() && device.target().arch == Arch::SM_90A;
        match asked {
            Some(WeightStorage::Stored) => files.packed(),
            None if self.devices().iter().all(multiplies) => files.packed(),
            Some(WeightStorage::Converted) | None => files,
        }
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
            Self::One(device) => {
                PlacedModel::One { model: Box::new(files.load(&Queue::of(device), dtype, progress)?), warmed: None }
            }
            Self::Parallel(devices) => {
                PlacedModel::Parallel { model: files.load_parallel(devices, dtype, progress)?, warmed: None }
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
pub(crate) enum PlacedModel {
    One { model: Box<LanguageModel>, warmed: Option<Warmed> },
    Parallel { model: ParallelModel, warmed: Option<Warmed> },
}

impl PlacedModel {
    /// Devices that share the model.
    pub(crate) fn num_devices(&self) -> usize {
        match self {
            Self::One { .. } => 1,
            Self::Parallel { model, .. } => model.num_devices(),
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
        match self {
            Self::One { model, .. } => model.weight_bytes(),
            Self::Parallel { model, .. } => model.weight_bytes(),
        }
    }

    /// The digest of the weights, if they were compared with the files.
    pub(crate) fn weights_digest(&self) -> Option<WeightsDigest> {
        match self {
            Self::One { model, .. } => model.weights_digest(),
            Self::Parallel { model, .. } => model.weights_digest(),
        }
    }

    /// Bytes of a step's activations on each device.
    pub(crate) fn activation_bytes(&self, rows: usize, samples: usize) -> Result<u64, Error> {
        match self {
            Self::One { model, .. } => Ok(model.activation_bytes(rows, samples)),
            Self::Parallel { model, .. } => model.activation_bytes(rows, samples),
        }
    }

    /// Bytes that the largest step took on each device.
    pub(crate) fn dry_run(&mut self, config: &Config) -> Result<u64, Error> {
        match self {
            Self::One { model, .. } => model.dry_run(config),
            Self::Parallel { model, .. } => model.dry_run(config),
        }
    }

    /// Notes that kernels were compiled: steps are captured next.
    pub(super) fn set_warmed(&mut self, done: Warmed) {
        match self {
            Self::One { warmed, .. } | Self::Parallel { warmed, .. } => *warmed = Some(done),
        }
    }

    /// Returns the result of the warm-up.
    pub(crate) fn warmed(&self) -> Option<&Warmed> {
        match self {
            Self::One { warmed, .. } | Self::Parallel { warmed, .. } => warmed.as_ref(),
        }
    }

    /// If kernels were compiled, captures steps of so many sequences as soon as there is a cache.
    pub(crate) fn capture_ahead(&mut self, max_seqs: usize) {
        if let Self::One { model, warmed: Some(_) } = self {
            model.capture_ahead(max_seqs, super::CAPTURE_TIME);
        }
    }

    fn model(&self) -> &dyn Model {
        match self {
            Self::One { model, .. } => &**model,
            Self::Parallel { model, .. } => model,
        }
    }

    fn model_mut(&mut self) -> &mut dyn Model {
        match self {
            Self::One { model, .. } => &mut **model,
            Self::Parallel { model, .. } => model,
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
