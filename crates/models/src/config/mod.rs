//! Configuration of a model: its architecture and sizes, from `config.json` or from the metadata of
//! GGUF.
//!
//! `json` reads both dialects of Hugging Face (`rope_theta` and `rope_scaling`, or
//! `rope_parameters`); `gguf` reads llama.cpp's keys. Both end in [`ModelConfig::validate`], so
//! that no size of a file reaches arithmetic unchecked. A field that would change the answers and
//! is not understood is an error, never ignored.

pub(crate) mod fields;
mod generation;
mod gguf;
mod json;
mod pooling;
pub(crate) mod quantization;
mod rope;

use std::path::Path;

use warpfold::{DeltaHeads, DeltaState, Dtype};

use crate::Error;
use crate::error;
use crate::files::HeadOrder;

pub use generation::SamplingDefaults;
pub(crate) use gguf::of_gguf;
pub(crate) use json::{of_folder, of_text};
pub use pooling::PoolingDefaults;
pub use rope::{Rope, RopeScaling};

/// The architectures that can be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// Llama 2 and 3, SmolLM2.
    Llama,
    /// Llama with a sliding window.
    Mistral,
    /// Qwen2 and 2.5: biases on queries, keys and values.
    Qwen2,
    /// Qwen3: norms of queries and keys.
    Qwen3,
    /// Llama whose MLPs are mixtures of experts.
    Mixtral,
    /// Qwen3 whose MLPs are mixtures of experts.
    Qwen3Moe,
    /// Gemma 2: bounded scores and logits.
    Gemma2,
    /// Gemma 3, text alone.
    Gemma3,
    /// Phi-3 and 4: Llama whose products into a layer are one tensor each.
    Phi3,
    /// SmolLM3: Llama with layers that turn nothing.
    SmolLm3,
    /// Granite 3: Llama with factors.
    Granite,
    /// OLMo 2: norms behind attention and MLP, and over all heads of queries and of keys.
    Olmo2,
    /// OLMo 3: OLMo 2 with windows.
    Olmo3,
    /// gpt-oss: mixtures of experts with biases, sinks of attention.
    GptOss,
    /// GLM-4 of 2024: Llama whose heads turn half of their elements, in adjacent pairs.
    Glm,
    /// Qwen3-Next, Qwen3.5-MoE: gated delta nets beside attention with a gate, mixtures of experts.
    Qwen3Next,
    /// Qwen3.5: the same with an MLP.
    Qwen35,
    /// GLM-4 of 2025: the same with norms behind attention and MLP, too.
    Glm4,
}

impl Architecture {
    /// The names that `config.json` has for the architectures.
    pub const NAMES: [(&'static str, Self); 23] = [
        ("LlamaForCausalLM", Self::Llama),
        ("MistralForCausalLM", Self::Mistral),
        ("Qwen2ForCausalLM", Self::Qwen2),
        ("Qwen3ForCausalLM", Self::Qwen3),
        ("MixtralForCausalLM", Self::Mixtral),
        ("Qwen3MoeForCausalLM", Self::Qwen3Moe),
        ("Gemma2ForCausalLM", Self::Gemma2),
        ("Gemma3ForCausalLM", Self::Gemma3),
        ("Gemma3ForConditionalGeneration", Self::Gemma3),
        ("Mistral3ForConditionalGeneration", Self::Mistral),
        ("Phi3ForCausalLM", Self::Phi3),
        ("SmolLM3ForCausalLM", Self::SmolLm3),
        ("GraniteForCausalLM", Self::Granite),
        ("Olmo2ForCausalLM", Self::Olmo2),
        ("Olmo3ForCausalLM", Self::Olmo3),
        ("GptOssForCausalLM", Self::GptOss),
        ("Qwen3NextForCausalLM", Self::Qwen3Next),
        ("Qwen3_5MoeForCausalLM", Self::Qwen3Next),
        ("Qwen3_5MoeForConditionalGeneration", Self::Qwen3Next),
        ("Qwen3_5ForCausalLM", Self::Qwen35),
        ("Qwen3_5ForConditionalGeneration", Self::Qwen35),
        ("GlmForCausalLM", Self::Glm),
        ("Glm4ForCausalLM", Self::Glm4),
    ];

    /// The names that GGUF has for them.
    pub const GGUF_NAMES: [(&'static str, Self); 7] = [
        ("llama", Self::Llama),
        ("qwen2", Self::Qwen2),
        ("qwen3", Self::Qwen3),
        ("gemma2", Self::Gemma2),
        ("gemma3", Self::Gemma3),
        ("qwen3moe", Self::Qwen3Moe),
        ("gpt-oss", Self::GptOss),
    ];
}

/// The sizes of mixtures of experts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpertsConfig {
    /// Experts of a layer.
    pub num: usize,
    /// Experts of a row.
    pub chosen: usize,
    /// Elements of a row inside of an expert.
    pub inner: usize,
    /// Normalises the weights of the chosen experts to sum to 1.
    pub is_normalized: bool,
    /// Layers that have one MLP instead.
    pub dense_layers: Vec<usize>,
    /// Elements of a row inside of the expert that all rows have beside theirs, if there is one.
    pub common: Option<usize>,
}

/// The layers that have a gated delta net instead of attention.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeltaConfig {
    /// Heads of a layer.
    pub heads: DeltaHeads,
    /// Flags of the layers that have one.
    pub layers: Vec<bool>,
}

impl DeltaConfig {
    /// Returns their number.
    #[must_use]
    pub fn num_layers(&self) -> usize {
        self.layers.iter().filter(|is_delta| **is_delta).count()
    }
}

/// Factors of a model's activations, 1 where there are none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Multipliers {
    /// Factor of embedded tokens.
    pub embedding: f64,
    /// Factor of what attention and MLP add to a row.
    pub residual: f64,
    /// Factor of logits.
    pub logits: f64,
}

impl Default for Multipliers {
    fn default() -> Self {
        Self { embedding: 1.0, residual: 1.0, logits: 1.0 }
    }
}

/// A model's architecture and sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// Architecture of the model.
    pub architecture: Architecture,
    /// Tokens.
    pub vocab: usize,
    /// Elements of a row between layers.
    pub hidden: usize,
    /// Elements of a row inside of an MLP.
    pub intermediate: usize,
    /// The mixtures of experts that layers have instead of an MLP.
    pub experts: Option<ExpertsConfig>,
    /// The gated delta nets that layers have instead of attention.
    pub delta: Option<DeltaConfig>,
    /// Multiplies the output of attention by a sigmoid of what stands beside the queries.
    pub has_attention_gate: bool,
    /// Layers.
    pub num_layers: usize,
    /// Heads of queries.
    pub num_heads: usize,
    /// Heads of keys and values.
    pub num_kv_heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
    /// Epsilon of the norms.
    pub norm_eps: f64,
    /// Rotary embedding of queries and keys.
    pub rope: Rope,
    /// The same in local layers, if it is another way.
    pub local_rope: Option<Rope>,
    /// Pairs that turn are adjacent elements of a head, not elements of its halves.
    pub has_adjacent_pairs: bool,
    /// Layers that use local attention.
    pub local_layers: Vec<bool>,
    /// Attention window in positions, by layer; `None` for all.
    pub windows: Vec<Option<usize>>,
    /// The factor of scores; `1 / sqrt(head_dim)` without.
    pub attention_scale: Option<f64>,
    /// Bound of scores: they become `c · tanh(score / c)`.
    pub attention_softcap: Option<f64>,
    /// Bound of logits, the same way.
    pub logits_softcap: Option<f64>,
    /// Factors of rows and logits.
    pub multipliers: Multipliers,
    /// Adds a logit without a value to the scores of each head.
    pub has_sinks: bool,
    /// Adds a bias to queries, keys and values.
    pub has_qkv_bias: bool,
    /// Adds a bias to the output of attention.
    pub has_output_bias: bool,
    /// Ties the embedding to the head's weights; if unset, they are tied where there is no head.
    pub is_tied: Option<bool>,
    /// Positions that the model was made for.
    pub max_len: usize,
    /// Tokens that end a text.
    pub eos: Vec<u32>,
}

// THRESHOLD: larger sizes are refused; tested by
// crates/models/tests/models.rs::sizes_are_taken_up_to_their_bounds
/// Bounds of sizes: far above any model, far below overflow in products of three.
const MAX_SIZE: usize = 1 << 20;
// THRESHOLD: larger vocabularies are refused; tested by
// crates/models/tests/models.rs::sizes_are_taken_up_to_their_bounds
const MAX_VOCAB: usize = 1 << 24;
// THRESHOLD: more layers are refused; tested by
// crates/models/tests/models.rs::sizes_are_taken_up_to_their_bounds
const MAX_LAYERS: usize = 1 << 12;

impl ModelConfig {
    /// Compares sizes with their ranges and with one another.
    fn validate(self, path: &Path) -> Result<Self, Error> {
        let within = |name, value: usize, most: usize| {
            let reason = || error::field(path, name, format!("{value} is not from 1 to {most}"));
            (1..=most).contains(&value).then_some(()).ok_or_else(reason)
        };
        within("vocab_size", self.vocab, MAX_VOCAB)?;
        within("hidden_size", self.hidden, MAX_SIZE)?;
        within("intermediate_size", self.intermediate, MAX_SIZE)?;
        if let Some(experts) = &self.experts {
            within("num_experts", experts.num, 1 << 12)?;
            within("num_experts_per_tok", experts.chosen, experts.num)?;
            within("moe_intermediate_size", experts.inner, MAX_SIZE)?;
            within("shared_expert_intermediate_size", experts.common.unwrap_or(1), MAX_SIZE)?;
        }
        within("num_hidden_layers", self.num_layers, MAX_LAYERS)?;
        if let Some(delta) = &self.delta {
            delta.heads.check().map_err(|error| error::field(path, "linear_key_head_dim", error))?;
            within("layers that attend", self.num_caches(), self.num_layers)?;
        }
        within("num_attention_heads", self.num_heads, 1 << 12)?;
        within("num_key_value_heads", self.num_kv_heads, self.num_heads)?;
        within("head_dim", self.head_dim, 256)?;
        within("max_position_embeddings", self.max_len, 1 << 28)?;
        if !self.num_heads.is_multiple_of(self.num_kv_heads) {
            let reason = format!("{} heads of queries do not share {}", self.num_heads, self.num_kv_heads);
            return Err(error::field(path, "num_key_value_heads", reason));
        }
        if !self.head_dim.is_multiple_of(2) {
            return Err(error::field(path, "head_dim", format!("{} is odd", self.head_dim)));
        }
        if !(self.norm_eps > 0.0 && self.norm_eps < 1.0) {
            return Err(error::field(path, "rms_norm_eps", format!("{} is not between 0 and 1", self.norm_eps)));
        }
        if self.windows.contains(&Some(0)) {
            return Err(error::field(path, "sliding_window", "0 positions"));
        }
        if let Some(id) = self.eos.iter().find(|id| **id as usize >= self.vocab) {
            return Err(error::field(path, "eos_token_id", format!("{id} is not in a vocabulary of {}", self.vocab)));
        }
        let Multipliers { embedding, residual, logits } = self.multipliers;
        let softcaps = [self.attention_softcap, self.logits_softcap].map(|softcap| softcap.unwrap_or(1.0));
        for (name, factor) in [
            ("embedding_multiplier", embedding),
            ("residual_multiplier", residual),
            ("logits_scaling", logits),
            ("attention_multiplier", self.attention_scale.unwrap_or(1.0)),
            ("attn_logit_softcapping", softcaps[0]),
            ("final_logit_softcapping", softcaps[1]),
        ] {
            if !(factor > 0.0 && factor.is_finite()) {
                return Err(error::field(path, name, "it is not positive"));
            }
        }
        self.rope.validate(path, self.head_dim)?;
        self.local_rope.as_ref().map_or(Ok(()), |rope| rope.validate(path, self.head_dim))?;
        Ok(self)
    }

    /// Order of a head's rows in files of Hugging Face, if not that of kernels.
    pub(crate) fn head_order(&self) -> Option<HeadOrder> {
        let rotated = self.rope.rotated(self.head_dim);
        let order = HeadOrder { head_dim: self.head_dim, rotated, has_adjacent_pairs: self.has_adjacent_pairs };
        (rotated < self.head_dim || self.has_adjacent_pairs).then_some(order)
    }

    /// Index of a layer among those with a gated delta net, and its heads, if it is one of them.
    pub(crate) fn delta_of(&self, layer: usize) -> Option<(usize, DeltaHeads)> {
        let delta = self.delta.as_ref().filter(|delta| delta.layers[layer])?;
        Some((delta.layers[..layer].iter().filter(|is_delta| **is_delta).count(), delta.heads))
    }

    /// Index of a layer among those that attend.
    pub(crate) fn cache_of(&self, layer: usize) -> usize {
        (0..layer).filter(|layer| self.delta_of(*layer).is_none()).count()
    }

    /// Layers that attend, and have a cache of keys and values.
    #[must_use]
    pub fn num_caches(&self) -> usize {
        self.num_layers - self.delta.as_ref().map_or(0, DeltaConfig::num_layers)
    }

    /// Bytes that gated delta nets keep of a sequence, in a type.
    #[must_use]
    pub fn state_bytes(&self, dtype: Dtype) -> u64 {
        let of = |delta: &DeltaConfig| delta.num_layers() as u64 * DeltaState::bytes_of_place(delta.heads, dtype);
        self.delta.as_ref().map_or(0, of)
    }

    /// Elements of the queries of a position.
    #[must_use]
    pub const fn query_len(&self) -> usize {
        self.num_heads * self.head_dim
    }

    /// Elements of the keys of a position, and of its values.
    #[must_use]
    pub const fn kv_len(&self) -> usize {
        self.num_kv_heads * self.head_dim
    }
}
