//! Chat completions: templates, roles, streams, and what is refused.

use serde_json::{Value, json};

use crate::support::{Site, and, counts};

fn ask() -> Value {
    json!({"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}],
        "max_tokens": 12, "seed": 4, "ignore_eos": true})
}

#[test]
fn a_conversation_is_a_completion_of_what_the_template_writes() {
    let site = Site::plain();
    let found = site.chat(&ask()).with(200);
    let prompt = "system: Be kind.\nuser: Hi\nassistant:";
    let same = site.complete(&json!({"prompt": prompt, "max_tokens": 12, "seed": 4, "ignore_eos": true})).with(200);
    let choice = &found["choices"][0];
    assert_eq!(choice["message"]["content"], same["choices"][0]["text"]);
    assert_eq!((&choice["message"]["role"], &choice["finish_reason"]), (&json!("assistant"), &json!("length")));
    assert_eq!(counts(&found["usage"]), counts(&same["usage"]));
    assert_eq!(found["object"], "chat.completion");
    let parts = json!([{"role": "system", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}], "name": null}]);
    let in_parts = site.chat(&and(ask(), json!({"messages": parts}))).with(200);
    assert_eq!(in_parts["choices"], found["choices"]);
    site.end();
}

#[test]
fn a_chat_stream_says_what_a_whole_answer_says() {
    let site = Site::plain();
    let ask = and(ask(), json!({"n": 2, "logprobs": true, "top_logprobs": 2}));
    let whole = site.chat(&ask).with(200);
    let events = site.chat(&and(ask, json!({"stream": true, "stream_options": {"include_usage": true}}))).events();
    let mut texts = [String::new(), String::new()];
    let mut tokens = [Vec::new(), Vec::new()];
    let mut reasons = [Value::Null, Value::Null];
    let mut has_role = [false; 2];
    for event in &events {
        assert_eq!(event["object"], "chat.completion.chunk");
        for choice in event["choices"].as_array().expect("a list") {
            let i = choice["index"].as_u64().expect("a number") as usize;
            texts[i] += choice["delta"]["content"].as_str().unwrap_or_default();
            tokens[i].extend(choice["logprobs"]["content"].as_array().expect("a list").iter().cloned());
            reasons[i] = choice["finish_reason"].clone();
            let is_first = !std::mem::replace(&mut has_role[i], true);
            assert_eq!(choice["delta"].get("role").is_some(), is_first);
        }
    }
    for i in 0..2 {
        let choice = &whole["choices"][i];
        assert_eq!(choice["message"]["content"], texts[i]);
        assert_eq!(choice["logprobs"]["content"], json!(tokens[i]));
        assert_eq!(choice["finish_reason"], reasons[i]);
    }
    assert_eq!(counts(&events.last().expect("an end")["usage"]), counts(&whole["usage"]));
    let first = &whole["choices"][0]["logprobs"]["content"][0];
    assert_eq!(first["top_logprobs"].as_array().map(Vec::len), Some(2));
    assert!(first["bytes"].is_array() && first["logprob"].is_number());
    site.end();
}

#[test]
fn an_answer_without_a_limit_ends_at_the_longest_sequence() {
    let site = Site::plain();
    let ask = json!({"messages": [{"role": "user", "content": "Hi"}], "ignore_eos": true});
    let usage = site.chat(&ask).with(200)["usage"].clone();
    assert_eq!(usage["total_tokens"], 256);
    site.end();
}

#[test]
fn what_a_chat_cannot_do_is_named() {
    let site = Site::plain();
    let messages = |messages: Value| and(ask(), json!({"messages": messages}));
    let user = |content: Value| messages(json!([{"role": "user", "content": content}]));
    for (body, param) in [
        (and(ask(), json!({"tools": [{"type": "function"}]})), "tools[0]"),
        (and(ask(), json!({"tools": [{"type": "web_search"}]})), "tools[0]"),
        (and(ask(), json!({"tools": [{"type": "function", "function": {"name": "a b"}}]})), "tools[0]"),
        (and(ask(), json!({"tool_choice": "required"})), "tool_choice"),
        (and(ask(), json!({"tool_choice": {"type": "function", "function": {"name": "f"}}})), "tool_choice"),
        (and(ask(), json!({"functions": [{"name": "f"}]})), "functions"),
        (and(ask(), json!({"verbosity": "low"})), "verbosity"),
        (and(ask(), json!({"reasoning_effort": "frantic"})), "reasoning_effort"),
        (and(ask(), json!({"guided_choice": ["a"], "guided_regex": "b"})), "guided_choice"),
        (and(ask(), json!({"guided_grammar": "root ::= b"})), "guided_grammar"),
        (and(ask(), json!({"response_format": {"type": "xml"}})), "response_format"),
        (and(ask(), json!({"response_format": {"type": "json_schema"}})), "response_format"),
        (and(ask(), json!({"max_completion_tokens": 3})), "max_tokens"),
        (and(ask(), json!({"top_logprobs": 3})), "top_logprobs"),
        (and(ask(), json!({"logprobs": true, "top_logprobs": 21})), "top_logprobs"),
        (and(ask(), json!({"prompt": "a"})), "prompt"),
        (messages(json!([])), "messages"),
        (messages(json!("hi")), "messages"),
        (messages(json!([3])), "messages[0]"),
        (messages(json!([{"content": "hi"}])), "messages[0]"),
        (user(json!(3)), "messages[0].content"),
        (user(json!([{"type": "image_url", "image_url": {"url": "a"}}])), "messages[0].content"),
        (messages(json!([{"role": "user", "content": null}])), "messages[0].content"),
        (messages(json!([{"role": "user", "content": "a", "made_up": 1}])), "messages[0]"),
        (
            messages(json!([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}])),
            "messages[0].tool_calls",
        ),
        (json!({"model": "scripted"}), "messages"),
    ] {
        let error = site.chat(&body).with(400)["error"].clone();
        assert_eq!(error["param"], param, "{body} gives {error}");
        assert_eq!(error["type"], "invalid_request_error");
    }
    // As an answer comes back that was cut off in a call of a tool.
    site.chat(&messages(json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": null}]))).with(200);
    for harmless in [
        json!({"user": "me"}),
        json!({"response_format": {"type": "text"}}),
        json!({"tools": null}),
        json!({"store": false}),
        json!({"model": "scripted"}),
        json!({"max_completion_tokens": 2, "max_tokens": null}),
        json!({"chat_template_kwargs": {"enable_thinking": false}}),
        json!({"tools": [], "tool_choice": "none", "parallel_tool_calls": false}),
        json!({"functions": [], "function_call": "none", "echo": false, "documents": []}),
        json!({"store": true, "metadata": {"a": "b"}, "safety_identifier": "x", "reasoning_effort": "low"}),
    ] {
        site.chat(&and(ask(), harmless)).with(200);
    }
    site.end();
}

fn json_of(properties: &Value) -> Value {
    let required: Vec<&String> = properties.as_object().unwrap().keys().collect();
    let schema = json!({
        "type": "object", "properties": properties, "required": required, "additionalProperties": false,
    });
    json!({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "strict": true, "schema": schema}}})
}

#[cfg(feature = "grammar")]
#[test]
fn an_answer_is_json_of_the_schema_that_the_request_gives() {
    let site = Site::plain();
    let format = json_of(&json!({"kind": {"enum": ["red", "blue"]}, "old": {"type": "boolean"}}));
    let found = site.chat(&and(and(ask(), format), json!({"n": 2, "max_tokens": 100}))).with(200);
    for choice in found["choices"].as_array().unwrap() {
        let value: Value = serde_json::from_str(choice["message"]["content"].as_str().unwrap()).unwrap();
        assert!(value["old"].is_boolean() && ["red", "blue"].contains(&value["kind"].as_str().unwrap()), "{value}");
        assert_eq!(choice["finish_reason"], "stop");
    }
    let error = site.chat(&and(ask(), json_of(&json!({"a": {"type": "elephant"}})))).with(400)["error"].clone();
    assert_eq!(error["param"], "response_format", "{error}");
    site.end();
}

#[cfg(not(feature = "grammar"))]
#[test]
fn a_schema_is_refused_by_a_build_without_schemas() {
    let site = Site::plain();
    for format in [json_of(&json!({})), json!({"response_format": {"type": "json_object"}})] {
        let error = site.chat(&and(ask(), format)).with(400)["error"].clone();
        assert!(error["message"].as_str().unwrap().contains("without the feature grammar"), "{error}");
        assert_eq!(error["param"], "response_format");
    }
    site.end();
}

#[test]
fn an_answer_goes_on_with_the_last_message_and_repeats_it_on_request() {
    let site = Site::plain();
    let messages = json!([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "I am "}]);
    let ask = |more: Value| and(json!({"messages": messages, "max_tokens": 6, "seed": 4, "ignore_eos": true}), more);
    let on = json!({"continue_final_message": true, "add_generation_prompt": false});
    let found = site.chat(&ask(on)).with(200);
    let prompt = json!({"prompt": "user: Hi\nassistant: I am ", "max_tokens": 6, "seed": 4, "ignore_eos": true});
    let same = site.complete(&prompt).with(200)["choices"][0]["text"].clone();
    assert_eq!(found["choices"][0]["message"]["content"], same);
    let echoed = ask(json!({"continue_final_message": true, "echo": true}));
    let same = format!("I am {}", same.as_str().expect("a text"));
    assert_eq!(site.chat(&echoed).with(200)["choices"][0]["message"]["content"], same);
    let events = site.chat(&and(echoed, json!({"stream": true}))).events();
    let text: String = events.iter().filter_map(|e| e["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, same);
    let empty = json!([{"role": "assistant", "content": " "}]);
    for (more, param) in [
        (json!({"continue_final_message": true, "add_generation_prompt": true}), "continue_final_message"),
        (json!({"continue_final_message": true, "messages": empty}), "continue_final_message"),
        (json!({"verbosity": "low"}), "verbosity"),
    ] {
        assert_eq!(site.chat(&ask(more)).with(400)["error"]["param"], param);
    }
    site.chat(&ask(json!({"verbosity": "medium"}))).with(200);
    site.end();
}
