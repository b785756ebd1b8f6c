//! Llama: `x += attention(norm(x))`, `x += mlp(norm(x))`.

use warpfold::Tensor;

use super::Layers;
use crate::layers::{
    Adapted, Embedding, ExpertNames, ExpertParts, Gate, GatedDelta, Gating, Loader, Mixture, Mlp, Norm, QueryKeyNorms,
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
    attention: Mixer,
    mlp_norm: Norm,
    mlp: FeedForward,
}

/// The part of a layer that sees other positions.
#[derive(Debug)]
enum Mixer {
    Attention(Box<SelfAttention>),
    Delta(Box<GatedDelta>),
}

impl Mixer {
    fn forward(&self, x: &Tensor, step: &mut Step<'_>) -> Result<Tensor, Error> {
        match self {
            Self::Attention(attention) => attention.forward(x, step),
            Self::Delta(delta) => delta.forward(x, step),
        }
    }

    fn forward_add(&self, x: &Tensor, residual: &Tensor, step: &mut Step<'_>) -> Result<Tensor, Error> {
        match self {
            Self::Attention(attention) => attention.forward_add(x, residual, step),
            Self::Delta(delta) => delta.forward_add(x, residual, step),
        }
    }

    fn adapted(&mut self) -> Vec<&mut Adapted> {
        match self {
            Self::Attention(attention) => attention.adapted().collect(),
            Self::Delta(delta) => delta.adapted().collect(),
        }
    }
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
            Self::Many(mixture) => mixture.forward_add(x, residual, adapters),
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
    pub(super) norm: LoadNorm,
}

/// The scales of a norm, of so many elements.
pub(super) type LoadNorm = fn(&mut Loader<'_>, &str, usize, f64) -> Result<Norm, Error>;

impl Default for Parts {
    fn default() -> Self {
        let experts = ExpertNames { mixture: "mlp", parts: ExpertParts::Apart(["gate_proj", "up_proj", "down_proj"]) };
        let norm: LoadNorm = |loader, name, len, eps| loader.norm(name, len, eps);
        Self { head_norms: |_, _, _| Ok(QueryKeyNorms::None), experts, norm }
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
            let attention = match config.delta_of(number) {
                Some((index, heads)) => {
                    Mixer::Delta(Box::new(GatedDelta::load(loader, &name("linear_attn"), index, heads, config)?))
                }
                None => {
                    let head_norms = (parts.head_norms)(loader, &attention, config)?;
                    Mixer::Attention(Box::new(SelfAttention::load(loader, &attention, number, config, head_norms)?))
                }
            };
            let experts = config.experts.as_ref().filter(|experts| !experts.dense_layers.contains(&number));
            layers.push(Layer {
                attention_norm: (parts.norm)(loader, &name("input_layernorm"), config.hidden, config.norm_eps)?,
                attention,
                mlp_norm: (parts.norm)(loader, &name("post_attention_layernorm"), config.hidden, config.norm_eps)?,
                mlp: match experts {
                    Some(experts) => {
                        FeedForward::Many(Box::new(Mixture::load(loader, &prefix, parts.experts, config, experts)?))
                    }
                    None => FeedForward::One(Box::new(Mlp::load(
                        loader,
                        &name("mlp"),
                        &gating,
                        [config.hidden, config.intermediate],
                    )?)),
                },
            });
        }
        let norm = (parts.norm)(loader, "model.norm", config.hidden, config.norm_eps)?;
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
                FeedForward::Many(mixture) => all.extend(mixture.adapted()),
            }
        }
        all
    }

    fn last_norm(&self, rows: &Tensor) -> Result<Tensor, Error> {
        self.norm.forward(rows)
    }
}
