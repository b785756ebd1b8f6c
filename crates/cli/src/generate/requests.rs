//! Requests from the command line and from files.

use std::path::Path;

use serde_json::json;
use warpfold_engine::{Beam, Constraint, Limits, Request, Sampling};
use warpfold_models::{ChatOptions, ChatTemplate, SamplingDefaults, Tokenizer};

use super::needed;
use super::options::{Answer, Line};
use crate::failure::Failure;

/// Properties of a model that requests depend on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) tokenizer: Option<&'a Tokenizer>,
    /// Makes a conversation of each prompt that is a text.
    pub(super) chat: Option<&'a ChatTemplate>,
    /// Sampling defaults of requests that set nothing.
    pub(super) defaults: &'a SamplingDefaults,
    /// Limits of the model.
    pub(super) limits: &'a Limits,
    /// Constraint on every answer.
    pub(super) constraint: Option<&'a dyn Constraint>,
}

impl Asked<'_> {
    fn tokens(self, text: &str) -> Result<Vec<u32>, Failure> {
        let tokenizer = needed(self.tokenizer, "a prompt as text")?;
        let Some(template) = self.chat else { return Ok(tokenizer.encode(text)?) };
        let options = ChatOptions { add_generation_prompt: true, ..ChatOptions::default() };
        let text = template.render(&json!([{"role": "user", "content": text}]), &options)?;
        Ok(tokenizer.encode_marked(&text)?)
    }
}

/// Tokens of an answer where nobody says how many.
const MAX_TOKENS: usize = 128;

/// The text or the tokens to continue.
pub(super) enum Prompt {
    Text(String),
    Tokens(Vec<u32>),
}

/// A request of a prompt.
pub(super) fn request(prompt: Prompt, answer: &Answer, of: Asked<'_>) -> Result<Request, Failure> {
    let prompt = match prompt {
        Prompt::Text(text) => of.tokens(&text)?,
        Prompt::Tokens(tokens) => tokens,
    };
    if !answer.stop.is_empty() {
        needed(of.tokenizer, "--stop")?;
    }
    let room = of.limits.max_len.saturating_sub(prompt.len()).max(1);
    let max_tokens = answer.max_tokens.unwrap_or(MAX_TOKENS.min(room));
    let beam = answer.beam.map(|width| Beam { width, length_penalty: 1.0 });
    // Beams draw nothing.
    let base = if beam.is_some() { Sampling::default() } else { of.defaults.sampling() };
    let sampling = Sampling {
        temperature: answer.temperature.unwrap_or(base.temperature),
        top_k: answer.top_k.or(base.top_k),
        top_p: answer.top_p.unwrap_or(base.top_p),
        min_p: answer.min_p.unwrap_or(base.min_p),
        ..base
    };
    let request = Request {
        sampling,
        n: answer.n,
        beam,
        seed: answer.seed,
        max_tokens: Some(max_tokens),
        stop: answer.stop.clone(),
        ignore_eos: answer.ignore_eos,
        logprobs: answer.logprobs,
        constraint: of.constraint.map(Constraint::fork),
        ..Request::new(prompt)
    };
    // Here it is known which line of a file it is, and no weights are loaded yet.
    request.validate(of.limits)?;
    Ok(request)
}

/// The requests of a file, one per line that is not empty.
pub(super) fn of_file(file: &Path, base: &Answer, of: Asked<'_>) -> Result<Vec<Request>, Failure> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", file.display())))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(i, line)| {
            let wrong = |reason: String| Failure::usage(format!("{}:{}: {reason}", file.display(), i + 1));
            let mut line: Line = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
            let prompt = match (line.prompt.take(), line.prompt_tokens.take()) {
                (Some(text), None) => Prompt::Text(text),
                (None, Some(tokens)) => Prompt::Tokens(tokens),
                _ => return Err(wrong("either prompt or prompt_tokens is needed".to_owned())),
            };
            request(prompt, &line.over(base), of).map_err(|failure| wrong(failure.to_string()))
        })
        .collect()
}
