//! The layers of a model from tokens to logits: what a step launches.

use warpfold::Tensor;
use warpfold_kernels::operations::{Operation, Options};

use crate::adapter::AdapterWeights;
use crate::architectures::{self, Layers};
use crate::layers::{Angles, Embedding, KeptLayers, Linear, Loader, Step, StepShape, scale};
use crate::{Error, ModelConfig, error};

/// The weights of a model.
#[derive(Debug)]
pub(crate) struct Network {
    embedding: Embedding,
    layers: Box<dyn Layers>,
    head: Linear,
    /// Factor and bound of logits.
    logits: (f64, Option<f64>),
}

impl Network {
    /// Reads the weights. Sizes are those of what the device has.
    pub(crate) fn load(config: &ModelConfig, loader: &mut Loader<'_>) -> Result<Self, Error> {
        let embedding = loader.embedding("model.embed_tokens.weight", [config.vocab, config.hidden])?;
        let layers = architectures::load(config, loader)?;
        let is_tied = config.is_tied.unwrap_or(!loader.checkpoint.has("lm_head.weight"));
        let tokens = loader.shard.and_then(|shard| shard.vocab(config.vocab));
        let name = "lm_head".to_owned();
        let head = match (is_tied, tokens) {
            (true, tokens) => embedding.head(tokens)?,
            (false, None) => loader.linear(&[(name, config.vocab)], config.hidden, false)?,
            (false, Some(tokens)) => loader.columns(&[(name, tokens.len())], config.hidden, false)?,
        };
        Ok(Self { embedding, layers, head, logits: (config.multipliers.logits, config.logits_softcap) })
    }

    /// Brings an adapter to a place, once it is known to fit.
    pub(crate) fn load_adapter(&mut self, slot: usize, weights: &AdapterWeights) -> Result<(), Error> {
        let mut adapted = self.layers.adapted();
        let known = adapted.iter().map(|adapted| adapted.check(weights)).sum::<Result<usize, Error>>()?;
        if known < weights.pairs.len() {
            let is_unknown = |name: &&String| !adapted.iter().any(|adapted| adapted.has(name));
            let name = weights.pairs.keys().find(is_unknown).map_or("", String::as_str);
            return Err(error::tensor(&weights.path, name, "the model has no such matrix that takes an adapter"));
        }
        adapted.iter_mut().try_for_each(|adapted| adapted.write(slot, weights))
    }

    /// Runs the layers of a step whose lists are `words`, as [`StepShape::pack`] writes them, and
    /// norms the rows whose logits are wanted; nothing if there are none. `drawn` is what the step
    /// before drew.
    pub(crate) fn rows(
        &self,
        [words, drawn]: [&Tensor; 2],
        shape: StepShape,
        angles: [&Angles; 2],
        kept: &mut KeptLayers,
    ) -> Result<Option<Tensor>, Error> {
        let mut step = Step::new(words, drawn, shape, angles, kept)?;
        let x = self.layers.forward(&self.embedding, &mut step)?;
        let rows = match &step.samples {
            Some(samples) if samples.is_empty() => return Ok(None),
            Some(samples) => x.gather_rows_known(samples)?,
            None => x,
        };
        self.layers.last_norm(&rows).map(Some)
    }

    /// The logits of rows, in a tensor that is given or in one of its own.
    pub(crate) fn logits(&self, rows: &Tensor, given: Option<Tensor>) -> Result<Tensor, Error> {
        let mut logits = match given {
            Some(mut logits) => {
                self.head.forward_f32_into(rows, &mut logits)?;
                logits
            }
            None => self.head.forward_f32(rows)?,
        };
        let (factor, softcap) = self.logits;
        scale(&mut logits, factor)?;
        if let Some(softcap) = softcap {
            scale(&mut logits, 1.0 / softcap)?;
            logits.elementwise_in_place(Operation::Tanh, &[], &Options::default())?;
            scale(&mut logits, softcap)?;
        }
        Ok(logits)
    }
}
