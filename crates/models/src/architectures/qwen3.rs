//! Qwen3: Llama with a norm of each head of queries and keys before they are turned.

use super::llama::Llama;
use crate::layers::Loader;
use crate::{Error, ModelConfig};

pub(super) fn load(config: &ModelConfig, loader: &mut Loader<'_>) -> Result<Llama, Error> {
    Llama::load_with(config, loader, |loader, prefix, config| {
        let mut norm = |part| loader.norm(&format!("{prefix}.{part}_norm"), config.head_dim, config.norm_eps);
        Ok(Some([norm("q")?, norm("k")?]))
    })
}
