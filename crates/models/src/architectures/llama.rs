//! Llama: `x += attention(norm(x))`, `x += mlp(norm(x))`.

use warpfold::Tensor;

use super::Layers;
use crate::layers::{
    Adapted, Embedding, ExpertNames, ExpertParts, Gate, Gating, Loader, Mixture, Mlp, Norm, QueryKeyNorms,
    SelfAttention, Step, scaled, sum,
};
use crate::{Error, ModelConfig, Multipliers};

/// The layers of a Llama, and of those that differ from it in a flag.
#[derive(Debug)]
pub(super) struct Llama {
    layers: Vec<Layer>,
    norm: Norm,
    multipliers: Multipliers,
}

#[derive(Debug)]
struct Layer {
    attention_norm: Norm,
    attention: SelfAttention,
    mlp_norm: Norm,
    mlp: FeedForward,
}

/// The feed-forward part of a layer.
#[derive(Debug)]
enum FeedForward {
    One(Box<Mlp>),
    Many(Box<Mixture>),
}

impl FeedForward {
    fn forward_add(&self, x: &Tensor, residual: &Tensor, factor: f64, adapters: &Tensor) -> Result<Tensor, Error> {
        match self {
            Self::One(mlp) if factor == 1.0 => mlp.forward_add(x, residual, adapters),
            Self::One(mlp) => sum(residual, &scaled(mlp.forward(x, adapters)?, factor)?),
            Self::Many(mixture) => mixture.forward_add(x, residual),
        }
    }
}

/// The norms of a layer's heads, where an architecture has them.
pub(super) type HeadNorms = fn(&mut Loader<'_>, &str, &ModelConfig) -> Result<QueryKeyNorms, Error>;

/// The parts in which an architecture may differ from Llama.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    pub(super) head_norms: HeadNorms,
    pub(super) experts: ExpertNames,
}

impl Default for Parts {
    fn default() -> Self {
        let experts = ExpertNames { mixture: "mlp", parts: ExpertParts::Apart(["gate_proj", "up_proj", "down_proj"]) };
        Self { head_norms: |_, _, _| Ok(QueryKeyNorms::None), experts }
    }
}

impl Llama {
    pub(super) fn load(config: &ModelConfig, loader: &mut Loader<'_>) -> Result<Self, Error> {
        Self::load_with(config, loader, Parts::default())
    }

    pub(super) fn load_with(config: &ModelConfig, loader: &mut Loader<'_>, parts: Parts) -> Result<Self, Error> {
        let gating = Gating::new(Gate::Silu, loader.dtype);
        let mut layers = Vec::new();
        for number in 0..config.num_layers {
            let prefix = format!("model.layers.{number}");
            let name = |part: &str| format!("{prefix}.{part}");
            let attention = name("self_attn");
            let head_norms = (parts.head_norms)(loader, &attention, config)?;
            let experts = config.experts.as_ref().filter(|experts| !experts.dense_layers.contains(&number));
            layers.push(Layer {
                attention_norm: loader.norm(&name("input_layernorm"), config.hidden, config.norm_eps)?,
                attention: SelfAttention::load(loader, &attention, number, config, head_norms)?,
                mlp_norm: loader.norm(&name("post_attention_layernorm"), config.hidden, config.norm_eps)?,
                mlp: match experts {
                    Some(experts) => {
                        FeedForward::Many(Box::new(Mixture::load(loader, &prefix, parts.experts, config, experts)?))
                    }
                    None => FeedForward::One(Box::new(Mlp::load(loader, &name("mlp"), &gating, config)?)),
                },
            });
        }
        let norm = loader.norm("model.norm", config.hidden, config.norm_eps)?;
        Ok(Self { layers, norm, multipliers: config.multipliers })
    }
}

impl Layers for Llama {
    fn forward(&self, embedding: &Embedding, step: &mut Step<'_>) -> Result<Tensor, Error> {
        let Multipliers { embedding: factor, residual, .. } = self.multipliers;
        let mut x = scaled(embedding.rows(&step.ids)?, factor)?;
        for layer in &self.layers {
            let normed = layer.attention_norm.forward(&x)?;
            x = match residual {
                1.0 => layer.attention.forward_add(&normed, &x, step)?,
                factor => sum(&x, &scaled(layer.attention.forward(&normed, step)?, factor)?)?,
            };
            x = layer.mlp.forward_add(&layer.mlp_norm.forward(&x)?, &x, residual, &step.adapters)?;
        }
        Ok(x)
    }

    fn adapted(&mut self) -> Vec<&mut Adapted> {
        let mut all = Vec::new();
        for Layer { attention, mlp, .. } in &mut self.layers {
            all.extend(attention.adapted());
            match mlp {
                FeedForward::One(mlp) => all.extend(mlp.adapted()),
                FeedForward::Many(_) => {}
            }
        }
        all
    }

    fn last_norm(&self, rows: &Tensor) -> Result<Tensor, Error> {
        self.norm.forward(rows)
    }
}
