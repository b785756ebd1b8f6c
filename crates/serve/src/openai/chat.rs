//! `POST /v1/chat/completions`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State as Shared;
use axum::response::Response;
use warpfold_engine::Request;

use super::answer::{Answer, Kind, Wanted};
use super::dialogue::{Dialogue, Prepared};
use super::params::{self, Common, Delivery, check_at_most};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::share::Tenant;
use crate::state::State;

pub(crate) async fn complete(
    Shared(state): Shared<Arc<State>>,
    Extension(tenant): Extension<Arc<Tenant>>,
    mut fields: Fields,
) -> Result<Response, ApiError> {
    let served = state.served()?;
    let Common { request, delivery, return_token_ids, seed, form } =
        params::take(&mut fields, &state, served, &tenant)?;
    let dialogue = Dialogue::take(&mut fields, form)?;
    let max_tokens = match (fields.take("max_completion_tokens")?, fields.take("max_tokens")?) {
        (Some(_), Some(_)) => return Err(ApiError::field("max_tokens", "max_completion_tokens is there, too")),
        (most, older) => most.or(older),
    };
    let is_echo = fields.take("echo")?.unwrap_or(false);
    let with_logprobs = fields.take("logprobs")?.unwrap_or(false);
    let top: Option<usize> = fields.take("top_logprobs")?;
    fields.finish()?;

    let bounds = state.options.bounds;
    check_at_most("top_logprobs", top.unwrap_or(0), bounds.logprobs)?;
    let logprobs = match (with_logprobs, top) {
        (true, top) => Some(top.unwrap_or(0)),
        (false, None | Some(0)) => None,
        (false, Some(_)) => return Err(ApiError::field("top_logprobs", "logprobs is not true")),
    };
    let request = Request { max_tokens, logprobs, ..request };
    let prefix = if is_echo { dialogue.last_of_assistant() } else { String::new() };
    let Prepared { mut request, reader } = dialogue.prepare(&state, served, request).await?;
    request.max_tokens = request.max_tokens.or(served.max_new_tokens(request.prompt.len()));
    let wanted = Wanted {
        kind: Kind::Chat(reader),
        usage: delivery.usage(),
        n: request.n,
        num_kept: request.n,
        logprobs,
        prompt_logprobs: request.prompt_logprobs,
        echo: false,
        is_echo_alone: false,
        prefix,
        return_token_ids,
        seed,
        stops: request.stop.clone(),
    };
    let answer = Answer::new(&state, served, wanted, request.adapter.as_deref(), vec![request.prompt.clone()]);
    super::respond(&state, served, &tenant, vec![request], answer, delivery != Delivery::Whole).await
}
