//! `config.json` and `generation_config.json` of Hugging Face.

use std::path::Path;

use serde_json::Value;
use warpfold::DeltaHeads;

use super::fields::Fields;
use super::{
    Architecture, DeltaConfig, ExpertsConfig, ModelConfig, Multipliers, Rope, RopeScaling, SamplingDefaults,
    quantization,
};
use crate::Error;
use crate::error;
use crate::files::Quantization;

/// The configuration that a `config.json` says, alone.
pub(crate) fn of_text(path: &Path, text: &str) -> Result<ModelConfig, Error> {
    read(&Fields::parse(path, text)?)?.validate(path)
}

/// The configuration of a folder, how its weights are stored, and how the model wants to be drawn
/// from.
pub(crate) fn of_folder(folder: &Path) -> Result<(ModelConfig, Quantization, SamplingDefaults), Error> {
    let fields = Fields::read(&folder.join("config.json"))?;
    let generation = folder.join("generation_config.json");
    let generation = generation.exists().then(|| Fields::read(&generation)).transpose()?;
    let mut config = read(&fields)?;
    if let Some(eos) = generation.as_ref().map(|fields| fields.tokens("eos_token_id")).transpose()?.flatten() {
        config.eos = eos;
    }
    let defaults = generation.as_ref().map(SamplingDefaults::read).transpose()?.unwrap_or_default();
    Ok((config.validate(&fields.path)?, quantization::read(&fields)?, defaults))
}

fn read(fields: &Fields) -> Result<ModelConfig, Error> {
    let architecture = architecture(fields)?;
    // Models that see as well: of the half that reads and writes.
    let (eos, is_tied) = (fields.tokens("eos_token_id")?, fields.flag("tie_word_embeddings")?);
    let text = fields.object("text_config")?;
    let is_half = text.is_some();
    let fields = text.as_ref().unwrap_or(fields);
    refuse_what_is_not_understood(fields, architecture)?;
    // Such files of Gemma 3 leave out what its program has.
    let gemma = |size: usize| (is_half && architecture == Architecture::Gemma3).then_some(size);
    let or_needed = |name, default: Option<usize>| match fields.size(name)?.or(default) {
        None => fields.needed(name, None),
        Some(size) => Ok(size),
    };
    let needed = |name| or_needed(name, None);
    let (hidden, num_layers, num_heads) =
        (needed("hidden_size")?, needed("num_hidden_layers")?, or_needed("num_attention_heads", gemma(8))?);
    let head_dim = match fields.size("head_dim")? {
        Some(head_dim) => head_dim,
        None if matches!(architecture, Architecture::Gemma2 | Architecture::Gemma3) => 256,
        None if architecture == Architecture::Qwen3 => 128,
        None if architecture == Architecture::GptOss => 64,
        None if is_hybrid(architecture) => 256,
        None => hidden.checked_div(num_heads).unwrap_or(0),
    };
    let windows = windows(fields, architecture, num_layers)?;
    let max_len = fields.size("max_position_embeddings")?.or(gemma(131_072)).unwrap_or(2048);
    let default_theta = match architecture {
        Architecture::Gemma3 | Architecture::Mixtral => 1e6,
        Architecture::Olmo3 => 5e5,
        Architecture::GptOss => 15e4,
        _ => 1e4,
    };
    let is_glm = matches!(architecture, Architecture::Glm | Architecture::Glm4);
    let partial = match architecture {
        _ if is_glm => 0.5,
        _ if is_hybrid(architecture) => 0.25,
        _ => 1.0,
    };
    let default = Rope { partial, ..Rope::plain(default_theta) };
    let rope = Rope::read(fields, &default, max_len)?;
    if rope.partial != 1.0 && !is_glm && !is_hybrid(architecture) && architecture != Architecture::Phi3 {
        let what = format!("a rotation of {} of a head (partial_rotary_factor)", rope.partial);
        return Err(error::unsupported(&fields.path, what));
    }
    let local_rope = match architecture {
        Architecture::Gemma3 => Some(Rope::read_local(fields, max_len)?.unwrap_or(Rope::plain(1e4))),
        // What scales the angles is of the other layers.
        Architecture::Olmo3 => Some(Rope::read_local(fields, max_len)?.unwrap_or(Rope::plain(rope.theta))),
        Architecture::SmolLm3 => Some(Rope { scaling: RopeScaling::Zero, ..Rope::plain(1.0) }),
        _ => None,
    };
    let local_layers = match architecture {
        Architecture::SmolLm3 => unturned(fields, num_layers)?,
        _ => windows.iter().map(Option::is_some).collect(),
    };
    let has_bias = is_glm || architecture == Architecture::GptOss;
    let attention_bias = fields.flag("attention_bias")?.unwrap_or(has_bias);
    let attention_scale = match architecture {
        Architecture::Gemma2 | Architecture::Gemma3 => {
            Some(fields.number("query_pre_attn_scalar")?.unwrap_or(256.0).powf(-0.5))
        }
        Architecture::Granite => Some(fields.number("attention_multiplier")?.unwrap_or(1.0)),
        _ => None,
    };
    Ok(ModelConfig {
        architecture,
        vocab: or_needed("vocab_size", gemma(262_208))?,
        hidden,
        intermediate: or_needed("intermediate_size", (architecture == Architecture::Qwen3Next).then_some(5632))?,
        experts: experts(fields, architecture, num_layers)?,
        delta: delta(fields, architecture, num_layers)?,
        has_attention_gate: is_hybrid(architecture),
        num_layers,
        num_heads,
        num_kv_heads: fields.size("num_key_value_heads")?.or(gemma(4)).unwrap_or(num_heads),
        head_dim,
        norm_eps: fields.number("rms_norm_eps")?.unwrap_or(if architecture == Architecture::GptOss {
            1e-5
        } else {
            1e-6
        }),
        rope,
        local_rope,
        has_adjacent_pairs: is_glm,
        local_layers,
        windows,
        attention_scale,
        attention_softcap: softcap(fields, architecture, "attn_logit_softcapping", 50.0)?,
        logits_softcap: softcap(fields, architecture, "final_logit_softcapping", 30.0)?,
        multipliers: multipliers(fields, architecture)?,
        has_sinks: architecture == Architecture::GptOss,
        has_qkv_bias: attention_bias || architecture == Architecture::Qwen2,
        has_output_bias: attention_bias && !is_glm,
        is_tied: fields.flag("tie_word_embeddings")?.or(is_tied),
        max_len,
        eos: fields.tokens("eos_token_id")?.or(eos).unwrap_or_default(),
    })
}

fn architecture(fields: &Fields) -> Result<Architecture, Error> {
    let names = fields.of("architectures", "a list of names", |value| {
        value.as_array()?.iter().map(|name| name.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
    })?;
    let names = fields.needed("architectures", names)?;
    let known = Architecture::NAMES.iter().find(|(name, _)| names.iter().any(|n| n == name));
    let list = Architecture::NAMES.map(|(name, _)| name).join(", ");
    known
        .map(|(_, architecture)| *architecture)
        .ok_or_else(|| error::unsupported(&fields.path, format!("architecture {}; known: {list}", names.join(", "))))
}

/// Whether layers with gated delta nets stand beside others.
const fn is_hybrid(architecture: Architecture) -> bool {
    matches!(architecture, Architecture::Qwen3Next | Architecture::Qwen35)
}

/// The layers with gated delta nets: all but every fourth, unless they are named.
fn delta(fields: &Fields, architecture: Architecture, layers: usize) -> Result<Option<DeltaConfig>, Error> {
    if !is_hybrid(architecture) {
        return Ok(None);
    }
    let size = |name, default| Ok::<_, Error>(fields.size(name)?.unwrap_or(default));
    match size("linear_conv_kernel_dim", 4)? {
        4 => {}
        taps => return Err(fields.wrong("linear_conv_kernel_dim", format!("{taps} taps, not 4"))),
    }
    let heads = DeltaHeads {
        keys: size("linear_num_key_heads", 16)? as u64,
        values: size("linear_num_value_heads", 32)? as u64,
        key_dim: size("linear_key_head_dim", 128)? as u64,
        value_dim: size("linear_value_head_dim", 128)? as u64,
    };
    let interval = size("full_attention_interval", 4)?.max(1);
    // Their number is known to be that of the layers.
    let layers = match layer_types(fields)? {
        Some(types) => types.iter().map(|name| name == LINEAR).collect(),
        None => (1..=layers).map(|layer| !layer.is_multiple_of(interval)).collect(),
    };
    Ok(Some(DeltaConfig { heads, layers }))
}

/// The type of a layer with a gated delta net.
const LINEAR: &str = "linear_attention";

fn layer_types(fields: &Fields) -> Result<Option<Vec<String>>, Error> {
    fields.of("layer_types", "a list of names", |value| {
        value.as_array()?.iter().map(|name| name.as_str().map(str::to_owned)).collect()
    })
}

/// Fields that change the answers, with values that nothing here reads.
fn refuse_what_is_not_understood(fields: &Fields, architecture: Architecture) -> Result<(), Error> {
    let refuse = |what: String| Err(error::unsupported(&fields.path, what));
    if fields.flag("mlp_bias")? == Some(true) {
        return refuse("biases in the MLP (mlp_bias)".to_owned());
    }
    for name in ["attn_logit_softcapping", "final_logit_softcapping"] {
        if fields.get(name).is_some() && architecture != Architecture::Gemma2 {
            return refuse(format!("{name} {}", fields.get(name).unwrap_or(&Value::Null)));
        }
    }
    if let Some(limit) = fields.number("swiglu_limit")?.filter(|limit| *limit != 7.0) {
        return refuse(format!("a gate that is cut at {limit} (swiglu_limit)"));
    }
    if is_hybrid(architecture) && fields.flag("attention_bias")? == Some(true) {
        return refuse("biases in attention beside delta nets (attention_bias)".to_owned());
    }
    if is_hybrid(architecture) && fields.flag("attn_output_gate")? == Some(false) {
        return refuse("attention without its gate beside delta nets (attn_output_gate)".to_owned());
    }
    if fields.flag("use_bidirectional_attention")? == Some(true) {
        return refuse("attention that sees what comes after".to_owned());
    }
    let is_gemma = matches!(architecture, Architecture::Gemma2 | Architecture::Gemma3);
    let activation = match fields.text("hidden_activation")?.filter(|_| is_gemma) {
        Some(name) => Some(name),
        None => fields.text("hidden_act")?,
    };
    let expected = if is_gemma { "gelu_pytorch_tanh" } else { "silu" };
    match activation {
        Some(name) if name != expected => refuse(format!("activation {name} instead of {expected}")),
        _ => Ok(()),
    }
}

/// The bound of scores or logits of Gemma 2, which `null` takes away.
fn softcap(fields: &Fields, architecture: Architecture, name: &str, default: f64) -> Result<Option<f64>, Error> {
    let is_there = architecture == Architecture::Gemma2 && !fields.is_null(name);
    Ok(is_there.then_some(fields.number(name)?.unwrap_or(default)))
}

/// Granite's factors.
fn multipliers(fields: &Fields, architecture: Architecture) -> Result<Multipliers, Error> {
    if architecture != Architecture::Granite {
        return Ok(Multipliers::default());
    }
    let of = |name| Ok::<_, Error>(fields.number(name)?.unwrap_or(1.0));
    let divisor = of("logits_scaling")?;
    Ok(Multipliers {
        embedding: of("embedding_multiplier")?,
        residual: of("residual_multiplier")?,
        logits: 1.0 / divisor,
    })
}

/// Layers that turn nothing: every fourth, unless they are listed (0 turns nothing, 1 does).
fn unturned(fields: &Fields, layers: usize) -> Result<Vec<bool>, Error> {
    let listed = fields.of("no_rope_layers", "a list of 0 and 1", |value| {
        value.as_array()?.iter().map(|flag| flag.as_u64().filter(|flag| *flag < 2)).collect::<Option<Vec<_>>>()
    })?;
    let interval = fields.size("no_rope_layer_interval")?.unwrap_or(4).max(1);
    match listed {
        Some(listed) if listed.len() == layers => Ok(listed.into_iter().map(|flag| flag == 0).collect()),
        Some(listed) => Err(fields.wrong("no_rope_layers", format!("{} flags for {layers} layers", listed.len()))),
        None => Ok((1..=layers).map(|layer| layer.is_multiple_of(interval)).collect()),
    }
}

/// The mixtures of experts of the architectures that have them.
fn experts(fields: &Fields, architecture: Architecture, layers: usize) -> Result<Option<ExpertsConfig>, Error> {
    let (is_mixtral, is_gpt_oss) = (architecture == Architecture::Mixtral, architecture == Architecture::GptOss);
    let is_next = architecture == Architecture::Qwen3Next;
    let is_qwen = is_next || architecture == Architecture::Qwen3Moe;
    if !is_mixtral && !is_gpt_oss && !is_qwen || is_next && fields.size("num_experts")? == Some(0) {
        return Ok(None);
    }
    let of = |name, default| Ok::<_, Error>(fields.size(name)?.unwrap_or(default));
    let needed = |name| fields.needed(name, fields.size(name)?);
    let num = match fields.size("num_experts")? {
        Some(num) if is_qwen => num,
        None if is_next => needed("num_experts")?,
        _ => of("num_local_experts", if is_mixtral { 8 } else { 128 })?,
    };
    let step = of("decoder_sparse_step", 1)?.max(1);
    let named = fields.of("mlp_only_layers", "a list of layers", |value| {
        let number = |value: &Value| value.as_u64().and_then(|number| usize::try_from(number).ok());
        value.as_array()?.iter().map(number).collect::<Option<Vec<_>>>()
    })?;
    let is_dense = |layer: &usize| named.iter().flatten().any(|n| n == layer) || !(layer + 1).is_multiple_of(step);
    Ok(Some(ExpertsConfig {
        num,
        chosen: match (fields.size("num_experts_per_tok")?, is_gpt_oss) {
            (Some(chosen), _) => chosen,
            (None, true) => of("experts_per_token", 4)?,
            (None, false) if is_mixtral => 2,
            (None, false) if is_next => needed("num_experts_per_tok")?,
            (None, false) => 8,
        },
        inner: match is_qwen {
            false => fields.needed("intermediate_size", fields.size("intermediate_size")?)?,
            true if is_next => needed("moe_intermediate_size")?,
            true => of("moe_intermediate_size", 768)?,
        },
        is_normalized: !is_qwen || fields.flag("norm_topk_prob")?.unwrap_or(is_next),
        dense_layers: (0..layers.min(super::MAX_LAYERS)).filter(|layer| is_qwen && is_dense(layer)).collect(),
        common: is_next.then(|| needed("shared_expert_intermediate_size")).transpose()?,
    }))
}

/// Returns the attention window of each layer.
fn windows(fields: &Fields, architecture: Architecture, layers: usize) -> Result<Vec<Option<usize>>, Error> {
    if layers > super::MAX_LAYERS {
        return Err(fields.wrong("num_hidden_layers", format!("{layers} is more than {}", super::MAX_LAYERS)));
    }
    let window = fields.size("sliding_window")?;
    let is_on = matches!(
        architecture,
        Architecture::Mistral
            | Architecture::Mixtral
            | Architecture::Gemma2
            | Architecture::Gemma3
            | Architecture::GptOss
            | Architecture::Olmo3
            | Architecture::Phi3
    ) || fields.flag("use_sliding_window")?.unwrap_or(false);
    let types = layer_types(fields)?;
    let needs_window = || fields.needed("sliding_window", window);
    if let Some(types) = types {
        if types.len() != layers {
            return Err(fields.wrong("layer_types", format!("{} names for {layers} layers", types.len())));
        }
        return types
            .iter()
            .map(|name| match name.as_str() {
                "full_attention" => Ok(None),
                LINEAR if is_hybrid(architecture) => Ok(None),
                "sliding_attention" => needs_window().map(Some),
                other => Err(error::unsupported(&fields.path, format!("layers of {other}"))),
            })
            .collect();
    }
    let sees_all: Box<dyn Fn(usize) -> bool> = match architecture {
        Architecture::Gemma3 => {
            let pattern = fields.size("sliding_window_pattern")?.unwrap_or(6).max(1);
            Box::new(move |layer| (layer + 1) % pattern == 0)
        }
        Architecture::Gemma2 | Architecture::GptOss => Box::new(|layer| layer % 2 == 1),
        Architecture::Olmo3 => Box::new(|layer| (layer + 1) % 4 == 0),
        Architecture::Qwen2 | Architecture::Qwen3 | Architecture::Qwen3Moe => {
            let first = fields.size("max_window_layers")?.unwrap_or(28);
            Box::new(move |layer| layer < first)
        }
        _ => Box::new(|_| false),
    };
    let window = window.filter(|_| is_on);
    Ok((0..layers).map(|layer| window.filter(|_| !sees_all(layer))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpfold::Dtype;

    /// What one position and one sequence take of models of these sizes, in bf16.
    fn kept(text: &str) -> [u64; 2] {
        let config = of_text(Path::new("config.json"), text).expect("the configuration is right");
        [2 * (config.num_caches() * config.kv_len()) as u64 * 2, config.state_bytes(Dtype::Bf16)]
    }

    #[test]
    fn hybrids_keep_positions_of_every_fourth_layer_and_a_state_of_the_others() {
        // Qwen3-Next-80B-A3B: 12 layers of 2 heads of 256; 36 of 32 matrices of 128 x 128, with three
        // rows of 8192 channels each.
        let next = r#"{"architectures": ["Qwen3NextForCausalLM"], "vocab_size": 151936, "hidden_size": 2048,
            "num_hidden_layers": 48, "num_attention_heads": 16, "num_key_value_heads": 2, "rope_theta": 1e7,
            "num_experts": 512, "num_experts_per_tok": 10, "moe_intermediate_size": 512,
            "shared_expert_intermediate_size": 512}"#;
        assert_eq!(kept(next), [12 * 2 * 2 * 256 * 2, 36 * (32 * 128 * 128 * 4 + 3 * 8192 * 2)]);
        // Qwen3.5-9B: 8 layers of 4 heads of 256, and 24.
        let dense = r#"{"architectures": ["Qwen3_5ForConditionalGeneration"], "text_config": {"vocab_size": 248320,
            "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 32, "num_attention_heads": 16,
            "num_key_value_heads": 4, "rope_parameters": {"rope_theta": 1e7, "partial_rotary_factor": 0.25}}}"#;
        assert_eq!(kept(dense), [8 * 2 * 4 * 256 * 2, 24 * (32 * 128 * 128 * 4 + 3 * 8192 * 2)]);
    }
}
