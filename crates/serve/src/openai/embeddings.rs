//! `POST /v1/embeddings`: a vector of each text, by the pooling that the server was told or the
//! model's publisher names.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State as Shared;
use axum::response::Response;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::{Deserialize, Serialize};
use warpfold_engine::{Adapter, Output, Request};

use super::answer::{new_id, now};
use super::params::{check_at_most, check_model};
use super::prompt::Prompts;
use crate::body::typed;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::generation::Generation;
use crate::share::Tenant;
use crate::state::{Served, State};

/// Encoding of the numbers of an embedding.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum NumberEncoding {
    #[default]
    Float,
    /// Their little-endian bytes.
    Base64,
}

#[derive(Serialize)]
struct EmbeddingList<'a> {
    id: String,
    object: &'static str,
    created: u64,
    model: String,
    data: Vec<EmbeddingEntry<'a>>,
    usage: PromptUsage,
}

#[derive(Serialize)]
struct EmbeddingEntry<'a> {
    index: usize,
    object: &'static str,
    embedding: EmbeddingNumbers<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum EmbeddingNumbers<'a> {
    Float(&'a [f32]),
    Base64(String),
}

/// Token counts of a request that generates nothing.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct PromptUsage {
    pub(crate) prompt_tokens: usize,
    pub(crate) total_tokens: usize,
}

pub(crate) async fn create(
    Shared(state): Shared<Arc<State>>,
    Extension(tenant): Extension<Arc<Tenant>>,
    mut fields: Fields,
) -> Result<Response, ApiError> {
    let encoding: NumberEncoding = fields.take("encoding_format")?.unwrap_or_default();
    let MadeEmbeddings { model, all, usage } = make(&state, &tenant, fields).await?;
    let data =
        all.iter().enumerate().map(|(index, embedding)| EmbeddingEntry::new(index, embedding, encoding)).collect();
    let id = format!("embd-{}", new_id(&state));
    Ok(object(&EmbeddingList { id, object: "list", created: now(), model, data, usage }))
}

/// Embeddings of a request, before they are encoded.
#[derive(Debug)]
pub(crate) struct MadeEmbeddings {
    pub(crate) model: String,
    pub(crate) all: Vec<Vec<f32>>,
    pub(crate) usage: PromptUsage,
}

/// Makes what a request's fields ask for.
pub(crate) async fn make(
    state: &Arc<State>,
    tenant: &Arc<Tenant>,
    mut fields: Fields,
) -> Result<MadeEmbeddings, ApiError> {
    let served = state.served()?;
    let adapter = check_model(fields.take("model")?, state)?;
    let input = prompts(&mut fields, "input")?;
    let dimensions: Option<usize> = fields.take("dimensions")?;
    let is_normalized = match (fields.take("normalize")?, fields.take("use_activation")?) {
        (Some(_), Some(_)) => return Err(ApiError::field("use_activation", "normalize is there, too")),
        (older, newer) => newer.or(older).unwrap_or(served.text.pooling.is_normalized),
    };
    super::neutral::allow(&mut fields);
    fields.finish()?;
    let most = served.limits.hidden;
    if dimensions.is_some_and(|dimensions| !(1..=most).contains(&dimensions)) {
        return Err(ApiError::field("dimensions", format!("an embedding of this model has 1 to {most}")));
    }
    let prompts = input.tokens(state, served).await?;
    let usage = PromptUsage::of(&prompts);
    let model = state.name_of(adapter.as_deref());
    let mut all = embed(state, served, tenant, adapter, ("input", prompts)).await?;
    for embedding in &mut all {
        embedding.truncate(dimensions.unwrap_or(most));
        if is_normalized {
            normalize(embedding);
        }
    }
    Ok(MadeEmbeddings { model, all, usage })
}

impl PromptUsage {
    pub(super) fn of(prompts: &[Vec<u32>]) -> Self {
        let all = prompts.iter().map(Vec::len).sum();
        Self { prompt_tokens: all, total_tokens: all }
    }
}

/// Texts or tokens, one or several.
pub(super) fn prompts(fields: &mut Fields, name: &str) -> Result<Prompts, ApiError> {
    fields.need(name).map_err(|error| match error.message.contains("untagged") {
        true => ApiError::field(name, "it is not a text, a list of tokens, or a list of either"),
        false => error,
    })
}

/// The embeddings of the prompts of a field, as the model has them.
pub(super) async fn embed(
    state: &Arc<State>,
    served: &Served,
    tenant: &Arc<Tenant>,
    adapter: Option<Arc<Adapter>>,
    (field, prompts): (&'static str, Vec<Vec<u32>>),
) -> Result<Vec<Vec<f32>>, ApiError> {
    check_at_most(field, prompts.len(), state.options.bounds.choices)?;
    if prompts.is_empty() {
        return Err(ApiError::field(field, "the list is empty"));
    }
    let pooling = served.text.pooling.pooling;
    let request = |prompt| {
        let (salt, adapter) = (tenant.salt.clone(), adapter.clone());
        Request { salt, adapter, ..Request::embedding(prompt, pooling) }
    };
    let requests: Vec<Request> = prompts.into_iter().map(request).collect();
    let mut outputs = vec![Output::default(); requests.len()];
    let mut generation = Generation::submit(state, served, tenant, requests).map_err(|error| {
        // The engine knows them as prompts.
        let is_prompt = error.param.as_deref() == Some("prompt");
        let message = error.message.strip_prefix("prompt: ").map(|rest| format!("{field}: {rest}"));
        let param = if is_prompt { Some(field.to_owned()) } else { error.param.clone() };
        ApiError { param, message: message.unwrap_or_else(|| error.message.clone()), ..error }
    })?;
    while let Some((prompt, update)) = generation.next().await.transpose()? {
        outputs[prompt].extend(update);
    }
    Ok(outputs.into_iter().map(|output| output.embedding).collect())
}

/// The length of a vector.
pub(super) fn length(vector: &[f32]) -> f64 {
    vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt()
}

/// Gives a vector the length 1; one without any stays.
fn normalize(vector: &mut [f32]) {
    let length = length(vector).max(1e-12);
    vector.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
}

impl<'a> EmbeddingEntry<'a> {
    fn new(index: usize, embedding: &'a [f32], encoding: NumberEncoding) -> Self {
        let embedding = match encoding {
            NumberEncoding::Float => EmbeddingNumbers::Float(embedding),
            NumberEncoding::Base64 => EmbeddingNumbers::Base64(
                BASE64_STANDARD.encode(embedding.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>()),
            ),
        };
        Self { index, object: "embedding", embedding }
    }
}

/// An answer that keeps the digits of 32-bit numbers.
pub(super) fn object(value: &impl Serialize) -> Response {
    // Writing to memory does not fail.
    typed("application/json", serde_json::to_string(value).unwrap_or_default())
}
