//! Mixtures of experts: a router, and the gated MLPs that it chooses from.

use warpfold::{ExpertWeights, Experts, Tensor};

use super::{Linear, Loader};
use crate::config::ExpertsConfig;
use crate::{Error, ModelConfig};

/// Names of a mixture's tensors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExpertNames {
    /// Name of the mixture in its layer.
    pub(crate) mixture: &'static str,
    /// Names of gate, up and down in an expert.
    pub(crate) parts: [&'static str; 3],
}

/// The weights of a mixture.
#[derive(Debug)]
pub(crate) struct Mixture {
    router: Linear,
    experts: Experts,
}

impl Mixture {
    /// Reads the weights of a layer, whose names begin with `prefix`.
    pub(crate) fn load(
        loader: &mut Loader<'_>,
        prefix: &str,
        names: ExpertNames,
        config: &ModelConfig,
        experts: &ExpertsConfig,
    ) -> Result<Self, Error> {
        let (prefix, hidden) = (format!("{prefix}.{}", names.mixture), config.hidden);
        let &ExpertsConfig { num, inner, chosen, is_normalized, .. } = experts;
        let router = loader.linear(&[(format!("{prefix}.gate"), num)], hidden, false)?;
        let [gate, up, down] = names.parts;
        let of = |expert: usize, part: &str| format!("{prefix}.experts.{expert}.{part}");
        let gate_up: Vec<_> = (0..num).flat_map(|e| [gate, up].map(|part| (of(e, part), inner))).collect();
        let down: Vec<_> = (0..num).map(|e| (of(e, down), hidden)).collect();
        let gate_up = loader.lines(&gate_up, hidden)?.reshape(&[num, 2 * inner, hidden])?;
        let down = loader.lines(&down, inner)?.reshape(&[num, hidden, inner])?;
        let weights = if is_normalized { ExpertWeights::Normalized } else { ExpertWeights::Share };
        Ok(Self { router, experts: Experts { gate_up, down, chosen, weights } })
    }

    /// The result plus what goes around it.
    pub(crate) fn forward_add(&self, x: &Tensor, residual: &Tensor) -> Result<Tensor, Error> {
        Ok(self.experts.run(x, &self.router.forward_f32(x)?, residual)?)
    }
}
