//! Logprobs, in the form of completions and in that of chat.

use serde_json::{Map, Value, json};
use warpfold_engine::{Decode, Sampled};
use warpfold_models::Tokenizer;

/// What stands for a probability of 0, which JSON cannot say as a logprob.
const LEAST: f32 = -9999.0;

/// How a token reads by itself.
pub(crate) struct Spelling {
    pub(crate) text: String,
    pub(crate) bytes: Vec<u8>,
}

/// The text of a token, or its bytes where they are no text by themselves, or its number where
/// there is no tokenizer.
pub(crate) fn spell(tokenizer: Option<&Tokenizer>, token: u32) -> Spelling {
    let mut bytes = Vec::new();
    let Some(tokenizer) = tokenizer else { return Spelling { text: format!("token_id:{token}"), bytes } };
    tokenizer.append(token, &mut bytes);
    let text = match std::str::from_utf8(&bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().fold("bytes:".to_owned(), |text, byte| text + &format!("\\x{byte:02x}")),
    };
    Spelling { text, bytes }
}

fn finite(logprob: f32) -> f32 {
    logprob.max(LEAST)
}

/// The tokens of a completion, each with its place in the text.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    texts: Vec<String>,
    logprobs: Vec<Option<f32>>,
    tops: Vec<Value>,
    offsets: Vec<usize>,
}

impl Tokens {
    /// Adds a token. `offset` is the characters before it.
    pub(crate) fn push(&mut self, tokenizer: Option<&Tokenizer>, sampled: &Sampled, num: usize, offset: &mut usize) {
        let mut top = Map::new();
        let own = spell(tokenizer, sampled.token).text;
        top.insert(own.clone(), finite(sampled.logprob).into());
        for (token, logprob) in sampled.top.iter().take(num) {
            let text = spell(tokenizer, *token).text;
            // Of two tokens that read alike the likelier one counts; the drawn one always.
            top.entry(text).or_insert_with(|| finite(*logprob).into());
        }
        self.add(own, Some(finite(sampled.logprob)), if num > 0 { Value::Object(top) } else { Value::Null }, offset);
    }

    /// Adds the first token of a prompt, which nothing comes before.
    pub(crate) fn push_first(&mut self, tokenizer: Option<&Tokenizer>, token: u32, offset: &mut usize) {
        self.add(spell(tokenizer, token).text, None, Value::Null, offset);
    }

    fn add(&mut self, text: String, logprob: Option<f32>, top: Value, offset: &mut usize) {
        self.offsets.push(*offset);
        *offset += text.chars().count();
        self.texts.push(text);
        self.logprobs.push(logprob);
        self.tops.push(top);
    }

    pub(crate) fn json(self) -> Value {
        json!({
            "tokens": self.texts,
            "token_logprobs": self.logprobs,
            "top_logprobs": self.tops,
            "text_offset": self.offsets,
        })
    }
}

/// The tokens of a prompt as vLLM has them: nothing for the first, then of each its logprob and
/// those of the likeliest, by their numbers. A rank is known of the likeliest alone.
pub(crate) fn of_prompt(tokenizer: Option<&Tokenizer>, tokens: &[Sampled], num: usize) -> Value {
    let entry = |token: u32, logprob: f32, rank: Option<usize>| {
        let spelled = spell(tokenizer, token).text;
        json!({"logprob": finite(logprob), "rank": rank, "decoded_token": spelled})
    };
    let of_token = |sampled: &Sampled| {
        let rank = sampled.top.iter().position(|(token, _)| *token == sampled.token).map(|place| place + 1);
        let top = (1..).zip(sampled.top.iter().take(num));
        let mut entries: Map<String, Value> =
            top.map(|(rank, (token, logprob))| (token.to_string(), entry(*token, *logprob, Some(rank)))).collect();
        entries.insert(sampled.token.to_string(), entry(sampled.token, sampled.logprob, rank));
        Value::Object(entries)
    };
    std::iter::once(Value::Null).chain(tokens.iter().map(of_token)).collect()
}

/// The tokens of a chat message.
pub(crate) fn of_chat(tokenizer: Option<&Tokenizer>, tokens: &[Sampled], num: usize) -> Value {
    let entry = |token: u32, logprob: f32| {
        let Spelling { text, bytes } = spell(tokenizer, token);
        json!({"token": text, "logprob": finite(logprob), "bytes": bytes})
    };
    let content = tokens.iter().map(|sampled| {
        let mut own = entry(sampled.token, sampled.logprob);
        own["top_logprobs"] = sampled.top.iter().take(num).map(|(token, logprob)| entry(*token, *logprob)).collect();
        own
    });
    json!({"content": content.collect::<Value>(), "refusal": null})
}
