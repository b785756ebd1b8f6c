//! `POST /v1/completions`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State as Shared;
use axum::response::Response;
use warpfold_engine::Request;

use super::answer::{Answer, Kind, Wanted};
use super::params::{self, Common, Delivery, check_at_most};
use super::prompt::Prompts;
use super::structured;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::share::Tenant;
use crate::state::State;

/// Tokens of an answer where a request does not say how many.
const MAX_TOKENS: usize = 16;

pub(crate) async fn complete(
    Shared(state): Shared<Arc<State>>,
    Extension(tenant): Extension<Arc<Tenant>>,
    mut fields: Fields,
) -> Result<Response, ApiError> {
    let served = state.served()?;
    let Common { request, delivery, return_token_ids, seed, form } =
        params::take(&mut fields, &state, served, &tenant)?;
    let prompts: Prompts = fields.need("prompt").map_err(|error| match error.message.as_str() {
        message if message.contains("untagged") => {
            ApiError::field("prompt", "it is not a text, a list of tokens, or a list of either")
        }
        _ => error,
    })?;
    let max_tokens: Option<usize> = fields.take("max_tokens")?;
    let logprobs: Option<usize> = fields.take("logprobs")?;
    let echo = fields.take("echo")?.unwrap_or(false);
    let best_of: Option<usize> = fields.take("best_of")?;
    fields.finish()?;

    let bounds = state.options.bounds;
    check_at_most("logprobs", logprobs.unwrap_or(0), bounds.logprobs)?;
    let num_kept = request.n;
    let n = best_of.unwrap_or(num_kept);
    if n < num_kept || n > num_kept && (delivery != Delivery::Whole || request.beam.is_some()) {
        return Err(ApiError::field("best_of", "it is below n, or goes with a stream or beams, which have no best"));
    }
    if echo && logprobs.is_some() && n > 1 && delivery != Delivery::Whole {
        return Err(ApiError::field("echo", "with logprobs and n, the answer cannot be streamed"));
    }
    // To score a prompt alone a token is drawn that nobody sees.
    let is_echo_alone = echo && max_tokens == Some(0);
    let max_tokens = if is_echo_alone { Some(1) } else { max_tokens };
    let prompts = prompts.tokens(&state, served).await?;
    check_at_most("prompt", prompts.len(), bounds.prompts)?;
    check_at_most("n", prompts.len().saturating_mul(n), bounds.choices)?;
    if prompts.is_empty() {
        return Err(ApiError::field("prompt", "the list is empty"));
    }
    let request = structured::constrain(&state, form, request).await?;
    let of_prompt = |prompt: &Vec<u32>| Request {
        n,
        prompt: prompt.clone(),
        max_tokens: Some(max_tokens.unwrap_or(MAX_TOKENS.min(room(served.longest, prompt)))),
        // The best are known by their tokens'.
        logprobs: logprobs.or((n > num_kept).then_some(0)),
        prompt_logprobs: request.prompt_logprobs.max(logprobs.filter(|_| echo)),
        ..request.clone()
    };
    let requests: Vec<Request> = prompts.iter().map(of_prompt).collect();
    let wanted = Wanted {
        kind: Kind::Completion,
        usage: delivery.usage(),
        n,
        num_kept,
        logprobs,
        prompt_logprobs: request.prompt_logprobs,
        echo,
        is_echo_alone,
        prefix: String::new(),
        return_token_ids,
        seed,
        stops: request.stop.clone(),
    };
    let adapter = requests.first().and_then(|request| request.adapter.as_deref());
    let answer = Answer::new(&state, served, wanted, adapter, prompts);
    super::respond(&state, served, &tenant, requests, answer, delivery != Delivery::Whole).await
}

/// Tokens that a sequence has room for after a prompt, 1 at least: a prompt that is too long is
/// refused for that.
fn room(longest: usize, prompt: &[u32]) -> usize {
    longest.saturating_sub(prompt.len()).max(1)
}
