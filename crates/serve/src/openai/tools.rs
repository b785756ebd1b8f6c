//! Tools of a conversation: what they are, and whether one must be called.

use serde::Deserialize;
use serde_json::{Value, json};
use warpfold_models::{Tool, ToolChoice};

use crate::error::ApiError;
use crate::fields::Fields;

/// Tools as templates and grammars take them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tools {
    /// As a template takes them.
    pub(crate) told: Vec<Value>,
    pub(crate) tools: Vec<Tool>,
    pub(crate) choice: ToolChoice,
    pub(crate) is_single: bool,
}

/// A tool as chat completions have it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Outer {
    #[serde(rename = "type")]
    kind: String,
    function: Option<Function>,
    /// Asks for a prefix to be kept, as all are.
    #[serde(rename = "cache_control")]
    _cache_control: Option<Value>,
}

/// What a tool is called, what it does and takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) parameters: Option<Value>,
    pub(crate) strict: Option<bool>,
}

/// `tool_choice`, in words or with a tool.
#[derive(Deserialize)]
#[serde(untagged, expecting = "it is neither \"none\", \"auto\", \"required\" nor a function")]
enum Choice {
    Word(String),
    Function {
        function: Name,
    },
    /// As the Responses API has it.
    Flat {
        name: String,
    },
}

#[derive(Deserialize)]
struct Name {
    name: String,
}

// THRESHOLD: more tools are refused; tested by
// crates/serve/tests/http/tools.rs::tools_are_taken_up_to_their_number_and_names_to_their_length
/// Tools of a request at most.
const MOST_TOOLS: usize = 256;
// THRESHOLD: longer names are refused; tested by
// crates/serve/tests/http/tools.rs::tools_are_taken_up_to_their_number_and_names_to_their_length
/// Letters of a name at most.
const LONGEST_NAME: usize = 128;

impl Tools {
    /// Takes the fields of tools.
    pub(crate) fn take(fields: &mut Fields) -> Result<Self, ApiError> {
        let outer: Vec<Outer> = fields.take("tools")?.unwrap_or_default();
        let function = |(i, outer): (usize, Outer)| match outer {
            Outer { function: Some(function), kind, .. } if kind == "function" => Ok(function),
            Outer { kind, .. } => {
                Err(ApiError::field(&format!("tools[{i}]"), format!("tools of type {kind:?} are not supported")))
            }
        };
        let functions = outer.into_iter().enumerate().map(function).collect::<Result<_, _>>()?;
        let choice = fields.take("tool_choice")?;
        Self::of(functions, choice, fields.take("parallel_tool_calls")?)
    }

    /// The tools of some functions.
    pub(crate) fn of(
        functions: Vec<Function>,
        choice: Option<Value>,
        is_parallel: Option<bool>,
    ) -> Result<Self, ApiError> {
        if functions.len() > MOST_TOOLS {
            return Err(ApiError::field("tools", format!("{} is more than {MOST_TOOLS}", functions.len())));
        }
        let mut tools = Self { is_single: is_parallel == Some(false), ..Self::default() };
        for (i, function) in functions.into_iter().enumerate() {
            tools.add(&format!("tools[{i}]"), function)?;
        }
        let wrong = |reason: &dyn std::fmt::Display| ApiError::field("tool_choice", reason);
        let choice = choice.map(serde_json::from_value).transpose().map_err(|error| wrong(&error))?;
        tools.choice = match choice {
            // Tools that are not to be called are not told of.
            Some(Choice::Word(word)) if word == "none" => return Ok(Self::default()),
            None => ToolChoice::Auto,
            Some(Choice::Word(word)) if word == "auto" => ToolChoice::Auto,
            Some(Choice::Word(word)) if word == "required" || word == "any" => ToolChoice::Required,
            Some(Choice::Word(word)) => return Err(wrong(&format!("{word:?} is unknown"))),
            Some(Choice::Function { function: Name { name } } | Choice::Flat { name }) => ToolChoice::Named(name),
        };
        let is_there = match &tools.choice {
            ToolChoice::Auto => true,
            ToolChoice::Required => !tools.tools.is_empty(),
            ToolChoice::Named(name) => tools.tools.iter().any(|tool| tool.name == *name),
        };
        if is_there { Ok(tools) } else { Err(wrong(&"there is no such tool")) }
    }

    fn add(&mut self, field: &str, function: Function) -> Result<(), ApiError> {
        let Function { name, description, parameters, strict } = function;
        let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/');
        if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_letter) {
            let reason = format!("{name:?} is no name of 1 to {LONGEST_NAME} letters, digits and any of _-.:/");
            return Err(ApiError::field(field, reason));
        }
        if self.tools.iter().any(|tool| tool.name == name) {
            return Err(ApiError::field(field, format!("another tool has the name {name}")));
        }
        let empty = || json!({"type": "object", "properties": {}});
        let parameters = parameters.filter(|schema| schema.as_object().is_none_or(|s| !s.is_empty()));
        let Value::Object(mut schema) = parameters.unwrap_or_else(empty) else {
            return Err(ApiError::field(field, "parameters is no object"));
        };
        // Arguments are an object, whether the schema says so or not.
        schema.entry("type").or_insert_with(|| "object".into());
        let parameters = Value::Object(schema);
        let mut function = json!({"name": name});
        if let Some(description) = description {
            function["description"] = description.into();
        }
        function["parameters"] = parameters.clone();
        self.told.push(json!({"type": "function", "function": function}));
        self.tools.push(Tool { name, parameters, is_strict: strict == Some(true) });
        Ok(())
    }
}
