//! Tool calls and reasoning in the output of a model.
//!
//! A [`Dialect`] is found in a model's chat template. [`Dialect::grammar`] is the grammar that an
//! answer with tools is generated under, so that each call names a tool and has arguments of its
//! schema; a [`Splitter`] reads the same grammar as the answer comes, and gives out pieces of
//! content, of reasoning and of calls. Neither guesses: what is no call by the grammar is content.
//!
//! `formats` has the formats as a table, `rules` makes grammars of a row, `splitter` reads by it.
//! `tags` and `python` have arguments that are no JSON, `channels` answers that are messages, and
//! `told` tells of tools where a template does not.

mod channels;
mod formats;
mod python;
mod rules;
mod splitter;
mod tags;
mod told;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use warpfold_engine::Decode;

use crate::Tokenizer;
use channels::ChannelReader;
pub use formats::ToolFormat;
pub use rules::{ToolChoice, Turn};
use splitter::MarkReader;
pub use splitter::Piece;

/// The marks of reasoning.
const THINK: [&str; 2] = ["<think>", "</think>"];

/// A tool that a model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Name used by calls.
    pub name: String,
    /// The JSON schema of its arguments.
    pub parameters: Value,
    /// Refuses a schema that cannot be enforced. Otherwise its unenforceable parts are ignored.
    pub is_strict: bool,
}

/// The output format of a model.
#[derive(Debug, Clone)]
pub struct Dialect {
    format: &'static ToolFormat,
    /// The template lists the tools by itself.
    is_told_by_template: bool,
    thinks: bool,
    /// Marks that are tokens and no text.
    special: BTreeMap<&'static str, u32>,
}

/// State of reasoning at the start of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thinking {
    /// The model does not reason, or the prompt has said that it shall not.
    Never,
    /// The answer may begin with reasoning.
    Maybe,
    /// The prompt has begun the reasoning.
    Begun,
}

impl Dialect {
    /// The dialect of a chat template, with the marks of a vocabulary. A `format` that is given is
    /// taken for that of the template.
    #[must_use]
    pub fn new(template: &str, tokenizer: Option<&Tokenizer>, format: Option<&'static ToolFormat>) -> Self {
        let marks = ToolFormat::marks().into_iter().chain(THINK);
        let special = |mark| {
            let id = tokenizer?.id_of(mark)?;
            tokenizer?.is_special(id).then_some((mark, id))
        };
        let known = format.or_else(|| ToolFormat::of_template(template));
        Self {
            is_told_by_template: known.is_some() && template.contains("tools"),
            format: known.unwrap_or(&formats::HERMES),
            thinks: THINK.iter().all(|mark| template.contains(mark)),
            special: marks.filter_map(special).collect(),
        }
    }

    /// The format of its calls.
    #[must_use]
    pub fn format(&self) -> &'static ToolFormat {
        self.format
    }

    /// Returns whether the template writes tools and calls by itself. Otherwise [`Dialect::tell`]
    /// does.
    #[must_use]
    pub fn is_told_by_template(&self) -> bool {
        self.is_told_by_template
    }

    /// Returns the state of reasoning in which an answer to a prompt begins.
    #[must_use]
    pub fn thinking(&self, prompt: &str) -> Thinking {
        let [open, close] = THINK;
        if self.format.arguments == formats::Arguments::Channels {
            return Thinking::Maybe;
        }
        if !self.thinks {
            return Thinking::Never;
        }
        let prompt = prompt.trim_end();
        match () {
            () if prompt.ends_with(open) => Thinking::Begun,
            () if prompt.ends_with(close) => Thinking::Never,
            () => Thinking::Maybe,
        }
    }

    /// Reads an answer.
    #[must_use]
    pub fn splitter(&self, turn: &Turn, thinking: Thinking) -> Splitter {
        Splitter(match self.format.arguments {
            formats::Arguments::Channels => {
                SplitterKind::Channels(ChannelReader::new(turn, thinking == Thinking::Never))
            }
            _ => SplitterKind::Marks(MarkReader::new(self.format, turn, thinking)),
        })
    }

    /// A name for a call, of letters and digits that are given.
    #[must_use]
    pub fn call_id(&self, number: u64) -> String {
        const DIGITS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
        let (prefix, len) = match self.format.ids {
            formats::Ids::Long => ("call_", 24),
            formats::Ids::Nine => ("", 9),
        };
        let mut left = number;
        let digits = std::iter::repeat_with(|| {
            let digit = DIGITS[(left % 36) as usize];
            // Twelve digits hold 64 bits; they come again where more are wanted.
            left = if left < 36 { number } else { left / 36 };
            char::from(digit)
        });
        prefix.chars().chain(digits.take(len)).collect()
    }

    /// A decoder that shows the marks which are special tokens, so that they can be read.
    #[must_use]
    pub fn shown(&self, tokenizer: Arc<Tokenizer>) -> Arc<dyn Decode> {
        Arc::new(Shown { tokenizer, marks: self.special.values().copied().collect() })
    }
}

/// Reads one answer.
#[derive(Debug, Clone)]
pub struct Splitter(SplitterKind);

#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "an answer has one, and marks are most of them")]
enum SplitterKind {
    Marks(MarkReader),
    Channels(ChannelReader),
}

impl Splitter {
    /// Calls so far.
    #[must_use]
    pub fn num_calls(&self) -> usize {
        match &self.0 {
            SplitterKind::Marks(reader) => reader.num_calls(),
            SplitterKind::Channels(reader) => reader.num_calls(),
        }
    }

    /// Adds text, and appends what it makes to `pieces`.
    pub fn push(&mut self, text: &str, pieces: &mut Vec<Piece>) {
        match &mut self.0 {
            SplitterKind::Marks(reader) => reader.push(text, pieces),
            SplitterKind::Channels(reader) => reader.push(text, pieces),
        }
    }

    /// The answer has ended: what was held is content.
    pub fn finish(&mut self, pieces: &mut Vec<Piece>) {
        match &mut self.0 {
            SplitterKind::Marks(reader) => reader.finish(pieces),
            SplitterKind::Channels(reader) => reader.finish(pieces),
        }
    }
}

/// A tokenizer with some special tokens that show.
struct Shown {
    tokenizer: Arc<Tokenizer>,
    marks: Vec<u32>,
}

impl Decode for Shown {
    fn append(&self, token: u32, bytes: &mut Vec<u8>) {
        self.tokenizer.append(token, bytes);
    }

    fn is_special(&self, token: u32) -> bool {
        self.tokenizer.is_special(token) && !self.marks.contains(&token)
    }
}
