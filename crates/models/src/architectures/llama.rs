//! Llama: `x += attention(norm(x))`, `x += mlp(norm(x))`.

use warpfold::Tensor;

use super::Layers;
use crate::layers::{Gate, Gating, Loader, Mlp, Norm, SelfAttention, Step};
use crate::{Error, ModelConfig};

/// The layers of a Llama, and of those that differ from it in a flag.
#[derive(Debug)]
pub(super) struct Llama {
    layers: Vec<Layer>,
    norm: Norm,
}

#[derive(Debug)]
struct Layer {
    attention_norm: Norm,
    attention: SelfAttention,
    mlp_norm: Norm,
    mlp: Mlp,
}

/// The norms of a layer's heads, where an architecture has them.
pub(super) type HeadNorms = fn(&mut Loader<'_>, &str, &ModelConfig) -> Result<Option<[Norm; 2]>, Error>;

impl Llama {
    pub(super) fn load(config: &ModelConfig, loader: &mut Loader<'_>) -> Result<Self, Error> {
        Self::load_with(config, loader, |_, _, _| Ok(None))
    }

    pub(super) fn load_with(
        config: &ModelConfig,
        loader: &mut Loader<'_>,
        head_norms: HeadNorms,
    ) -> Result<Self, Error> {
        let gating = Gating::new(Gate::Silu, loader.dtype);
        let mut layers = Vec::new();
        for number in 0..config.num_layers {
            let name = |part: &str| format!("model.layers.{number}.{part}");
            let attention = name("self_attn");
            let head_norms = head_norms(loader, &attention, config)?;
            layers.push(Layer {
                attention_norm: loader.norm(&name("input_layernorm"), config.hidden, config.norm_eps)?,
                attention: SelfAttention::load(loader, &attention, number, config, head_norms)?,
                mlp_norm: loader.norm(&name("post_attention_layernorm"), config.hidden, config.norm_eps)?,
                mlp: Mlp::load(loader, &name("mlp"), &gating, config)?,
            });
        }
        Ok(Self { layers, norm: loader.norm("model.norm", config.hidden, config.norm_eps)? })
    }
}

impl Layers for Llama {
    fn forward(&self, embedding: &Tensor, step: &mut Step<'_>) -> Result<Tensor, Error> {
        let mut x = embedding.gather(&step.ids)?;
        for layer in &self.layers {
            x = layer.attention.forward_add(&layer.attention_norm.forward(&x)?, &x, step)?;
            x = layer.mlp.forward_add(&layer.mlp_norm.forward(&x)?, &x)?;
        }
        Ok(x)
    }

    fn last_norm(&self, rows: &Tensor) -> Result<Tensor, Error> {
        self.norm.forward(rows)
    }
}
