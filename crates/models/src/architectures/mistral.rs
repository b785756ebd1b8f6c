//! Mistral: Llama whose layers see a window of positions. The window is in the configuration.

use super::llama::Llama;
use crate::layers::Loader;
use crate::{Error, ModelConfig};

pub(super) fn load(config: &ModelConfig, loader: &mut Loader<'_>) -> Result<Llama, Error> {
    Llama::load(config, loader)
}
