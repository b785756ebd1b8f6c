//! What is wrong with a request is said in OpenAI's error object, and names the field.

use serde_json::{Value, json};
use warpfold_engine::scripted::Scripted;
use warpfold_serve::Text;

use crate::client::Reply;
use crate::support::{MAX_LEN, Site, VOCAB, and, config, options};

fn base() -> Value {
    json!({"prompt": "a", "max_tokens": 3})
}

#[track_caller]
fn refused(reply: Reply, status: u16, param: Option<&str>, part: &str) {
    let body = reply.with(status);
    let error = &body["error"];
    assert_eq!(error["param"], json!(param), "{error}");
    assert!(error["message"].as_str().is_some_and(|message| message.contains(part)), "{error}");
    assert!(error["type"].is_string() && error.get("code").is_some(), "{error}");
}

#[test]
fn fields_that_are_unknown_or_not_supported_are_named() {
    let site = Site::plain();
    for (field, value) in [
        ("suffix", json!("b")),
        ("max_completion_tokens", json!(3)),
        ("messages", json!([])),
        ("echo_all", json!(true)),
        ("made_up", json!(0)),
    ] {
        let mut ask = base();
        ask[field] = value;
        refused(site.complete(&ask), 400, Some(field), "unknown or not supported");
    }
    refused(site.complete(&and(base(), json!({"n": 3, "best_of": 2}))), 400, Some("best_of"), "below n");
    refused(site.complete(&and(base(), json!({"best_of": 2, "stream": true}))), 400, Some("best_of"), "stream");
    let options = json!({"stream": true, "stream_options": {"include_usage": true, "made_up": 1}});
    refused(site.complete(&and(base(), options)), 400, Some("stream_options"), "made_up");
    site.complete(&and(base(), json!({"best_of": null, "suffix": null, "user": "me"}))).with(200);
    // A value that changes nothing is no error.
    for harmless in [
        json!({"best_of": 1}),
        json!({"n": 2, "best_of": 2}),
        json!({"store": true, "metadata": {"a": "b"}, "service_tier": "auto", "prompt_cache_key": "x"}),
        json!({"spaces_between_special_tokens": true, "bad_words": [], "priority": -5, "suffix": ""}),
        json!({"stream": true, "stream_options": {"include_obfuscation": false}}),
    ] {
        assert_eq!(site.complete(&and(base(), harmless.clone())).status, 200, "{harmless}");
    }
    // Defaults that routers write out ask for nothing; other values ask for what is not there.
    site.complete(&and(base(), json!({"no_stop_trim": false}))).with(200);
    for (field, value) in [("no_stop_trim", true), ("return_hidden_states", true), ("include_reasoning", false)] {
        let ask = and(base(), json!({field: value}));
        refused(site.complete(&ask), 400, Some(field), "unknown or not supported");
    }
    site.end();
}

#[test]
fn values_outside_their_range_are_named() {
    let site = Site::plain();
    for (field, value) in [
        ("temperature", json!(-1)),
        ("temperature", json!("warm")),
        ("top_p", json!(0)),
        ("top_p", json!(1.5)),
        ("top_k", json!(-2)),
        ("min_p", json!(2)),
        ("presence_penalty", json!(3)),
        ("frequency_penalty", json!(-3)),
        ("repetition_penalty", json!(0)),
        ("logit_bias", json!({"5": 101})),
        ("logit_bias", json!({"five": 1})),
        ("logit_bias", json!({"288": 1})),
        ("allowed_token_ids", json!([])),
        ("stop_token_ids", json!([999])),
        ("n", json!(0)),
        ("n", json!(257)),
        ("n", json!(5000)),
        ("max_tokens", json!(0)),
        ("max_tokens", json!(-1)),
        ("max_tokens", json!(1e20)),
        ("min_tokens", json!(4)),
        ("seed", json!(1.5)),
        ("seed", json!("x")),
        ("stop", json!([""])),
        ("stop", json!(vec!["a"; 17])),
        ("stop", json!("a".repeat(1025))),
        ("logprobs", json!(21)),
        ("logprobs", json!(true)),
        ("stream", json!("yes")),
        ("stream_options", json!({"include_usage": true})),
        ("length_penalty", json!(2)),
        ("prompt", json!([])),
        ("prompt", json!("")),
        ("prompt", json!([[]])),
        ("prompt", json!([-1])),
        ("prompt", json!([288])),
        ("prompt", json!({"a": 1})),
        ("prompt", json!(vec!["a"; 257])),
        ("prompt", Value::Null),
    ] {
        let mut ask = base();
        ask[field] = value;
        refused(site.complete(&ask), 400, Some(field), field);
    }
    for harmless in [json!({"seed": -1}), json!({"top_k": -1}), json!({"top_k": 0}), json!({"logit_bias": {"5": 1}})] {
        site.complete(&and(base(), harmless)).with(200);
    }
    site.end();
}

#[test]
fn a_model_that_is_not_served_is_not_found() {
    let site = Site::plain();
    let other = json!({"model": "gpt-4"});
    refused(site.complete(&and(base(), other.clone())), 404, Some("model"), "gpt-4");
    refused(site.post("/tokenize", &and(other, json!({"prompt": "a"}))), 404, Some("model"), "gpt-4");
    refused(site.get("/v1/models/gpt-4"), 404, Some("model"), "gpt-4");
    refused(site.get("/v1/models/%FF"), 400, Some("model"), "UTF-8");
    assert_eq!(site.get("/v1/models/gpt-4").json()["error"]["code"], "model_not_found");
    site.complete(&and(base(), json!({"model": "scripted"}))).with(200);
    site.end();
}

#[test]
fn a_prompt_that_is_too_long_is_told_with_both_numbers() {
    let site = Site::plain();
    let long = json!({"prompt": vec![3; 300], "max_tokens": 5});
    let reply = site.complete(&long);
    let message = reply.json()["error"]["message"].as_str().expect("a text").to_owned();
    assert!(message.contains("256 tokens") && message.contains("300 tokens"), "{message}");
    assert_eq!(reply.json()["error"]["code"], "context_length_exceeded");
    refused(reply, 400, Some("prompt"), "");
    refused(site.complete(&json!({"prompt": vec![3; 250], "max_tokens": 7})), 400, Some("prompt"), "at least 7");
    refused(site.complete(&json!({"prompt": vec![3; 256]})), 400, Some("prompt"), "256");
    refused(site.complete(&json!({"prompt": "a", "max_tokens": u64::MAX})), 400, Some("prompt"), "at least 18446744");
    // A text far too long is refused before it is tokenized.
    refused(site.complete(&json!({"prompt": "a".repeat(1_000_000)})), 400, Some("prompt"), "256 tokens");
    site.complete(&json!({"prompt": vec![3; 250], "max_tokens": 6})).with(200);
    site.complete(&json!({"prompt": vec![3; 250]})).with(200);
    site.end();
    let small =
        Site::with(options(), Scripted::new(VOCAB, MAX_LEN), warpfold_engine::Config { num_blocks: 8, ..config() });
    refused(small.complete(&json!({"prompt": vec![3; 200], "max_tokens": 5})), 400, None, "bytes are missing");
    small.end();
}

#[test]
fn a_request_that_is_no_request_is_told_so() {
    let site = Site::plain();
    let raw =
        |headers: &[(&str, &str)], body: &str| site.open().request("POST", "/v1/completions", headers, body).reply();
    let typed = [("Content-Type", "application/json; charset=utf-8")];
    refused(raw(&typed, "{"), 400, None, "not JSON");
    refused(raw(&typed, ""), 400, None, "not JSON");
    refused(raw(&typed, "[1]"), 400, None, "no JSON object");
    refused(raw(&typed, "{\"prompt\": \"\\ud800\"}"), 400, None, "not JSON");
    refused(raw(&typed, &("[".repeat(100_000))), 400, None, "not JSON");
    refused(raw(&typed, "{\"temperature\": 1e999}"), 400, None, "not JSON");
    // What a page of another origin can send without asking.
    refused(raw(&[("Origin", "null")], "{}"), 415, None, "application/json");
    let plain = [("Content-Type", "text/plain"), ("Sec-Fetch-Site", "cross-site")];
    refused(raw(&plain, "{}"), 415, None, "text/plain");
    raw(&[("Content-Type", "application/x-www-form-urlencoded")], r#"{"prompt": [3], "max_tokens": 1}"#).with(200);
    refused(site.get("/v1/completions"), 405, None, "GET");
    refused(site.get("/v2"), 404, None, "/v2");
    refused(site.open().request("DELETE", "/health", &[], "").reply(), 405, None, "DELETE");
    site.end();
}

#[test]
fn a_model_without_tokenizer_takes_and_gives_tokens() {
    let site = Site::empty(options());
    let model = Scripted::new(VOCAB, MAX_LEN);
    site.handle().serve(model, config(), Text::default()).expect("the settings are right");
    refused(site.complete(&base()), 400, None, "no tokenizer");
    refused(site.complete(&json!({"prompt": [1], "stop": "a"})), 400, Some("stop"), "tokenizer");
    refused(site.chat(&json!({"messages": [{"role": "user", "content": "a"}]})), 400, None, "chat template");
    let ask = json!({"prompt": [5, 6], "max_tokens": 2, "logprobs": 1, "return_token_ids": true});
    let choice = site.complete(&ask).with(200)["choices"][0].clone();
    assert_eq!(choice["text"], "");
    assert_eq!(choice["logprobs"]["tokens"][0], format!("token_id:{}", choice["token_ids"][0]));
    site.end();
}

#[test]
fn a_model_that_fails_is_an_error_of_the_server_and_no_end_of_it() {
    let model = Scripted::new(VOCAB, MAX_LEN).failing_at(3);
    let site = Site::with(options(), model, config());
    refused(
        site.complete(&json!({"prompt": [5], "max_tokens": 9, "ignore_eos": true})),
        500,
        None,
        "step 3 was to fail",
    );
    site.complete(&json!({"prompt": [5], "max_tokens": 9})).with(200);
    assert_eq!(site.metric("vllm:num_requests_running"), 0.0);
    site.end();
    // In a stream that has begun, the error is an event, and there is no good end.
    let model = Scripted::new(VOCAB, MAX_LEN).failing_at(3);
    let site = Site::with(options(), model, config());
    let ask = json!({"prompt": [5], "max_tokens": 9, "ignore_eos": true, "stream": true});
    let body = site.complete(&ask).body;
    assert!(body.contains("step 3 was to fail") && !body.contains("[DONE]"), "{body}");
    site.end();
}
