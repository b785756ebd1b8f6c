//! Gemma 3: norms on both sides of attention and MLP, windows of their own angles, GELU.
//!
//! Norms multiply by `1 + w`, and embedded tokens by the root of the hidden size, rounded to the
//! type of the weights as transformers rounds it.

use half::{bf16, f16};
use warpfold::{Dtype, Tensor};
use warpfold_kernels::operations::{Number, Operation, Options};

use super::Layers;
use crate::layers::{Adapted, Embedding, Gate, Gating, Loader, Mlp, Norm, SelfAttention, Step};
use crate::{Error, ModelConfig};

/// The layers of a Gemma 3.
#[derive(Debug)]
pub(super) struct Gemma3 {
    layers: Vec<Layer>,
    norm: Norm,
    embedding_scale: f64,
}

#[derive(Debug)]
struct Layer {
    attention_norm: Norm,
    attention: SelfAttention,
    after_attention: Norm,
    mlp_norm: Norm,
    mlp: Mlp,
    after_mlp: Norm,
}

impl Gemma3 {
    pub(super) fn load(config: &ModelConfig, loader: &mut Loader<'_>) -> Result<Self, Error> {
        let gating = Gating::new(Gate::GeluTanh, loader.dtype);
        let (hidden, eps) = (config.hidden, config.norm_eps);
        let mut layers = Vec::new();
        for number in 0..config.num_layers {
            let name = |part: &str| format!("model.layers.{number}.{part}");
            let head = |loader: &mut Loader<'_>, part| loader.norm_plus_one(&name(part), config.head_dim, eps);
            let head_norms = [head(loader, "self_attn.q_norm")?, head(loader, "self_attn.k_norm")?];
            let attention = SelfAttention::load(loader, &name("self_attn"), number, config, Some(head_norms))?;
            let mut norm = |part| loader.norm_plus_one(&name(part), hidden, eps);
            let [attention_norm, after_attention] = [norm("input_layernorm")?, norm("post_attention_layernorm")?];
            let [mlp_norm, after_mlp] = [norm("pre_feedforward_layernorm")?, norm("post_feedforward_layernorm")?];
            let mlp = Mlp::load(loader, &name("mlp"), &gating, config)?;
            layers.push(Layer { attention_norm, attention, after_attention, mlp_norm, mlp, after_mlp });
        }
        let root = (hidden as f32).sqrt();
        let embedding_scale = match loader.dtype {
            Dtype::Bf16 => bf16::from_f32(root).to_f64(),
            Dtype::F16 => f16::from_f32(root).to_f64(),
            _ => f64::from(root),
        };
        Ok(Self { layers, norm: loader.norm_plus_one("model.norm", hidden, eps)?, embedding_scale })
    }
}

impl Layers for Gemma3 {
    fn forward(&self, embedding: &Embedding, step: &mut Step<'_>) -> Result<Tensor, Error> {
        let mut x = scaled(&embedding.rows(&step.ids)?, self.embedding_scale)?;
        for layer in &self.layers {
            let attended = layer.attention.forward(&layer.attention_norm.forward(&x)?, step)?;
            x = sum(&x, &layer.after_attention.forward(&attended)?)?;
            let inner = layer.mlp.forward(&layer.mlp_norm.forward(&x)?, &step.adapters)?;
            x = sum(&x, &layer.after_mlp.forward(&inner)?)?;
        }
        Ok(x)
    }

    fn adapted(&mut self) -> Vec<&mut Adapted> {
        self.layers.iter_mut().flat_map(|layer| layer.attention.adapted().chain(layer.mlp.adapted())).collect()
    }

    fn last_norm(&self, rows: &Tensor) -> Result<Tensor, Error> {
        self.norm.forward(rows)
    }
}

fn scaled(x: &Tensor, factor: f64) -> Result<Tensor, Error> {
    let options = Options { alpha: Number::from(factor), ..Options::default() };
    Ok(x.elementwise(Operation::Scale, &[], &options)?)
}

fn sum(x: &Tensor, y: &Tensor) -> Result<Tensor, Error> {
    Ok(x.elementwise(Operation::Add, &[y], &Options::default())?)
}
