//! Sizes from the metadata of GGUF.

use std::path::Path;

use super::{Architecture, ModelConfig, Rope, RopeScaling};
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
    let (is_gemma2, is_gemma3) = (*architecture == Architecture::Gemma2, *architecture == Architecture::Gemma3);
    let window = keys.maybe_size(&key("attention.sliding_window"))?;
    let windows: Vec<_> = (0..num_layers)
        .map(|layer| window.filter(|_| !(is_gemma3 && (layer + 1) % 6 == 0 || is_gemma2 && layer % 2 == 1)))
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
    let config = ModelConfig {
        architecture: *architecture,
        vocab,
        hidden,
        intermediate: keys.size(&key("feed_forward_length"))?,
        experts: None,
        num_layers,
        num_heads,
        num_kv_heads: keys.maybe_size(&key("attention.head_count_kv"))?.unwrap_or(num_heads),
        head_dim,
        norm_eps: keys.number(&key("attention.layer_norm_rms_epsilon"))?.unwrap_or(1e-5),
        rope: Rope {
            theta: keys.number(&key("rope.freq_base"))?.unwrap_or(if is_gemma3 { 1e6 } else { 1e4 }),
            scaling: keys.rope_scaling(&key("rope"))?,
            magnitude: 1.0,
            partial: 1.0,
        },
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
        has_sinks: false,
        has_qkv_bias: *architecture == Architecture::Qwen2,
        has_output_bias: false,
        is_tied: None,
        max_len: keys.size(&key("context_length"))?,
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

    fn rope_scaling(&self, key: &str) -> Result<RopeScaling, Error> {
        let older = self.number(&format!("{key}.scale_linear"))?.filter(|factor| *factor != 1.0);
        let kind = match self.get(&format!("{key}.scaling.type")) {
            None => return Ok(older.map_or(RopeScaling::None, |factor| RopeScaling::Linear { factor })),
            Some(_) => self.text(&format!("{key}.scaling.type"))?,
        };
        match (kind.as_str(), self.number(&format!("{key}.scaling.factor"))?.or(older)) {
            ("none", _) | ("linear", None) => Ok(RopeScaling::None),
            ("linear", Some(factor)) => Ok(RopeScaling::Linear { factor }),
            (other, _) => Err(error::unsupported(self.path, format!("rope of type {other}"))),
        }
    }
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "nothing".to_owned(), |value| format!("{value:?}").chars().take(60).collect())
}
