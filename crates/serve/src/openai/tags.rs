//! Structural tags: free text in which some beginnings commit an answer to a form. Both spellings
//! of vLLM and xgrammar are read.
//!
//! A format becomes an expression of Lark. Free text takes all that it can, so it stands where it
//! knows its end: last of all, or alone in a tag.

use serde::Deserialize;
use serde_json::Value;
use warpfold_models::Grammar;

use super::gbnf;
use super::structured::lark;
use crate::error::ApiError;

/// A structural tag: `format`, or `structures` and `triggers` as they were written before.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StructuralTag {
    #[serde(rename = "type")]
    _type: Option<TagType>,
    format: Option<TagFormat>,
    structures: Option<Vec<Structure>>,
    triggers: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum TagType {
    StructuralTag,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Structure {
    begin: String,
    schema: Value,
    end: String,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum TagFormat {
    ConstString { value: String },
    JsonSchema { json_schema: Value },
    Regex { pattern: String },
    Grammar { grammar: String },
    AnyText {},
    Sequence { elements: Vec<TagFormat> },
    Or { elements: Vec<TagFormat> },
    Tag(Box<Tag>),
    TriggeredTags(TriggeredTags),
    TagsWithSeparator(SeparatedTags),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tag {
    #[serde(rename = "type")]
    _type: Option<TagKind>,
    begin: String,
    content: TagFormat,
    end: Ends,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum TagKind {
    Tag,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "it is not a text, or a list of texts")]
enum Ends {
    One(String),
    Several(Vec<String>),
}

/// Free text in which each tag that has begun is kept to. A tag begins with one of the triggers.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TriggeredTags {
    triggers: Vec<String>,
    tags: Vec<Tag>,
    /// A tag comes first.
    #[serde(default)]
    at_least_one: bool,
    /// Nothing follows the first tag.
    #[serde(default)]
    stop_after_first: bool,
}

/// Tags, and a text between any two.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SeparatedTags {
    tags: Vec<Tag>,
    separator: String,
    #[serde(default)]
    at_least_one: bool,
    #[serde(default)]
    stop_after_first: bool,
}

/// The grammar of a structural tag; `field` is the one that has it.
pub(super) fn grammar(field: &str, tag: StructuralTag) -> Result<Grammar, ApiError> {
    let format = match tag {
        StructuralTag { format: Some(format), structures: None, triggers: None, .. } => Ok(format),
        StructuralTag { format: None, structures: Some(structures), triggers: Some(triggers), .. } => {
            let tags = structures.into_iter().map(Structure::tag).collect();
            Ok(TagFormat::TriggeredTags(TriggeredTags { triggers, tags, at_least_one: false, stop_after_first: false }))
        }
        _ => Err("a structural tag has `format`, or `structures` and `triggers`".to_owned()),
    };
    let mut writer = Writer::default();
    let start = format.and_then(|format| writer.format(format, Place::Last));
    let start = start.map_err(|error| ApiError::field(field, error))?;
    let Writer { rules, parts, .. } = writer;
    Ok(Grammar::Parts { lark: format!("start: {start}\n{rules}"), parts })
}

impl Structure {
    fn tag(self) -> Tag {
        let content = TagFormat::JsonSchema { json_schema: self.schema };
        Tag { _type: None, begin: self.begin, content, end: Ends::One(self.end) }
    }
}

/// The place of a format in the answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nothing comes after it.
    Last,
    Within,
}

/// A regular expression of any text.
const ANY: &str = "(?s:.*)";

/// What a format needs beside its expression.
#[derive(Default)]
struct Writer {
    rules: String,
    num_rules: usize,
    parts: Vec<Grammar>,
}

impl Writer {
    fn format(&mut self, format: TagFormat, place: Place) -> Result<String, String> {
        Ok(match format {
            TagFormat::ConstString { value } => quoted(&value),
            TagFormat::JsonSchema { json_schema } => self.part(Grammar::Json(json_schema)),
            TagFormat::Regex { pattern } => self.part(Grammar::Regex(pattern)),
            TagFormat::Grammar { grammar } => {
                let grammar = lark(grammar)?;
                self.part(grammar)
            }
            TagFormat::AnyText {} => {
                check_last(place)?;
                format!("/{ANY}/")
            }
            TagFormat::Sequence { elements } => {
                let last = elements.len().saturating_sub(1);
                let place_of = |i| if i == last { place } else { Place::Within };
                let elements = elements.into_iter().enumerate().map(|(i, one)| self.format(one, place_of(i)));
                all(elements.collect::<Result<_, _>>()?, " ")?
            }
            TagFormat::Or { elements } => {
                let elements = elements.into_iter().map(|one| self.format(one, place));
                all(elements.collect::<Result<_, _>>()?, " | ")?
            }
            TagFormat::Tag(tag) => {
                let Tag { begin, content, end, .. } = *tag;
                self.tag(&begin, content, end)?
            }
            TagFormat::TriggeredTags(tags) => self.triggered(tags, place)?,
            TagFormat::TagsWithSeparator(SeparatedTags { tags, separator, at_least_one, stop_after_first }) => {
                let tags = tags.into_iter().map(|tag| self.tag(&tag.begin, tag.content, tag.end));
                let tag = all(tags.collect::<Result<_, _>>()?, " | ")?;
                let tag = self.rule(&tag);
                let more = if stop_after_first { String::new() } else { format!("({} {tag})*", quoted(&separator)) };
                format!("({tag} {more}){}", if at_least_one { "" } else { "?" })
            }
        })
    }

    /// A tag, of whose beginning `begin` is left.
    fn tag(&mut self, begin: &str, content: TagFormat, end: Ends) -> Result<String, String> {
        let ends = match end {
            Ends::One(end) => vec![end],
            Ends::Several(ends) => ends,
        };
        if matches!(content, TagFormat::AnyText {}) {
            return Ok(format!("{} {}", quoted(begin), self.until(&ends)?));
        }
        let content = self.format(content, Place::Within)?;
        let ends = all(ends.iter().map(|end| quoted(end)).collect(), " | ")?;
        Ok(format!("{} {content} {ends}", quoted(begin)))
    }

    fn triggered(&mut self, tags: TriggeredTags, place: Place) -> Result<String, String> {
        let TriggeredTags { triggers, tags, at_least_one, stop_after_first } = tags;
        if tags.is_empty() || triggers.iter().any(String::is_empty) {
            return Err("structural tags have a tag at least, and no empty trigger".to_owned());
        }
        let (mut whole, mut begun) = (Vec::new(), Vec::new());
        let mut heads: Vec<(&String, String)> = Vec::new();
        for Tag { begin, content, end, .. } in tags {
            let found = triggers.iter().filter(|trigger| begin.starts_with(*trigger)).min_by_key(|one| one.len());
            let trigger = found.ok_or_else(|| format!("{begin:?} begins with no trigger"))?;
            let head = match heads.iter().find(|(other, _)| *other == trigger) {
                Some((_, head)) => head.clone(),
                None => {
                    let head = self.until(std::slice::from_ref(trigger))?;
                    heads.push((trigger, head.clone()));
                    head
                }
            };
            let rest = self.tag(&begin[trigger.len()..], content, end)?;
            let rest = self.rule(&rest);
            whole.push(format!("{} {rest}", quoted(trigger)));
            begun.push(format!("{head} {rest}"));
        }
        let (whole, begun) = (whole.join(" | "), begun.join(" | "));
        if at_least_one && stop_after_first {
            return Ok(format!("({whole})"));
        }
        check_last(place)?;
        let heads: Vec<String> = heads.iter().map(|(trigger, _)| coded(trigger)).collect();
        let text = format!("/{ANY}/ & ~/{ANY}({}){ANY}/", heads.join("|"));
        let text = self.terminal(&text);
        Ok(match (at_least_one, stop_after_first) {
            (true, _) => format!("({whole}) ({begun})* {text}"),
            (false, true) => format!("({begun} | {text})"),
            (false, false) => format!("({begun})* {text}"),
        })
    }

    /// Any text up to the first of some ends.
    fn until(&mut self, ends: &[String]) -> Result<String, String> {
        if ends.is_empty() || ends.iter().any(String::is_empty) {
            return Err("free text has an end, and no empty one".to_owned());
        }
        let ends: Vec<String> = ends.iter().map(|end| coded(end)).collect();
        let terminal = self.terminal(&format!("/{ANY}({})/", ends.join("|")));
        Ok(self.named("rule", "[lazy]", &terminal))
    }

    fn terminal(&mut self, body: &str) -> String {
        self.named("TERMINAL", "", body)
    }

    fn rule(&mut self, body: &str) -> String {
        self.named("rule", "", body)
    }

    fn named(&mut self, kind: &str, attribute: &str, body: &str) -> String {
        let name = format!("{kind}{}", self.num_rules);
        self.num_rules += 1;
        self.rules += &format!("{name}{attribute}: {body}\n");
        name
    }

    fn part(&mut self, grammar: Grammar) -> String {
        self.parts.push(grammar);
        format!("@part{}", self.parts.len() - 1)
    }
}

fn check_last(place: Place) -> Result<(), String> {
    let is_last = place == Place::Last;
    is_last.then_some(()).ok_or_else(|| "free text stands last of all, or alone in a tag".to_owned())
}

/// Expressions in a row, or of which one holds.
fn all(expressions: Vec<String>, between: &str) -> Result<String, String> {
    let is_empty = expressions.is_empty();
    if is_empty { Err("a list is empty".to_owned()) } else { Ok(format!("({})", expressions.join(between))) }
}

/// A text as Lark quotes it.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// A regular expression of a text.
fn coded(text: &str) -> String {
    text.chars().map(gbnf::coded).collect()
}
