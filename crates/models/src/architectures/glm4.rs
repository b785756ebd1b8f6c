//! GLM-4 of 2025: norms on both sides of attention and MLP.

use super::post_normed::{Layer, PostNormed};
use crate::layers::{Gate, Gating, Loader, Mlp, QueryKeyNorms, SelfAttention};
use crate::{Error, ModelConfig};

/// Reads the layers.
pub(super) fn load(config: &ModelConfig, loader: &mut Loader<'_>) -> Result<PostNormed, Error> {
    let gating = Gating::new(Gate::Silu, loader.dtype);
    let (hidden, eps) = (config.hidden, config.norm_eps);
    let mut layers = Vec::new();
    for number in 0..config.num_layers {
        let name = |part: &str| format!("model.layers.{number}.{part}");
        layers.push(Layer {
            attention_norm: Some(loader.norm(&name("input_layernorm"), hidden, eps)?),
            attention: SelfAttention::load(loader, &name("self_attn"), number, config, QueryKeyNorms::None)?,
            after_attention: loader.norm(&name("post_self_attn_layernorm"), hidden, eps)?,
            mlp_norm: Some(loader.norm(&name("post_attention_layernorm"), hidden, eps)?),
            mlp: Mlp::load(loader, &name("mlp"), &gating, [config.hidden, config.intermediate])?,
            after_mlp: loader.norm(&name("post_mlp_layernorm"), hidden, eps)?,
        });
    }
    Ok(PostNormed { layers, norm: loader.norm("model.norm", hidden, eps)?, embedding_multiplier: 1.0 })
}
