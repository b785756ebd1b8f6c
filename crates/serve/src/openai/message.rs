//! What an answer in a chat says: content, reasoning and calls, of an update or of all of it.

use serde_json::{Map, Value, json};
use warpfold_engine::Finish;
use warpfold_models::{Dialect, Piece, Splitter};

use super::dialogue::{Reader, Reasoning};
use crate::state::Served;

/// Reads one answer.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    splitter: Splitter,
    reasoning: Reasoning,
    dialect: Dialect,
    /// Distinguishes the calls of this answer from those of others.
    key: u64,
}

/// What a part of an answer says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Message {
    pub(crate) content: String,
    pub(crate) reasoning: String,
    pub(crate) calls: Vec<CallPart>,
}

/// A part of a call; the first one has its name.
#[derive(Debug, Clone)]
pub(crate) struct CallPart {
    pub(crate) number: usize,
    /// Id and name.
    pub(crate) begun: Option<(String, String)>,
    pub(crate) arguments: String,
}

impl Reading {
    pub(crate) fn new(reader: &Reader, served: &Served) -> Self {
        use std::hash::{BuildHasher, RandomState};
        let Reader { splitter, reasoning } = reader.clone();
        Self { splitter, reasoning, dialect: served.dialect.clone(), key: RandomState::new().hash_one(0) }
    }

    /// Pieces of the answer's next text.
    pub(crate) fn pieces(&mut self, text: &str, is_over: bool) -> Vec<Piece> {
        let mut pieces = Vec::new();
        self.splitter.push(text, &mut pieces);
        if is_over {
            self.splitter.finish(&mut pieces);
        }
        if self.reasoning == Reasoning::Hidden {
            pieces.retain(|piece| !matches!(piece, Piece::Reasoning(_)));
        }
        pieces
    }

    /// The id of a call.
    pub(crate) fn call_id(&self, number: usize) -> String {
        self.dialect.call_id(self.key.wrapping_add(number as u64))
    }

    /// The pieces put together.
    pub(crate) fn read(&mut self, text: &str, is_over: bool) -> Message {
        let mut message = Message::default();
        for piece in self.pieces(text, is_over) {
            match piece {
                Piece::Content(text) => message.content += &text,
                Piece::Reasoning(text) => message.reasoning += &text,
                Piece::Call { number, name } => {
                    let begun = Some((self.call_id(number), name));
                    message.calls.push(CallPart { number, begun, arguments: String::new() });
                }
                Piece::Arguments { number, json } => match message.calls.last_mut() {
                    Some(call) if call.number == number => call.arguments += &json,
                    _ => message.calls.push(CallPart { number, begun: None, arguments: json }),
                },
            }
        }
        message
    }

    pub(crate) fn num_calls(&self) -> usize {
        self.splitter.num_calls()
    }

    /// Why the answer ended, in OpenAI's words.
    pub(crate) fn reason(&self, finish: Finish) -> &'static str {
        match finish.name() {
            "stop" if self.num_calls() > 0 => "tool_calls",
            other => other,
        }
    }
}

impl Message {
    pub(crate) fn is_empty(&self) -> bool {
        self.content.is_empty() && self.reasoning.is_empty() && self.calls.is_empty()
    }

    /// A chunk's part of it.
    pub(crate) fn delta(&self, is_first: bool) -> Value {
        let mut delta = Map::new();
        if is_first {
            delta.insert("role".to_owned(), "assistant".into());
        }
        let is_alone = self.reasoning.is_empty() && self.calls.is_empty();
        if !self.content.is_empty() || (is_first && is_alone) {
            delta.insert("content".to_owned(), self.content.as_str().into());
        }
        if !self.reasoning.is_empty() {
            delta.insert("reasoning_content".to_owned(), self.reasoning.as_str().into());
        }
        if !self.calls.is_empty() {
            delta.insert("tool_calls".to_owned(), self.calls.iter().map(CallPart::delta).collect());
        }
        delta.into()
    }

    /// All of it.
    pub(crate) fn whole(&self) -> Value {
        let has_content = !self.content.is_empty() || self.calls.is_empty();
        let content = if has_content { Value::from(self.content.as_str()) } else { Value::Null };
        let mut message = json!({"role": "assistant", "content": content, "refusal": null});
        if !self.reasoning.is_empty() {
            message["reasoning_content"] = self.reasoning.as_str().into();
        }
        if !self.calls.is_empty() {
            message["tool_calls"] = self.calls.iter().map(CallPart::whole).collect();
        }
        message
    }
}

impl CallPart {
    fn delta(&self) -> Value {
        match &self.begun {
            Some((id, name)) => json!({
                "index": self.number, "id": id, "type": "function",
                "function": {"name": name, "arguments": self.arguments},
            }),
            None => json!({"index": self.number, "function": {"arguments": self.arguments}}),
        }
    }

    fn whole(&self) -> Value {
        let (id, name) = self.begun.clone().unwrap_or_default();
        json!({"id": id, "type": "function", "function": {"name": name, "arguments": self.arguments}})
    }
}
