//! Gated delta nets in the place of attention: a sequence keeps a matrix per head instead of keys
//! and values.

use warpfold::{DeltaHeads, DeltaWeights, Tensor};

use super::adapted::Adapted;
use super::{Linear, Loader, Step};
use crate::{Error, ModelConfig};

/// The weights of a layer's gated delta net. The products of queries, keys, values, gates and
/// decays are one, whose columns lie in this order.
#[derive(Debug)]
pub(crate) struct GatedDelta {
    /// Index among the layers that have a state.
    layer: usize,
    product: Linear,
    weights: DeltaWeights,
    out: Linear,
}

impl GatedDelta {
    /// Reads the weights of a layer, whose names begin with `prefix`.
    pub(crate) fn load(
        loader: &mut Loader<'_>,
        prefix: &str,
        layer: usize,
        heads: DeltaHeads,
        config: &ModelConfig,
    ) -> Result<Self, Error> {
        let [channels, values] = [heads.channels(), heads.values()].map(|len| len as usize);
        let is_together = loader.checkpoint.has(&format!("{prefix}.in_proj_qkv.weight"));
        let parts: Vec<_> = match is_together {
            true => [("qkv", channels), ("z", values), ("b", heads.values as usize), ("a", heads.values as usize)]
                .map(|(part, columns)| (format!("{prefix}.in_proj_{part}"), columns))
                .into(),
            false => columns_by_key(heads, prefix),
        };
        let product = loader.linear(&parts, config.hidden, false)?;
        let mut numbers = |name: &str, shape: &[usize]| loader.numbers(&format!("{prefix}.{name}"), shape);
        let weights = DeltaWeights {
            taps: numbers("conv1d.weight", &[channels, DeltaHeads::TAPS as usize])?,
            decays: numbers("A_log", &[heads.values as usize])?,
            offsets: numbers("dt_bias", &[heads.values as usize])?,
            scale: numbers("norm.weight", &[heads.value_dim as usize])?,
            eps: config.norm_eps,
        };
        let out = loader.sums(&format!("{prefix}.out_proj"), config.hidden, values, false)?;
        Ok(Self { layer, product, weights, out })
    }

    fn run(&self, x: &Tensor, step: &mut Step<'_>) -> Result<Tensor, Error> {
        let rows = self.product.forward(x, &step.adapters)?;
        step.run_delta(self.layer, &rows, &self.weights)
    }

    pub(crate) fn forward(&self, x: &Tensor, step: &mut Step<'_>) -> Result<Tensor, Error> {
        self.out.forward(&self.run(x, step)?, &step.adapters)
    }

    /// The result plus what goes around it.
    pub(crate) fn forward_add(&self, x: &Tensor, residual: &Tensor, step: &mut Step<'_>) -> Result<Tensor, Error> {
        self.out.forward_add(&self.run(x, step)?, residual, &step.adapters)
    }

    /// Its adapters.
    pub(crate) fn adapted(&mut self) -> impl Iterator<Item = &mut Adapted> {
        self.out.adapted_mut().into_iter()
    }
}

/// Matrices of the files that have the rows of a key head together, and its parts in order.
pub(crate) const BY_KEY: [(&str, &[&str]); 2] = [("in_proj_qkvz", &["q", "k", "v", "z"]), ("in_proj_ba", &["b", "a"])];

/// Rows of a part that belong to a key head.
pub(crate) fn rows_of_part(heads: DeltaHeads, part: &str) -> usize {
    let shared = heads.values / heads.keys.max(1);
    let rows = match part {
        "q" | "k" => heads.key_dim,
        "v" | "z" => shared * heads.value_dim,
        _ => shared,
    };
    rows as usize
}

/// The name of a part's rows of a key head.
pub(crate) fn part_of_key(prefix: &str, part: &str, key: u64) -> String {
    format!("{prefix}.{part}.{key}")
}

/// Columns of the product, of which files have those of a key head together.
fn columns_by_key(heads: DeltaHeads, prefix: &str) -> Vec<(String, usize)> {
    let of = |part: &'static str| {
        (0..heads.keys).map(move |key| (part_of_key(prefix, part, key), rows_of_part(heads, part)))
    };
    BY_KEY.iter().flat_map(|(_, parts)| parts.iter().copied()).flat_map(of).collect()
}
