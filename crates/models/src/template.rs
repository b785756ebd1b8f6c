//! Renders a conversation as a prompt with the model's own chat template.
//!
//! Templates are Jinja, written for Python, and get what `transformers` gives them: methods of
//! strings and dictionaries, `raise_exception`, which refuses a conversation, `strftime_now` (in
//! UTC), `tojson` as Python spells JSON, and `generation` blocks, which mark and change nothing.
//! `tests/templates.rs` compares published templates with it. A template comes with a model, from
//! anybody: what it may do is bounded in instructions and bytes.

mod date;

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde};
use minijinja::{Environment, ErrorKind as JinjaKind, Value, context};

pub use date::utc_now;

use crate::Error;
use crate::error::{self, ErrorKind};
use crate::files::gguf::{Header, Value as Meta};
use crate::files::{read_small, read_small_text};
use crate::python_json::{Style, dumps};

/// A chat template, parsed.
pub struct ChatTemplate {
    environment: Environment<'static>,
    source: String,
    bos: String,
    eos: String,
}

/// Variables of a template other than the messages.
#[derive(Debug, Clone, Default)]
pub struct ChatOptions {
    /// Ends the prompt where the model's answer begins.
    pub add_generation_prompt: bool,
    /// Tools that the model may call: objects with `type` and `function`.
    pub tools: Vec<serde_json::Value>,
    /// Variables of the template, such as `enable_thinking`.
    pub variables: serde_json::Map<String, serde_json::Value>,
}

const NAME: &str = "chat";

/// Instructions of a rendering, each also for 64 bytes that are copied: a second's work at most.
const FUEL: u64 = 10_000_000;

impl fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatTemplate").field("bos", &self.bos).field("eos", &self.eos).finish_non_exhaustive()
    }
}

impl ChatTemplate {
    /// Parses a template. `bos` and `eos` are the texts of the tokens that begin and end a text.
    ///
    /// # Errors
    /// [`ErrorKind::Template`] with the line that is wrong.
    pub fn new(source: &str, bos: &str, eos: &str) -> Result<Self, Error> {
        let mut environment = Environment::new();
        environment.set_syntax(syntax()?);
        environment.set_fuel(Some(FUEL));
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |message: String| -> Result<Value, minijinja::Error> {
            Err(minijinja::Error::new(JinjaKind::InvalidOperation, message))
        });
        environment.add_function("strftime_now", |format: String| date::now(&format));
        environment.add_filter("tojson", tojson);
        // Python cannot iterate over `none`, which is what tools are where there are none.
        environment.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
        environment.add_template_owned(NAME, without_marks(source)).map_err(|e| wrong(&e))?;
        Ok(Self { environment, source: source.to_owned(), bos: bos.to_owned(), eos: eos.to_owned() })
    }

    /// The template as it was written.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The text of a conversation: a list of objects with `role` and `content`.
    ///
    /// # Errors
    /// [`ErrorKind::Template`] with what the template says, such as that roles must alternate.
    pub fn render(&self, messages: &serde_json::Value, options: &ChatOptions) -> Result<String, Error> {
        let template = self.environment.get_template(NAME).map_err(|e| wrong(&e))?;
        let own = context! {
            messages => Value::from(Serde(with_reasoning(messages))),
            add_generation_prompt => options.add_generation_prompt,
            bos_token => &self.bos,
            eos_token => &self.eos,
        };
        // They are defined where there are none, too, as in transformers.
        let tools = match options.tools.as_slice() {
            [] => Value::from(()),
            tools => Value::from(Serde(tools)),
        };
        let (variables, none) = (Value::from(Serde(&options.variables)), context! { documents => () });
        template.render(context! { ..own, ..context! { tools }, ..variables, ..none }).map_err(|e| wrong(&e))
    }
}

/// Names of a message's reasoning, as `transformers` knows them.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// Messages whose reasoning has both names that templates read.
fn with_reasoning(messages: &serde_json::Value) -> Cow<'_, serde_json::Value> {
    let reasoning = |message: &serde_json::Value| {
        REASONING.iter().find_map(|name| message.get(name).filter(|of| !of.is_null()).cloned())
    };
    let Some(list) = messages.as_array().filter(|list| list.iter().any(|message| reasoning(message).is_some())) else {
        return Cow::Borrowed(messages);
    };
    let mut list = list.clone();
    for message in &mut list {
        let Some(text) = reasoning(message) else { continue };
        if message.get("thinking").is_none() {
            message["thinking"] = text.clone();
        }
        message["reasoning_content"] = text;
    }
    Cow::Owned(list.into())
}

/// Blocks take the line that they stand in, as `transformers` has it.
fn syntax() -> Result<SyntaxConfig, Error> {
    SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().map_err(|e| wrong(&e))
}

/// JSON as `json.dumps` writes it, with the options that `transformers` passes on.
fn tojson(value: &Value, options: Kwargs) -> Result<Value, minijinja::Error> {
    let wrong = |error: serde_json::Error| minijinja::Error::new(JinjaKind::BadSerialization, error.to_string());
    let separators: Option<Vec<String>> = options.get("separators")?;
    let indent = options.get::<Option<Value>>("indent")?.filter(|indent| !indent.is_none());
    let indent = indent.map(|indent| match indent.as_usize() {
        Some(spaces) => " ".repeat(spaces.min(64)),
        None => indent.to_string(),
    });
    let mut style =
        Style { indent, is_ascii: options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false), ..Style::default() };
    if let Some([item, key]) = separators.as_deref() {
        style = Style { item_separator: item.clone(), key_separator: key.clone(), ..style };
    }
    let is_sorted = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    options.assert_all_used()?;
    let mut value = serde_json::to_value(value).map_err(wrong)?;
    if is_sorted {
        value.sort_all_objects();
    }
    // Python writes no characters of HTML as others, and neither does this.
    dumps(&value, &style).map(Value::from_safe_string).map_err(wrong)
}

/// The source with `generation` blocks as blocks that are always taken.
fn without_marks(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let Some(len) = rest[at..].find("%}") else { break };
        let (tag, trimmed) = (&rest[at..at + len], rest[at + 2..at + len].trim_matches(['-', '+']).trim());
        text.push_str(&rest[..at]);
        text.push_str(&match trimmed {
            "generation" => tag.replacen("generation", "if true", 1),
            "endgeneration" => tag.replacen("endgeneration", "endif", 1),
            _ => tag.to_owned(),
        });
        rest = &rest[at + len..];
    }
    text + rest
}

fn wrong(error: &minijinja::Error) -> Error {
    let line = error.line().map(|line| format!(" (line {line} of the template)")).unwrap_or_default();
    let detail = match error.kind() {
        JinjaKind::OutOfFuel => "it does not come to an end, or its text not".to_owned(),
        kind => error.detail().map_or_else(|| kind.to_string(), str::to_owned),
    };
    ErrorKind::Template(detail + &line).into()
}

/// Chat settings of the files, not parsed: a model may be used without.
#[derive(Debug, Default)]
pub(crate) struct Source {
    text: Option<String>,
    bos: String,
    eos: String,
}

impl Source {
    pub(crate) fn parse(&self) -> Result<Option<ChatTemplate>, Error> {
        self.text.as_ref().map(|text| self.parse_other(text)).transpose()
    }

    /// Another template, with the marks of this one.
    pub(crate) fn parse_other(&self, text: &str) -> Result<ChatTemplate, Error> {
        ChatTemplate::new(text, &self.bos, &self.eos)
    }
}

/// The template of a folder: `chat_template.jinja`, or what `tokenizer_config.json` says.
pub(crate) fn of_folder(folder: &Path) -> Result<Source, Error> {
    let path = folder.join("tokenizer_config.json");
    let config = match path.exists() {
        false => serde_json::Value::Null,
        true => serde_json::from_slice(&read_small(&path)?).map_err(|e| error::file(&path, e))?,
    };
    let file = folder.join("chat_template.jinja");
    let text = match file.exists() {
        true => Some(read_small_text(&file)?),
        false => None,
    };
    let source = of_config(&config);
    Ok(Source { text: text.or(source.text), ..source })
}

/// The template of a `tokenizer_config.json`.
pub(crate) fn of_config(config: &serde_json::Value) -> Source {
    let mark = |name: &str| {
        let token = &config[name];
        token.as_str().or_else(|| token["content"].as_str()).unwrap_or_default().to_owned()
    };
    let text = in_config(&config["chat_template"]).map(str::to_owned);
    Source { text, bos: mark("bos_token"), eos: mark("eos_token") }
}

/// The template of a GGUF file.
pub(crate) fn of_gguf(header: &Header) -> Result<Source, Error> {
    let text = match header.metadata.get("tokenizer.chat_template") {
        None => None,
        Some(Meta::Text(text)) => Some(text.clone()),
        Some(_) => return Err(error::field(&header.path, "tokenizer.chat_template", "it is not a text")),
    };
    let mark = |key: &str| match (header.metadata.get(key), header.metadata.get("tokenizer.ggml.tokens")) {
        (Some(Meta::Int(id)), Some(Meta::Texts(tokens))) => {
            usize::try_from(*id).ok().and_then(|id| tokens.get(id)).cloned().unwrap_or_default()
        }
        _ => String::new(),
    };
    Ok(Source { text, bos: mark("tokenizer.ggml.bos_token_id"), eos: mark("tokenizer.ggml.eos_token_id") })
}

/// One template, or the one called `default` of several.
fn in_config(value: &serde_json::Value) -> Option<&str> {
    let is_default = |template: &&serde_json::Value| template["name"] == "default";
    let named = || value.as_array()?.iter().find(is_default)?["template"].as_str();
    value.as_str().or_else(named)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CHATML: &str = "{%- for message in messages %}\n  {{- '<|im_start|>' + message['role'] + '\\n' + \
        message.content.strip() + '<|im_end|>\\n' }}\n{%- endfor %}\n\
        {%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

    fn options() -> ChatOptions {
        ChatOptions { add_generation_prompt: true, ..ChatOptions::default() }
    }

    #[test]
    fn a_conversation_is_written_as_the_template_says() {
        let template = ChatTemplate::new(CHATML, "<s>", "</s>").expect("it is a template");
        let messages = json!([{"role": "system", "content": " Be kind. "}, {"role": "user", "content": "Hi"}]);
        let text = template.render(&messages, &options()).expect("the template takes it");
        assert_eq!(
            text,
            "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
        );
        let closed = template.render(&messages, &ChatOptions::default()).expect("the template takes it");
        assert!(closed.ends_with("<|im_end|>\n"), "{closed}");
    }

    #[test]
    fn a_template_may_refuse_and_has_variables() {
        let source = "{{ bos_token }}{% if messages[0].role != 'user' %}{{ raise_exception('users first') }}{% endif %}\
                      {{ enable_thinking is defined and enable_thinking is false }}";
        let template = ChatTemplate::new(source, "<s>", "").expect("it is a template");
        let refused = template.render(&json!([{"role": "tool", "content": ""}]), &options()).expect_err("no user");
        assert!(refused.to_string().contains("users first"), "{refused}");
        let variables = json!({"enable_thinking": false}).as_object().cloned().expect("an object");
        let with = ChatOptions { variables, ..options() };
        let text = template.render(&json!([{"role": "user", "content": ""}]), &with).expect("a user");
        assert_eq!(text.to_lowercase(), "<s>true");
        // What is said of a conversation does not replace it.
        let variables = json!({"messages": [], "bos_token": "x"}).as_object().cloned().expect("an object");
        let other = ChatOptions { variables, ..options() };
        let text = template.render(&json!([{"role": "user", "content": ""}]), &other).expect("a user");
        assert!(text.starts_with("<s>"), "{text}");
    }

    #[test]
    fn json_is_spelled_as_the_template_asks() {
        let template = |text: &str| ChatTemplate::new(text, "", "").expect("it is a template");
        let said = json!([{"b": 1, "a": "<é>"}]);
        let text = |source: &str| template(source).render(&said, &ChatOptions::default()).expect("it is JSON");
        assert_eq!(text("{{ messages[0] | tojson }}"), r#"{"b": 1, "a": "<é>"}"#);
        assert_eq!(
            text("{{ messages[0] | tojson(sort_keys=true, ensure_ascii=true) }}"),
            r#"{"a": "<\u00e9>", "b": 1}"#
        );
        assert_eq!(text("{{ messages[0] | tojson(separators=(',', ':')) }}"), r#"{"b":1,"a":"<é>"}"#);
        assert_eq!(text("{{ messages[0] | tojson(indent=2) }}"), "{\n  \"b\": 1,\n  \"a\": \"<é>\"\n}");
    }

    #[test]
    fn a_template_is_given_what_transformers_gives() {
        let source =
            "{{ strftime_now('%Y') | int > 2000 }}{%- generation -%} {{ tools | length }} {%- endgeneration -%}";
        let template = ChatTemplate::new(source, "", "").expect("it is a template");
        let with = ChatOptions { tools: vec![json!({})], ..options() };
        assert_eq!(template.render(&json!([]), &with).expect("it takes anything").to_lowercase(), "true1");
        let source = "{% if tools is iterable and tools | length > 0 %}x{% endif %}{{ tools is none }}\
                      {{ documents is none }}{% for m in messages %} {{ m.thinking }} {{ m.reasoning_content }}{% endfor %}";
        let template = ChatTemplate::new(source, "", "").expect("it is a template");
        let said = json!([{"reasoning_content": "a"}, {"thinking": "b"}, {"reasoning": "c"}, {"thinking": null}]);
        let text = template.render(&said, &options()).expect("it takes anything").to_lowercase();
        assert_eq!(text, "truetrue a a b b c c none ");
    }

    #[test]
    fn a_wrong_template_names_its_line() {
        let error = ChatTemplate::new("a\n{% if %}", "", "").expect_err("there is no condition").to_string();
        assert!(error.contains("line 2"), "{error}");
    }

    #[test]
    fn a_template_that_runs_on_or_grows_without_end_is_an_error() {
        let loops = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";
        let grows = "{% set ns = namespace(x='xxxxxxxx') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}\
                     {% endfor %}{{ ns.x }}";
        let writes = "{% for i in range(9999) %}{{ 'x' * 1000000 }}{% endfor %}";
        for source in [loops, grows, writes] {
            let template = ChatTemplate::new(source, "", "").expect("it is a template");
            let error = template.render(&json!([]), &options()).expect_err("it has no end").to_string();
            assert!(error.contains("does not come to an end"), "{error}");
        }
        // A conversation as long as a server takes is no such thing.
        let template = ChatTemplate::new(CHATML, "", "").expect("it is a template");
        let long: Vec<_> = (0..20_000).map(|_| json!({"role": "user", "content": "x".repeat(200)})).collect();
        assert!(template.render(&json!(long), &options()).is_ok());
    }

    #[test]
    fn templates_are_found_where_hugging_face_has_them() {
        assert_eq!(in_config(&json!("a")), Some("a"));
        let several = json!([{"name": "tool_use", "template": "b"}, {"name": "default", "template": "c"}]);
        assert_eq!(in_config(&several), Some("c"));
        assert_eq!(in_config(&json!(null)), None);
    }
}
