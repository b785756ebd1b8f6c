//! Answers as items, or as the events of them.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use warpfold_engine::{Finish, Output, Request, Update};

use crate::error::ApiError;
use crate::fields::Fields;
use crate::openai::Writer;
use crate::openai::answer::{new_id, now};
use crate::openai::blocks::{Block, Blocks, Change};
use crate::openai::dialogue::Reader;
use crate::openai::message::Reading;
use crate::openai::sse::named_event;
use crate::share::Tenant;
use crate::state::{Served, State};

/// What a request has said, which its answer says again.
#[derive(Debug)]
pub(super) struct Said(Map<String, Value>);

/// Fields that come back, and what they are where nothing was said.
const COME_BACK: [(&str, &str); 16] = [
    ("instructions", "null"),
    ("max_output_tokens", "null"),
    ("parallel_tool_calls", "true"),
    ("previous_response_id", "null"),
    ("reasoning", "{\"effort\": null, \"summary\": null}"),
    ("store", "true"),
    ("temperature", "null"),
    ("text", "{\"format\": {\"type\": \"text\"}}"),
    ("tool_choice", "\"auto\""),
    ("tools", "[]"),
    ("top_p", "null"),
    ("truncation", "\"disabled\""),
    ("metadata", "{}"),
    ("user", "null"),
    ("service_tier", "\"default\""),
    ("background", "false"),
];

impl Said {
    pub(super) fn of(fields: &Fields) -> Self {
        let value = |(name, default): (&str, &str)| {
            let value = fields.get(name).cloned();
            (name.to_owned(), value.unwrap_or_else(|| serde_json::from_str(default).unwrap_or_default()))
        };
        Self(COME_BACK.into_iter().map(value).collect())
    }
}

/// A response in the making.
#[derive(Debug)]
pub(super) struct Items {
    state: Arc<State>,
    model: String,
    number: String,
    created: u64,
    said: Said,
    blocks: Blocks,
    prompt_len: usize,
    cached: usize,
    num_generated: usize,
    finish: Option<Finish>,
    /// Whose it is and what was said before, where it is to be kept.
    keeper: Option<(Arc<Tenant>, Vec<Value>)>,
    num_events: usize,
}

impl Items {
    pub(super) fn new(
        state: &Arc<State>,
        served: &Served,
        reader: &Reader,
        request: &Request,
        said: Said,
        keeper: Option<(Arc<Tenant>, Vec<Value>)>,
    ) -> Self {
        Self {
            state: state.clone(),
            model: state.name_of(request.adapter.as_deref()),
            number: new_id(state),
            created: now(),
            said,
            blocks: Blocks::new(Reading::new(reader, served)),
            prompt_len: request.prompt.len(),
            cached: 0,
            num_generated: 0,
            finish: None,
            keeper,
            num_events: 0,
        }
    }

    fn id(&self) -> String {
        format!("resp_{}", self.number)
    }

    fn response(&self, status: &str) -> Value {
        let is_over = status != "in_progress";
        let output: Vec<Value> = if is_over { self.items() } else { Vec::new() };
        let mut object = json!({
            "id": self.id(), "object": "response", "created_at": self.created, "status": status,
            "model": self.model, "error": null, "incomplete_details": null, "output": output, "usage": null,
        });
        if status == "incomplete" {
            object["incomplete_details"] = json!({"reason": "max_output_tokens"});
        }
        if is_over {
            let (input, output) = (self.prompt_len, self.num_generated);
            object["usage"] = json!({
                "input_tokens": input, "input_tokens_details": {"cached_tokens": self.cached},
                "output_tokens": output, "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": input + output,
            });
        }
        for (name, value) in &self.said.0 {
            object[name] = value.clone();
        }
        object
    }

    fn items(&self) -> Vec<Value> {
        (0..self.blocks.all.len()).map(|index| self.item(index, self.status())).collect()
    }

    fn status(&self) -> &'static str {
        match self.finish {
            None => "in_progress",
            Some(Finish::Length) => "incomplete",
            Some(Finish::ConstraintFailed) => "failed",
            Some(_) => "completed",
        }
    }

    /// A block as an item. One that has just begun has nothing in it.
    fn item(&self, index: usize, status: &str) -> Value {
        let is_begun = status == "begun";
        let status = if is_begun { "in_progress" } else { status };
        let parts = |part: Value| if is_begun { json!([]) } else { json!([part]) };
        let id = self.item_id(index);
        match &self.blocks.all[index] {
            Block::Reasoning(_) => {
                json!({"type": "reasoning", "id": id, "summary": [], "content": parts(self.part(index, false))})
            }
            Block::Text(_) => json!({
                "type": "message", "id": id, "status": status, "role": "assistant",
                "content": parts(self.part(index, false)),
            }),
            Block::Call { id: call_id, name, arguments } => json!({
                "type": "function_call", "id": id, "call_id": call_id, "name": name,
                "arguments": if is_begun { "" } else { arguments }, "status": status,
            }),
        }
    }

    fn item_id(&self, index: usize) -> String {
        let prefix = match &self.blocks.all[index] {
            Block::Reasoning(_) => "rs",
            Block::Text(_) => "msg",
            Block::Call { .. } => "fc",
        };
        format!("{prefix}_{}{index}", self.number)
    }

    /// The one part of an item.
    fn part(&self, index: usize, is_begun: bool) -> Value {
        match &self.blocks.all[index] {
            Block::Reasoning(text) => json!({"type": "reasoning_text", "text": if is_begun { "" } else { text }}),
            Block::Text(text) => json!({
                "type": "output_text", "text": if is_begun { "" } else { text }, "annotations": [], "logprobs": [],
            }),
            Block::Call { .. } => Value::Null,
        }
    }

    fn event(&mut self, mut event: Value, out: &mut Vec<u8>) {
        event["sequence_number"] = self.num_events.into();
        self.num_events += 1;
        named_event(&event, out);
    }

    fn change(&mut self, change: &Change, out: &mut Vec<u8>) {
        let (Change::Open(index) | Change::Add(index, _) | Change::Close(index)) = *change;
        let id = self.item_id(index);
        let (kind, call) = match &self.blocks.all[index] {
            Block::Reasoning(_) => ("reasoning_text", None),
            Block::Text(_) => ("output_text", None),
            Block::Call { arguments, name, .. } => ("function_call_arguments", Some((arguments.clone(), name.clone()))),
        };
        let place = json!({"item_id": id, "output_index": index});
        let with = |kind: String, more: Value| {
            let mut event = place.clone();
            event["type"] = format!("response.{kind}").into();
            if call.is_none() {
                event["content_index"] = 0.into();
            }
            for (name, value) in more.as_object().into_iter().flatten() {
                event[name] = value.clone();
            }
            event
        };
        match change {
            Change::Open(_) => {
                let item = self.item(index, "begun");
                self.event(json!({"type": "response.output_item.added", "output_index": index, "item": item}), out);
                if call.is_none() {
                    let part = self.part(index, true);
                    self.event(with("content_part.added".to_owned(), json!({"part": part})), out);
                }
            }
            Change::Add(_, text) => {
                let more =
                    if kind == "output_text" { json!({"delta": text, "logprobs": []}) } else { json!({"delta": text}) };
                self.event(with(format!("{kind}.delta"), more), out);
            }
            Change::Close(_) => {
                let part = self.part(index, false);
                let more = match &call {
                    Some((arguments, name)) => json!({"arguments": arguments, "name": name}),
                    None if kind == "output_text" => json!({"text": part["text"], "logprobs": []}),
                    None => json!({"text": part["text"]}),
                };
                self.event(with(format!("{kind}.done"), more), out);
                if call.is_none() {
                    self.event(with("content_part.done".to_owned(), json!({"part": part})), out);
                }
                let status = if self.finish == Some(Finish::Length) { "incomplete" } else { "completed" };
                let item = self.item(index, status);
                self.event(json!({"type": "response.output_item.done", "output_index": index, "item": item}), out);
            }
        }
    }

    /// Keeps the conversation, where it is to be kept.
    fn keep(&mut self, object: &Value) {
        let Some((tenant, mut messages)) = self.keeper.take() else { return };
        let mut answer = json!({"role": "assistant", "content": ""});
        let mut calls = Vec::new();
        for block in &self.blocks.all {
            match block {
                Block::Reasoning(text) => answer["reasoning_content"] = text.as_str().into(),
                Block::Text(text) => {
                    answer["content"] = (answer["content"].as_str().unwrap_or_default().to_owned() + text).into();
                }
                Block::Call { id, name, arguments } => {
                    let arguments: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
                    let function = json!({"name": name, "arguments": arguments});
                    calls.push(json!({"id": id, "type": "function", "function": function}));
                }
            }
        }
        if !calls.is_empty() {
            answer["tool_calls"] = calls.into();
        }
        messages.push(answer);
        self.state.stored.keep(&tenant.salt, &self.id(), messages, object.clone());
    }
}

impl Writer for Items {
    fn n(&self) -> usize {
        1
    }

    fn whole(&mut self, outputs: Vec<Output>) -> Value {
        for Output { text, tokens, finish, .. } in outputs {
            self.num_generated += tokens.len();
            self.finish = finish;
            self.blocks.read(&text, true);
        }
        let object = self.response(self.status());
        self.keep(&object);
        object
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        for kind in ["created", "in_progress"] {
            let response = self.response("in_progress");
            self.event(json!({"type": format!("response.{kind}"), "response": response}), out);
        }
    }

    fn update(&mut self, _: usize, update: &Update, out: &mut Vec<u8>) {
        self.num_generated += update.tokens.len();
        self.finish = update.finish;
        let changes = self.blocks.read(&update.text, update.finish.is_some());
        changes.iter().for_each(|change| self.change(change, out));
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        let status = self.status();
        let response = self.response(status);
        self.keep(&response);
        self.event(json!({"type": format!("response.{status}"), "response": response}), out);
    }

    fn error(&mut self, error: &ApiError, out: &mut Vec<u8>) {
        let event = json!({"type": "error", "code": error.code, "message": error.message, "param": error.param});
        self.event(event, out);
    }

    fn note(&mut self, _: usize, update: &Update) {
        self.cached = update.cached;
    }
}
