//! Self-attention with grouped queries over the paged cache.

use warpfold::{Attention, Tensor};

use super::adapted::Adapted;
use super::step::Turn;
use super::{Gate, Gating, Linear, Loader, Norm, Shard, Step};
use crate::{Error, ModelConfig};

/// Names of a head's queries and of its gates, where files have both together.
pub(crate) fn rows_of_head(prefix: &str, head: usize) -> [String; 2] {
    [format!("{prefix}.q_proj.{head}"), format!("{prefix}.gate_proj.{head}")]
}

/// Norms of queries and keys before they are turned.
#[derive(Debug)]
pub(crate) enum QueryKeyNorms {
    None,
    /// One for each head.
    Heads([Norm; 2]),
    /// Over all heads of a row.
    Rows([Norm; 2]),
}

/// The weights of a layer's attention. The products of queries, keys and values are one, whose
/// columns lie in this order.
#[derive(Debug)]
pub(crate) struct SelfAttention {
    /// Index among the layers that attend.
    layer: usize,
    qkv: Linear,
    out: Linear,
    norms: QueryKeyNorms,
    num_heads: usize,
    num_kv_heads: usize,
    head_dim: usize,
    window: Option<usize>,
    scale: Option<f64>,
    softcap: Option<f64>,
    /// A logit of each head of queries that has no value.
    sinks: Option<Tensor>,
    turn: Turn,
    /// Multiplies what is attended to by a sigmoid of further columns of the product.
    gating: Option<Gating>,
    /// Other devices with heads of the same layer.
    shard: Option<Shard>,
}

impl SelfAttention {
    /// Reads the weights of a layer, whose names begin with `prefix`.
    pub(crate) fn load(
        loader: &mut Loader<'_>,
        prefix: &str,
        layer: usize,
        config: &ModelConfig,
        norms: QueryKeyNorms,
    ) -> Result<Self, Error> {
        let of = |part: &str, outputs| (format!("{prefix}.{part}_proj"), outputs);
        let parts = [of("q", config.query_len()), of("k", config.kv_len()), of("v", config.kv_len())];
        let qkv = if config.has_attention_gate {
            let heads: Vec<_> = (0..config.num_heads).map(|head| rows_of_head(prefix, head)).collect();
            let all = |which: usize| heads.iter().map(move |names| (names[which].clone(), config.head_dim));
            let parts: Vec<_> = all(0).chain(parts[1..].iter().cloned()).chain(all(1)).collect();
            loader.linear(&parts, config.hidden, false)?
        } else {
            loader.columns(&parts, config.hidden, config.has_qkv_bias)?
        };
        let out =
            loader.sums(&format!("{prefix}.o_proj"), config.hidden, config.query_len(), config.has_output_bias)?;
        let sinks =
            config.has_sinks.then(|| loader.by_heads(&format!("{prefix}.sinks"), config.num_heads)).transpose()?;
        let window = config.windows[layer];
        let is_local = config.local_layers[layer] && config.local_rope.is_some();
        Ok(Self {
            layer: config.cache_of(layer),
            qkv,
            out,
            norms,
            num_heads: config.num_heads,
            num_kv_heads: config.num_kv_heads,
            head_dim: config.head_dim,
            window,
            scale: config.attention_scale,
            softcap: config.attention_softcap,
            sinks,
            turn: if is_local { Turn::Local } else { Turn::Global },
            gating: config.has_attention_gate.then(|| Gating::new(Gate::Sigmoid, loader.dtype)),
            shard: loader.shard.filter(|shard| shard.is_shared()).cloned(),
        })
    }

    fn attended(&self, x: &Tensor, step: &mut Step<'_>) -> Result<Tensor, Error> {
        let (heads, kv_heads, rows) = (self.num_heads, self.num_kv_heads, x.shape()[0]);
        let mut product = self.qkv.forward(x, &step.adapters)?;
        if let QueryKeyNorms::Rows([q, k]) = &self.norms {
            let (keys, values) = (heads * self.head_dim, (heads + kv_heads) * self.head_dim);
            let (queries, keys) = (product.slice(1, ..keys)?, product.slice(1, keys..values)?);
            let normed = match &self.shard {
                Some(shard) => [shard.norm(q, &queries, false)?, shard.norm(k, &keys, true)?],
                None => [q.forward(&queries)?, k.forward(&keys)?],
            };
            let [queries, keys] = normed;
            product = Tensor::cat(&[queries, keys, product.slice(1, values..)?], 1)?;
        }
        let columns = (heads + 2 * kv_heads) * self.head_dim;
        let gates = self.gating.as_ref().map(|gating| Ok::<_, Error>((gating, product.slice(1, columns..)?)));
        let gates = gates.transpose()?;
        if gates.is_some() {
            product = product.slice(1, ..columns)?;
        }
        let product = product.reshape(&[rows, heads + 2 * kv_heads, self.head_dim])?;
        let mut attention = Attention::new().causal();
        if let Some(window) = self.window {
            attention = attention.window(window);
        }
        if let Some(scale) = self.scale {
            attention = attention.scale(scale);
        }
        if let Some(softcap) = self.softcap {
            attention = attention.softcap(softcap);
        }
        if let Some(sinks) = &self.sinks {
            attention = attention.sinks(sinks);
        }
        let head_norms = match &self.norms {
            QueryKeyNorms::Heads(norms) => Some(norms),
            QueryKeyNorms::None | QueryKeyNorms::Rows(_) => None,
        };
        let attended = step.attend(self.layer, self.turn, &attention, &product, head_norms)?;
        let attended = attended.reshape(&[rows, heads * self.head_dim])?;
        match gates {
            Some((gating, gates)) => gating.run(&gates, &attended),
            None => Ok(attended),
        }
    }

    pub(crate) fn forward(&self, x: &Tensor, step: &mut Step<'_>) -> Result<Tensor, Error> {
        self.out.forward(&self.attended(x, step)?, &step.adapters)
    }

    /// Its adapters.
    pub(crate) fn adapted(&mut self) -> impl Iterator<Item = &mut Adapted> {
        [&mut self.qkv, &mut self.out].into_iter().filter_map(Linear::adapted_mut)
    }

    /// The result plus what goes around it.
    pub(crate) fn forward_add(&self, x: &Tensor, residual: &Tensor, step: &mut Step<'_>) -> Result<Tensor, Error> {
        self.out.forward_add(&self.attended(x, step)?, residual, &step.adapters)
    }
}
