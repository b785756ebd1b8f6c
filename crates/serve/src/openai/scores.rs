//! `POST /v1/score` and `/v1/rerank`, as vLLM has them of models of embeddings: the cosine of the
//! angle between two.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State as Shared;
use axum::response::Response;
use serde::Serialize;
use serde_json::{Value, json};

use super::answer::{new_id, now};
use super::embeddings::{PromptUsage, embed, length, object, prompts};
use super::params::check_model;
use super::prompt::Prompts;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::share::Tenant;
use crate::state::State;

#[derive(Serialize)]
struct ScoreList {
    id: String,
    object: &'static str,
    created: u64,
    model: String,
    data: Vec<Value>,
    usage: PromptUsage,
}

#[derive(Serialize)]
struct RankList {
    id: String,
    model: String,
    usage: PromptUsage,
    results: Vec<Value>,
}

pub(crate) async fn score(
    Shared(state): Shared<Arc<State>>,
    Extension(tenant): Extension<Arc<Tenant>>,
    mut fields: Fields,
) -> Result<Response, ApiError> {
    let served = state.served()?;
    let adapter = check_model(fields.take("model")?, &state)?;
    let is_older = fields.get("text_1").is_some() || fields.get("text_2").is_some();
    let names = if is_older { ["text_1", "text_2"] } else { ["queries", "documents"] };
    let [left, right] = names.map(|name| prompts(&mut fields, name));
    let (left, right) = (left?, right?);
    finish(fields)?;
    let (left, right) = (left.tokens(&state, served).await?, right.tokens(&state, served).await?);
    if left.len() != 1 && left.len() != right.len() {
        let reason = format!("{} of {}: there must be one, or as many", left.len(), right.len());
        return Err(ApiError::field(names[0], reason));
    }
    let (count, prompts, model) = (left.len(), [left, right].concat(), state.name_of(adapter.as_deref()));
    let usage = PromptUsage::of(&prompts);
    let all = embed(&state, served, &tenant, adapter, (names[1], prompts)).await?;
    let (left, right) = all.split_at(count);
    let pairs = left.iter().cycle().zip(right).enumerate();
    let data = pairs.map(|(index, (a, b))| json!({"index": index, "object": "score", "score": cosine(a, b)})).collect();
    let id = format!("score-{}", new_id(&state));
    Ok(object(&ScoreList { id, object: "list", created: now(), model, data, usage }))
}

pub(crate) async fn rerank(
    Shared(state): Shared<Arc<State>>,
    Extension(tenant): Extension<Arc<Tenant>>,
    mut fields: Fields,
) -> Result<Response, ApiError> {
    let served = state.served()?;
    let adapter = check_model(fields.take("model")?, &state)?;
    let query: String = fields.need("query")?;
    let documents: Vec<String> = fields.need("documents")?;
    let top: Option<usize> = fields.take("top_n")?;
    let are_returned = fields.take("return_documents")?.unwrap_or(true);
    finish(fields)?;
    let query = Prompts::Text(query).tokens(&state, served).await?;
    let tokens = Prompts::Texts(documents.clone()).tokens(&state, served).await?;
    if tokens.is_empty() {
        return Err(ApiError::field("documents", "the list is empty"));
    }
    let (prompts, model) = ([query, tokens].concat(), state.name_of(adapter.as_deref()));
    let usage = PromptUsage::of(&prompts);
    let all = embed(&state, served, &tenant, adapter, ("documents", prompts)).await?;
    let mut ranked: Vec<(usize, f64)> = all[1..].iter().map(|other| cosine(&all[0], other)).enumerate().collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    ranked.truncate(top.filter(|top| *top > 0).unwrap_or(usize::MAX));
    let result = |(index, score): (usize, f64)| {
        let document = are_returned.then(|| json!({"text": documents[index]}));
        json!({"index": index, "document": document, "relevance_score": score})
    };
    let results = ranked.into_iter().map(result).collect();
    Ok(object(&RankList { id: format!("rerank-{}", new_id(&state)), model, usage, results }))
}

/// Refuses what is left; what cross-encoders alone have is told apart.
fn finish(mut fields: Fields) -> Result<(), ApiError> {
    super::neutral::allow(&mut fields);
    if let Some(field) = ["use_activation", "activation", "softmax"].iter().find(|name| fields.get(name).is_some()) {
        let reason = "scores are cosines of embeddings, and cross-encoders, which have activations, are not supported";
        return Err(ApiError::field(field, reason));
    }
    fields.finish()
}

/// The cosine of the angle between two vectors.
fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let product: f64 = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
    product / (length(a) * length(b)).max(1e-12)
}
