//! Qwen3: Llama with a norm of each head of queries and keys before they are turned.

use super::llama::{Llama, Parts};
use crate::layers::{Loader, QueryKeyNorms};
use crate::{Error, ModelConfig};

pub(super) fn load(config: &ModelConfig, loader: &mut Loader<'_>) -> Result<Llama, Error> {
    Llama::load_with(config, loader, Parts { head_norms, ..Parts::default() })
}

/// The norms of a layer's heads.
pub(super) fn head_norms(loader: &mut Loader<'_>, prefix: &str, config: &ModelConfig) -> Result<QueryKeyNorms, Error> {
    let mut norm = |part| loader.norm(&format!("{prefix}.{part}_norm"), config.head_dim, config.norm_eps);
    Ok(QueryKeyNorms::Heads([norm("q")?, norm("k")?]))
}
