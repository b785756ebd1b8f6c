//! `POST /tokenize` and `POST /detokenize`, as vLLM has them.

use std::sync::Arc;

use axum::extract::State as Shared;
use axum::response::Response;
use serde_json::{Value, json};

use crate::body::json;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::openai::dialogue::Dialogue;
use crate::openai::logprobs::spell;
use crate::openai::params::check_model;
use crate::openai::prompt::{Marks, tokenize, tokenizer};
use crate::state::State;

/// The tokens of a text, or of a conversation.
pub(crate) async fn encode(Shared(state): Shared<Arc<State>>, mut fields: Fields) -> Result<Response, ApiError> {
    let served = state.served()?;
    check_model(fields.take("model")?, &state)?;
    let prompt: Option<String> = fields.take("prompt")?;
    let adds_marks: Option<bool> = fields.take("add_special_tokens")?;
    let with_texts = fields.take("return_token_strs")?.unwrap_or(false);
    let conversation = if prompt.is_none() { Some(Dialogue::take(&mut fields, None)?) } else { None };
    fields.finish()?;
    let are_added = adds_marks.unwrap_or(conversation.is_none());
    let text = match conversation {
        Some(conversation) => conversation.text(&state).await?,
        None => prompt.unwrap_or_default(),
    };
    let tokens = tokenize(&state, served, text, if are_added { Marks::Add } else { Marks::Keep }).await?;
    let tokenizer = served.text.tokenizer.as_deref();
    let texts = with_texts.then(|| tokens.iter().map(|token| spell(tokenizer, *token).text).collect::<Value>());
    let count = tokens.len();
    Ok(json(&json!({"count": count, "max_model_len": served.longest, "tokens": tokens, "token_strs": texts})))
}

/// The text of tokens.
pub(crate) async fn decode(Shared(state): Shared<Arc<State>>, mut fields: Fields) -> Result<Response, ApiError> {
    let served = state.served()?;
    check_model(fields.take("model")?, &state)?;
    let tokens: Vec<u32> = fields.need("tokens")?;
    fields.finish()?;
    let vocab = served.limits.vocab;
    if let Some(id) = tokens.iter().find(|id| **id as usize >= vocab) {
        return Err(ApiError::field("tokens", format!("token {id} is not in a vocabulary of {vocab}")));
    }
    Ok(json(&json!({"prompt": tokenizer(served)?.decode(&tokens)})))
}
