//! Answers in Ollama's form: a line of JSON for each update, or one object.

use std::time::Instant;

use serde_json::{Value, json};
use warpfold_engine::{Finish, Output, Update};
use warpfold_models::utc_now;

use crate::error::ApiError;
use crate::openai::Writer;
use crate::openai::dialogue::Reader;
use crate::openai::message::{CallPart, Message, Reading};
use crate::state::Served;

/// Interface of the request: each has its own form of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Chat,
    Generate,
}

/// An answer in the making.
#[derive(Debug)]
pub(super) struct OllamaAnswer {
    shape: Shape,
    model: String,
    num_prompt: usize,
    num_generated: usize,
    reading: Option<Reading>,
    /// Calls so far: they are written when they are whole.
    calls: Vec<CallPart>,
    begin: Instant,
    first: Option<Instant>,
}

impl Shape {
    /// A part of an answer.
    pub(super) fn part(self, model: &str, text: &str, thinking: Option<&str>) -> Value {
        let mut object = json!({"model": model, "created_at": utc_now(), "done": false});
        let said = match self {
            Self::Chat => {
                object["message"] = json!({"role": "assistant", "content": text});
                &mut object["message"]
            }
            Self::Generate => {
                object["response"] = text.into();
                &mut object
            }
        };
        if let Some(thinking) = thinking.filter(|text| !text.is_empty()) {
            said["thinking"] = thinking.into();
        }
        object
    }
}

impl OllamaAnswer {
    pub(super) fn new(shape: Shape, model: String, num_prompt: usize, reader: Option<Reader>, served: &Served) -> Self {
        let reading = reader.map(|reader| Reading::new(&reader, served));
        let (calls, begin) = (Vec::new(), Instant::now());
        Self { shape, model, num_prompt, num_generated: 0, reading, calls, begin, first: None }
    }

    /// What the next text says; calls are kept.
    fn read(&mut self, text: &str, num_tokens: usize, is_over: bool) -> Message {
        self.first.get_or_insert_with(Instant::now);
        self.num_generated += num_tokens;
        let plain = || Message { content: text.to_owned(), ..Message::default() };
        let mut message = self.reading.as_mut().map_or_else(plain, |reading| reading.read(text, is_over));
        for part in message.calls.drain(..) {
            match self.calls.last_mut().filter(|call| call.number == part.number) {
                Some(call) => call.arguments += &part.arguments,
                None => self.calls.push(part),
            }
        }
        message
    }

    fn write(&self, message: &Message) -> Value {
        self.shape.part(&self.model, &message.content, Some(&message.reasoning))
    }

    /// Adds the calls to the last part.
    fn add_calls(&self, object: &mut Value) {
        let call = |call: &CallPart| {
            let name = call.begun.as_ref().map_or("", |(_, name)| name);
            // What a length cut off is no object.
            let arguments = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}));
            json!({"function": {"name": name, "arguments": arguments}})
        };
        if !self.calls.is_empty() && self.shape == Shape::Chat {
            object["message"]["tool_calls"] = self.calls.iter().map(call).collect();
        }
    }

    /// Adds what ends an answer.
    fn end_with(&self, object: &mut Value, finish: Option<Finish>) {
        let (now, first) = (Instant::now(), self.first.unwrap_or(self.begin));
        let nanos = |from: Instant, to: Instant| u64::try_from((to - from).as_nanos()).unwrap_or(u64::MAX);
        let more = json!({
            "done": true,
            "done_reason": finish.map_or("error", Finish::name),
            "total_duration": nanos(self.begin, now),
            "load_duration": 0,
            "prompt_eval_count": self.num_prompt,
            "prompt_eval_duration": nanos(self.begin, first),
            "eval_count": self.num_generated,
            "eval_duration": nanos(first, now),
        });
        more.as_object().into_iter().flatten().for_each(|(name, value)| object[name] = value.clone());
    }
}

impl Writer for OllamaAnswer {
    const STREAM_TYPE: &'static str = "application/x-ndjson";

    fn n(&self) -> usize {
        1
    }

    fn whole(&mut self, outputs: Vec<Output>) -> Value {
        let output = outputs.into_iter().next().unwrap_or_default();
        let message = self.read(&output.text, output.tokens.len(), output.finish.is_some());
        let mut object = self.write(&message);
        self.add_calls(&mut object);
        self.end_with(&mut object, output.finish);
        object
    }

    fn begin(&mut self, _: &mut Vec<u8>) {}

    fn update(&mut self, _: usize, update: &Update, out: &mut Vec<u8>) {
        let message = self.read(&update.text, update.tokens.len(), update.finish.is_some());
        let is_over = update.finish.is_some();
        let has_calls = is_over && !self.calls.is_empty();
        if !message.is_empty() || has_calls {
            let mut object = self.write(&message);
            if has_calls {
                self.add_calls(&mut object);
            }
            line(&object, out);
        }
        if is_over {
            let mut object = self.write(&Message::default());
            self.end_with(&mut object, update.finish);
            line(&object, out);
        }
    }

    fn end(&mut self, _: &mut Vec<u8>) {}

    fn error(&mut self, error: &ApiError, out: &mut Vec<u8>) {
        line(&json!({"error": error.message}), out);
    }

    fn note(&mut self, _: usize, _: &Update) {}
}

fn line(object: &Value, out: &mut Vec<u8>) {
    // Writing to memory does not fail.
    serde_json::to_writer(&mut *out, object).ok();
    out.push(b'\n');
}
