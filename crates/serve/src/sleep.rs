//! A model that sleeps: `/sleep`, `/wake_up` and `/is_sleeping`, as vLLM has them.
//!
//! Its device is somebody else's for a while, such as a trainer's. Requests that came before end
//! first, and those that come while it sleeps are a 503. Weights and cache are freed on both
//! levels. After level 1 waking reads the weights again, from the files that they came from; after
//! level 2 they are forgotten, and `/v1/load_weights` brings others before it is woken, with no
//! second copy beside them.

use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::{Request, State as Shared};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};
use warpfold_engine::Residence;

use crate::body::{check_type, json};
use crate::error::ApiError;
use crate::state::State;
use crate::weights::bring;

/// Weights that waking brings back, behind a turn.
#[derive(Debug, Clone, Default)]
pub(crate) struct Restorable(Arc<Mutex<RestorableWeights>>);

/// Weights that waking brings back.
#[derive(Debug, Default)]
pub(crate) struct RestorableWeights {
    /// Files that the last ones came from, unless they are those of the start.
    pub(crate) source: Option<PathBuf>,
    level: SleepLevel,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum SleepLevel {
    #[default]
    Restores,
    Forgets,
}

impl Restorable {
    /// Waits for those who change what the model has.
    pub(crate) async fn turn(&self) -> OwnedMutexGuard<RestorableWeights> {
        self.0.clone().lock_owned().await
    }
}

/// The parameters of a request's address, each of which has one of these names.
fn parameters<'a>(request: &'a Request, names: &[&str]) -> Result<Vec<(&'a str, &'a str)>, ApiError> {
    check_type(request.headers())?;
    let query = request.uri().query().unwrap_or_default();
    let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let known = |(name, value)| match names.contains(&name) {
        true => Ok((name, value)),
        false => Err(ApiError::field(name, "the parameter is unknown or not supported")),
    };
    pairs.map(known).collect()
}

/// Frees the memory of weights and cache once the requests that came before have ended.
pub(crate) async fn sleep(Shared(state): Shared<Arc<State>>, request: Request) -> Result<Response, ApiError> {
    let mut level = SleepLevel::Restores;
    for (name, value) in parameters(&request, &["level", "mode"])? {
        level = match (name, value) {
            ("level", "1") => SleepLevel::Restores,
            ("level", "2") => SleepLevel::Forgets,
            ("mode", "wait") => level,
            ("mode", _) => return Err(ApiError::field(name, "requests end first: it is \"wait\"")),
            _ => return Err(ApiError::field(name, format!("{value:?} is neither 1 nor 2"))),
        };
    }
    let served = state.served()?;
    let mut turn = served.restorable.turn().await;
    let (answer, slept) = oneshot::channel();
    served.client.sleep_to(move |slept| {
        if slept.is_ok() {
            turn.level = level;
        }
        drop(answer.send(slept));
    });
    let slept = slept.await.map_err(|_| ApiError::unavailable("the server is shutting down"))?;
    slept.map_err(|error| ApiError::bad_request(error.to_string()))?;
    Ok(().into_response())
}

/// Brings weights and cache back, or the one that `tags` names; requests are taken once both are
/// there.
pub(crate) async fn wake_up(Shared(state): Shared<Arc<State>>, request: Request) -> Result<Response, ApiError> {
    let (mut with_weights, mut with_cache) = (false, false);
    for (name, value) in parameters(&request, &["tags"])? {
        match value {
            "weights" => with_weights = true,
            "kv_cache" => with_cache = true,
            _ => return Err(ApiError::field(name, format!("{value:?} is neither weights nor kv_cache"))),
        }
    }
    let is_all = !with_weights && !with_cache;
    let served = state.served()?;
    let mut turn = served.restorable.turn().await;
    let has_weights = state.engine_metrics().await?.now.residence != Residence::WithoutWeights;
    if (with_weights || is_all) && turn.level == SleepLevel::Restores && !has_weights {
        let source = turn.source.clone();
        turn = bring(&state, source, turn, ApiError::internal).await?;
    }
    if with_cache || is_all {
        let (answer, woken) = oneshot::channel();
        // The turn ends with the answer, not when the client leaves.
        served.client.wake_to(move |woken| {
            drop(turn);
            drop(answer.send(woken));
        });
        let woken = woken.await.map_err(|_| ApiError::unavailable("the server is shutting down"))?;
        let advice = "after level 2, /v1/load_weights brings them; after level 1, /wake_up with the tag weights";
        woken.map_err(|error| ApiError::bad_request(format!("the model sleeps on: {error} ({advice})")))?;
    }
    Ok(().into_response())
}

pub(crate) async fn is_sleeping(Shared(state): Shared<Arc<State>>) -> Result<Response, ApiError> {
    state.served()?;
    let is_sleeping = state.engine_metrics().await?.now.residence != Residence::Awake;
    Ok(json(&json!({"is_sleeping": is_sleeping})))
}
