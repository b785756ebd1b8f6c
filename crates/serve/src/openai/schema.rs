//! `response_format`: answers that are JSON, of a schema or of any kind.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use warpfold_engine::{Constraint, Request};
use warpfold_models::Schemas;

use super::prompt::tokenizer;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::state::State;

/// The field's forms, as OpenAI has them.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Format {
    Text {},
    JsonObject {},
    JsonSchema { json_schema: Named },
}

/// A schema and what it is called. All schemas are kept to, `strict` or not.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    schema: Value,
    #[serde(rename = "name")]
    _name: Option<String>,
    #[serde(rename = "description")]
    _description: Option<String>,
    #[serde(rename = "strict")]
    _strict: Option<bool>,
}

const FIELD: &str = "response_format";

/// The schema that answers must have.
pub(super) fn take(fields: &mut Fields) -> Result<Option<Value>, ApiError> {
    Ok(match fields.take(FIELD)? {
        None | Some(Format::Text {}) => None,
        Some(Format::JsonObject {}) => Some(json!({"type": "object"})),
        Some(Format::JsonSchema { json_schema }) => Some(json_schema.schema),
    })
}

/// The request with the constraint of a schema, which is made beside the threads that talk to
/// clients.
pub(super) async fn constrain(
    state: &Arc<State>,
    schema: Option<Value>,
    request: Request,
) -> Result<Request, ApiError> {
    let Some(schema) = schema else { return Ok(request) };
    let turn = state.tokenizing.acquire().await.map_err(|_| ApiError::internal("the server ends"))?;
    let shared = state.clone();
    let constraint = tokio::task::spawn_blocking(move || constraint(&shared, &schema)).await;
    drop(turn);
    let constraint = constraint.map_err(|_| ApiError::internal("the schema could not be read"))??;
    Ok(Request { constraint: Some(constraint), ..request })
}

fn constraint(state: &State, schema: &Value) -> Result<Box<dyn Constraint>, ApiError> {
    let served = state.served()?;
    let Some(eos) = served.limits.eos.first() else {
        return Err(ApiError::field(FIELD, "the model has no token that ends an answer"));
    };
    let tokenizer = tokenizer(served)?;
    let schemas = served.schemas.get_or_init(|| Schemas::of(tokenizer, *eos).map_err(|error| error.to_string()));
    let schemas = schemas.as_ref().map_err(|error| ApiError::field(FIELD, error))?;
    schemas.constraint(schema).map_err(|error| ApiError::field(FIELD, error))
}
