//! What completions and chat completions have in common: how to draw, when to end, how to deliver.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Number, Value};
use warpfold_engine::{Beam, Request, Sampling};

use crate::error::ApiError;
use crate::fields::Fields;
use crate::share::Tenant;
use crate::state::State;

/// How an answer is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    Whole,
    Stream { include_usage: bool },
}

/// Fields that both kinds of request have.
#[derive(Debug)]
pub(crate) struct Common {
    /// A request without its prompt.
    pub(crate) request: Request,
    pub(crate) delivery: Delivery,
    pub(crate) return_token_ids: bool,
    /// What the answers' JSON must look like.
    pub(crate) schema: Option<Value>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "it is not a text, or a list of texts")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

/// Takes the common fields.
pub(crate) fn take(fields: &mut Fields, state: &State, tenant: &Tenant) -> Result<Common, ApiError> {
    check_model(fields.take("model")?, state)?;
    allow_what_changes_nothing(fields);
    let bounds = state.options.bounds;
    let n = fields.take("n")?.unwrap_or(1);
    check_at_most("n", n, bounds.choices)?;
    let stop = match fields.take("stop")? {
        None => Vec::new(),
        Some(OneOrMany::One(stop)) => vec![stop],
        Some(OneOrMany::Many(stop)) => stop,
    };
    check_at_most("stop", stop.len(), bounds.stops)?;
    check_at_most("stop", stop.iter().map(String::len).max().unwrap_or(0), bounds.stop_bytes)?;
    let salt: Option<String> = fields.take("cache_salt")?;
    let request = Request {
        sampling: sampling(fields)?,
        n,
        beam: beam(fields, n)?,
        seed: fields.take("seed")?.map(seed).transpose()?,
        min_tokens: fields.take("min_tokens")?.unwrap_or(0),
        stop_ids: fields.take("stop_token_ids")?.unwrap_or_default(),
        stop,
        include_stop: fields.take("include_stop_str_in_output")?.unwrap_or(false),
        ignore_eos: fields.take("ignore_eos")?.unwrap_or(false),
        skip_special: fields.take("skip_special_tokens")?.unwrap_or(true),
        salt: salt.map_or_else(|| tenant.salt.clone(), |salt| Arc::from(format!("{}\n{salt}", tenant.salt))),
        ..Request::new(Vec::new())
    };
    let delivery = delivery(fields)?;
    if request.beam.is_some() && delivery != Delivery::Whole {
        return Err(ApiError::field("stream", "beam search knows its answers at the end only"));
    }
    let return_token_ids = fields.take("return_token_ids")?.unwrap_or(false);
    let schema = super::schema::take(fields)?;
    Ok(Common { request, delivery, return_token_ids, schema })
}

/// A model that is not served is not there.
pub(crate) fn check_model(model: Option<String>, state: &State) -> Result<(), ApiError> {
    match model {
        Some(model) if !state.options.names.contains(&model) => {
            let error = ApiError::new(StatusCode::NOT_FOUND, format!("there is no model {model:?}"));
            Err(ApiError { param: Some("model".to_owned()), code: Some("model_not_found"), ..error })
        }
        _ => Ok(()),
    }
}

pub(crate) fn check_at_most(field: &str, value: usize, most: usize) -> Result<(), ApiError> {
    let is_within = value <= most;
    is_within.then_some(()).ok_or_else(|| ApiError::field(field, format!("{value} is more than {most}")))
}

/// Fields that are not supported, with the values under which they ask for nothing.
fn allow_what_changes_nothing(fields: &mut Fields) {
    fields.allow("user", Value::is_string);
    fields.allow("store", |value| *value == false);
    fields.allow("service_tier", |value| *value == "auto" || *value == "default");
    fields.allow("modalities", |value| *value == serde_json::json!(["text"]));
    // Routers write out the defaults of engines that they know.
    ["no_stop_trim", "return_hidden_states", "continue_final_message"]
        .into_iter()
        .for_each(|field| fields.allow(field, |value| *value == false));
    ["separate_reasoning", "stream_reasoning", "include_reasoning"]
        .into_iter()
        .for_each(|field| fields.allow(field, |value| *value == true));
}

fn sampling(fields: &mut Fields) -> Result<Sampling, ApiError> {
    let base = Sampling::default();
    Ok(Sampling {
        temperature: fields.take("temperature")?.unwrap_or(base.temperature),
        top_k: top_k(fields.take("top_k")?)?,
        top_p: fields.take("top_p")?.unwrap_or(base.top_p),
        min_p: fields.take("min_p")?.unwrap_or(base.min_p),
        presence_penalty: fields.take("presence_penalty")?.unwrap_or(base.presence_penalty),
        frequency_penalty: fields.take("frequency_penalty")?.unwrap_or(base.frequency_penalty),
        repetition_penalty: fields.take("repetition_penalty")?.unwrap_or(base.repetition_penalty),
        logit_bias: logit_bias(fields.take("logit_bias")?.unwrap_or_default())?,
        allowed_ids: fields.take("allowed_token_ids")?,
    })
}

/// As vLLM has it: 0 and -1 are all tokens.
fn top_k(k: Option<i64>) -> Result<Option<u32>, ApiError> {
    match k {
        None | Some(-1 | 0) => Ok(None),
        Some(k) => u32::try_from(k).map(Some).map_err(|_| ApiError::field("top_k", format!("{k} is no count"))),
    }
}

fn logit_bias(bias: BTreeMap<String, f32>) -> Result<Vec<(u32, f32)>, ApiError> {
    let of_one = |(id, bias): (String, f32)| {
        let id = id.parse().map_err(|_| ApiError::field("logit_bias", format!("{id:?} is no token")))?;
        Ok((id, bias))
    };
    bias.into_iter().map(of_one).collect()
}

/// As vLLM has it: the width is n.
fn beam(fields: &mut Fields, n: usize) -> Result<Option<Beam>, ApiError> {
    let is_beam = fields.take("use_beam_search")?.unwrap_or(false);
    let length_penalty: Option<f64> = fields.take("length_penalty")?;
    match (is_beam, length_penalty) {
        (true, penalty) => Ok(Some(Beam { width: n, length_penalty: penalty.unwrap_or(1.0) })),
        (false, None | Some(1.0)) => Ok(None),
        (false, Some(_)) => Err(ApiError::field("length_penalty", "only use_beam_search has one")),
    }
}

/// Any integer; what is negative counts from the end of 64 bits.
fn seed(number: Number) -> Result<u64, ApiError> {
    let negative = || number.as_i64().map(i64::cast_unsigned);
    number.as_u64().or_else(negative).ok_or_else(|| ApiError::field("seed", format!("{number} is no integer")))
}

fn delivery(fields: &mut Fields) -> Result<Delivery, ApiError> {
    let is_stream: bool = fields.take("stream")?.unwrap_or(false);
    let options: Option<StreamOptions> = fields.take("stream_options")?;
    match (is_stream, options) {
        (true, options) => Ok(Delivery::Stream { include_usage: options.is_some_and(|o| o.include_usage) }),
        (false, None) => Ok(Delivery::Whole),
        (false, Some(_)) => Err(ApiError::field("stream_options", "the answer is not streamed")),
    }
}
