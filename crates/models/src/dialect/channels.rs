//! Answers in channels, as gpt-oss writes them (harmony): messages of analysis, then one of
//! commentary that calls a tool, or the final one.
//!
//! `<|channel|>analysis<|message|>TEXT<|end|><|start|>assistant<|channel|>final<|message|>TEXT`. A
//! call ends the answer. The marks are special tokens where the vocabulary has them.

use super::formats::ToolFormat;
use super::rules::{Rules, TEXT, ToolChoice, Turn, escaped, schema};
use super::splitter::{Piece, Scan};
use crate::grammar::Grammar;

const CHANNEL: &str = "<|channel|>";
const MESSAGE: &str = "<|message|>";
const START: &str = "<|start|>assistant";
/// The marks that end a message.
const ENDS: [&str; 3] = ["<|end|>", "<|call|>", "<|return|>"];
/// Prefix of the name of a tool.
const RECIPIENT: &str = "to=functions.";

impl Rules<'_> {
    /// The rules of an answer in channels.
    pub(super) fn channels(&mut self, turn: &Turn) {
        let end = ENDS[0];
        // Spelled by other tokens, a mark would be read as the token.
        let text = format!("{TEXT} & ~/(?s:.*)({})(?s:.*)/", ENDS.map(escaped).join("|"));
        let mut start = String::new();
        for (name, channel, count) in [("thought", "analysis", "*"), ("preamble", "commentary", "?")] {
            let head = self.literal(&format!("{CHANNEL}{channel}{MESSAGE}"));
            let next = self.literal(START);
            let upper = name.to_uppercase();
            if self.is_special(end) {
                let end = self.literal(end);
                self.rule(name, &format!("{head} {upper}_TEXT {end} {next}"));
                self.rule(&format!("{upper}_TEXT"), &text);
            } else {
                self.rule(name, &format!("{head} {name}_text {next}"));
                self.rule(&format!("{name}_text[lazy]"), &format!("{upper}_TEXT"));
                self.rule(&format!("{upper}_TEXT"), &format!("/(?s:.*){}/", escaped(end)));
            }
            start += &format!("{name}{count} ");
        }
        let calls = self.channel_calls(turn);
        if calls.is_empty() || turn.choice == ToolChoice::Auto {
            let head = self.literal(&format!("{CHANNEL}final{MESSAGE}"));
            let content = match turn.content.clone() {
                Some(content) => self.part(content),
                None => {
                    self.rule("TEXT", &text);
                    "TEXT".to_owned()
                }
            };
            self.rule("final", &format!("{head} {content}"));
        }
        let last = match (calls.is_empty(), &turn.choice) {
            (true, _) => "final".to_owned(),
            (false, ToolChoice::Auto) => format!("(final | {calls})"),
            (false, _) => format!("({calls})"),
        };
        self.rule("start", &(start + &last));
    }

    /// The calls that may come, as alternatives.
    fn channel_calls(&mut self, turn: &Turn) -> String {
        let ToolFormat { trigger, middle, .. } = *self.format;
        let mut names = Vec::new();
        for (i, tool) in turn.tools.iter().filter(|tool| turn.choice.allows(tool)).enumerate() {
            let head = self.literal(&format!("{trigger}{}{middle}", tool.name));
            let arguments = self.part(Grammar::Json(schema(tool, tool.parameters.clone())));
            self.rule(&format!("call{i}"), &format!("{head} {arguments}"));
            names.push(format!("call{i}"));
        }
        names.join(" | ")
    }
}

/// Reads answers in channels.
#[derive(Debug, Clone)]
pub(super) struct ChannelReader {
    turn: Turn,
    /// Whether analysis is content.
    shows_analysis: bool,
    place: Place,
    rest: String,
    num_calls: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A message may begin.
    Head,
    Analysis,
    Content,
    Call(Scan),
    /// After the arguments of a call.
    Over,
    /// What is in no channel.
    Plain,
}

impl ChannelReader {
    pub(super) fn new(turn: &Turn, shows_analysis: bool) -> Self {
        Self { turn: turn.clone(), shows_analysis, place: Place::Head, rest: String::new(), num_calls: 0 }
    }

    pub(super) fn num_calls(&self) -> usize {
        self.num_calls
    }

    pub(super) fn push(&mut self, text: &str, pieces: &mut Vec<Piece>) {
        self.rest.push_str(text);
        while self.step(pieces) {}
    }

    /// The answer has ended: what was held is content, or what its channel says.
    pub(super) fn finish(&mut self, pieces: &mut Vec<Piece>) {
        let rest = std::mem::take(&mut self.rest);
        match self.place {
            Place::Head if rest == START => {}
            Place::Call(_) | Place::Over => {}
            Place::Head | Place::Analysis | Place::Content | Place::Plain => self.say(rest, pieces),
        }
    }

    /// Reads on; whether there may be more to read.
    fn step(&mut self, pieces: &mut Vec<Piece>) -> bool {
        match self.place {
            Place::Head => self.head(pieces),
            Place::Analysis | Place::Content => self.text(pieces),
            Place::Call(mut scan) => {
                let end = scan.end_of_object(&self.rest);
                let json: String = self.rest.drain(..end.unwrap_or(self.rest.len())).collect();
                if !json.is_empty() {
                    pieces.push(Piece::Arguments { number: self.num_calls - 1, json });
                }
                self.place = if end.is_some() { Place::Over } else { Place::Call(scan) };
                end.is_some()
            }
            Place::Over => {
                let ended = ENDS.iter().find_map(|end| self.rest.strip_prefix(end)).map(str::to_owned);
                self.place = if ended.is_some() { Place::Head } else { Place::Over };
                let is_ended = ended.is_some();
                self.rest = ended.unwrap_or_else(|| std::mem::take(&mut self.rest));
                is_ended
            }
            Place::Plain => {
                let rest = std::mem::take(&mut self.rest);
                self.say(rest, pieces);
                false
            }
        }
    }

    /// The head of a message, if all of it is there.
    fn head(&mut self, pieces: &mut Vec<Piece>) -> bool {
        let text = self.rest.strip_prefix(START).unwrap_or(&self.rest);
        let begins = |mark: &str| mark.starts_with(text) || text.starts_with(mark);
        if self.rest.is_empty() || START.starts_with(&self.rest) {
            return false;
        }
        if !begins(CHANNEL) {
            self.place = Place::Plain;
            return true;
        }
        let Some((head, body)) = text.split_once(MESSAGE) else { return false };
        let words = head.strip_prefix(CHANNEL).unwrap_or_default();
        let recipient = words.split_once(RECIPIENT).and_then(|(_, rest)| rest.split([' ', '<']).next());
        let called = recipient.filter(|name| self.turn.tools.iter().any(|tool| tool.name == *name));
        self.place = match (words.split([' ', '<']).next(), called) {
            (_, Some(name)) => {
                pieces.push(Piece::Call { number: self.num_calls, name: name.to_owned() });
                self.num_calls += 1;
                Place::Call(Scan::default())
            }
            (Some("analysis"), None) => Place::Analysis,
            (Some("commentary" | "final"), None) if recipient.is_none() => Place::Content,
            // A call of nobody stays as it is.
            _ => Place::Plain,
        };
        if self.place != Place::Plain {
            self.rest = body.to_owned();
        }
        true
    }

    /// The text of a message, up to the mark that ends it.
    fn text(&mut self, pieces: &mut Vec<Piece>) -> bool {
        let ended = ENDS.iter().filter_map(|end| Some((self.rest.find(end)?, end.len()))).min();
        // What may be the beginning of a mark waits.
        let may_begin = |at: &usize| ENDS.iter().any(|end| end.starts_with(&self.rest[*at..]));
        let held = self.rest.match_indices('<').map(|(at, _)| at).find(may_begin);
        let len = ended.map_or_else(|| held.unwrap_or(self.rest.len()), |(at, _)| at);
        let said: String = self.rest.drain(..len).collect();
        self.say(said, pieces);
        if let Some((_, mark)) = ended {
            self.rest.drain(..mark);
            self.place = Place::Head;
        }
        ended.is_some()
    }

    fn say(&self, text: String, pieces: &mut Vec<Piece>) {
        if !text.is_empty() {
            let is_reasoning = self.place == Place::Analysis && !self.shows_analysis;
            pieces.push(if is_reasoning { Piece::Reasoning(text) } else { Piece::Content(text) });
        }
    }
}
