//! Architectures: a struct of weights and a function each, one file an architecture.
//!
//! Start with `llama`, which Phi-3, GLM, SmolLM3 and Granite are once their configuration is read.
//! Mistral, Qwen2 and Qwen3 are Llama with a window, with biases, and with norms of heads, Mixtral,
//! gpt-oss and Qwen3-MoE Llama and Qwen3 with mixtures of experts, Qwen3-Next and Qwen3.5 Llama
//! with gated delta nets beside attention: their files say what differs.
//! `gemma`, `olmo2` and `glm4` share the layers of `post_normed`.

mod gemma;
mod glm4;
mod gpt_oss;
mod llama;
mod mistral;
mod mixtral;
mod olmo2;
mod post_normed;
mod qwen2;
mod qwen3;
mod qwen3_moe;
mod qwen3_next;

use warpfold::Tensor;

use crate::layers::{Adapted, Embedding, Loader, Step};
use crate::{Architecture, Error, ModelConfig};

/// The layers of a model: from embedded tokens to rows that the head takes.
pub(crate) trait Layers: Send + std::fmt::Debug {
    /// Runs a step. `embedding` is the embedding of tokens.
    fn forward(&self, embedding: &Embedding, step: &mut Step<'_>) -> Result<Tensor, Error>;

    /// The adapters of all products that may have some.
    fn adapted(&mut self) -> Vec<&mut Adapted>;

    /// The last norm, of the rows whose logits are wanted.
    fn last_norm(&self, rows: &Tensor) -> Result<Tensor, Error>;
}

/// Reads the weights of a model's layers.
pub(crate) fn load(config: &ModelConfig, loader: &mut Loader<'_>) -> Result<Box<dyn Layers>, Error> {
    Ok(match config.architecture {
        Architecture::Llama
        | Architecture::Phi3
        | Architecture::Glm
        | Architecture::SmolLm3
        | Architecture::Granite => Box::new(llama::Llama::load(config, loader)?),
        Architecture::Mistral => Box::new(mistral::load(config, loader)?),
        Architecture::Qwen2 => Box::new(qwen2::load(config, loader)?),
        Architecture::Qwen3 => Box::new(qwen3::load(config, loader)?),
        Architecture::Mixtral => Box::new(mixtral::load(config, loader)?),
        Architecture::GptOss => Box::new(gpt_oss::load(config, loader)?),
        Architecture::Qwen3Moe => Box::new(qwen3_moe::load(config, loader)?),
        Architecture::Qwen3Next | Architecture::Qwen35 => Box::new(qwen3_next::load(config, loader)?),
        Architecture::Gemma2 | Architecture::Gemma3 => Box::new(gemma::load(config, loader)?),
        Architecture::Glm4 => Box::new(glm4::load(config, loader)?),
        Architecture::Olmo2 | Architecture::Olmo3 => Box::new(olmo2::load(config, loader)?),
    })
}
