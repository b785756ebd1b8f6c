//! gpt-oss: Llama with mixtures of experts that have biases and a gate of their own, sinks of
//! attention, and windows in every other layer.

use super::llama::{Llama, Parts};
use crate::layers::{ExpertNames, ExpertParts, Loader};
use crate::{Error, ModelConfig};

pub(super) fn load(config: &ModelConfig, loader: &mut Loader<'_>) -> Result<Llama, Error> {
    let experts = ExpertNames { mixture: "mlp", parts: ExpertParts::Together };
    Llama::load_with(config, loader, Parts { experts, ..Parts::default() })
}
