//! Measures the device memory of the largest step, to compare it with the computed size.

use warpfold_engine::sizing::largest_batch;
use warpfold_engine::{CacheShape, Config, Model};

use crate::{Error, LanguageModel, error};

impl LanguageModel {
    /// Runs the largest step that the settings allow and returns the bytes that it took beside the
    /// weights. There is no cache yet but for one block, which all rows write and read. To be
    /// called before an engine takes the model.
    ///
    /// # Errors
    /// If the step cannot be run, such as for want of memory.
    pub fn dry_run(&mut self, config: &Config) -> Result<u64, Error> {
        let mut batch = largest_batch(config, &self.limits());
        // One block of the cache has angles for as many positions.
        batch.positions.fill(0);
        let device = self.queue().device().clone();
        device.synchronize()?;
        device.restart_peak();
        let before = device.allocated_bytes();
        let shape = CacheShape { block_size: config.block_size, num_blocks: 1, num_host_blocks: 1, num_states: 0 };
        // Steps are captured with the cache that they will have.
        let ahead = self.ahead.take();
        let run = self.allocate(shape).and_then(|()| self.step(&batch));
        self.ahead = ahead;
        device.synchronize()?;
        run.map_err(error::of_model)?;
        let cache = shape.block_size as u64 * self.limits().kv_bytes_per_token;
        Ok((device.peak_allocated_bytes() - before).saturating_sub(cache))
    }
}
