//! Answers of a given form: `response_format`, and what vLLM and SGLang have beside it.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use warpfold_engine::{Constraint, Request};
use warpfold_models::{Grammar, Grammars};

use super::prompt::tokenizer;
use super::tags::StructuralTag;
use super::{gbnf, tags};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::state::State;

/// A form that was asked for, and the field that says so.
#[derive(Debug, Clone)]
pub(crate) struct Form {
    pub(crate) grammar: Grammar,
    pub(crate) field: &'static str,
}

/// `response_format`, as OpenAI has it.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Format {
    Text {},
    JsonObject {},
    JsonSchema { json_schema: Named },
    StructuralTag(StructuralTag),
}

/// A schema and what it is called. All schemas are kept to, `strict` or not.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Named {
    pub(crate) schema: Value,
    #[serde(rename = "name")]
    _name: Option<String>,
    #[serde(rename = "description")]
    _description: Option<String>,
    #[serde(rename = "strict")]
    _strict: Option<bool>,
}

/// `structured_outputs`, as vLLM has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Outputs {
    json: Option<Value>,
    json_object: Option<bool>,
    regex: Option<String>,
    choice: Option<Vec<String>>,
    grammar: Option<String>,
    structural_tag: Option<Value>,
}

const FORMAT: &str = "response_format";
const OUTPUTS: &str = "structured_outputs";

/// The form that answers must have.
pub(super) fn take(fields: &mut Fields) -> Result<Option<Form>, ApiError> {
    let mut forms = Vec::new();
    let mut add = |field, grammar: Option<Grammar>| forms.extend(grammar.map(|grammar| Form { grammar, field }));
    add(FORMAT, of_format(fields.take(FORMAT)?)?);
    for field in ["guided_json", "json_schema"] {
        add(field, fields.take(field)?.map(|schema| json_of(field, schema)).transpose()?);
    }
    for field in ["guided_regex", "regex"] {
        add(field, fields.take(field)?.map(Grammar::Regex));
    }
    add("guided_choice", fields.take("guided_choice")?.map(Grammar::Choice));
    for field in ["guided_grammar", "ebnf"] {
        add(field, fields.take(field)?.map(|text: String| lark_of(field, text)).transpose()?);
    }
    if let Some(Outputs { json, json_object, regex, choice, grammar, structural_tag }) = fields.take(OUTPUTS)? {
        add(OUTPUTS, json.map(|schema| json_of(OUTPUTS, schema)).transpose()?);
        add(OUTPUTS, json_object.filter(|is_wanted| *is_wanted).map(|_| any_object()));
        add(OUTPUTS, regex.map(Grammar::Regex));
        add(OUTPUTS, choice.map(Grammar::Choice));
        add(OUTPUTS, grammar.map(|text| lark_of(OUTPUTS, text)).transpose()?);
        add(OUTPUTS, structural_tag.map(|tag| tag_of(OUTPUTS, tag)).transpose()?);
    }
    match forms.as_slice() {
        [] | [_] => Ok(forms.pop()),
        [first, second, ..] => {
            Err(ApiError::field(second.field, format!("{} gives the answer another form already", first.field)))
        }
    }
}

fn of_format(format: Option<Format>) -> Result<Option<Grammar>, ApiError> {
    Ok(match format {
        None | Some(Format::Text {}) => None,
        Some(Format::JsonObject {}) => Some(any_object()),
        Some(Format::JsonSchema { json_schema }) => Some(Grammar::Json(json_schema.schema)),
        Some(Format::StructuralTag(tag)) => Some(tags::grammar(FORMAT, tag)?),
    })
}

pub(super) fn any_object() -> Grammar {
    Grammar::Json(json!({"type": "object"}))
}

/// A value, which may come as a text.
fn value_of(field: &str, value: Value) -> Result<Value, ApiError> {
    match value {
        Value::String(text) => {
            serde_json::from_str(&text).map_err(|error| ApiError::field(field, format!("it is not JSON: {error}")))
        }
        value => Ok(value),
    }
}

fn json_of(field: &str, schema: Value) -> Result<Grammar, ApiError> {
    value_of(field, schema).map(Grammar::Json)
}

fn tag_of(field: &str, tag: Value) -> Result<Grammar, ApiError> {
    let tag = serde_json::from_value(value_of(field, tag)?).map_err(|error| ApiError::field(field, error))?;
    tags::grammar(field, tag)
}

fn lark_of(field: &str, text: String) -> Result<Grammar, ApiError> {
    lark(text).map_err(|error| ApiError::field(field, error))
}

/// A grammar in Lark or GBNF.
pub(super) fn lark(text: String) -> Result<Grammar, String> {
    let is_gbnf = gbnf::is_gbnf(&text);
    Ok(Grammar::Lark(if is_gbnf { gbnf::to_lark(&text)? } else { text }))
}

/// The request with the constraint of a form.
pub(crate) async fn constrain(state: &Arc<State>, form: Option<Form>, request: Request) -> Result<Request, ApiError> {
    let Some(Form { grammar, field }) = form else { return Ok(request) };
    let constraint = Some(constraint(state, grammar, field).await?);
    Ok(Request { constraint, ..request })
}

/// A constraint, made beside the threads that talk to clients. `field` is the one that asks for it.
pub(crate) async fn constraint(
    state: &Arc<State>,
    grammar: Grammar,
    field: &'static str,
) -> Result<Box<dyn Constraint>, ApiError> {
    let turn = state.tokenizing.acquire().await.map_err(|_| ApiError::internal("the server ends"))?;
    let shared = state.clone();
    let constraint = state.host.work(move || make(&shared, &grammar, field)).await;
    drop(turn);
    constraint.ok_or_else(|| ApiError::field(field, "it could not be read"))?
}

fn make(state: &State, grammar: &Grammar, field: &str) -> Result<Box<dyn Constraint>, ApiError> {
    let served = state.served()?;
    let tokenizer = tokenizer(served)?;
    let make = || Grammars::of(tokenizer, &served.limits.eos).map_err(|error| error.to_string());
    let grammars = served.grammars.get_or_init(make).as_ref().map_err(|error| ApiError::field(field, error))?;
    grammars.constraint(grammar).map_err(|error| ApiError::field(field, error))
}
