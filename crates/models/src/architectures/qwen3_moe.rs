//! Qwen3 with mixtures of experts, in all layers but those that the configuration names.

use super::llama::{Llama, Parts};
use super::qwen3;
use crate::layers::Loader;
use crate::{Error, ModelConfig};

pub(super) fn load(config: &ModelConfig, loader: &mut Loader<'_>) -> Result<Llama, Error> {
    Llama::load_with(config, loader, Parts { head_norms: qwen3::head_norms, ..Parts::default() })
}
