//! Chat templates of published models beside transformers, which renders the same conversations.
//!
//! `TEMPLATES_PYTHON` names a Python with transformers and jinja2, and `CHAT_TEMPLATES` a folder of
//! `*.jinja`. Templates of others are not ours to give away: `templates_fetch.py` gets collections.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;
use serde_json::{Map, Value};
use warpfold_models::{ChatOptions, ChatTemplate};

#[derive(Deserialize)]
struct Conversation {
    messages: Value,
    tools: Vec<Value>,
    variables: Map<String, Value>,
    add_generation_prompt: bool,
}

impl Conversation {
    fn render(&self, template: &ChatTemplate) -> Result<String, warpfold_models::Error> {
        let options = ChatOptions {
            add_generation_prompt: self.add_generation_prompt,
            tools: self.tools.clone(),
            variables: self.variables.clone(),
        };
        template.render(&self.messages, &options)
    }
}

#[derive(Deserialize)]
struct Rendered {
    template: String,
    texts: BTreeMap<String, Outcome>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Text(String),
    Error(String),
}

/// Templates whose texts differ, and why they may.
const DIFFER: &[(&str, &str)] =
    &[("meetkai-functionary-medium-v3.1.jinja", "it escapes tools as HTML, by `\"…\" | safe + text`")];

/// Exceptions of templates that refuse a conversation; others are errors of a template, of which we
/// may make nothing.
const REFUSAL: &str = "TemplateError: ";

/// Templates that a folder has to have, so that the comparison is one.
const LEAST_TEMPLATES: usize = 60;

#[test]
fn published_templates_render_as_transformers_renders_them() {
    let [python, folder] = ["TEMPLATES_PYTHON", "CHAT_TEMPLATES"].map(std::env::var_os);
    let (Some(python), Some(folder)) = (python, folder.map(PathBuf::from)) else {
        eprintln!("skipped: TEMPLATES_PYTHON names no Python with transformers, or CHAT_TEMPLATES no folder");
        return;
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/templates.py");
    let output = Command::new(python).arg(script).arg(&folder).output().expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let (conversations, rendered) = text.split_once('\n').expect("conversations come first");
    let conversations: BTreeMap<String, Conversation> = serde_json::from_str(conversations).expect("JSON");
    let (mut equal, mut refused, mut failed, mut differ) = (0, 0, 0, Vec::new());
    for line in rendered.lines() {
        let Rendered { template, texts } = serde_json::from_str(line).expect("JSON");
        let source = std::fs::read_to_string(folder.join(&template)).expect("it is there");
        let parsed = ChatTemplate::new(&source, "<s>", "</s>");
        for (name, theirs) in texts {
            let ours = parsed.as_ref().map_err(ToString::to_string);
            let ours = ours.and_then(|parsed| conversations[&name].render(parsed).map_err(|error| error.to_string()));
            match (&ours, &theirs) {
                (Ok(ours), Outcome::Text(theirs)) if ours == theirs => equal += 1,
                (Err(_), Outcome::Error(error)) if error.starts_with(REFUSAL) => refused += 1,
                (_, Outcome::Error(error)) if !error.starts_with(REFUSAL) => failed += 1,
                _ => differ.push((template.clone(), format!("{name}:\n  ours   {ours:?}\n  theirs {theirs:?}"))),
            }
        }
    }
    let num = rendered.lines().count();
    println!("{num} templates: {equal} equal, {refused} refused, {failed} fail there, {} differ", differ.len());
    for (template, how) in &differ {
        match DIFFER.iter().find(|(known, _)| known == template) {
            Some((_, why)) => println!("{template} differs: {why}"),
            None => println!("{template}, {how}"),
        }
    }
    let is_new = |(template, _): &&(String, String)| !DIFFER.iter().any(|(known, _)| known == template);
    assert_eq!(differ.iter().filter(is_new).count(), 0, "texts differ that are not listed");
    assert!(num >= LEAST_TEMPLATES, "{num} templates are in the folder");
}
