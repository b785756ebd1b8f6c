//! What completions and chat completions have in common: how to draw, when to end, how to deliver.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Number, Value};
use warpfold_engine::{Adapter, Beam, Request, Sampling};

use super::structured::Form;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::share::Tenant;
use crate::state::{Served, State};

/// How an answer is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    Whole,
    Stream(StreamUsage),
}

impl Delivery {
    /// What a stream tells of its usage.
    pub(crate) fn usage(self) -> StreamUsage {
        match self {
            Self::Whole => StreamUsage::default(),
            Self::Stream(usage) => usage,
        }
    }
}

/// Fields that both kinds of request have.
#[derive(Debug)]
pub(crate) struct Common {
    /// A request without its prompt.
    pub(crate) request: Request,
    pub(crate) delivery: Delivery,
    pub(crate) return_token_ids: bool,
    pub(crate) seed: Option<Seed>,
    /// What answers must look like.
    pub(crate) form: Option<Form>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "it is not a text, or a list of texts")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// What a stream tells of its usage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StreamUsage {
    /// With a chunk of its own at the end.
    pub(crate) at_end: bool,
    /// And with each chunk before, of what has come so far.
    pub(crate) in_chunks: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
    #[serde(default)]
    continuous_usage_stats: bool,
    /// Padding against those who measure the length of packets: there is none.
    #[serde(default)]
    include_obfuscation: bool,
}

/// Takes the common fields.
pub(crate) fn take(fields: &mut Fields, state: &State, served: &Served, tenant: &Tenant) -> Result<Common, ApiError> {
    let adapter = check_model(fields.take("model")?, state)?;
    let bounds = state.options.bounds;
    let n = fields.take("n")?.unwrap_or(1);
    check_at_most("n", n, bounds.choices)?;
    fields.allow("best_of", |best| *best == n);
    let stop = stops(fields, state, "stop")?;
    let seed = fields.take("seed")?.map(Seed::of).transpose()?;
    let salt: Option<String> = fields.take("cache_salt")?;
    let beam = beam(fields, n)?;
    let prompt_logprobs = fields.take("prompt_logprobs")?;
    check_at_most("prompt_logprobs", prompt_logprobs.unwrap_or(0), bounds.logprobs)?;
    // Beams draw nothing.
    let base = if beam.is_some() { Sampling::default() } else { served.text.sampling.sampling() };
    let request = Request {
        sampling: sampling(fields, base)?,
        n,
        beam,
        seed: seed.map(|seed| seed.bits),
        min_tokens: fields.take("min_tokens")?.unwrap_or(0),
        stop_ids: fields.take("stop_token_ids")?.unwrap_or_default(),
        stop,
        include_stop: fields.take("include_stop_str_in_output")?.unwrap_or(false),
        ignore_eos: fields.take("ignore_eos")?.unwrap_or(false),
        prompt_logprobs,
        priority: priority(fields, state)?,
        skip_special: fields.take("skip_special_tokens")?.unwrap_or(true),
        salt: salt.map_or_else(|| tenant.salt.clone(), |salt| Arc::from(format!("{}\n{salt}", tenant.salt))),
        adapter,
        ..Request::new(Vec::new())
    };
    let delivery = delivery(fields)?;
    if request.beam.is_some() && delivery != Delivery::Whole {
        return Err(ApiError::field("stream", "beam search knows its answers at the end only"));
    }
    if prompt_logprobs.is_some() && delivery != Delivery::Whole {
        return Err(ApiError::field("prompt_logprobs", "the answer cannot be streamed"));
    }
    let return_token_ids = fields.take("return_token_ids")?.unwrap_or(false);
    let form = super::structured::take(fields)?;
    super::neutral::allow(fields);
    Ok(Common { request, delivery, return_token_ids, seed, form })
}

/// Texts that end an answer.
pub(crate) fn stops(fields: &mut Fields, state: &State, field: &str) -> Result<Vec<String>, ApiError> {
    let stop = match fields.take(field)? {
        None => Vec::new(),
        Some(OneOrMany::One(stop)) => vec![stop],
        Some(OneOrMany::Many(stop)) => stop,
    };
    let bounds = state.options.bounds;
    check_at_most(field, stop.len(), bounds.stops)?;
    check_at_most(field, stop.iter().map(String::len).max().unwrap_or(0), bounds.stop_bytes)?;
    Ok(stop)
}

/// The adapter that a model's name stands for, unless it is the model itself. A model that is not
/// served is not there.
pub(crate) fn check_model(model: Option<String>, state: &State) -> Result<Option<Arc<Adapter>>, ApiError> {
    let adapter = model.as_ref().and_then(|model| state.adapters.find(model));
    match model {
        Some(model) if adapter.is_none() && !state.options.names.contains(&model) => {
            let error = ApiError::new(StatusCode::NOT_FOUND, format!("there is no model {model:?}"));
            Err(ApiError { param: Some("model".to_owned()), code: Some("model_not_found"), ..error })
        }
        _ => Ok(adapter),
    }
}

pub(crate) fn check_at_most(field: &str, value: usize, most: usize) -> Result<(), ApiError> {
    let is_within = value <= most;
    is_within.then_some(()).ok_or_else(|| ApiError::field(field, format!("{value} is more than {most}")))
}

/// How to draw, as `base` where the request does not say it.
pub(crate) fn sampling(fields: &mut Fields, base: Sampling) -> Result<Sampling, ApiError> {
    Ok(Sampling {
        temperature: fields.take("temperature")?.unwrap_or(base.temperature),
        top_k: fields.take("top_k")?.map_or(Ok(base.top_k), top_k)?,
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
fn top_k(k: i64) -> Result<Option<u32>, ApiError> {
    match k {
        -1 | 0 => Ok(None),
        k => u32::try_from(k).map(Some).map_err(|_| ApiError::field("top_k", format!("{k} is no count"))),
    }
}

fn logit_bias(bias: BTreeMap<String, f32>) -> Result<Vec<(u32, f32)>, ApiError> {
    let of_one = |(id, bias): (String, f32)| {
        let id = id.parse().map_err(|_| ApiError::field("logit_bias", format!("{id:?} is no token")))?;
        Ok((id, bias))
    };
    bias.into_iter().map(of_one).collect()
}

/// Lower ones are served first, as in vLLM. No request passes those of other keys.
fn priority(fields: &mut Fields, state: &State) -> Result<i64, ApiError> {
    let priority: i32 = fields.take("priority")?.unwrap_or(0);
    if priority < 0 && state.options.keys.len() > 1 {
        return Err(ApiError::field("priority", "it is below 0, and would pass requests of other keys"));
    }
    Ok(priority.into())
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

/// A seed as it was sent: any integer of 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seed {
    bits: u64,
    is_negative: bool,
}

impl Seed {
    fn of(number: Number) -> Result<Self, ApiError> {
        let bits = number.as_u64();
        let negative = number.as_i64().map(i64::cast_unsigned);
        let of = |bits| Self { bits, is_negative: number.is_i64() && !number.is_u64() };
        bits.or(negative).map(of).ok_or_else(|| ApiError::field("seed", format!("{number} is no integer of 64 bits")))
    }
}

/// A seed in an answer: what is sent back as `seed` gives the answer again.
pub(crate) fn seed_back(sent: Option<Seed>, seed: u64) -> Value {
    match sent {
        Some(Seed { is_negative: true, .. }) => seed.cast_signed().into(),
        _ => seed.into(),
    }
}

fn delivery(fields: &mut Fields) -> Result<Delivery, ApiError> {
    let is_stream: bool = fields.take("stream")?.unwrap_or(false);
    let options: Option<StreamOptions> = fields.take("stream_options")?;
    match (is_stream, options) {
        (true, None) => Ok(Delivery::Stream(StreamUsage::default())),
        (true, Some(options)) if options.include_obfuscation => {
            Err(ApiError::field("stream_options", "include_obfuscation is not supported"))
        }
        (true, Some(StreamOptions { include_usage: at_end, continuous_usage_stats, .. })) => {
            Ok(Delivery::Stream(StreamUsage { at_end, in_chunks: at_end && continuous_usage_stats }))
        }
        (false, None) => Ok(Delivery::Whole),
        (false, Some(_)) => Err(ApiError::field("stream_options", "the answer is not streamed")),
    }
}
