//! Qwen3-Next and Qwen3.5: gated delta nets in most layers, attention with a gate in the others,
//! norms that multiply by 1 and what the file says.

use super::llama::{Llama, Parts};
use crate::layers::{Loader, QueryKeyNorms};
use crate::{Error, ModelConfig};

pub(super) fn load(config: &ModelConfig, loader: &mut Loader<'_>) -> Result<Llama, Error> {
    let norm = |loader: &mut Loader<'_>, name: &str, len, eps| loader.norm_plus_one(name, len, eps);
    Llama::load_with(config, loader, Parts { head_norms, norm, ..Parts::default() })
}

fn head_norms(loader: &mut Loader<'_>, prefix: &str, config: &ModelConfig) -> Result<QueryKeyNorms, Error> {
    let mut norm = |part| loader.norm_plus_one(&format!("{prefix}.{part}_norm"), config.head_dim, config.norm_eps);
    Ok(QueryKeyNorms::Heads([norm("q")?, norm("k")?]))
}
