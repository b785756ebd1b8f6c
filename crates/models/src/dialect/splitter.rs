//! An answer taken apart as it comes: content, reasoning, calls.
//!
//! It reads what the grammar of the same [`Turn`] writes, literal by literal. Text is given out as
//! soon as no later text can make it a mark; spaces and lines around marks belong to the marks.
//! Whatever comes, nothing is lost: a call that is cut off before it has a name is content.

use serde_json::Value;

use super::formats::{Arguments, ToolFormat};
use super::{THINK, Thinking, Turn, python, tags};

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Content of the answer.
    Content(String),
    /// Reasoning before the answer.
    Reasoning(String),
    /// A call begins. Calls are numbered in their order.
    Call {
        /// Its number.
        number: usize,
        /// The tool.
        name: String,
    },
    /// More of the arguments of a call, as JSON.
    Arguments {
        /// The call.
        number: usize,
        /// A part of the text.
        json: String,
    },
}

/// Reads one answer.
#[derive(Debug, Clone)]
pub(super) struct MarkReader {
    format: &'static ToolFormat,
    turn: Turn,
    state: State,
    /// Text that was not read yet.
    rest: String,
    /// Spaces that a mark takes if one comes next.
    spaces: String,
    /// Text of a call whose name is not known yet.
    unnamed: String,
    /// The tool that the last call names.
    tool: usize,
    num_calls: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Reasoning may begin.
    Start,
    /// The spaces after a mark are not part of what it begins.
    Reasoning {
        is_after_mark: bool,
    },
    /// Calls may follow.
    Content {
        is_after_mark: bool,
    },
    /// Nothing but content comes.
    Plain,
    /// After the trigger, or between calls: a literal before a name.
    Before {
        is_first: bool,
    },
    Name,
    Json(Scan),
    Tags {
        is_first: bool,
    },
    Python {
        is_first: bool,
    },
    Close,
    After,
}

/// Scanner state within a JSON object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Scan {
    depth: usize,
    in_text: bool,
    is_escaped: bool,
}

/// Result of a step.
enum Step {
    /// There may be another.
    Taken,
    /// More text is needed.
    Waits,
    /// It is not what the grammar says.
    Wrong,
}

impl MarkReader {
    pub(super) fn new(format: &'static ToolFormat, turn: &Turn, thinking: Thinking) -> Self {
        let state = match thinking {
            Thinking::Never => Self::after_reasoning(turn),
            Thinking::Maybe => State::Start,
            Thinking::Begun => State::Reasoning { is_after_mark: true },
        };
        let (rest, spaces, unnamed) = Default::default();
        Self { format, turn: turn.clone(), state, rest, spaces, unnamed, tool: 0, num_calls: 0 }
    }

    fn after_reasoning(turn: &Turn) -> State {
        if turn.tools.is_empty() { State::Plain } else { State::Content { is_after_mark: false } }
    }

    pub(super) fn num_calls(&self) -> usize {
        self.num_calls
    }

    /// Adds text, and appends what it makes to `pieces`.
    pub(super) fn push(&mut self, text: &str, pieces: &mut Vec<Piece>) {
        self.rest.push_str(text);
        loop {
            match self.step(pieces) {
                Step::Taken => {}
                Step::Waits => return,
                Step::Wrong => self.give_up(pieces),
            }
        }
    }

    /// The answer has ended: what was held is content.
    pub(super) fn finish(&mut self, pieces: &mut Vec<Piece>) {
        let rest = std::mem::take(&mut self.rest);
        match self.state {
            State::Reasoning { .. } => reasoning(std::mem::take(&mut self.spaces) + &rest, pieces),
            State::Start | State::Content { .. } => content(std::mem::take(&mut self.spaces) + &rest, pieces),
            State::Plain | State::Before { .. } | State::Name | State::Close | State::After => {
                self.give_up(pieces);
                content(rest, pieces);
            }
            State::Json(_) => {}
            State::Python { is_first } => {
                let rest = rest.strip_prefix(python::BETWEEN).unwrap_or(&rest);
                if let Some((name, value)) = self.keyword(rest) {
                    let json = argument(is_first, name, &python::json_of(value));
                    self.arguments(json, pieces);
                }
            }
            // An argument that was cut off.
            State::Tags { is_first } => {
                let open = rest.strip_prefix(tags::OPEN).and_then(|open| open.split_once(tags::OPENED));
                if let Some((name, value)) = open {
                    let json = self.argument(is_first, name, value);
                    self.arguments(json.trim_end_matches('"').to_owned(), pieces);
                }
            }
        }
    }

    /// Emits the pending text as content when it does not follow the grammar.
    fn give_up(&mut self, pieces: &mut Vec<Piece>) {
        content(std::mem::take(&mut self.unnamed), pieces);
        self.state = State::Plain;
    }

    fn step(&mut self, pieces: &mut Vec<Piece>) -> Step {
        match self.state {
            State::Start => self.start(),
            State::Reasoning { is_after_mark: true } => self.skip_spaces(State::Reasoning { is_after_mark: false }),
            State::Reasoning { is_after_mark: false } => self.reasoning(pieces),
            State::Content { is_after_mark: true } => self.skip_spaces(State::Content { is_after_mark: false }),
            State::Content { is_after_mark: false } => self.content(pieces),
            State::Plain => self.plain(pieces),
            State::Before { is_first } => {
                let literal = if is_first { self.format.first } else { self.format.next };
                self.literal(literal, State::Name)
            }
            State::Name => self.name(pieces),
            State::Json(scan) => self.json(scan, pieces),
            State::Tags { is_first } => self.tags(is_first, pieces),
            State::Python { is_first } => self.python(is_first, pieces),
            State::Close => self.literal(self.format.close, State::After),
            State::After => self.after(),
        }
    }

    /// Reads a literal that must come.
    fn literal(&mut self, literal: &str, then: State) -> Step {
        if let Some(rest) = self.rest.strip_prefix(literal) {
            if then == State::Name {
                self.unnamed.push_str(literal);
            }
            self.rest = rest.to_owned();
            self.state = then;
            return Step::Taken;
        }
        if literal.starts_with(&self.rest) { Step::Waits } else { Step::Wrong }
    }

    /// Reasoning, perhaps after spaces, or anything else.
    fn start(&mut self) -> Step {
        let (open, text) = (THINK[0], self.rest.trim_start());
        if let Some(rest) = text.strip_prefix(open) {
            self.rest = rest.to_owned();
            self.state = State::Reasoning { is_after_mark: true };
        } else if open.starts_with(text) {
            return Step::Waits;
        } else {
            self.state = Self::after_reasoning(&self.turn);
        }
        Step::Taken
    }

    fn skip_spaces(&mut self, then: State) -> Step {
        let len = self.rest.len() - self.rest.trim_start().len();
        self.rest.drain(..len);
        if self.rest.is_empty() {
            return Step::Waits;
        }
        self.state = then;
        Step::Taken
    }

    fn reasoning(&mut self, pieces: &mut Vec<Piece>) -> Step {
        let close = THINK[1];
        let at = self.rest.find(close);
        reasoning(self.take_before(at, close), pieces);
        if at.is_none() {
            return Step::Waits;
        }
        self.rest.drain(..close.len());
        self.unnamed.clear();
        self.state = State::Content { is_after_mark: true };
        Step::Taken
    }

    fn content(&mut self, pieces: &mut Vec<Piece>) -> Step {
        let trigger = self.format.trigger;
        if self.turn.tools.is_empty() {
            self.state = State::Plain;
            return Step::Taken;
        }
        let at = if self.format.at_start || self.turn.content.is_some() {
            let text = self.rest.trim_start();
            if !text.starts_with(trigger) {
                if trigger.starts_with(text) {
                    return Step::Waits;
                }
                self.state = State::Plain;
                return Step::Taken;
            }
            Some(self.rest.len() - text.len())
        } else {
            self.rest.find(trigger)
        };
        content(self.take_before(at, trigger), pieces);
        if at.is_none() {
            return Step::Waits;
        }
        self.rest.drain(..trigger.len());
        self.unnamed.push_str(trigger);
        self.state = State::Before { is_first: true };
        Step::Taken
    }

    /// Takes the text before a mark that stands at `at`, or what cannot be the beginning of one.
    /// Spaces at its end wait for what comes next, and are gone if that is the mark of a call.
    fn take_before(&mut self, at: Option<usize>, mark: &str) -> String {
        let len = at.unwrap_or_else(|| self.rest.len() - held(&self.rest, mark));
        let mut text = std::mem::take(&mut self.spaces) + &self.rest[..len];
        self.rest.drain(..len);
        let spaces = text.split_off(text.trim_end().len());
        let kept = if at.is_none() { &mut self.spaces } else { &mut self.unnamed };
        *kept = spaces;
        text
    }

    fn plain(&mut self, pieces: &mut Vec<Piece>) -> Step {
        content(std::mem::take(&mut self.rest), pieces);
        Step::Waits
    }

    /// A name ends where the literal after it begins. Names have none of its characters.
    fn name(&mut self, pieces: &mut Vec<Piece>) -> Step {
        let middle = self.format.middle;
        let Some(at) = self.rest.find(middle) else {
            let is_known = |text: &str| {
                let name = &text[..text.len() - held(text, middle)];
                self.turn.tools.iter().any(|tool| tool.name.starts_with(name))
            };
            return if is_known(&self.rest) { Step::Waits } else { Step::Wrong };
        };
        let Some(tool) = self.turn.tools.iter().position(|tool| tool.name == self.rest[..at]) else {
            return Step::Wrong;
        };
        self.tool = tool;
        let name = self.rest[..at].to_owned();
        self.rest.drain(..at + middle.len());
        self.unnamed.clear();
        pieces.push(Piece::Call { number: self.num_calls, name });
        self.num_calls += 1;
        self.state = match self.format.arguments {
            Arguments::Json | Arguments::Channels => State::Json(Scan::default()),
            Arguments::Tags => State::Tags { is_first: true },
            Arguments::Python => State::Python { is_first: true },
        };
        Step::Taken
    }

    fn json(&mut self, mut scan: Scan, pieces: &mut Vec<Piece>) -> Step {
        let end = scan.end_of_object(&self.rest);
        self.state = State::Json(scan);
        let len = end.unwrap_or(self.rest.len());
        let json: String = self.rest.drain(..len).collect();
        self.arguments(json, pieces);
        if end.is_none() {
            return Step::Waits;
        }
        self.state = State::Close;
        Step::Taken
    }

    /// One argument, or the end of them.
    fn tags(&mut self, is_first: bool, pieces: &mut Vec<Piece>) -> Step {
        let text = self.rest.as_str();
        if let Some(open) = text.strip_prefix(tags::OPEN) {
            let Some((name, value)) = open.split_once(tags::OPENED) else { return Step::Waits };
            let Some((value, rest)) = value.split_once(tags::CLOSE) else { return Step::Waits };
            let json = self.argument(is_first, name, value);
            self.rest = rest.to_owned();
            self.arguments(json, pieces);
            self.state = State::Tags { is_first: false };
            return Step::Taken;
        }
        if tags::OPEN.starts_with(text) {
            return Step::Waits;
        }
        self.arguments(if is_first { "{}" } else { "}" }.to_owned(), pieces);
        self.state = State::Close;
        Step::Taken
    }

    /// One argument, or the end of them.
    fn python(&mut self, is_first: bool, pieces: &mut Vec<Piece>) -> Step {
        let close = self.format.close;
        if self.rest.starts_with(close) {
            self.arguments(if is_first { "{}" } else { "}" }.to_owned(), pieces);
            self.state = State::Close;
            return Step::Taken;
        }
        let between = if is_first { "" } else { python::BETWEEN };
        let Some(text) = self.rest.strip_prefix(between) else {
            return if between.starts_with(&self.rest) { Step::Waits } else { Step::Wrong };
        };
        let Some((name, value)) = self.keyword(text) else { return Step::Waits };
        let Some(end) = python::end_of_value(value) else { return Step::Waits };
        let json = argument(is_first, name, &python::json_of(&value[..end]));
        self.rest = value[end..].to_owned();
        self.arguments(json, pieces);
        self.state = State::Python { is_first: false };
        Step::Taken
    }

    /// The name of an argument of the tool, and what comes after its sign of equality.
    fn keyword<'a>(&self, text: &'a str) -> Option<(&'a str, &'a str)> {
        let properties = tags::properties(&self.turn.tools[self.tool].parameters);
        let is_named = |name: &str| text.strip_prefix(name).is_some_and(|rest| rest.starts_with('='));
        let name = properties.iter().find(|property| is_named(property.name))?.name;
        Some((&text[..name.len()], &text[name.len() + 1..]))
    }

    /// An argument as JSON. Texts stand without quotes.
    fn argument(&self, is_first: bool, name: &str, value: &str) -> String {
        let properties = tags::properties(&self.turn.tools[self.tool].parameters);
        let is_text = properties.iter().any(|property| property.name == name && property.is_text);
        let value = if is_text { Value::from(value).to_string() } else { value.to_owned() };
        argument(is_first, name, &value)
    }

    fn after(&mut self) -> Step {
        let ToolFormat { next, end, .. } = *self.format;
        if self.rest.is_empty() || self.rest == end {
            self.rest.clear();
            return Step::Waits;
        }
        if self.rest.starts_with(next) {
            self.state = State::Before { is_first: false };
            return Step::Taken;
        }
        if next.starts_with(&self.rest) || end.starts_with(&self.rest) { Step::Waits } else { Step::Wrong }
    }

    fn arguments(&self, json: String, pieces: &mut Vec<Piece>) {
        if !json.is_empty() {
            pieces.push(Piece::Arguments { number: self.num_calls - 1, json });
        }
    }
}

impl Scan {
    /// Reads on; the end of the object, if it is there.
    pub(super) fn end_of_object(&mut self, text: &str) -> Option<usize> {
        for (at, byte) in text.bytes().enumerate() {
            match (self.in_text, byte) {
                (true, _) if self.is_escaped => self.is_escaped = false,
                (true, b'\\') => self.is_escaped = true,
                (_, b'"') => self.in_text = !self.in_text,
                (false, b'{' | b'[') => self.depth += 1,
                (false, b'}' | b']') => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

/// An argument of JSON after those before.
fn argument(is_first: bool, name: &str, json: &str) -> String {
    format!("{}{}: {json}", if is_first { "{" } else { ", " }, Value::from(name))
}

/// Bytes at the end that may begin a mark.
fn held(text: &str, mark: &str) -> usize {
    (1..mark.len().min(text.len() + 1)).rev().find(|n| text.as_bytes().ends_with(&mark.as_bytes()[..*n])).unwrap_or(0)
}

fn content(text: String, pieces: &mut Vec<Piece>) {
    if !text.is_empty() {
        pieces.push(Piece::Content(text));
    }
}

/// Lines after the mark that begins it belong to the mark.
fn reasoning(text: String, pieces: &mut Vec<Piece>) {
    if !text.is_empty() {
        pieces.push(Piece::Reasoning(text));
    }
}
