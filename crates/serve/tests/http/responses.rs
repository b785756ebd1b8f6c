//! The Responses interface.
#![cfg(feature = "grammar")]

use serde_json::{Value, json};

use crate::support::{Site, and, options};
use crate::tools::weather;

fn ask() -> Value {
    json!({"model": "scripted", "input": "Hi", "instructions": "Be kind.", "max_output_tokens": 12, "temperature": 0})
}

fn events(body: &str) -> Vec<Value> {
    let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).expect("JSON")).collect()
}

#[test]
fn a_response_is_answered_whole_and_in_events() {
    let site = Site::roomy(options());
    let chat = json!({"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}],
        "max_tokens": 12, "temperature": 0});
    let content = site.chat(&chat).with(200)["choices"][0]["message"]["content"].clone();
    let whole = site.post("/v1/responses", &ask()).with(200);
    assert_eq!(whole["output"][0]["content"][0]["text"], content);
    assert_eq!((&whole["object"], &whole["instructions"]), (&json!("response"), &json!("Be kind.")));
    assert!(whole["status"] == "completed" || whole["incomplete_details"]["reason"] == "max_output_tokens", "{whole}");
    let events = events(&site.post("/v1/responses", &and(ask(), json!({"stream": true}))).body);
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    assert_eq!(
        kinds[..4],
        ["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added"]
    );
    let text: String = events
        .iter()
        .filter(|event| event["type"] == "response.output_text.delta")
        .filter_map(|event| event["delta"].as_str())
        .collect();
    assert_eq!(content, text);
    let last = events.last().expect("an end");
    assert_eq!(last["response"]["output"][0]["content"], whole["output"][0]["content"]);
    let numbers: Vec<u64> = events.iter().filter_map(|event| event["sequence_number"].as_u64()).collect();
    assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
    site.end();
}

#[test]
fn a_conversation_goes_on_from_a_response_that_is_kept() {
    let site = Site::roomy(options());
    let first = site.post("/v1/responses", &ask()).with(200);
    let id = first["id"].as_str().expect("an id").to_owned();
    let next = json!({"model": "scripted", "input": "More", "previous_response_id": id, "max_output_tokens": 4, "temperature": 0});
    let next = site.post("/v1/responses", &next).with(200);
    // The same as if all of it had been said again; instructions do not go on.
    let said = &first["output"][0]["content"][0]["text"];
    let chat = json!({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": said},
        {"role": "user", "content": "More"}], "max_tokens": 4, "temperature": 0});
    let chat = site.chat(&chat).with(200);
    assert_eq!(next["output"][0]["content"][0]["text"], chat["choices"][0]["message"]["content"]);
    assert_eq!(next["usage"]["input_tokens"], chat["usage"]["prompt_tokens"]);
    let path = format!("/v1/responses/{id}");
    assert_eq!(site.get(&path).with(200), first);
    assert_eq!(site.open().request("DELETE", &path, &[], "").reply().with(200)["deleted"], true);
    site.get(&path).with(404);
    let unkept = site.post("/v1/responses", &and(ask(), json!({"store": false}))).with(200);
    site.get(&format!("/v1/responses/{}", unkept["id"].as_str().expect("an id"))).with(404);
    let error = site.post("/v1/responses", &and(ask(), json!({"previous_response_id": id}))).with(404);
    assert_eq!(error["error"]["param"], "previous_response_id");
    site.end();
}

#[test]
fn functions_are_called_and_forms_are_kept_to() {
    let site = Site::roomy(options());
    let tool = json!({"type": "function", "name": "weather", "parameters": weather(), "strict": true});
    let ask = and(
        ask(),
        json!({"tools": [tool], "tool_choice": "required", "parallel_tool_calls": false, "max_output_tokens": 200}),
    );
    let whole = site.post("/v1/responses", &ask).with(200);
    let call = whole["output"][0].clone();
    assert_eq!((&call["type"], &call["name"]), (&json!("function_call"), &json!("weather")));
    let events = events(&site.post("/v1/responses", &and(ask.clone(), json!({"stream": true}))).body);
    let done = events.iter().find(|event| event["type"] == "response.function_call_arguments.done").expect("a call");
    assert_eq!(done["arguments"], call["arguments"]);
    let input = json!([{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}, call,
        {"type": "function_call_output", "call_id": call["call_id"], "output": "sun"}]);
    site.post("/v1/responses", &and(ask, json!({"input": input, "tool_choice": "auto", "max_output_tokens": 3})))
        .with(200);
    let format = json!({"format": {"type": "json_schema", "name": "w", "strict": true, "schema": weather()}});
    let form = and(self::ask(), json!({"text": format, "max_output_tokens": 100}));
    let text = site.post("/v1/responses", &form).with(200)["output"][0]["content"][0]["text"].clone();
    let value: Value = serde_json::from_str(text.as_str().expect("a text")).expect("JSON");
    assert!(value["days"].is_i64(), "{value}");
    for (more, param) in [
        (json!({"tools": [{"type": "web_search"}]}), "tools[0]"),
        (json!({"made_up": 1}), "made_up"),
        (json!({"truncation": "auto"}), "truncation"),
        (json!({"input": 3}), "input"),
        (json!({"input": [{"type": "item_reference", "id": "x"}]}), "input[0]"),
    ] {
        assert_eq!(site.post("/v1/responses", &and(self::ask(), more)).with(400)["error"]["param"], param);
    }
    site.end();
}
