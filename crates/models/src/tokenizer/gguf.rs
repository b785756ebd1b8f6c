//! The tokenizer of a GGUF file, as the JSON that the `tokenizers` crate reads.

use serde_json::{Value as Json, json};

use crate::Error;
use crate::error;
use crate::files::gguf::{Header, Value};

/// A vocabulary with its rules.
pub(super) struct Vocabulary {
    pub(super) json: Json,
    /// The token before every text.
    pub(super) bos: Option<u32>,
}

/// Splits words as Llama 3 does, numbers by up to three digits; Qwen2 by single ones.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// `llama_token_type` of control tokens, and of those that users defined.
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;

pub(super) fn vocabulary(header: &Header) -> Result<Vocabulary, Error> {
    let path = &header.path;
    let get = |key: &str| header.metadata.get(key);
    let wrong = |key: &str| error::field(path, key, "it is missing, or of another type");
    match get("tokenizer.ggml.model") {
        Some(Value::Text(model)) if model == "gpt2" => {}
        Some(Value::Text(model)) => {
            return Err(error::unsupported(path, format!("a tokenizer of model {model}; gpt2 is known")));
        }
        _ => return Err(wrong("tokenizer.ggml.model")),
    }
    let Some(Value::Texts(tokens)) = get("tokenizer.ggml.tokens") else { return Err(wrong("tokenizer.ggml.tokens")) };
    let Some(Value::Texts(merges)) = get("tokenizer.ggml.merges") else { return Err(wrong("tokenizer.ggml.merges")) };
    let pre = match get("tokenizer.ggml.pre") {
        None => "default",
        Some(Value::Text(pre)) => pre.as_str(),
        Some(_) => return Err(wrong("tokenizer.ggml.pre")),
    };
    let types: &[i64] = match get("tokenizer.ggml.token_type") {
        None => &[],
        Some(Value::Ints(types)) if types.len() == tokens.len() => types,
        Some(_) => return Err(wrong("tokenizer.ggml.token_type")),
    };
    let added = types.iter().enumerate().filter(|(_, kind)| [CONTROL, USER_DEFINED].contains(kind));
    let added: Vec<Json> = added.map(|(id, kind)| added_token(id, &tokens[id], *kind == CONTROL)).collect();
    let vocab: serde_json::Map<String, Json> =
        tokens.iter().enumerate().map(|(id, text)| (text.clone(), Json::from(id))).collect();
    let (pre_tokenizer, normalizer) = pre_tokenizer(pre)
        .ok_or_else(|| error::unsupported(path, format!("a tokenizer that splits words as {pre} does")))?;
    let has_bos = match get("tokenizer.ggml.add_bos_token") {
        None => pre == "llama-bpe",
        Some(Value::Bool(has_bos)) => *has_bos,
        Some(_) => return Err(wrong("tokenizer.ggml.add_bos_token")),
    };
    let bos = match get("tokenizer.ggml.bos_token_id") {
        Some(Value::Int(id)) => u32::try_from(*id).ok().filter(|id| (*id as usize) < tokens.len()),
        _ => None,
    };
    if has_bos && bos.is_none() {
        return Err(wrong("tokenizer.ggml.bos_token_id"));
    }
    let json = json!({
        "version": "1.0",
        "added_tokens": added,
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "decoder": byte_level(true),
        "model": {"type": "BPE", "vocab": vocab, "merges": merges, "ignore_merges": pre == "llama-bpe"},
    });
    Ok(Vocabulary { json, bos: bos.filter(|_| has_bos) })
}

fn added_token(id: usize, content: &str, special: bool) -> Json {
    json!({
        "id": id, "content": content, "special": special,
        "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
    })
}

fn byte_level(use_regex: bool) -> Json {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex})
}

/// How words are split before merging, and how text is normalised, by llama.cpp's name for it.
fn pre_tokenizer(name: &str) -> Option<(Json, Json)> {
    let sequence =
        |first: Json, use_regex| json!({"type": "Sequence", "pretokenizers": [first, byte_level(use_regex)]});
    let split =
        |regex: &str| json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false});
    Some(match name {
        "default" | "gpt-2" => (byte_level(true), Json::Null),
        "smollm" => (sequence(json!({"type": "Digits", "individual_digits": true}), true), Json::Null),
        "llama-bpe" | "llama3" => (sequence(split(LLAMA3), false), Json::Null),
        "qwen2" => (sequence(split(QWEN2), false), json!({"type": "NFC"})),
        _ => return None,
    })
}
