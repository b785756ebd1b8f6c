//! JSON schemas as constraints on answers, by the `llguidance` crate; the feature `json-schema`.

use warpfold_engine::Constraint;

use crate::error::ErrorKind;
use crate::{Error, Tokenizer};

/// Makes constraints of JSON schemas for one vocabulary.
///
/// Without the feature `json-schema` of this crate there is none: [`Schemas::of`] says so.
pub struct Schemas {
    #[cfg(feature = "json-schema")]
    factory: llguidance::ParserFactory,
    #[cfg(not(feature = "json-schema"))]
    absent: std::convert::Infallible,
}

impl std::fmt::Debug for Schemas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schemas").finish_non_exhaustive()
    }
}

#[cfg(not(feature = "json-schema"))]
impl Schemas {
    /// Constraints for the tokens of a tokenizer; `eos` ends answers.
    ///
    /// # Errors
    /// [`ErrorKind::Schema`]: this build has none.
    pub fn of(_tokenizer: &Tokenizer, _eos: u32) -> Result<Self, Error> {
        Err(ErrorKind::Schema("this program was built without the feature json-schema".to_owned()).into())
    }

    /// The constraint that an answer is JSON of a schema.
    ///
    /// # Errors
    /// None, as there is no `Schemas`.
    pub fn constraint(&self, _schema: &serde_json::Value) -> Result<Box<dyn Constraint>, Error> {
        match self.absent {}
    }
}

#[cfg(feature = "json-schema")]
mod matcher {
    //! The constraint itself.

    use llguidance::Matcher;
    use warpfold_engine::{Constraint, Next};

    /// Follows one answer through a grammar.
    pub(super) struct Follower(pub(super) Matcher);

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
            if self.0.is_stopped() {
                return Next::Over;
            }
            self.0.compute_mask().map_or(Next::Failed, |mask| Next::Tokens(mask.as_slice().to_vec()))
        }

        fn push(&mut self, token: u32) {
            // An error stays in the matcher, and `next` says so.
            let _ = self.0.consume_token(token);
        }

        fn fork(&self) -> Box<dyn Constraint> {
            Box::new(Self(self.0.deep_clone()))
        }
    }
}

#[cfg(feature = "json-schema")]
impl Schemas {
    /// Constraints for the tokens of a tokenizer; `eos` ends answers.
    ///
    /// # Errors
    /// [`ErrorKind::Schema`] with what `llguidance` says of the vocabulary.
    pub fn of(tokenizer: &Tokenizer, eos: u32) -> Result<Self, Error> {
        use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};
        use warpfold_engine::Decode;

        let token = |id: u32| {
            let mut bytes = Vec::new();
            if tokenizer.is_special(id) || id == eos {
                bytes.push(TokTrie::SPECIAL_TOKEN_MARKER);
            }
            tokenizer.append(id, &mut bytes);
            bytes
        };
        let len = u32::try_from(tokenizer.len()).expect("ids have 32 bits");
        let words: Vec<Vec<u8>> = (0..len).map(token).collect();
        let trie = TokTrie::from(&TokRxInfo::new(len, eos), &words);
        let env: TokEnv = std::sync::Arc::new(ApproximateTokEnv::new(trie));
        let mut factory = llguidance::ParserFactory::new_simple(&env).map_err(said)?;
        factory.quiet();
        Ok(Self { factory })
    }

    /// The constraint that an answer is JSON of a schema, without spaces and lines that nobody
    /// needs: models that draw them go on drawing. A schema whose `x-guidance` says otherwise is
    /// obeyed.
    ///
    /// # Errors
    /// [`ErrorKind::Schema`] with what `llguidance` says of the schema.
    pub fn constraint(&self, schema: &serde_json::Value) -> Result<Box<dyn Constraint>, Error> {
        let mut schema = schema.clone();
        if let Some(fields) = schema.as_object_mut() {
            fields.entry("x-guidance").or_insert_with(|| serde_json::json!({"whitespace_flexible": false}));
        }
        let grammar = llguidance::api::TopLevelGrammar::from_json_schema(schema);
        let parser = self.factory.create_parser(grammar).map_err(said)?;
        Ok(Box::new(matcher::Follower(llguidance::Matcher::new(Ok(parser)))))
    }
}

#[cfg(feature = "json-schema")]
fn said(error: impl std::fmt::Display) -> Error {
    ErrorKind::Schema(error.to_string()).into()
}
