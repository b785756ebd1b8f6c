//! Ollama's interface.
#![cfg(feature = "grammar")]

use serde_json::{Value, json};

use crate::client::Reply;
use crate::support::{Site, and, options};
use crate::tools::weather;

fn ask() -> Value {
    let options = json!({"temperature": 0, "num_predict": 12, "repeat_penalty": 1.1, "num_ctx": 64});
    json!({"model": "scripted", "messages": [{"role": "user", "content": "Hi"}], "options": options, "keep_alive": "5m"})
}

/// The objects of a stream.
fn lines(reply: &Reply) -> Vec<Value> {
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/x-ndjson")));
    reply.body.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_chat_is_the_chat_of_openai_whole_and_in_lines() {
    let site = Site::roomy(options());
    let same = json!({"messages": ask()["messages"], "max_tokens": 12, "temperature": 0, "repetition_penalty": 1.1});
    let same = site.chat(&same).with(200);
    let whole = site.post("/api/chat", &and(ask(), json!({"stream": false}))).with(200);
    assert_eq!(whole["message"]["content"], same["choices"][0]["message"]["content"]);
    assert_eq!((&whole["done"], &whole["done_reason"]), (&json!(true), &same["choices"][0]["finish_reason"]));
    assert_eq!(whole["eval_count"], same["usage"]["completion_tokens"]);
    assert_eq!(whole["prompt_eval_count"], same["usage"]["prompt_tokens"]);
    let parts = lines(&site.post("/api/chat", &ask()));
    let text: String = parts.iter().filter_map(|part| part["message"]["content"].as_str()).collect();
    assert_eq!(whole["message"]["content"], text);
    let (last, before) = parts.split_last().expect("an end");
    assert!(last["done"] == true && before.iter().all(|part| part["done"] == false), "{parts:?}");
    assert_eq!(last["eval_count"], whole["eval_count"]);
    assert!(last["created_at"].as_str().is_some_and(|time| time.len() == 20 && time.ends_with('Z')), "{last}");
    site.end();
}

#[test]
fn a_prompt_is_what_a_user_says_or_raw() {
    let site = Site::roomy(options());
    let ask = |more: Value| and(json!({"prompt": "Hi", "stream": false, "options": ask()["options"]}), more);
    let said = site.post("/api/generate", &ask(json!({"system": "Be kind."}))).with(200);
    let messages = json!([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]);
    let chat = site.post("/api/chat", &and(self::ask(), json!({"messages": messages, "stream": false}))).with(200);
    assert_eq!(said["response"], chat["message"]["content"]);
    let raw = site.post("/api/generate", &ask(json!({"raw": true}))).with(200);
    let same = json!({"prompt": "Hi", "max_tokens": 12, "temperature": 0, "repetition_penalty": 1.1});
    assert_eq!(raw["response"], site.complete(&same).with(200)["choices"][0]["text"]);
    let json =
        site.post("/api/generate", &ask(json!({"format": weather(), "options": {"num_predict": 200}}))).with(200);
    let value: Value = serde_json::from_str(json["response"].as_str().expect("a text")).expect("JSON");
    assert!(value["days"].is_i64(), "{value}");
    site.end();
}

#[test]
fn calls_come_whole_and_their_results_are_taken() {
    let site = Site::roomy(options());
    let tool = json!({"type": "function", "function": {"name": "weather", "parameters": weather()}});
    let ask =
        and(ask(), json!({"tools": [tool], "tool_choice": "required", "options": {"seed": 3, "num_predict": 300}}));
    let whole = site.post("/api/chat", &and(ask.clone(), json!({"stream": false}))).with(200);
    let calls = whole["message"]["tool_calls"].clone();
    assert!(calls[0]["function"]["arguments"]["days"].is_i64() && calls[0]["function"]["name"] == "weather", "{whole}");
    let parts = lines(&site.post("/api/chat", &ask));
    let streamed: Vec<&Value> = parts.iter().filter(|part| part["message"]["tool_calls"].is_array()).collect();
    assert_eq!(streamed.iter().map(|part| &part["message"]["tool_calls"]).collect::<Vec<_>>(), [&calls]);
    let history = json!([ask["messages"][0], {"role": "assistant", "content": "", "thinking": "hm", "images": null,
        "tool_calls": calls}, {"role": "tool", "tool_name": "weather", "content": "sun"}]);
    site.post("/api/chat", &and(ask, json!({"messages": history, "tool_choice": null, "stream": false}))).with(200);
    site.end();
}

#[test]
fn models_are_told_and_what_is_not_there_is_an_error_as_a_text() {
    let site = Site::roomy(options());
    assert_eq!(site.get("/api/tags").with(200)["models"][0]["name"], "scripted");
    assert_eq!(site.get("/api/version").with(200)["version"], env!("CARGO_PKG_VERSION"));
    let shown = site.post("/api/show", &json!({"model": "scripted:latest"})).with(200);
    assert!(shown["template"].as_str().is_some_and(|text| text.contains("messages")), "{shown}");
    let made = site.post("/api/embed", &json!({"model": "scripted", "input": ["a", "b"]})).with(200);
    assert_eq!(made["embeddings"].as_array().map(Vec::len), Some(2));
    for (more, status, part) in [
        (json!({"model": "other"}), 404, "other"),
        (json!({"options": {"mirostat": 2}}), 400, "options.mirostat"),
        (json!({"format": "xml"}), 400, "format"),
        (json!({"messages": [{"role": "user", "content": "a", "images": ["AAAA"]}]}), 400, "images"),
        (json!({"made_up": 1}), 400, "made_up"),
    ] {
        let error = site.post("/api/chat", &and(ask(), more)).with(status)["error"].clone();
        assert!(error.as_str().is_some_and(|text| text.contains(part)), "{error}");
    }
    site.end();
}
