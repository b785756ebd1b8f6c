//! The tokenizer of a GGUF file, as the JSON that the `tokenizers` crate reads.

use std::collections::HashMap;

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
const O200K: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// `llama_token_type` of tokens that merges make, of the one for what is unknown, of control
/// tokens, and of those that users defined.
const NORMAL: i64 = 1;
const UNKNOWN: i64 = 2;
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;

/// Rules of tokenization, as the parts of a `tokenizer.json`.
struct Rules {
    model: Json,
    normalizer: Json,
    pre_tokenizer: Json,
    decoder: Json,
    /// Default for a token before every text where the file does not set it.
    has_bos: bool,
}

pub(super) fn vocabulary(header: &Header) -> Result<Vocabulary, Error> {
    let path = &header.path;
    let get = |key: &str| header.metadata.get(key);
    let wrong = |key: &str| error::field(path, key, "it is missing, or of another type");
    let Some(Value::Text(model)) = get("tokenizer.ggml.model") else { return Err(wrong("tokenizer.ggml.model")) };
    let Some(Value::Texts(tokens)) = get("tokenizer.ggml.tokens") else { return Err(wrong("tokenizer.ggml.tokens")) };
    let types: &[i64] = match get("tokenizer.ggml.token_type") {
        None => &[],
        Some(Value::Ints(types)) if types.len() == tokens.len() => types,
        Some(_) => return Err(wrong("tokenizer.ggml.token_type")),
    };
    let added = types.iter().enumerate().filter(|(_, kind)| [CONTROL, USER_DEFINED].contains(kind));
    let added: Vec<Json> = added.map(|(id, kind)| added_token(id, &tokens[id], *kind == CONTROL)).collect();
    let vocab: serde_json::Map<String, Json> =
        tokens.iter().enumerate().map(|(id, text)| (text.clone(), Json::from(id))).collect();
    let Rules { model, normalizer, pre_tokenizer, decoder, has_bos } = match model.as_str() {
        "gpt2" => byte_level_rules(header, vocab)?,
        "llama" => sentence_piece_rules(header, vocab, tokens, types)?,
        other => {
            return Err(error::unsupported(path, format!("a tokenizer of model {other}; gpt2 and llama are known")));
        }
    };
    let has_bos = flag(header, "tokenizer.ggml.add_bos_token", has_bos)?;
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
        "decoder": decoder,
        "model": model,
    });
    Ok(Vocabulary { json, bos: bos.filter(|_| has_bos) })
}

fn flag(header: &Header, key: &str, default: bool) -> Result<bool, Error> {
    match header.metadata.get(key) {
        None => Ok(default),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(error::field(&header.path, key, "it is not true or false")),
    }
}

/// Merges of bytes, in their order.
fn byte_level_rules(header: &Header, vocab: serde_json::Map<String, Json>) -> Result<Rules, Error> {
    let wrong = |key: &str| error::field(&header.path, key, "it is missing, or of another type");
    let Some(Value::Texts(merges)) = header.metadata.get("tokenizer.ggml.merges") else {
        return Err(wrong("tokenizer.ggml.merges"));
    };
    let pre = match header.metadata.get("tokenizer.ggml.pre") {
        None => "default",
        Some(Value::Text(pre)) => pre.as_str(),
        Some(_) => return Err(wrong("tokenizer.ggml.pre")),
    };
    let (pre_tokenizer, normalizer) = pre_tokenizer(pre)
        .ok_or_else(|| error::unsupported(&header.path, format!("a tokenizer that splits words as {pre} does")))?;
    Ok(Rules {
        model: json!({"type": "BPE", "vocab": vocab, "merges": merges, "ignore_merges": pre == "llama-bpe"}),
        normalizer,
        pre_tokenizer,
        decoder: byte_level(true),
        has_bos: pre == "llama-bpe",
    })
}

/// Pieces with scores, as SentencePiece has them (Llama 2, Mistral, Gemma): of two neighbours the
/// pair is merged whose result has the highest score. So the merges are all ways to cut a piece in
/// two others, by the score of the piece.
fn sentence_piece_rules(
    header: &Header,
    vocab: serde_json::Map<String, Json>,
    tokens: &[String],
    types: &[i64],
) -> Result<Rules, Error> {
    let scores = match header.metadata.get("tokenizer.ggml.scores") {
        Some(Value::Floats(scores)) if scores.len() == tokens.len() => scores,
        _ => return Err(error::field(&header.path, "tokenizer.ggml.scores", "there is not a number for each token")),
    };
    let is_normal = |id: usize| types.get(id).is_none_or(|kind| *kind == NORMAL);
    let ids: HashMap<&str, usize> =
        tokens.iter().enumerate().filter(|(id, _)| is_normal(*id)).map(|(id, text)| (text.as_str(), id)).collect();
    let mut merges = Vec::new();
    for (piece, text) in tokens.iter().enumerate().filter(|(id, text)| ids.get(text.as_str()) == Some(id)) {
        for (at, _) in text.char_indices().skip(1) {
            if let (Some(left), Some(right)) = (ids.get(&text[..at]), ids.get(&text[at..])) {
                merges.push((piece, *left, *right));
            }
        }
    }
    merges.sort_unstable_by(|a, b| scores[b.0].total_cmp(&scores[a.0]).then(a.cmp(b)));
    let merges: Vec<[&str; 2]> =
        merges.into_iter().map(|(_, left, right)| [left, right].map(|id| tokens[id].as_str())).collect();
    let unknown = types.iter().position(|kind| *kind == UNKNOWN).map(|id| tokens[id].as_str());
    let spaces = json!({"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"});
    let prefix = json!({"type": "Prepend", "prepend": "\u{2581}"});
    let has_prefix = flag(header, "tokenizer.ggml.add_space_prefix", true)?;
    let normalizers = if has_prefix { vec![prefix, spaces] } else { vec![spaces] };
    Ok(Rules {
        model: json!({
            "type": "BPE", "vocab": vocab, "merges": merges, "unk_token": unknown, "fuse_unk": true,
            "byte_fallback": true,
        }),
        normalizer: json!({"type": "Sequence", "normalizers": normalizers}),
        pre_tokenizer: Json::Null,
        decoder: json!({"type": "ByteFallback"}),
        has_bos: true,
    })
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

/// Returns the splitting of words before merging and the normalisation of text for llama.cpp's name
/// of them.
fn pre_tokenizer(name: &str) -> Option<(Json, Json)> {
    let sequence =
        |first: Json, use_regex| json!({"type": "Sequence", "pretokenizers": [first, byte_level(use_regex)]});
    let split =
        |regex: &str| json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false});
    Some(match name {
        "default" | "gpt-2" => (byte_level(true), Json::Null),
        "smollm" => (sequence(json!({"type": "Digits", "individual_digits": true}), true), Json::Null),
        "llama-bpe" | "llama3" => (sequence(split(LLAMA3), false), Json::Null),
        "gpt-4o" => (sequence(split(O200K), false), Json::Null),
        "qwen2" => (sequence(split(QWEN2), false), json!({"type": "NFC"})),
        _ => return None,
    })
}
