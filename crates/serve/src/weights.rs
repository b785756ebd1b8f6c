//! Other weights for the model that is served: `POST /v1/load_weights`, between two requests.
//!
//! The engine ends what came before it with the old weights and begins what comes after it with the
//! new ones, so that each answer is one of the same weights. Updates say how many weights there
//! were before theirs, and by that number `system_fingerprint` has their digest. A model that
//! [sleeps](crate::sleep) has no old ones beside them.

use std::any::Any;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use axum::extract::State as Shared;
use axum::response::Response;
use serde_json::json;
use tokio::sync::{OwnedMutexGuard, oneshot};
use warpfold_models::WeightsDigest;

use crate::body::json;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::host::{Host, ServeFault};
use crate::sleep::RestorableWeights;
use crate::state::State;

/// A digest that is known once the model has the weights.
pub type LateDigest = Arc<OnceLock<WeightsDigest>>;

/// Weights of a type that the model knows, and their digest.
pub type OtherWeights = (Box<dyn Any + Send + Sync>, LateDigest);

/// Opener of other weights for the model in a folder or file; without one, of those that it had at
/// the start.
#[derive(Clone)]
pub struct OpenWeights(pub Arc<dyn Fn(Option<&Path>) -> Result<OtherWeights, String> + Send + Sync>);

impl fmt::Debug for OpenWeights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OpenWeights")
    }
}

/// Digests of all weights that the model has had.
#[derive(Debug)]
pub(crate) struct WeightsDigests {
    first: Option<WeightsDigest>,
    others: RwLock<Vec<LateDigest>>,
    /// Number of weights by which a fault is behind.
    behind: usize,
}

impl WeightsDigests {
    pub(crate) fn new(first: Option<WeightsDigest>, host: &Host) -> Self {
        Self { first, others: RwLock::default(), behind: usize::from(host.has(ServeFault::OldWeightsAreNamed)) }
    }

    /// Digest of the weights with a number; there are none where nobody compared them.
    fn of(&self, number: usize) -> Option<WeightsDigest> {
        let others = self.others.read().unwrap_or_else(PoisonError::into_inner);
        match number.checked_sub(1) {
            None => self.first,
            Some(number) => others.get(number).and_then(|digest| digest.get().copied()),
        }
    }

    /// Digest of the weights that the model has.
    pub(crate) fn last(&self) -> Option<WeightsDigest> {
        let number = self.others.read().unwrap_or_else(PoisonError::into_inner).len();
        self.of(number)
    }

    /// Mark that answers with equal bits have in common: the version, and the weights where they
    /// are known.
    pub(crate) fn fingerprint(&self, number: usize) -> String {
        let version = concat!("warpfold-", env!("CARGO_PKG_VERSION"));
        self.of(number.saturating_sub(self.behind))
            .map_or_else(|| version.to_owned(), |digest| format!("{version}-{digest}"))
    }

    fn push(&self, digest: LateDigest) {
        self.others.write().unwrap_or_else(PoisonError::into_inner).push(digest);
    }

    fn pop(&self) {
        self.others.write().unwrap_or_else(PoisonError::into_inner).pop();
    }
}

/// Gives the model the weights of a folder or file of the server's machine.
pub(crate) async fn load(Shared(state): Shared<Arc<State>>, mut fields: Fields) -> Result<Response, ApiError> {
    let path: PathBuf = fields.need("path")?;
    fields.finish()?;
    let served = state.served()?;
    let turn = served.restorable.turn().await;
    bring(&state, Some(path), turn, |error| ApiError::field("path", error)).await?;
    let digest = served.digests.last().map(|digest| digest.to_string());
    Ok(json(&json!({"object": "weights", "loaded": true, "weights_digest": digest})))
}

/// Brings weights to the model, whose turn it is; `wrong` says what it means that they are not
/// right. Though the client may leave, what was begun goes on.
pub(crate) async fn bring(
    state: &State,
    path: Option<PathBuf>,
    mut turn: OwnedMutexGuard<RestorableWeights>,
    wrong: impl Fn(String) -> ApiError,
) -> Result<OwnedMutexGuard<RestorableWeights>, ApiError> {
    // While it waited for its turn, the server may have begun to end.
    let served = state.served()?;
    let open = served.text.open_weights.clone().ok_or_else(|| wrong("the model takes no other weights".to_owned()))?;
    let from = path.clone();
    let opened = state.host.work(move || (open.0)(from.as_deref())).await;
    let opened = opened.unwrap_or_else(|| Err("the weights could not be loaded".to_owned()));
    let (weights, digest) = opened.map_err(&wrong)?;
    let digests = served.digests.clone();
    // It is there before the first answer of theirs.
    digests.push(digest);
    let (answer, loaded) = oneshot::channel();
    served.client.load_weights_to(weights, move |loaded| {
        match &loaded {
            Ok(()) => turn.source = path,
            Err(_) => digests.pop(),
        }
        drop(answer.send(loaded.map(|()| turn)));
    });
    let loaded = loaded.await.map_err(|_| ApiError::unavailable("the server is shutting down"))?;
    loaded.map_err(|error| wrong(error.to_string()))
}
