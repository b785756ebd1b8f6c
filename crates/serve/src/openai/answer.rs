//! What is generated, as OpenAI writes it: one object, or a chunk for each update.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use warpfold_engine::{Finish, Output, Sampled, Update};
use warpfold_models::Tokenizer;

use super::logprobs::{self, Tokens};
use crate::state::{Served, State};

/// Which of the two interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Completion,
    Chat,
}

/// What an answer is to hold.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) kind: Kind,
    /// Answers to each prompt.
    pub(crate) n: usize,
    /// How many likely tokens to report with each.
    pub(crate) logprobs: Option<usize>,
    /// Begin each text with its prompt.
    pub(crate) echo: bool,
    pub(crate) return_token_ids: bool,
}

/// An answer in the making.
#[derive(Debug)]
pub(crate) struct Answer {
    wanted: Wanted,
    prompts: Vec<Vec<u32>>,
    tokenizer: Option<Arc<Tokenizer>>,
    id: String,
    created: u64,
    model: String,
    fingerprint: String,
    choices: Vec<Choice>,
    num_generated: usize,
}

/// How far a stream has come with an answer.
#[derive(Debug, Clone, Default)]
struct Choice {
    has_begun: bool,
    /// Characters of the tokens so far.
    offset: usize,
}

/// A part of one answer, or all of it.
struct Part<'a> {
    choice: usize,
    is_first: bool,
    seed: u64,
    text: &'a str,
    tokens: &'a [Sampled],
    prompt_logprobs: &'a [Sampled],
    finish: Option<Finish>,
}

static LAST_ID: AtomicU64 = AtomicU64::new(0);

impl Answer {
    pub(crate) fn new(state: &State, served: &Served, wanted: Wanted, prompts: Vec<Vec<u32>>) -> Self {
        let number = LAST_ID.fetch_add(1, Ordering::Relaxed);
        let prefix = if wanted.kind == Kind::Chat { "chatcmpl" } else { "cmpl" };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            tokenizer: served.text.tokenizer.clone(),
            id: format!("{prefix}-{:016x}{number:08x}", state.run_id),
            created: now.as_secs(),
            model: state.name().to_owned(),
            fingerprint: served.text.fingerprint(),
            choices: vec![Choice::default(); prompts.len() * wanted.n],
            num_generated: 0,
            prompts,
            wanted,
        }
    }

    pub(crate) fn num_choices(&self) -> usize {
        self.choices.len()
    }

    /// The number of an answer among those of all prompts.
    pub(crate) fn choice(&self, prompt: usize, output: usize) -> usize {
        prompt * self.wanted.n + output
    }

    /// All answers as one object.
    pub(crate) fn whole(mut self, outputs: Vec<Output>) -> Value {
        let n = self.wanted.n;
        let choices: Vec<Value> = (0..outputs.len())
            .map(|choice| {
                let Output { seed, ref tokens, ref text, finish, .. } = outputs[choice];
                // What was asked of a prompt comes with its first answer.
                let prompt_logprobs = &outputs[choice / n * n].prompt_logprobs;
                self.num_generated += tokens.len();
                self.write(&Part { choice, is_first: true, seed, text, tokens, prompt_logprobs, finish }, false)
            })
            .collect();
        let mut object = self.envelope(choices.into(), false);
        object["usage"] = self.usage();
        object
    }

    /// Appends the chunks of an update to `out`, each as an event. `usage` says whether the last
    /// chunk of all will tell the usage, which the others then deny.
    pub(crate) fn chunks(&mut self, prompt: usize, update: &Update, usage: bool, out: &mut Vec<u8>) {
        let choice = self.choice(prompt, update.output);
        self.num_generated += update.tokens.len();
        let is_first = !std::mem::replace(&mut self.choices[choice].has_begun, true);
        let Update { seed, ref tokens, ref text, finish, ref prompt_logprobs, .. } = *update;
        let says_more = self.wanted.logprobs.is_some() || self.wanted.return_token_ids;
        if !is_first && text.is_empty() && finish.is_none() && !says_more {
            return;
        }
        let part = Part { choice, is_first, seed, text, tokens, prompt_logprobs, finish };
        let choice = self.write(&part, true);
        let mut object = self.envelope(json!([choice]), true);
        if usage {
            object["usage"] = Value::Null;
        }
        event(&object, out);
    }

    /// Appends what ends a stream.
    pub(crate) fn end(&self, usage: bool, out: &mut Vec<u8>) {
        if usage {
            let mut object = self.envelope(json!([]), true);
            object["usage"] = self.usage();
            event(&object, out);
        }
        out.extend(b"data: [DONE]\n\n");
    }

    fn envelope(&self, choices: Value, is_chunk: bool) -> Value {
        json!({
            "id": self.id,
            "object": match (self.wanted.kind, is_chunk) {
                (Kind::Completion, _) => "text_completion",
                (Kind::Chat, false) => "chat.completion",
                (Kind::Chat, true) => "chat.completion.chunk",
            },
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
            "choices": choices,
        })
    }

    fn usage(&self) -> Value {
        let prompt: usize = self.prompts.iter().map(Vec::len).sum();
        let generated = self.num_generated;
        json!({"prompt_tokens": prompt, "completion_tokens": generated, "total_tokens": prompt + generated})
    }

    fn write(&mut self, part: &Part<'_>, is_chunk: bool) -> Value {
        let mut object = match self.wanted.kind {
            Kind::Completion => self.completion(part),
            Kind::Chat => self.message(part, is_chunk),
        };
        object["index"] = part.choice.into();
        object["finish_reason"] = part.finish.map(Finish::name).into();
        // As vLLM has it: the string that ended the answer is not known here, its token is.
        object["stop_reason"] = match part.finish {
            Some(Finish::StopToken(id)) => id.into(),
            _ => Value::Null,
        };
        object["seed"] = part.seed.into();
        if self.wanted.return_token_ids {
            object["token_ids"] = part.tokens.iter().map(|token| token.token).collect();
            if part.is_first {
                object["prompt_token_ids"] = json!(self.prompts[part.choice / self.wanted.n]);
            }
        }
        object
    }

    fn completion(&mut self, part: &Part<'_>) -> Value {
        let prompt = &self.prompts[part.choice / self.wanted.n];
        let tokenizer = self.tokenizer.as_deref();
        let is_echo = self.wanted.echo && part.is_first;
        let mut text = match tokenizer {
            Some(tokenizer) if is_echo => tokenizer.decode(prompt),
            _ => String::new(),
        };
        text.push_str(part.text);
        let logprobs = self.wanted.logprobs.map(|num| {
            let offset = &mut self.choices[part.choice].offset;
            let mut tokens = Tokens::default();
            if is_echo {
                prompt.iter().take(1).for_each(|first| tokens.push_first(tokenizer, *first, offset));
                part.prompt_logprobs.iter().for_each(|sampled| tokens.push(tokenizer, sampled, num, offset));
            }
            part.tokens.iter().for_each(|sampled| tokens.push(tokenizer, sampled, num, offset));
            tokens.json()
        });
        json!({"text": text, "logprobs": logprobs})
    }

    fn message(&self, part: &Part<'_>, is_chunk: bool) -> Value {
        let tokenizer = self.tokenizer.as_deref();
        let logprobs = self.wanted.logprobs.map(|num| logprobs::of_chat(tokenizer, part.tokens, num));
        match is_chunk {
            true if part.is_first => {
                json!({"delta": {"role": "assistant", "content": part.text}, "logprobs": logprobs})
            }
            true if part.text.is_empty() && part.tokens.is_empty() => json!({"delta": {}, "logprobs": logprobs}),
            true => json!({"delta": {"content": part.text}, "logprobs": logprobs}),
            false => {
                let message = json!({"role": "assistant", "content": part.text, "refusal": null});
                json!({"message": message, "logprobs": logprobs})
            }
        }
    }
}

/// Appends an object as a server-sent event.
pub(crate) fn event(object: &Value, out: &mut Vec<u8>) {
    out.extend(b"data: ");
    // Writing to memory does not fail.
    serde_json::to_writer(&mut *out, object).ok();
    out.extend(b"\n\n");
}
