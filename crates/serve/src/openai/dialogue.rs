//! A conversation on its way to the engine: the text of its template, the grammar of its answer,
//! and what reads the answer. All interfaces that chat make one of these.

use std::sync::Arc;

use serde_json::{Map, Value};
use warpfold_engine::Request;
use warpfold_models::{ChatOptions, Dialect, Splitter, Thinking, Turn};

use super::history;
use super::prompt::{Marks, tokenize};
use super::structured::{Form, constraint};
use super::tools::Tools;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::state::{Served, State};

/// Messages, and what their template is told beside them.
#[derive(Debug, Default)]
pub(crate) struct Dialogue {
    pub(crate) messages: Vec<Value>,
    pub(crate) tools: Tools,
    pub(crate) options: ChatOptions,
    /// Whether the answer goes on with the last message.
    pub(crate) goes_on: bool,
    /// What is done with reasoning.
    pub(crate) reasoning: Reasoning,
    /// What content must look like.
    pub(crate) form: Option<Form>,
}

/// What becomes of a model's reasoning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Reasoning {
    /// It stands beside the content.
    #[default]
    Apart,
    /// It is left out.
    Hidden,
    /// It is part of the content, with its marks.
    Within,
}

/// A prompt with all that its answers need.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) request: Request,
    pub(crate) reader: Reader,
}

/// Reads answers.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    pub(crate) splitter: Splitter,
    pub(crate) reasoning: Reasoning,
}

const NO_TEMPLATE: &str = "the model has no chat template; the server takes one as --chat-template";

impl Dialogue {
    /// Takes the fields of a conversation as chat completions have them.
    pub(crate) fn take(fields: &mut Fields, form: Option<Form>) -> Result<Self, ApiError> {
        let messages = history::messages(fields.need("messages")?)?;
        let goes_on = fields.take("continue_final_message")?.unwrap_or(false);
        let add_generation_prompt = fields.take("add_generation_prompt")?.unwrap_or(!goes_on);
        if goes_on && add_generation_prompt {
            return Err(ApiError::field("continue_final_message", "add_generation_prompt begins another message"));
        }
        let mut variables: Map<String, Value> = fields.take("chat_template_kwargs")?.unwrap_or_default();
        if let Some(documents) = fields.take::<Vec<Value>>("documents")? {
            variables.insert("documents".to_owned(), documents.into());
        }
        if let Some(effort) = fields.take("reasoning_effort")? {
            take_effort(&mut variables, "reasoning_effort", effort)?;
        }
        if let Some(verbosity) = fields.take::<String>("verbosity")? {
            variables.insert("verbosity".to_owned(), verbosity.into());
        }
        if let Some(is_on) = fields.take::<bool>("enable_thinking")? {
            variables.insert("enable_thinking".to_owned(), is_on.into());
        }
        let reasoning = match (fields.take("include_reasoning")?, fields.take("separate_reasoning")?) {
            (Some(false), _) => Reasoning::Hidden,
            (_, Some(false)) => Reasoning::Within,
            _ => Reasoning::Apart,
        };
        let options = ChatOptions { add_generation_prompt, variables, ..ChatOptions::default() };
        Ok(Self { messages, tools: Tools::take(fields)?, options, goes_on, reasoning, form })
    }

    /// The content of the last message, if it is the assistant's.
    pub(crate) fn last_of_assistant(&self) -> String {
        let last = self.messages.last().filter(|message| message["role"] == "assistant");
        last.and_then(|message| message["content"].as_str()).unwrap_or_default().to_owned()
    }

    /// The text of it by the model's template, which is written beside the threads that talk to
    /// clients: a template may take a while.
    pub(crate) async fn text(self, state: &Arc<State>) -> Result<String, ApiError> {
        if state.served()?.text.template.is_none() {
            return Err(ApiError::bad_request(NO_TEMPLATE));
        }
        let turn = state.tokenizing.acquire().await.map_err(|_| ApiError::internal("the server ends"))?;
        let shared = state.clone();
        let text = state.host.work(move || self.render(shared.served()?)).await;
        let text = text.ok_or_else(|| ApiError::internal("the chat template has failed"))?;
        drop(turn);
        text
    }

    fn render(self, served: &Served) -> Result<String, ApiError> {
        let template = served.text.template.as_ref().ok_or_else(|| ApiError::bad_request(NO_TEMPLATE))?;
        let Self { mut messages, tools: Tools { mut told, .. }, mut options, goes_on, .. } = self;
        if options.variables.contains_key("verbosity") && !template.source().contains("verbosity") {
            return Err(ApiError::field("verbosity", "the model's chat template knows no such thing"));
        }
        let last = messages.last().and_then(|message| message["content"].as_str()).unwrap_or_default().to_owned();
        if !template.source().contains("developer") {
            // OpenAI's name for it, which most templates would leave out.
            for message in messages.iter_mut().filter(|message| message["role"] == "developer") {
                message["role"] = "system".into();
            }
        }
        if !served.dialect.is_told_by_template() {
            messages = served.dialect.tell(messages, &told);
            told.clear();
        }
        options.tools = told;
        let text = template.render(&messages.into(), &options).map_err(|error| ApiError::from(&error))?;
        if goes_on { up_to_end_of(text, &last) } else { Ok(text) }
    }

    /// The request of the conversation.
    pub(crate) async fn prepare(
        mut self,
        state: &Arc<State>,
        served: &Served,
        request: Request,
    ) -> Result<Prepared, ApiError> {
        let reasoning = self.reasoning;
        let Tools { tools, choice, is_single, .. } = self.tools.clone();
        let field = if tools.is_empty() { self.form.as_ref().map_or("tools", |form| form.field) } else { "tools" };
        let content = self.form.take().map(|form| form.grammar);
        let turn = Turn { tools, choice, is_single, content };
        let text = self.text(state).await?;
        let dialect: &Dialect = &served.dialect;
        let thinking = dialect.thinking(&text);
        let prompt = tokenize(state, served, text, Marks::Keep).await?;
        let constraint = match dialect.grammar(&turn, thinking) {
            Some(grammar) => Some(constraint(state, grammar, field).await?),
            None => None,
        };
        let seen = if reasoning == Reasoning::Within { Thinking::Never } else { thinking };
        let splitter = dialect.splitter(&turn, seen);
        let request = Request { prompt, constraint, ..request };
        Ok(Prepared { request, reader: Reader { splitter, reasoning } })
    }
}

/// The text of a conversation up to the end of its last message, as transformers cuts it: where the
/// template trims the message, the trimmed one ends it.
fn up_to_end_of(mut text: String, last: &str) -> Result<String, ApiError> {
    let at = text.rfind(last.trim()).filter(|_| !last.trim().is_empty());
    let reason = "the last message has no content that the chat template writes";
    let at = at.ok_or_else(|| ApiError::field("continue_final_message", reason))?;
    let whole = last.trim_start();
    text.truncate(at + if text[at..].starts_with(whole) { whole.len() } else { last.trim().len() });
    Ok(text)
}

/// How much a model is to think, by a word: for templates that know of it, and those that can only
/// be told whether to.
pub(crate) fn take_effort(variables: &mut Map<String, Value>, field: &str, effort: String) -> Result<(), ApiError> {
    if !["none", "minimal", "low", "medium", "high", "xhigh", "max"].contains(&effort.as_str()) {
        return Err(ApiError::field(field, format!("{effort:?} is unknown")));
    }
    if effort == "none" {
        variables.entry("enable_thinking").or_insert(false.into());
    }
    variables.entry("reasoning_effort").or_insert(effort.into());
    Ok(())
}
