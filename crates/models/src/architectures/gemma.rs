//! Gemma 2 and 3: norms on both sides of attention and MLP, windows, GELU. Gemma 3 norms heads and
//! turns local layers by angles of their own.
//!
//! Norms multiply by `1 + w`, and embedded tokens by the root of the hidden size, rounded to the
//! type of the weights as transformers rounds it.

use half::{bf16, f16};
use warpfold::Dtype;

use super::post_normed::{Layer, PostNormed};
use crate::layers::{Gate, Gating, Loader, Mlp, QueryKeyNorms, SelfAttention};
use crate::{Architecture, Error, ModelConfig};

/// Reads the layers.
pub(super) fn load(config: &ModelConfig, loader: &mut Loader<'_>) -> Result<PostNormed, Error> {
    let gating = Gating::new(Gate::GeluTanh, loader.dtype);
    let (hidden, eps) = (config.hidden, config.norm_eps);
    let mut layers = Vec::new();
    for number in 0..config.num_layers {
        let name = |part: &str| format!("model.layers.{number}.{part}");
        let norms = match config.architecture {
            Architecture::Gemma2 => QueryKeyNorms::None,
            _ => {
                let mut head = |part| loader.norm_plus_one(&name(part), config.head_dim, eps);
                QueryKeyNorms::Heads([head("self_attn.q_norm")?, head("self_attn.k_norm")?])
            }
        };
        let attention = SelfAttention::load(loader, &name("self_attn"), number, config, norms)?;
        let mut norm = |part| loader.norm_plus_one(&name(part), hidden, eps);
        let [attention_norm, after_attention] = [norm("input_layernorm")?, norm("post_attention_layernorm")?];
        let [mlp_norm, after_mlp] = [norm("pre_feedforward_layernorm")?, norm("post_feedforward_layernorm")?];
        let mlp = Mlp::load(loader, &name("mlp"), &gating, [config.hidden, config.intermediate])?;
        let (attention_norm, mlp_norm) = (Some(attention_norm), Some(mlp_norm));
        layers.push(Layer { attention_norm, attention, after_attention, mlp_norm, mlp, after_mlp });
    }
    let root = (hidden as f32).sqrt();
    let embedding_multiplier = match loader.dtype {
        Dtype::Bf16 => bf16::from_f32(root).to_f64(),
        Dtype::F16 => f16::from_f32(root).to_f64(),
        _ => f64::from(root),
    };
    Ok(PostNormed { layers, norm: loader.norm_plus_one("model.norm", hidden, eps)?, embedding_multiplier })
}
