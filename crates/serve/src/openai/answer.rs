//! What is generated, as OpenAI writes it: one object, or a chunk for each update.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use warpfold_engine::{Adapter, Finish, Output, Sampled, Update};
use warpfold_models::Tokenizer;

use super::Writer;
use super::dialogue::Reader;
use super::logprobs::{self, Tokens};
use super::message::{Message, Reading};
use super::params::{Seed, StreamUsage, seed_back};
use super::sse::event;
use crate::error::ApiError;
use crate::state::{Served, State};
use crate::weights::WeightsDigests;

/// Which of the two interfaces.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "a request has one, and chats are most of them")]
pub(crate) enum Kind {
    Completion,
    Chat(Reader),
}

/// What an answer is to hold.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) kind: Kind,
    /// What a stream tells of its usage.
    pub(crate) usage: StreamUsage,
    /// Answers to each prompt.
    pub(crate) n: usize,
    /// The most likely of them, which alone are told.
    pub(crate) num_kept: usize,
    /// How many likely tokens to report with each.
    pub(crate) logprobs: Option<usize>,
    /// The same for the tokens of the prompt.
    pub(crate) prompt_logprobs: Option<usize>,
    /// Begin each text with its prompt.
    pub(crate) echo: bool,
    /// Leave out what comes after that.
    pub(crate) is_echo_alone: bool,
    /// The beginning of each message.
    pub(crate) prefix: String,
    pub(crate) return_token_ids: bool,
    /// The seed that was sent.
    pub(crate) seed: Option<Seed>,
    pub(crate) stops: Vec<String>,
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
    digests: Arc<WeightsDigests>,
    /// The number of the weights that made it.
    weights: usize,
    choices: Vec<Choice>,
    num_generated: usize,
    /// Tokens of each prompt that the cache had.
    cached: Vec<usize>,
}

/// How far a stream has come with an answer.
#[derive(Debug, Clone)]
struct Choice {
    has_begun: bool,
    /// Characters of the tokens so far.
    offset: usize,
    /// What reads a chat's answer.
    reading: Option<Reading>,
}

/// A part of one answer, or all of it.
struct Part<'a> {
    choice: usize,
    is_first: bool,
    seed: u64,
    text: &'a str,
    /// What the text says in a chat.
    message: Option<Message>,
    tokens: &'a [Sampled],
    prompt_logprobs: &'a [Sampled],
    finish: Option<Finish>,
}

static LAST_ID: AtomicU64 = AtomicU64::new(0);

/// A number that no other answer of this server, or of another, has.
pub(crate) fn new_id(state: &State) -> String {
    format!("{:016x}{:08x}", state.run_id, LAST_ID.fetch_add(1, Ordering::Relaxed))
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl Answer {
    pub(crate) fn new(
        state: &State,
        served: &Served,
        wanted: Wanted,
        adapter: Option<&Adapter>,
        prompts: Vec<Vec<u32>>,
    ) -> Self {
        let prefix = if matches!(wanted.kind, Kind::Chat(_)) { "chatcmpl" } else { "cmpl" };
        let choice = |_| {
            let reading = match &wanted.kind {
                Kind::Completion => None,
                Kind::Chat(reader) => Some(Reading::new(reader, served)),
            };
            Choice { has_begun: false, offset: 0, reading }
        };
        Self {
            tokenizer: served.text.tokenizer.clone(),
            id: format!("{prefix}-{}", new_id(state)),
            created: now(),
            model: state.name_of(adapter),
            digests: served.digests.clone(),
            weights: 0,
            choices: (0..prompts.len() * wanted.n).map(choice).collect(),
            num_generated: 0,
            cached: vec![0; prompts.len()],
            prompts,
            wanted,
        }
    }
}

impl Writer for Answer {
    fn n(&self) -> usize {
        self.wanted.n
    }

    fn whole(&mut self, outputs: Vec<Output>) -> Value {
        let outputs = self.keep_best(outputs);
        let n = self.wanted.n;
        let outputs: Vec<Output> = outputs.into_iter().map(|output| self.seen(output)).collect();
        let choices: Vec<Value> = (0..outputs.len())
            .map(|choice| {
                let Output { seed, ref tokens, ref text, finish, .. } = outputs[choice];
                // What was asked of a prompt comes with its first answer.
                let prompt_logprobs = &outputs[choice / n * n].prompt_logprobs;
                self.num_generated += tokens.len();
                let message = self.read(choice, text, finish.is_some());
                let part = Part { choice, is_first: true, seed, text, message, tokens, prompt_logprobs, finish };
                self.write(&part, false)
            })
            .collect();
        let mut object = self.envelope(choices.into(), false);
        object["usage"] = self.usage();
        if let (Kind::Chat(_), Some(num)) = (&self.wanted.kind, self.wanted.prompt_logprobs) {
            let scored = outputs.first().map_or(&[][..], |output| &output.prompt_logprobs);
            object["prompt_logprobs"] = logprobs::of_prompt(self.tokenizer.as_deref(), scored, num);
        }
        object
    }

    fn begin(&mut self, _: &mut Vec<u8>) {}

    /// Where the last chunk of all will tell the usage, the others deny it, or tell what it is so
    /// far.
    fn update(&mut self, prompt: usize, update: &Update, out: &mut Vec<u8>) {
        let choice = prompt * self.wanted.n + update.output;
        let shown = self.wanted.is_echo_alone.then(|| Update {
            tokens: Vec::new(),
            text: String::new(),
            finish: update.finish.map(|_| Finish::Length),
            ..update.clone()
        });
        let update = shown.as_ref().unwrap_or(update);
        self.num_generated += update.tokens.len();
        let is_first = !std::mem::replace(&mut self.choices[choice].has_begun, true);
        let Update { seed, ref tokens, ref text, finish, ref prompt_logprobs, .. } = *update;
        let message = self.read(choice, text, finish.is_some());
        let says_more = self.wanted.logprobs.is_some() || self.wanted.return_token_ids;
        let says_nothing = message.as_ref().map_or(text.is_empty(), Message::is_empty);
        if !is_first && says_nothing && finish.is_none() && !says_more {
            return;
        }
        let part = Part { choice, is_first, seed, text, message, tokens, prompt_logprobs, finish };
        let choice = self.write(&part, true);
        let mut object = self.envelope(json!([choice]), true);
        let StreamUsage { at_end, in_chunks } = self.wanted.usage;
        if at_end {
            object["usage"] = if in_chunks { self.usage() } else { Value::Null };
        }
        event(&object, out);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if self.wanted.usage.at_end {
            let mut object = self.envelope(json!([]), true);
            object["usage"] = self.usage();
            event(&object, out);
        }
        out.extend(b"data: [DONE]\n\n");
    }

    fn error(&mut self, error: &ApiError, out: &mut Vec<u8>) {
        event(&error.body(), out);
    }

    fn note(&mut self, prompt: usize, update: &Update) {
        self.cached[prompt] = update.cached;
        self.weights = update.weights;
    }
}

impl Answer {
    /// The answers to each prompt with the highest mean logprob of their tokens. From here on there
    /// are no others.
    fn keep_best(&mut self, outputs: Vec<Output>) -> Vec<Output> {
        let (n, num_kept) = (self.wanted.n, self.wanted.num_kept);
        if n == num_kept {
            return outputs;
        }
        let mean = |output: &Output| {
            let sum: f64 = output.tokens.iter().map(|token| f64::from(token.logprob)).sum();
            sum / output.tokens.len().max(1) as f64
        };
        let mut kept = Vec::with_capacity(self.prompts.len() * num_kept);
        let mut all = outputs.into_iter();
        for _ in 0..self.prompts.len() {
            let mut of_prompt: Vec<Output> = all.by_ref().take(n).collect();
            let scores = of_prompt.first_mut().map(|first| std::mem::take(&mut first.prompt_logprobs));
            of_prompt.sort_by(|a, b| mean(b).total_cmp(&mean(a)));
            let left_out = of_prompt.split_off(num_kept.min(of_prompt.len()));
            self.num_generated += left_out.iter().map(|output| output.tokens.len()).sum::<usize>();
            if let (Some(first), Some(scores)) = (of_prompt.first_mut(), scores) {
                first.prompt_logprobs = scores;
            }
            kept.append(&mut of_prompt);
        }
        self.wanted.n = num_kept;
        kept
    }

    /// An answer without what nobody asked for.
    fn seen(&self, output: Output) -> Output {
        match self.wanted.is_echo_alone {
            false => output,
            true => Output { tokens: Vec::new(), text: String::new(), finish: Some(Finish::Length), ..output },
        }
    }

    /// What a chat's answer says by its text.
    fn read(&mut self, choice: usize, text: &str, is_over: bool) -> Option<Message> {
        self.choices[choice].reading.as_mut().map(|reading| reading.read(text, is_over))
    }

    fn envelope(&self, choices: Value, is_chunk: bool) -> Value {
        json!({
            "id": self.id,
            "object": match (&self.wanted.kind, is_chunk) {
                (Kind::Completion, _) => "text_completion",
                (Kind::Chat(_), false) => "chat.completion",
                (Kind::Chat(_), true) => "chat.completion.chunk",
            },
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.digests.fingerprint(self.weights),
            "choices": choices,
        })
    }

    fn usage(&self) -> Value {
        let prompt: usize = self.prompts.iter().map(Vec::len).sum();
        let generated = self.num_generated;
        let cached: usize = self.cached.iter().sum();
        json!({
            "prompt_tokens": prompt, "completion_tokens": generated, "total_tokens": prompt + generated,
            "prompt_tokens_details": {"cached_tokens": cached},
        })
    }

    fn write(&mut self, part: &Part<'_>, is_chunk: bool) -> Value {
        let mut object = match &part.message {
            None => self.completion(part),
            Some(message) => self.message(part, message, is_chunk),
        };
        object["index"] = part.choice.into();
        let reading = self.choices[part.choice].reading.as_ref();
        object["finish_reason"] = part.finish.map(|finish| reading.map_or(finish.name(), |r| r.reason(finish))).into();
        object["stop_reason"] = match part.finish {
            Some(Finish::StopToken(id)) => id.into(),
            Some(Finish::StopText(stop)) => self.wanted.stops[stop].as_str().into(),
            _ => Value::Null,
        };
        object["seed"] = seed_back(self.wanted.seed, part.seed);
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
        let mut object = json!({"text": text, "logprobs": logprobs});
        if let Some(num) = self.wanted.prompt_logprobs {
            object["prompt_logprobs"] = logprobs::of_prompt(tokenizer, part.prompt_logprobs, num);
        }
        object
    }

    fn message(&self, part: &Part<'_>, message: &Message, is_chunk: bool) -> Value {
        let tokenizer = self.tokenizer.as_deref();
        let logprobs = self.wanted.logprobs.map(|num| logprobs::of_chat(tokenizer, part.tokens, num));
        let mut message = message.clone();
        if part.is_first {
            message.content.insert_str(0, &self.wanted.prefix);
        }
        if is_chunk {
            json!({"delta": message.delta(part.is_first), "logprobs": logprobs})
        } else {
            json!({"message": message.whole(), "logprobs": logprobs})
        }
    }
}
