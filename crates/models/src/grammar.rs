//! Grammars as constraints on answers, by the `llguidance` crate; the feature `grammar`.

use serde_json::{Value, json};
use warpfold_engine::Constraint;

use crate::error::ErrorKind;
use crate::{Error, Tokenizer};

/// Constraint on an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Grammar {
    /// JSON of a schema, without spaces and lines that nobody needs: models that draw them go on
    /// drawing. A schema whose `x-guidance` says otherwise is obeyed.
    Json(Value),
    /// A text that a regular expression matches as a whole.
    Regex(String),
    /// One of some texts.
    Choice(Vec<String>),
    /// A grammar in Lark, with `start` as its first rule.
    Lark(String),
    /// A grammar in Lark whose rules name others as `@part0`, `@part1` and so on.
    Parts {
        /// The grammar.
        lark: String,
        /// The others.
        parts: Vec<Grammar>,
    },
}

// THRESHOLD: longer grammars are refused; tested by
// crates/models/src/grammar.rs::grammars_that_are_too_deep_or_too_long_are_refused and
// crates/models/src/grammar.rs::grammars_that_came_last_are_kept
/// Bytes of a grammar at most, and how deep its brackets may stand in each other: what reads them
/// calls itself.
const MOST_BYTES: usize = 1 << 20;

// THRESHOLD: more are refused; tested by
// crates/models/src/grammar.rs::grammars_that_are_too_deep_or_too_long_are_refused
/// Schemas in `allOf`: what all of several patterns match takes time that no fuel bounds.
const MOST_INTERSECTIONS: usize = 32;
const DEEPEST: usize = 100;

impl Grammar {
    /// Refuses what would take a reader too long or too deep.
    fn check(&self) -> Result<(), Error> {
        let texts: Vec<&str> = match self {
            Self::Json(schema) => {
                let found = intersections(schema);
                return if found <= MOST_INTERSECTIONS {
                    Ok(())
                } else {
                    Err(wrong(format!("it has {found} schemas in `allOf`, and {MOST_INTERSECTIONS} is the most")))
                };
            }
            Self::Choice(choices) if choices.is_empty() => return Err(wrong("there is no choice")),
            Self::Choice(choices) => choices.iter().map(String::as_str).collect(),
            Self::Regex(text) | Self::Lark(text) => vec![text],
            Self::Parts { parts, .. } => return parts.iter().try_for_each(Self::check),
        };
        let num_bytes: usize = texts.iter().map(|text| text.len()).sum();
        if num_bytes > MOST_BYTES {
            return Err(wrong(format!("it has {num_bytes} bytes, and {MOST_BYTES} is the most")));
        }
        let is_deep = !matches!(self, Self::Choice(_)) && texts.iter().any(|text| depth(text) > DEEPEST);
        if is_deep { Err(wrong(format!("its brackets are deeper than {DEEPEST}"))) } else { Ok(()) }
    }

    /// The grammar as `llguidance` reads it: Lark or a schema.
    fn part(&self, name: &str) -> Value {
        match self {
            Self::Json(schema) => json!({"name": name, "json_schema": compact(schema)}),
            Self::Regex(regex) => json!({"name": name, "lark_grammar": format!("start: /{}/", slashes(regex))}),
            Self::Choice(choices) => {
                let choices: Vec<String> = choices.iter().map(|choice| quoted(choice)).collect();
                json!({"name": name, "lark_grammar": format!("start: {}", choices.join(" | "))})
            }
            Self::Lark(lark) | Self::Parts { lark, .. } => json!({"name": name, "lark_grammar": lark}),
        }
    }

    /// The grammar and its parts.
    fn all(&self) -> Value {
        let parts: &[Self] = match self {
            Self::Parts { parts, .. } => parts,
            Self::Json(_) | Self::Regex(_) | Self::Choice(_) | Self::Lark(_) => &[],
        };
        let parts = parts.iter().enumerate().map(|(i, part)| part.part(&format!("part{i}")));
        json!({"grammars": std::iter::once(self.part("main")).chain(parts).collect::<Vec<_>>()})
    }
}

/// A text as Lark quotes it, which is as JSON does.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// A regular expression as it stands between slashes.
fn slashes(regex: &str) -> String {
    let mut text = String::with_capacity(regex.len());
    let mut is_escaped = false;
    for c in regex.chars() {
        match c {
            '/' if !is_escaped => text.push_str("\\/"),
            '\n' if !is_escaped => text.push_str("\\n"),
            c => text.push(c),
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    text
}

fn compact(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(fields) = schema.as_object_mut() {
        fields.entry("x-guidance").or_insert_with(|| json!({"whitespace_flexible": false, "coerce_one_of": true}));
    }
    schema
}

/// Returns the nesting depth of brackets.
fn depth(text: &str) -> usize {
    let (mut deepest, mut depth) = (0, 0_usize);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// Schemas of all lists under `allOf`.
fn intersections(schema: &Value) -> usize {
    match schema {
        Value::Array(all) => all.iter().map(intersections).sum(),
        Value::Object(fields) => {
            let own = fields.get("allOf").and_then(Value::as_array).map_or(0, Vec::len);
            own + fields.values().map(intersections).sum::<usize>()
        }
        _ => 0,
    }
}

fn wrong(reason: impl Into<String>) -> Error {
    ErrorKind::Grammar(reason.into()).into()
}

/// Makes constraints of grammars for one vocabulary.
///
/// Without the feature `grammar` of this crate there is none: [`Grammars::of`] says so.
pub struct Grammars {
    #[cfg(feature = "grammar")]
    inner: compiled::Compiled,
    #[cfg(not(feature = "grammar"))]
    absent: std::convert::Infallible,
}

impl std::fmt::Debug for Grammars {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grammars").finish_non_exhaustive()
    }
}

#[cfg(not(feature = "grammar"))]
impl Grammars {
    /// Constraints for the tokens of a tokenizer; those of `eos` end answers.
    ///
    /// # Errors
    /// [`ErrorKind::Grammar`]: this build has none.
    pub fn of(_tokenizer: &Tokenizer, _eos: &[u32]) -> Result<Self, Error> {
        Err(wrong("this program was built without the feature grammar"))
    }

    /// The constraint that an answer is of a grammar.
    ///
    /// # Errors
    /// None, as there is no `Grammars`.
    pub fn constraint(&self, _grammar: &Grammar) -> Result<Box<dyn Constraint>, Error> {
        match self.absent {}
    }
}

#[cfg(feature = "grammar")]
impl Grammars {
    /// Constraints for the tokens of a tokenizer; those of `eos` end answers.
    ///
    /// # Errors
    /// [`ErrorKind::Grammar`] with what `llguidance` says of the vocabulary.
    pub fn of(tokenizer: &Tokenizer, eos: &[u32]) -> Result<Self, Error> {
        Ok(Self { inner: compiled::Compiled::new(tokenizer, eos)? })
    }

    /// The constraint that an answer is of a grammar.
    ///
    /// # Errors
    /// [`ErrorKind::Grammar`] with what is wrong with it.
    pub fn constraint(&self, grammar: &Grammar) -> Result<Box<dyn Constraint>, Error> {
        grammar.check()?;
        self.inner.constraint(grammar.all())
    }
}

#[cfg(feature = "grammar")]
mod compiled {
    //! Grammars in `llguidance`'s form, and answers that follow them.

    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex, PoisonError};

    use llguidance::api::TopLevelGrammar;
    use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};
    use llguidance::{Matcher, ParserFactory};
    use serde_json::Value;
    use warpfold_engine::{Constraint, Decode, Next};

    use super::{MOST_BYTES, wrong};
    use crate::{Error, Tokenizer};

    /// Grammars of one vocabulary. Those that came last are kept: an agent asks with the same tools
    /// again and again.
    pub(super) struct Compiled {
        factory: ParserFactory,
        recent: Mutex<VecDeque<(String, Matcher)>>,
    }

    // THRESHOLD: the grammar that was not asked for longest makes room; tested by
    // crates/models/src/grammar.rs::grammars_that_came_last_are_kept
    /// Grammars that are kept.
    const MOST_RECENT: usize = 16;
    // THRESHOLD: longer grammars are read anew each time; tested by
    // crates/models/src/grammar.rs::grammars_that_came_last_are_kept
    /// Bytes of a grammar that is kept, at most.
    const RECENT_BYTES: usize = 128 << 10;

    impl Compiled {
        pub(super) fn new(tokenizer: &Tokenizer, eos: &[u32]) -> Result<Self, Error> {
            let Some(first) = eos.first() else { return Err(wrong("the model has no token that ends an answer")) };
            let token = |id: u32| {
                let mut bytes = Vec::new();
                if tokenizer.is_special(id) || eos.contains(&id) {
                    bytes.push(TokTrie::SPECIAL_TOKEN_MARKER);
                }
                tokenizer.append(id, &mut bytes);
                bytes
            };
            let len = u32::try_from(tokenizer.len()).expect("ids have 32 bits");
            let words: Vec<Vec<u8>> = (0..len).map(token).collect();
            let trie = TokTrie::from(&TokRxInfo::new(len, *first), &words).with_eos_tokens(eos);
            let env: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
            let mut factory = ParserFactory::new_simple(&env).map_err(|error| wrong(error.to_string()))?;
            factory.quiet();
            factory.limits_mut().verbose_errors = false;
            Ok(Self { factory, recent: Mutex::default() })
        }

        pub(super) fn constraint(&self, grammar: Value) -> Result<Box<dyn Constraint>, Error> {
            let key = grammar.to_string();
            if key.len() > MOST_BYTES {
                return Err(wrong(format!("it has {} bytes, and {MOST_BYTES} is the most", key.len())));
            }
            if let Some(matcher) = self.recent(&key) {
                return Ok(Box::new(Follower(matcher)));
            }
            let grammar: TopLevelGrammar = serde_json::from_value(grammar).map_err(|error| wrong(error.to_string()))?;
            let parser = self.factory.create_parser(grammar).map_err(|error| wrong(error.to_string()))?;
            let mut matcher = Matcher::new(Ok(parser));
            if let Err(error) = matcher.compute_mask() {
                let error = error.to_string();
                let has_none = error.contains("NoExtensionBias");
                return Err(wrong(if has_none { "no token of the vocabulary may come first" } else { &error }));
            }
            if key.len() <= RECENT_BYTES {
                let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
                recent.push_front((key, matcher.deep_clone()));
                recent.truncate(MOST_RECENT);
            }
            Ok(Box::new(Follower(matcher)))
        }

        fn recent(&self, key: &str) -> Option<Matcher> {
            let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
            let at = recent.iter().position(|(of, _)| of == key)?;
            let found = recent.remove(at)?;
            let matcher = found.1.deep_clone();
            recent.push_front(found);
            Some(matcher)
        }
    }

    /// Follows one answer through a grammar.
    struct Follower(Matcher);

    impl std::fmt::Debug for Follower {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_tuple("Follower").field(&self.0.stop_reason()).finish()
        }
    }

    impl Constraint for Follower {
        fn next(&mut self, _vocab: usize) -> Next {
            if self.0.is_error() {
                return Next::Failed;
            }
            self.0.compute_mask().map_or(Next::Failed, |mask| Next::Tokens(mask.as_slice().to_vec()))
        }

        fn is_over(&self) -> bool {
            self.0.is_stopped() && !self.0.is_error()
        }

        fn push(&mut self, token: u32) {
            // An error stays in the matcher, and `next` says so.
            let _ = self.0.consume_token(token);
        }

        fn fork(&self) -> Box<dyn Constraint> {
            Box::new(Self(self.0.deep_clone()))
        }
    }

    #[cfg(test)]
    mod tests {
        use serde_json::json;

        use super::*;

        #[test]
        fn grammars_that_came_last_are_kept() {
            let files = crate::ModelFiles::shipped().expect("the model that ships");
            let compiled = Compiled::new(files.tokenizer().expect("it has one"), &files.config().eos).expect("words");
            let of = |text: &str| json!({"grammars": [{"lark_grammar": text}]});
            let ask = |text: &str| compiled.constraint(of(text)).map(drop);
            let is_kept = |text: &str| {
                let recent = compiled.recent.lock().expect("nobody panics");
                let wanted = of(text).to_string();
                recent.iter().any(|(key, _)| *key == wanted)
            };
            let texts: Vec<String> = (0..=MOST_RECENT).map(|i| format!("start: \"number {i}\"")).collect();
            texts[..MOST_RECENT].iter().for_each(|text| ask(text).expect("a grammar"));
            assert!(texts[..MOST_RECENT].iter().all(|text| is_kept(text)));
            // The first is asked for again, so the second makes room.
            ask(&texts[0]).expect("a grammar");
            ask(&texts[MOST_RECENT]).expect("a grammar");
            assert!(is_kept(&texts[0]) && !is_kept(&texts[1]) && texts[2..].iter().all(|text| is_kept(text)));
            // As long as is kept, and as is read, and a byte more.
            let padded = |len: usize| format!("start: \"a\"{}", " ".repeat(len - of("start: \"a\"").to_string().len()));
            for (len, expected) in [(RECENT_BYTES, (true, true)), (RECENT_BYTES + 1, (true, false))] {
                assert_eq!((ask(&padded(len)).is_ok(), is_kept(&padded(len))), expected, "{len} bytes");
            }
            assert!(ask(&padded(MOST_BYTES)).is_ok() && ask(&padded(MOST_BYTES + 1)).is_err());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regex_keeps_its_meaning_between_slashes() {
        assert_eq!(slashes(r"a/b\/c\\/d"), r"a\/b\/c\\\/d");
    }

    #[test]
    fn grammars_that_are_too_deep_or_too_long_are_refused() {
        for grammar in [
            Grammar::Lark(format!("start: {}\"a\"{}", "(".repeat(5000), ")".repeat(5000))),
            Grammar::Regex("(".repeat(101)),
            Grammar::Choice(vec!["a".repeat(MOST_BYTES + 1)]),
            Grammar::Choice(Vec::new()),
        ] {
            assert!(grammar.check().is_err());
        }
        Grammar::Choice(vec!["(".repeat(1000)]).check().expect("texts have no brackets");
        Grammar::Choice(vec!["a".repeat(MOST_BYTES - 1), "b".to_owned()]).check().expect("as long as may be");
        Grammar::Regex("(".repeat(DEEPEST)).check().expect("as deep as may be");
        let all_of = |num: usize| Grammar::Json(json!({"allOf": vec![json!({"type": "string"}); num]}));
        all_of(MOST_INTERSECTIONS).check().expect("as many as may be");
        assert!(all_of(MOST_INTERSECTIONS + 1).check().is_err());
    }
}
