//! Qwen2 and 2.5: Llama with biases on queries, keys and values, as the configuration says.

use super::llama::Llama;
use crate::layers::Loader;
use crate::{Error, ModelConfig};

pub(super) fn load(config: &ModelConfig, loader: &mut Loader<'_>) -> Result<Llama, Error> {
    Llama::load(config, loader)
}
