//! Mixtral: Llama whose MLPs are mixtures of experts.

use super::llama::{Llama, Parts};
use crate::layers::{ExpertNames, ExpertParts, Loader};
use crate::{Error, ModelConfig};

const NAMES: ExpertNames = ExpertNames { mixture: "block_sparse_moe", parts: ExpertParts::Apart(["w1", "w3", "w2"]) };

pub(super) fn load(config: &ModelConfig, loader: &mut Loader<'_>) -> Result<Llama, Error> {
    Llama::load_with(config, loader, Parts { experts: NAMES, ..Parts::default() })
}
