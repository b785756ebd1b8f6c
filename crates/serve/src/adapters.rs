//! Low-rank adapters by name: `POST /v1/load_lora_adapter` and `/v1/unload_lora_adapter`, as vLLM
//! has them.
//!
//! A place is free once nothing names its adapter any more: neither the table of names nor a
//! request that runs. So an adapter that is unloaded serves the requests that have it to their end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use tokio::sync::oneshot;
use warpfold_engine::service::Client;
use warpfold_engine::{Adapter, ModelError};
use warpfold_models::AdapterWeights;

use crate::body::json;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::host::{Host, ServeFault};
use crate::state::State;

/// The adapters of a model, by name.
#[derive(Debug)]
pub(crate) struct Adapters {
    known: Mutex<Known>,
    /// A fault.
    gives_taken: bool,
}

#[derive(Debug)]
struct Known {
    places: Vec<Weak<Adapter>>,
    names: BTreeMap<String, Arc<Adapter>>,
    last_id: u64,
}

impl Adapters {
    /// So many places, all of them free.
    pub(crate) fn new(places: usize, host: &Host) -> Self {
        let known = Known { places: (0..places).map(|_| Weak::new()).collect(), names: BTreeMap::new(), last_id: 0 };
        Self { known: Mutex::new(known), gives_taken: host.has(ServeFault::TakenPlaceIsGiven) }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<Adapter>> {
        self.known().names.get(name).cloned()
    }

    /// All names, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        self.known().names.keys().cloned().collect()
    }

    /// The name of an adapter, as long as it has one.
    pub(crate) fn name_of(&self, adapter: &Adapter) -> Option<String> {
        self.known().names.iter().find(|(_, of)| of.id == adapter.id).map(|(name, _)| name.clone())
    }

    /// Takes a place for an adapter without a name.
    fn reserve(&self) -> Option<Arc<Adapter>> {
        let mut known = self.known();
        let is_free = |place: &Weak<Adapter>| place.strong_count() == 0 || self.gives_taken;
        let slot = known.places.iter().position(is_free)?;
        known.last_id += 1;
        let adapter = Arc::new(Adapter { slot: slot as u32, id: known.last_id });
        known.places[slot] = Arc::downgrade(&adapter);
        Some(adapter)
    }

    /// Brings an adapter to the model, and gives it a name that has none yet.
    pub(crate) fn load(&self, client: &Client, name: &str, weights: AdapterWeights) -> Result<(), ModelError> {
        let adapter = self.place()?;
        client.load_adapter(adapter.clone(), Box::new(weights))?;
        self.enter(name, adapter)
    }

    /// The same for those who may not wait on their thread.
    async fn load_beside(&self, client: &Client, name: &str, weights: AdapterWeights) -> Result<(), ModelError> {
        let adapter = self.place()?;
        let (answer, loaded) = oneshot::channel();
        client.load_adapter_to(adapter.clone(), Box::new(weights), move |result| drop(answer.send(result)));
        loaded.await.map_err(|_| "the engine has ended")??;
        self.enter(name, adapter)
    }

    /// Takes a place, or says that there is none.
    fn place(&self) -> Result<Arc<Adapter>, ModelError> {
        let places = self.known().places.len();
        let reason = || format!("all {places} places of adapters are taken; --max-loras says how many there are");
        Ok(self.reserve().ok_or_else(reason)?)
    }

    /// Gives an adapter its name.
    fn enter(&self, name: &str, adapter: Arc<Adapter>) -> Result<(), ModelError> {
        let mut known = self.known();
        if known.names.contains_key(name) {
            return Err(format!("there is an adapter {name:?} already").into());
        }
        known.names.insert(name.to_owned(), adapter);
        Ok(())
    }

    /// Forgets a name.
    fn unload(&self, name: &str) -> bool {
        self.known().names.remove(name).is_some()
    }
}

fn refused(message: String) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, message)
}

/// Loads an adapter of a folder of the server's machine.
pub(crate) async fn load(Shared(state): Shared<Arc<State>>, mut fields: Fields) -> Result<Response, ApiError> {
    let client = state.served()?.client.clone();
    let name: String = fields.need("lora_name")?;
    let path: PathBuf = fields.need("lora_path")?;
    fields.finish()?;
    if name.is_empty() || state.options.names.contains(&name) || state.adapters.find(&name).is_some() {
        return Err(refused(format!("lora_name: there is a model {name:?} already")));
    }
    let weights = state.host.work(move || AdapterWeights::open(&path)).await;
    let weights = weights.ok_or_else(|| ApiError::internal("the adapter could not be loaded"))?;
    let weights = weights.map_err(|error| refused(format!("lora_path: {error}")))?;
    let loaded = state.adapters.load_beside(&client, &name, weights).await;
    loaded.map_err(|error| refused(error.to_string()))?;
    Ok(json(&json!({"object": "lora", "id": name, "loaded": true})))
}

/// Takes an adapter away from those who have not begun.
pub(crate) async fn unload(Shared(state): Shared<Arc<State>>, mut fields: Fields) -> Result<Response, ApiError> {
    state.served()?;
    let name: String = fields.need("lora_name")?;
    fields.allow("lora_int_id", serde_json::Value::is_u64);
    fields.finish()?;
    match state.adapters.unload(&name) {
        true => Ok(json(&json!({"object": "lora", "id": name, "loaded": false}))),
        false => Err(ApiError::new(StatusCode::NOT_FOUND, format!("lora_name: there is no adapter {name:?}"))),
    }
}
