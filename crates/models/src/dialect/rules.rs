//! The grammar of an answer that may call tools, in Lark, from a row of the table.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::formats::{Arguments, ToolFormat};
use super::{Dialect, THINK, Thinking, Tool, python, tags};
use crate::grammar::{Grammar, quoted};

/// Constraints on one answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Turn {
    /// Tools that may be called; calls are read only where there are some.
    pub tools: Vec<Tool>,
    /// Choice of tools to call.
    pub choice: ToolChoice,
    /// At most one call.
    pub is_single: bool,
    /// Grammar of the content.
    pub content: Option<Grammar>,
}

/// Choice of tools to call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// One at least.
    Required,
    /// This one.
    Named(String),
}

impl ToolChoice {
    /// Whether a tool may be called.
    pub(super) fn allows(&self, tool: &Tool) -> bool {
        match self {
            Self::Named(name) => tool.name == *name,
            Self::Auto | Self::Required => true,
        }
    }
}

/// A grammar in the making.
pub(super) struct Rules<'a> {
    pub(super) format: &'static ToolFormat,
    special: &'a BTreeMap<&'static str, u32>,
    lark: String,
    parts: Vec<Grammar>,
}

/// Any text, and none.
pub(super) const TEXT: &str = "/(?s:.*)/";

impl Dialect {
    /// The grammar of an answer, or none where any text is right.
    #[must_use]
    pub fn grammar(&self, turn: &Turn, thinking: Thinking) -> Option<Grammar> {
        let has_channels = self.format.arguments == Arguments::Channels && turn.content.is_some();
        if turn.tools.is_empty() && !has_channels && (turn.content.is_none() || thinking == Thinking::Never) {
            return turn.content.clone();
        }
        let mut rules = Rules { format: self.format, special: &self.special, lark: String::new(), parts: Vec::new() };
        match self.format.arguments {
            Arguments::Channels => rules.channels(turn),
            _ => rules.start(turn, thinking),
        }
        let Rules { lark, parts, .. } = rules;
        Some(Grammar::Parts { lark, parts })
    }
}

impl Rules<'_> {
    pub(super) fn rule(&mut self, name: &str, body: &str) {
        // Writing to a text does not fail.
        let _ = writeln!(self.lark, "{name}: {body}");
    }

    /// The reference to a grammar of its own.
    pub(super) fn part(&mut self, grammar: Grammar) -> String {
        self.parts.push(grammar);
        format!("@part{}", self.parts.len() - 1)
    }

    /// A text that stands as it is. Marks that are special tokens are no text.
    pub(super) fn literal(&self, text: &str) -> String {
        let mut items = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let found = self.special.iter().filter_map(|(mark, id)| Some((rest.find(mark)?, *mark, *id))).min();
            let (before, token, after) = match found {
                None => (rest, None, ""),
                Some((at, mark, id)) => (&rest[..at], Some(id), &rest[at + mark.len()..]),
            };
            items.extend((!before.is_empty()).then(|| quoted(before)));
            items.extend(token.map(|id| format!("<[{id}]>")));
            rest = after;
        }
        items.join(" ")
    }

    pub(super) fn is_special(&self, mark: &str) -> bool {
        self.special.contains_key(mark)
    }

    /// Reasoning, then calls or content.
    fn start(&mut self, turn: &Turn, thinking: Thinking) {
        let mut start = match thinking {
            Thinking::Never => String::new(),
            Thinking::Begun => "think BREAK ".to_owned(),
            Thinking::Maybe => "(think BREAK)? ".to_owned(),
        };
        let calls = (!turn.tools.is_empty()).then(|| self.calls(turn));
        if thinking != Thinking::Never {
            self.think(thinking);
            self.rule("BREAK", "/\\n*/");
        }
        // Where reasoning may come, what begins with its mark is no content.
        let but = match thinking {
            Thinking::Maybe => format!(" & ~/\\s*{}(?s:.*)/", escaped(THINK[0])),
            Thinking::Never | Thinking::Begun => String::new(),
        };
        let content = turn.content.clone().map(|content| self.part(content));
        match (calls, content) {
            (None, Some(content)) => start += &content,
            (None, None) => start += TEXT,
            (Some(calls), Some(content)) if turn.choice == ToolChoice::Auto => {
                start += &format!("({content} | trigger {calls})");
                self.trigger();
            }
            (Some(calls), None) if turn.choice == ToolChoice::Auto => {
                start += &format!("(text | head {calls})");
                self.head(turn, &but);
            }
            (Some(calls), _) => {
                start += &format!("trigger {calls}");
                self.trigger();
            }
        }
        self.rule("start", &start);
    }

    fn think(&mut self, thinking: Thinking) {
        let [open, close] = THINK;
        let begin = if thinking == Thinking::Begun { "" } else { open };
        if self.is_special(close) {
            let [begin, close] = [self.literal(begin), self.literal(close)];
            self.rule("think", &format!("{begin} THOUGHT {close}"));
            // Spelled by other tokens, the mark would be read as the token.
            self.rule("THOUGHT", &format!("{TEXT} & ~/(?s:.*){}(?s:.*)/", escaped(THINK[1])));
        } else {
            self.rule("think[lazy]", "THOUGHT");
            self.rule("THOUGHT", &format!("/{}(?s:.*){}/", escaped(begin), escaped(close)));
        }
    }

    fn trigger(&mut self) {
        let trigger = self.literal(self.format.trigger);
        self.rule("trigger", &trigger);
    }

    /// Text alone, and text up to the first call.
    fn head(&mut self, turn: &Turn, but: &str) {
        let (format, any) = (self.format, "(?s:.*)");
        let trigger = escaped(format.trigger);
        if format.at_start {
            self.rule("text", "TEXT");
            // A trigger of one character is one before the name of a tool alone.
            let names: Vec<String> = turn.tools.iter().map(|tool| escaped(&tool.name)).collect();
            let named = match format.arguments {
                Arguments::Python => format!("{trigger}({}){}", names.join("|"), escaped(format.middle)),
                _ => trigger,
            };
            self.rule("TEXT", &format!("{TEXT} & ~/\\s*{named}{any}/{but}"));
            self.trigger();
            self.rule("head", "trigger");
        } else if self.is_special(format.trigger) {
            // Spelled by other tokens, the mark would be read as the token.
            self.rule("text", "TEXT");
            self.rule("TEXT", &format!("{TEXT} & ~/{any}{trigger}{any}/{but}"));
            self.trigger();
            self.rule("head", "TEXT trigger");
        } else {
            self.rule("text", "TEXT");
            self.rule("TEXT", &format!("{TEXT} & ~/{any}{trigger}{any}/{but}"));
            self.rule("head[lazy]", "HEAD");
            self.rule("HEAD", &format!("/{any}{trigger}/{but}"));
        }
    }

    /// Returns the grammar after the trigger.
    fn calls(&mut self, turn: &Turn) -> String {
        let ToolFormat { first, next, end, close, middle, .. } = *self.format;
        let mut names = Vec::new();
        for (i, tool) in turn.tools.iter().filter(|tool| turn.choice.allows(tool)).enumerate() {
            let head = self.literal(&format!("{}{middle}", tool.name));
            let arguments = match self.format.arguments {
                Arguments::Json | Arguments::Channels => {
                    self.part(Grammar::Json(schema(tool, tool.parameters.clone())))
                }
                Arguments::Python => self.python(i, tool),
                Arguments::Tags => self.tags(i, tool),
            };
            let close = self.literal(close);
            self.rule(&format!("call{i}"), &format!("{head} {arguments} {close}"));
            names.push(format!("call{i}"));
        }
        self.rule("call", &names.join(" | "));
        let [first, next, end] = [first, next, end].map(|text| self.literal(text));
        let more = if turn.is_single { String::new() } else { format!("({next} call)*") };
        format!("{first} call {more} {end}")
    }

    /// Arguments in tags: each property in its order, and those that are not required perhaps.
    fn tags(&mut self, tool_number: usize, tool: &Tool) -> String {
        let mut all = Vec::new();
        for (i, property) in tags::properties(&tool.parameters).into_iter().enumerate() {
            let open = quoted(&tags::open(property.name));
            let value = if let Some(choices) = tags::choices(property.schema).filter(|_| property.is_text) {
                let choices: Vec<String> = choices.into_iter().map(quoted).collect();
                format!("({}) {}", choices.join(" | "), quoted(tags::CLOSE))
            } else if property.is_text {
                let name = format!("value{tool_number}_{i}");
                self.rule(&format!("{name}[lazy]"), &format!("/(?s:.*){}/", escaped(tags::CLOSE)));
                name
            } else {
                let schema = tags::with_definitions(property.schema, &tool.parameters);
                format!("{} {}", self.part(Grammar::Json(self::schema(tool, schema))), quoted(tags::CLOSE))
            };
            let optional = if property.is_required { "" } else { "?" };
            all.push(format!("({open} {value}){optional}"));
        }
        all.join(" ")
    }
}

impl Rules<'_> {
    /// Arguments as Python writes them: each property in its order, those that are not required
    /// perhaps, and `, ` between two.
    fn python(&mut self, tool_number: usize, tool: &Tool) -> String {
        let properties = tags::properties(&tool.parameters);
        let between = quoted(python::BETWEEN);
        // What begins with an argument, and what comes after others, from the last property on.
        let (mut first, mut after) = ("\"\"".to_owned(), "\"\"".to_owned());
        for (i, property) in properties.iter().enumerate().rev() {
            let value = self.python_value(tool, property);
            let name = format!("argument{tool_number}_{i}");
            self.rule(&name, &format!("{} {value}", quoted(&format!("{}=", property.name))));
            let [first_name, after_name] = ["first", "after"].map(|kind| format!("{kind}{tool_number}_{i}"));
            let optional = if property.is_required { "" } else { "?" };
            self.rule(
                &first_name,
                &match property.is_required {
                    true => format!("{name} {after}"),
                    false => format!("{name} {after} | {first}"),
                },
            );
            self.rule(&after_name, &format!("({between} {name}){optional} {after}"));
            (first, after) = (first_name, after_name);
        }
        first
    }

    /// A value: texts in quotes of either kind, words with capitals, all else as JSON.
    fn python_value(&mut self, tool: &Tool, property: &tags::Property<'_>) -> String {
        let choices = tags::choices(property.schema).filter(|_| property.is_text);
        if let Some(choices) = choices {
            let both = choices.iter().flat_map(|text| [quoted(&quoted(text)), quoted(&python::quoted(text))]);
            return format!("({})", both.collect::<Vec<_>>().join(" | "));
        }
        let json = |rules: &mut Self| {
            let schema = tags::with_definitions(property.schema, &tool.parameters);
            rules.part(Grammar::Json(self::schema(tool, schema)))
        };
        match property.schema["type"].as_str() {
            Some("string") if property.is_text => format!("({} | /{}/)", json(self), python::SINGLE),
            Some("boolean") if property.schema.get("enum").is_none() && property.schema.get("const").is_none() => {
                "(\"True\" | \"False\")".to_owned()
            }
            Some("null") => "\"None\"".to_owned(),
            _ => json(self),
        }
    }
}

/// A schema of arguments, written with the spaces that models have learned.
pub(super) fn schema(tool: &Tool, mut schema: Value) -> Value {
    if let Some(fields) = schema.as_object_mut() {
        let style = json!({
            "whitespace_flexible": false, "item_separator": ", ", "key_separator": ": ",
            "coerce_one_of": true, "lenient": !tool.is_strict,
        });
        fields.insert("x-guidance".to_owned(), style);
    }
    schema
}

/// A text as it stands in a regular expression of Lark.
pub(super) fn escaped(text: &str) -> String {
    let mut regex = String::new();
    for c in text.chars() {
        match c {
            '\n' => regex.push_str("\\n"),
            c if c.is_alphanumeric() || matches!(c, '<' | '>' | '=' | '_' | '"' | ' ' | ':') => regex.push(c),
            c => {
                regex.push('\\');
                regex.push(c);
            }
        }
    }
    regex
}
