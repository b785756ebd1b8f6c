//! Anthropic's interface.
#![cfg(feature = "grammar")]

use serde_json::{Value, json};

use crate::client::Reply;
use crate::support::{Site, and, options};
use crate::tools::weather;

fn ask() -> Value {
    json!({"model": "scripted", "max_tokens": 12, "system": [{"type": "text", "text": "Be kind."}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]}]})
}

fn send(site: &Site, body: &Value) -> Reply {
    site.post("/v1/messages?beta=true", body)
}

/// The events of a stream, each with its name.
fn events(reply: &Reply) -> Vec<Value> {
    let event = |block: &str| {
        let (name, data) = block.split_once('\n').expect("a name and data");
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").expect("data")).expect("JSON");
        assert_eq!(Some(name), data["type"].as_str().map(|kind| format!("event: {kind}")).as_deref());
        data
    };
    reply.body.split("\n\n").filter(|block| !block.is_empty()).map(event).collect()
}

#[test]
fn a_message_is_answered_whole_and_in_events() {
    let site = Site::roomy(options());
    let chat = json!({"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}],
        "max_tokens": 12, "temperature": 0});
    let chat = site.chat(&chat).with(200);
    let ask = and(ask(), json!({"temperature": 0}));
    let whole = send(&site, &ask).with(200);
    assert_eq!(whole["content"], json!([{"type": "text", "text": chat["choices"][0]["message"]["content"]}]));
    let reason = if chat["choices"][0]["finish_reason"] == "length" { "max_tokens" } else { "end_turn" };
    assert_eq!(
        (&whole["stop_reason"], &whole["role"], &whole["type"]),
        (&json!(reason), &json!("assistant"), &json!("message"))
    );
    let usage = &whole["usage"];
    let input = usage["input_tokens"].as_u64().expect("a number")
        + usage["cache_read_input_tokens"].as_u64().expect("a number");
    assert_eq!(Some(input), chat["usage"]["prompt_tokens"].as_u64());
    let mut counted = ask.clone();
    for field in ["max_tokens", "temperature"] {
        counted.as_object_mut().expect("fields").remove(field);
    }
    assert_eq!(site.post("/v1/messages/count_tokens", &counted).with(200), json!({"input_tokens": input}));

    let events = events(&send(&site, &and(ask, json!({"stream": true}))));
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    assert_eq!(kinds[..2], ["message_start", "content_block_start"]);
    assert_eq!(kinds[kinds.len() - 3..], ["content_block_stop", "message_delta", "message_stop"]);
    let text: String = events.iter().filter_map(|event| event["delta"]["text"].as_str()).collect();
    assert_eq!(whole["content"][0]["text"], text);
    assert_eq!(events[events.len() - 2]["delta"]["stop_reason"], reason);
    site.end();
}

#[test]
fn tools_are_used_and_their_results_are_taken() {
    let site = Site::roomy(options());
    let tool = json!({"name": "weather", "description": "of a city", "input_schema": weather()});
    let more =
        json!({"tools": [tool], "tool_choice": {"type": "any", "disable_parallel_tool_use": true}, "max_tokens": 200});
    let ask = and(and(ask(), more), json!({"temperature": 0}));
    let whole = send(&site, &ask).with(200);
    let block = &whole["content"][0];
    assert_eq!(
        (&block["type"], &block["name"], &whole["stop_reason"]),
        (&json!("tool_use"), &json!("weather"), &json!("tool_use"))
    );
    assert!((1..=9).contains(&block["input"]["days"].as_i64().expect("a number")), "{block}");
    let events = events(&send(&site, &and(ask.clone(), json!({"stream": true}))));
    let input: String = events.iter().filter_map(|event| event["delta"]["partial_json"].as_str()).collect();
    assert_eq!(serde_json::from_str::<Value>(&input).expect("JSON"), block["input"]);
    let history = json!({"messages": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": ""}, {"type": "text", "text": "So"}, block]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": block["id"], "content": [{"type": "text", "text": "sun"}]},
            {"type": "text", "text": "And?"}]},
    ], "tool_choice": {"type": "auto"}, "max_tokens": 4, "thinking": {"type": "enabled", "budget_tokens": 1024}});
    send(&site, &and(ask, history)).with(200);
    site.end();
}

#[test]
fn an_answer_has_the_form_that_is_asked_for() {
    let site = Site::roomy(options());
    let format = json!({"type": "json_schema", "schema": weather()});
    for form in [json!({"output_config": {"format": format}}), json!({"output_format": format})] {
        let whole = send(&site, &and(ask(), and(form, json!({"max_tokens": 200})))).with(200);
        let said: Value = serde_json::from_str(whole["content"][0]["text"].as_str().expect("a text")).expect("JSON");
        assert!((1..=9).contains(&said["days"].as_i64().expect("a number")), "{said}");
    }
    site.end();
}

#[test]
fn what_is_wrong_is_said_as_anthropic_says_it() {
    let site = Site::roomy(options());
    for (more, part) in [
        (json!({"max_tokens": null}), "max_tokens"),
        (json!({"messages": []}), "messages"),
        (json!({"made_up": 1}), "made_up"),
        (json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}), "tools[0]"),
        (json!({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}), "messages[0]"),
    ] {
        let error = send(&site, &and(ask(), more)).with(400);
        assert_eq!((&error["type"], &error["error"]["type"]), (&json!("error"), &json!("invalid_request_error")));
        assert!(error["error"]["message"].as_str().is_some_and(|message| message.contains(part)), "{error}");
    }
    assert_eq!(send(&site, &and(ask(), json!({"model": "claude"}))).with(404)["error"]["type"], "not_found_error");
    // More than there is room for is as much as there is.
    send(&site, &and(ask(), json!({"max_tokens": 32_000, "stop_sequences": ["e"]}))).with(200);
    site.end();
}

#[test]
fn an_answer_goes_on_with_what_the_assistant_has_begun() {
    let site = Site::roomy(options());
    let messages = json!([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "I am"}]);
    let found = site.post("/v1/messages", &json!({"messages": messages, "max_tokens": 6, "temperature": 0})).with(200);
    let prompt = json!({"prompt": "user: Hi\nassistant: I am", "max_tokens": 6, "temperature": 0});
    assert_eq!(found["content"][0]["text"], site.complete(&prompt).with(200)["choices"][0]["text"]);
    site.end();
}
