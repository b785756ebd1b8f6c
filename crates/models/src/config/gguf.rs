//! Sizes from the metadata of GGUF.

use std::path::Path;

use super::{Architecture, ExpertsConfig, ModelConfig, Rope, RopeScaling};
use crate::Error;
use crate::error;
use crate::files::gguf::{Header, Value};

/// The configuration of a file.
pub(crate) fn of_gguf(header: &Header) -> Result<ModelConfig, Error> {
    let keys = Keys { path: &header.path, header };
    let name = keys.text("general.architecture")?;
    let Some((_, architecture)) = Architecture::GGUF_NAMES.iter().find(|(known, _)| *known == name) else {
        let list = Architecture::GGUF_NAMES.map(|(name, _)| name).join(", ");
        return Err(error::unsupported(&header.path, format!("architecture {name}; known: {list}")));
    };
    let key = |rest: &str| format!("{name}.{rest}");
    let (hidden, num_heads) = (keys.size(&key("embedding_length"))?, keys.size(&key("attention.head_count"))?);
    let num_layers = keys.size(&key("block_count"))?;
    if num_layers > super::MAX_LAYERS {
        return Err(error::field(&header.path, &key("block_count"), format!("{num_layers} layers")));
    }
    let default_dim = hidden.checked_div(num_heads).unwrap_or(0);
    let head_dim = keys.maybe_size(&key("attention.key_length"))?.unwrap_or(default_dim);
    let turned = keys.maybe_size(&key("rope.dimension_count"))?.unwrap_or(head_dim);
    if turned != head_dim {
        return Err(error::unsupported(
            &header.path,
            format!("a rotation of {turned} of {head_dim} elements of a head"),
        ));
    }
    // Mixtral is a llama with experts.
    let num_experts = keys.maybe_size(&key("expert_count"))?.filter(|num| *num > 0);
    let architecture = match (architecture, num_experts) {
        (Architecture::Llama, Some(_)) => Architecture::Mixtral,
        (other, _) => *other,
    };
    let (is_gemma2, is_gemma3) = (architecture == Architecture::Gemma2, architecture == Architecture::Gemma3);
    let is_gpt_oss = architecture == Architecture::GptOss;
    let experts = match num_experts {
        None => None,
        Some(num) => Some(ExpertsConfig {
            num,
            chosen: keys.size(&key("expert_used_count"))?,
            inner: match keys.maybe_size(&key("expert_feed_forward_length"))? {
                Some(inner) => inner,
                None => keys.size(&key("feed_forward_length"))?,
            },
            is_normalized: true,
            dense_layers: Vec::new(),
            common: None,
        }),
    };
    let needs_experts = is_gpt_oss || architecture == Architecture::Qwen3Moe;
    if needs_experts && experts.is_none() {
        return Err(error::field(&header.path, &key("expert_count"), "it is missing"));
    }
    let window = keys.maybe_size(&key("attention.sliding_window"))?;
    let windows: Vec<_> = (0..num_layers)
        .map(|layer| {
            window.filter(|_| !(is_gemma3 && (layer + 1) % 6 == 0 || (is_gemma2 || is_gpt_oss) && layer % 2 == 1))
        })
        .collect();
    let vocab = match header.metadata.get("tokenizer.ggml.tokens") {
        Some(Value::Texts(tokens)) => tokens.len(),
        _ => return Err(error::field(&header.path, "tokenizer.ggml.tokens", "it is missing, or no list of texts")),
    };
    let mut eos = Vec::new();
    for name in ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"] {
        if let Some(id) = keys.maybe_size(name)? {
            eos.push(u32::try_from(id).map_err(|_| error::field(&header.path, name, format!("{id} is no token")))?);
        }
    }
    eos.dedup();
    let max_len = keys.size(&key("context_length"))?;
    let theta = keys.number(&key("rope.freq_base"))?.unwrap_or(if is_gemma3 { 1e6 } else { 1e4 });
    let config = ModelConfig {
        architecture,
        vocab,
        hidden,
        intermediate: keys.size(&key("feed_forward_length"))?,
        experts,
        delta: None,
        has_attention_gate: false,
        num_layers,
        num_heads,
        num_kv_heads: keys.maybe_size(&key("attention.head_count_kv"))?.unwrap_or(num_heads),
        head_dim,
        norm_eps: keys.number(&key("attention.layer_norm_rms_epsilon"))?.unwrap_or(1e-5),
        rope: keys.rope(&key("rope"), theta, max_len, is_gpt_oss)?,
        local_rope: is_gemma3.then(|| Rope::plain(1e4)),
        has_adjacent_pairs: false,
        local_layers: windows.iter().map(Option::is_some).collect(),
        windows,
        // The 27B of both scale by their rows, not by their heads, and their files do not say it.
        attention_scale: (is_gemma2 && num_layers == 46 || is_gemma3 && num_layers == 62)
            .then(|| (default_dim as f64).powf(-0.5)),
        attention_softcap: keys.number(&key("attn_logit_softcapping"))?.or(is_gemma2.then_some(50.0)),
        logits_softcap: keys.number(&key("final_logit_softcapping"))?.or(is_gemma2.then_some(30.0)),
        multipliers: super::Multipliers::default(),
        has_sinks: is_gpt_oss,
        has_qkv_bias: architecture == Architecture::Qwen2,
        has_output_bias: false,
        is_tied: None,
        max_len,
        eos,
    };
    config.validate(&header.path)
}

struct Keys<'a> {
    path: &'a Path,
    header: &'a Header,
}

impl Keys<'_> {
    fn get(&self, key: &str) -> Option<&Value> {
        self.header.metadata.get(key)
    }

    fn text(&self, key: &str) -> Result<String, Error> {
        match self.get(key) {
            Some(Value::Text(text)) => Ok(text.clone()),
            other => Err(error::field(self.path, key, format!("expected a text, found {}", shown(other)))),
        }
    }

    fn maybe_size(&self, key: &str) -> Result<Option<usize>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Int(size)) if *size >= 0 => Ok(Some(*size as usize)),
            other => Err(error::field(self.path, key, format!("expected a size, found {}", shown(other)))),
        }
    }

    fn size(&self, key: &str) -> Result<usize, Error> {
        self.maybe_size(key)?.ok_or_else(|| error::field(self.path, key, "it is missing"))
    }

    fn number(&self, key: &str) -> Result<Option<f64>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Float(number)) => Ok(Some(*number)),
            other => Err(error::field(self.path, key, format!("expected a number, found {}", shown(other)))),
        }
    }

    /// The rotation. `is_exact` is gpt-oss's YaRN, whose blend of angles begins and ends at any
    /// index.
    fn rope(&self, key: &str, theta: f64, max_len: usize, is_exact: bool) -> Result<Rope, Error> {
        let plain = Rope::plain(theta);
        let of = |scaling| Ok(Rope { scaling, ..plain.clone() });
        let older = self.number(&format!("{key}.scale_linear"))?.filter(|factor| *factor != 1.0);
        let kind = match self.get(&format!("{key}.scaling.type")) {
            None => return of(older.map_or(RopeScaling::None, |factor| RopeScaling::Linear { factor })),
            Some(_) => self.text(&format!("{key}.scaling.type"))?,
        };
        let number = |name: &str| self.number(&format!("{key}.scaling.{name}"));
        match (kind.as_str(), number("factor")?.or(older)) {
            ("none", _) | ("linear", None) => of(RopeScaling::None),
            ("linear", Some(factor)) => of(RopeScaling::Linear { factor }),
            ("yarn", Some(factor)) => {
                let original = self.maybe_size(&format!("{key}.scaling.original_context_length"))?.unwrap_or(max_len);
                let scaling = RopeScaling::Yarn {
                    factor,
                    beta_fast: number("yarn_beta_fast")?.unwrap_or(32.0),
                    beta_slow: number("yarn_beta_slow")?.unwrap_or(1.0),
                    original_max_len: original as f64,
                    is_truncated: !is_exact,
                };
                let magnitude = number("attn_factor")?.unwrap_or(1.0) * Rope::yarn_magnitude(factor);
                Ok(Rope { scaling, magnitude, ..plain })
            }
            (other, _) => Err(error::unsupported(self.path, format!("rope of type {other}"))),
        }
    }
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "nothing".to_owned(), |value| format!("{value:?}").chars().take(60).collect())
}
