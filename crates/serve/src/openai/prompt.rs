//! Prompts: texts or tokens, one or several.

use std::sync::Arc;

use serde::Deserialize;
use warpfold_models::Tokenizer;

use crate::error::ApiError;
use crate::state::{Served, State};

/// The prompts of a completion.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Prompts {
    Text(String),
    Tokens(Vec<u32>),
    Texts(Vec<String>),
    ManyTokens(Vec<Vec<u32>>),
}

/// Marks that a text still needs before and after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marks {
    /// Those that the model wants around a text.
    Add,
    /// None: they stand in it.
    Keep,
}

/// Normalisation makes no text shorter by more than this factor.
const SHRINK: usize = 4;

impl Prompts {
    /// The tokens of each prompt.
    pub(crate) async fn tokens(self, state: &State, served: &Served) -> Result<Vec<Vec<u32>>, ApiError> {
        let texts = match self {
            Self::Tokens(tokens) => return Ok(vec![tokens]),
            Self::ManyTokens(prompts) => return Ok(prompts),
            Self::Text(text) => vec![text],
            Self::Texts(texts) => texts,
        };
        let mut prompts = Vec::with_capacity(texts.len());
        for text in texts {
            prompts.push(tokenize(state, served, text, Marks::Add).await?);
        }
        Ok(prompts)
    }
}

/// Tokenizes a text beside the threads that talk to clients, a few texts at a time.
pub(crate) async fn tokenize(state: &State, served: &Served, text: String, marks: Marks) -> Result<Vec<u32>, ApiError> {
    let tokenizer = tokenizer(served)?.clone();
    check_len(&text, served)?;
    let turn = state.tokenizing.acquire().await.map_err(|_| ApiError::internal("the server ends"))?;
    let work = move || match marks {
        Marks::Add => tokenizer.encode(&text),
        Marks::Keep => tokenizer.encode_marked(&text),
    };
    let tokens = state.host.work(work).await;
    drop(turn);
    match tokens {
        Some(tokens) => tokens.map_err(|error| ApiError::from(&error)),
        None => Err(ApiError::internal("the tokenizer has failed")),
    }
}

/// Refuses a text that is too long whatever its tokens are, before others wait for them.
fn check_len(text: &str, served: &Served) -> Result<(), ApiError> {
    let least = text.len() / (served.longest_token * SHRINK).max(1);
    let max_len = served.limits.max_len;
    if least <= max_len {
        return Ok(());
    }
    let error = warpfold_engine::ErrorKind::TooLong { prompt: least, new: 1, max_len };
    Err(ApiError::from(&warpfold_engine::Error::from(error)))
}

pub(crate) fn tokenizer(served: &Served) -> Result<&Arc<Tokenizer>, ApiError> {
    let missing = || ApiError::bad_request("the model has no tokenizer: prompts must be tokens");
    served.text.tokenizer.as_ref().ok_or_else(missing)
}
