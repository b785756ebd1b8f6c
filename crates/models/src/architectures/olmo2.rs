//! OLMo 2 and 3: norms behind attention and MLP alone, and one over all heads of queries and one
//! over those of keys.

use super::post_normed::{Layer, PostNormed};
use crate::layers::{Gate, Gating, Loader, Mlp, QueryKeyNorms, SelfAttention};
use crate::{Error, ModelConfig};

/// Reads the layers.
pub(super) fn load(config: &ModelConfig, loader: &mut Loader<'_>) -> Result<PostNormed, Error> {
    let gating = Gating::new(Gate::Silu, loader.dtype);
    let mut layers = Vec::new();
    for number in 0..config.num_layers {
        let name = |part: &str| format!("model.layers.{number}.{part}");
        // However many devices share the heads, each norms whole rows.
        let all = |part, own| loader.shard.map_or(own, |shard| shard.lines(part, own).0);
        let (queries, keys) = (all("q_proj", config.query_len()), all("k_proj", config.kv_len()));
        let mut norm = |part, len| loader.norm(&name(part), len, config.norm_eps);
        let norms = [norm("self_attn.q_norm", queries)?, norm("self_attn.k_norm", keys)?];
        let after_attention = norm("post_attention_layernorm", config.hidden)?;
        let after_mlp = norm("post_feedforward_layernorm", config.hidden)?;
        let norms = QueryKeyNorms::Rows(norms);
        let attention = SelfAttention::load(loader, &name("self_attn"), number, config, norms)?;
        let mlp = Mlp::load(loader, &name("mlp"), &gating, [config.hidden, config.intermediate])?;
        layers.push(Layer { attention_norm: None, attention, after_attention, mlp_norm: None, mlp, after_mlp });
    }
    let norm = loader.norm("model.norm", config.hidden, config.norm_eps)?;
    Ok(PostNormed { layers, norm, embedding_multiplier: 1.0 })
}
