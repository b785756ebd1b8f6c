//! Answers as Anthropic writes them: a message of blocks, or the events of one.

use serde_json::{Value, json};
use warpfold_engine::{Finish, Output, Request, Update};

use crate::error::ApiError;
use crate::openai::Writer;
use crate::openai::answer::new_id;
use crate::openai::blocks::{Block, Blocks, Change};
use crate::openai::dialogue::Reader;
use crate::openai::message::Reading;
use crate::openai::sse::named_event;
use crate::state::{Served, State};

/// A message in the making.
#[derive(Debug)]
pub(super) struct Messages {
    id: String,
    model: String,
    blocks: Blocks,
    prompt_len: usize,
    cached: usize,
    num_generated: usize,
    stops: Vec<String>,
    finish: Option<Finish>,
}

/// An error object.
pub(super) fn error(error: &ApiError) -> Value {
    let kind = match error.status.as_u16() {
        401 => "authentication_error",
        404 => "not_found_error",
        413 => "request_too_large",
        503 => "overloaded_error",
        500..=599 => "api_error",
        _ => "invalid_request_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": error.message}})
}

impl Messages {
    pub(super) fn new(state: &State, served: &Served, reader: &Reader, request: &Request, stops: Vec<String>) -> Self {
        Self {
            id: format!("msg_{}", new_id(state)),
            model: state.name_of(request.adapter.as_deref()),
            blocks: Blocks::new(Reading::new(reader, served)),
            prompt_len: request.prompt.len(),
            cached: 0,
            num_generated: 0,
            stops,
            finish: None,
        }
    }

    fn usage(&self) -> Value {
        json!({
            "input_tokens": self.prompt_len - self.cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": self.cached,
            "output_tokens": self.num_generated,
        })
    }

    fn message(&self, content: Value) -> Value {
        let (stop_reason, stop_sequence) = self.reason();
        json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": content,
            "stop_reason": stop_reason, "stop_sequence": stop_sequence, "usage": self.usage(),
        })
    }

    /// Why it ended, and at which text.
    fn reason(&self) -> (Option<&'static str>, Option<&str>) {
        match self.finish {
            None => (None, None),
            Some(Finish::StopText(stop)) => (Some("stop_sequence"), Some(&self.stops[stop])),
            Some(Finish::Length) => (Some("max_tokens"), None),
            Some(Finish::ConstraintFailed) => (Some("refusal"), None),
            Some(Finish::StopToken(_) | Finish::Constraint) if self.blocks.num_calls() > 0 => (Some("tool_use"), None),
            Some(Finish::StopToken(_) | Finish::Constraint | Finish::Pooled) => (Some("end_turn"), None),
        }
    }

    fn event(&self, change: &Change) -> Value {
        match change {
            Change::Open(index) => {
                let block = match &self.blocks.all[*index] {
                    Block::Reasoning(_) => json!({"type": "thinking", "thinking": "", "signature": ""}),
                    Block::Text(_) => json!({"type": "text", "text": ""}),
                    Block::Call { id, name, .. } => json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
                };
                json!({"type": "content_block_start", "index": index, "content_block": block})
            }
            Change::Add(index, text) => {
                let delta = match &self.blocks.all[*index] {
                    Block::Reasoning(_) => json!({"type": "thinking_delta", "thinking": text}),
                    Block::Text(_) => json!({"type": "text_delta", "text": text}),
                    Block::Call { .. } => json!({"type": "input_json_delta", "partial_json": text}),
                };
                json!({"type": "content_block_delta", "index": index, "delta": delta})
            }
            Change::Close(index) => json!({"type": "content_block_stop", "index": index}),
        }
    }
}

impl Writer for Messages {
    fn n(&self) -> usize {
        1
    }

    fn whole(&mut self, outputs: Vec<Output>) -> Value {
        for Output { text, tokens, finish, .. } in outputs {
            self.num_generated += tokens.len();
            self.finish = finish;
            self.blocks.read(&text, true);
        }
        let block = |block: &Block| match block {
            Block::Reasoning(text) => json!({"type": "thinking", "thinking": text, "signature": ""}),
            Block::Text(text) => json!({"type": "text", "text": text}),
            Block::Call { id, name, arguments } => {
                // Arguments that were cut off are no object.
                let input: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
                json!({"type": "tool_use", "id": id, "name": name, "input": input})
            }
        };
        self.message(self.blocks.all.iter().map(block).collect())
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        named_event(&json!({"type": "message_start", "message": self.message(json!([]))}), out);
    }

    fn update(&mut self, _: usize, update: &Update, out: &mut Vec<u8>) {
        self.num_generated += update.tokens.len();
        self.finish = update.finish;
        let changes = self.blocks.read(&update.text, update.finish.is_some());
        changes.iter().for_each(|change| named_event(&self.event(change), out));
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        let (stop_reason, stop_sequence) = self.reason();
        let delta = json!({"stop_reason": stop_reason, "stop_sequence": stop_sequence});
        named_event(&json!({"type": "message_delta", "delta": delta, "usage": self.usage()}), out);
        named_event(&json!({"type": "message_stop"}), out);
    }

    fn error(&mut self, error: &ApiError, out: &mut Vec<u8>) {
        named_event(&self::error(error), out);
    }

    fn note(&mut self, _: usize, update: &Update) {
        self.cached = update.cached;
    }
}
