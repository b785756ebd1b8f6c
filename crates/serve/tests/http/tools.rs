//! Tools, forms and reasoning in chat: what is generated is always of the form that was asked for.
#![cfg(feature = "grammar")]

use serde_json::{Value, json};
use warpfold_engine::scripted::Scripted;
use warpfold_models::ChatTemplate;
use warpfold_serve::Text;

use crate::support::{MAX_LEN, Site, VOCAB, and, config, options, text};

/// A model whose template knows tools, and reasons if it likes.
fn thinker() -> Site {
    let source = "{% if tools %}{% for tool in tools %}{{ tool | tojson }}{% endfor %}<tool_call>{% endif %}\
                  {% for m in messages %}{{ m.role }}: {{ m.content }}{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}\n\
                  {% endfor %}assistant:{% if enable_thinking is defined and not enable_thinking %}<think></think>\
                  {% else %}<think>{% endif %}";
    let template = Some(ChatTemplate::new(source, "", "").expect("it is a template"));
    let site = Site::empty(options());
    let text = Text { template, ..text() };
    site.handle().serve(Scripted::new(VOCAB, 4 * MAX_LEN), config(), text).expect("the settings are right");
    site
}

pub(crate) fn weather() -> Value {
    let unit = json!({"enum": ["C", "F"]});
    json!({"type": "object", "properties": {"days": {"type": "integer", "minimum": 1, "maximum": 9}, "unit": unit},
        "required": ["days", "unit"], "additionalProperties": false})
}

fn ask(choice: Value) -> Value {
    let tool = |name: &str| json!({"type": "function", "function": {"name": name, "description": "of a city", "parameters": weather()}});
    json!({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2000, "seed": 3,
        "tools": [tool("weather"), tool("climate")], "tool_choice": choice})
}

#[track_caller]
fn check_arguments(arguments: &Value) {
    let arguments: Value = serde_json::from_str(arguments.as_str().expect("a text")).expect("it is JSON");
    assert!((1..=9).contains(&arguments["days"].as_i64().expect("a number")), "{arguments}");
    assert!(arguments["unit"] == "C" || arguments["unit"] == "F", "{arguments}");
}

/// Calls of a stream, put together by their numbers.
fn folded(events: &[Value]) -> Vec<Value> {
    let mut calls: Vec<Value> = Vec::new();
    for delta in events.iter().flat_map(|event| event["choices"].as_array().into_iter().flatten()) {
        for part in delta["delta"]["tool_calls"].as_array().into_iter().flatten() {
            let index = part["index"].as_u64().expect("a number") as usize;
            if index == calls.len() {
                calls.push(json!({"id": part["id"], "type": part["type"], "function": part["function"]}));
            } else {
                let more = part["function"]["arguments"].as_str().expect("a text");
                let so_far = calls[index]["function"]["arguments"].as_str().expect("a text").to_owned();
                calls[index]["function"]["arguments"] = (so_far + more).into();
            }
        }
    }
    calls
}

#[test]
fn tools_are_taken_up_to_their_number_and_names_to_their_length() {
    let site = Site::roomy(options());
    let tool = |name: String| json!({"type": "function", "function": {"name": name}});
    let told = |tools: Vec<Value>| {
        // None of them is told of.
        let ask = json!({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, "tools": tools,
            "tool_choice": "none"});
        let reply = site.chat(&ask);
        (reply.status, reply.json()["error"]["message"].as_str().unwrap_or_default().to_owned())
    };
    let tools = |num: usize| (0..num).map(|i| tool(format!("tool{i}"))).collect::<Vec<_>>();
    assert_eq!((told(tools(256)).0, told(vec![tool("n".repeat(128))]).0), (200, 200));
    let (status, message) = told(tools(257));
    assert!(status == 400 && message.contains("257 is more than 256"), "{message}");
    let (status, message) = told(vec![tool("n".repeat(129))]);
    assert!(status == 400 && message.contains("is no name of 1 to 128 letters"), "{message}");
    site.end();
}

#[test]
fn a_tool_that_must_be_called_is_called_with_arguments_of_its_schema() {
    let site = Site::roomy(options());
    let named = json!({"type": "function", "function": {"name": "climate"}});
    for (choice, name) in [(json!("required"), None), (named, Some("climate"))] {
        for seed in 0..6 {
            let ask = and(ask(choice.clone()), json!({"seed": seed, "parallel_tool_calls": seed % 2 == 0}));
            let whole = site.chat(&ask).with(200)["choices"][0].clone();
            assert_eq!(whole["finish_reason"], "tool_calls", "{whole}");
            assert_eq!(whole["message"]["content"], Value::Null);
            let calls = whole["message"]["tool_calls"].as_array().expect("a list").clone();
            assert!(seed % 2 == 0 || calls.len() == 1);
            for call in &calls {
                check_arguments(&call["function"]["arguments"]);
                assert!(name.is_none_or(|name| call["function"]["name"] == name), "{call}");
                assert!(call["id"].as_str().is_some_and(|id| id.starts_with("call_")) && call["type"] == "function");
            }
            let events = site.chat(&and(ask, json!({"stream": true}))).events();
            let streamed = folded(&events);
            let functions = |calls: &[Value]| calls.iter().map(|call| call["function"].clone()).collect::<Vec<_>>();
            assert_eq!(functions(&streamed), functions(&calls));
            let last = events.iter().rev().find(|event| event["choices"][0]["finish_reason"].is_string());
            assert_eq!(last.expect("an end")["choices"][0]["finish_reason"], "tool_calls");
        }
    }
    site.end();
}

#[test]
fn tools_that_may_be_called_leave_words_as_they_are() {
    let site = Site::roomy(options());
    let plain = json!({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 12, "seed": 3});
    let none = and(plain.clone(), json!({"tools": ask(Value::Null)["tools"], "tool_choice": "none"}));
    let text = |ask: &Value| site.chat(ask).with(200)["choices"][0]["message"]["content"].clone();
    assert_eq!(text(&none), text(&plain));
    // What a template does not know is told to the model in words.
    let told = and(ask(json!("auto")), json!({"max_tokens": 4}));
    let usage = site.chat(&told).with(200)["usage"].clone();
    assert!(usage["prompt_tokens"].as_u64() > Some(200), "{usage}");
    site.end();
}

#[test]
fn a_history_with_calls_and_results_is_taken() {
    let site = thinker();
    let call =
        json!({"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{\"days\": 3}"}});
    let history = json!([
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]},
        {"role": "assistant", "content": null, "tool_calls": [call], "reasoning_content": "hm", "refusal": null, "annotations": []},
        {"role": "tool", "tool_call_id": "call_1", "content": "sun"},
    ]);
    let ask = json!({"messages": history, "max_tokens": 4, "chat_template_kwargs": {"enable_thinking": false}});
    let count = site.post("/tokenize", &json!({"messages": history, "return_token_strs": true})).with(200);
    let text: String = count["token_strs"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert!(text.contains("weather") && text.contains("\"arguments\":") && text.contains("tool:"), "{text}");
    site.chat(&ask).with(200);
    site.end();
    // The same where the template knows no tools.
    let site = Site::roomy(options());
    let count = site.post("/tokenize", &json!({"messages": history, "return_token_strs": true})).with(200);
    let text: String = count["token_strs"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert!(text.contains("<tool_call>") && text.contains("<tool_response>"), "{text}");
    site.end();
}

#[test]
fn reasoning_stands_beside_the_content() {
    let site = thinker();
    let form = json!({"response_format": {"type": "json_schema", "json_schema": {"schema": weather()}}});
    let ask = and(json!({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 40, "seed": 5}), json!({}));
    let whole = site.chat(&ask).with(200)["choices"][0]["message"].clone();
    assert!(whole["reasoning_content"].as_str().is_some_and(|text| !text.is_empty()), "{whole}");
    assert_eq!(whole["content"], "");
    let events = site.chat(&and(ask.clone(), json!({"stream": true}))).events();
    let streamed: String =
        events.iter().filter_map(|event| event["choices"][0]["delta"]["reasoning_content"].as_str()).collect();
    assert_eq!(whole["reasoning_content"], streamed);
    let hidden = site.chat(&and(ask.clone(), json!({"include_reasoning": false}))).with(200);
    assert!(hidden["choices"][0]["message"].get("reasoning_content").is_none());
    // Without reasoning the answer is of its form at once.
    let off = and(and(ask, form), json!({"reasoning_effort": "none"}));
    let message = site.chat(&off).with(200)["choices"][0]["message"].clone();
    check_arguments(&message["content"]);
    assert!(message.get("reasoning_content").is_none(), "{message}");
    site.end();
}

#[test]
fn a_structure_that_has_begun_is_kept_to() {
    let site = Site::roomy(options());
    let before = json!({"type": "structural_tag", "triggers": ["a", "e"], "structures": [
        {"begin": "a<", "schema": {"enum": [7]}, "end": ">"}, {"begin": "e:", "schema": {"type": "null"}, "end": "."}]});
    let format = json!({"type": "triggered_tags", "triggers": ["a", "e"], "tags": [
        {"begin": "a<", "content": {"type": "json_schema", "json_schema": {"enum": [7]}}, "end": ">"},
        {"type": "tag", "begin": "e:", "content": {"type": "regex", "pattern": "null"}, "end": ["."]}]});
    let format = json!({"type": "structural_tag", "format": format});
    let forms = [
        json!({"response_format": before}),
        json!({"response_format": format}),
        json!({"structured_outputs": {"structural_tag": format.to_string()}}),
    ];
    let mut num_found = 0;
    for seed in 0..9 {
        let ask = and(json!({"prompt": "a", "max_tokens": 60, "seed": seed / 3}), forms[seed % 3].clone());
        let reply = site.complete(&ask).with(200);
        let text = reply["choices"][0]["text"].as_str().expect("a text").to_owned();
        for (at, whole) in text.match_indices('a').map(|(at, _)| (at, "a<7>")) {
            let rest = &text[at..];
            assert!(rest.starts_with(whole) || whole.starts_with(rest), "{text:?}");
            num_found += 1;
        }
    }
    assert!(num_found > 0);
    for (structures, triggers) in [
        (json!([]), json!(["a"])),
        (json!([{"begin": "a", "schema": {}, "end": ""}]), json!([""])),
        (json!([{"begin": "a", "schema": {}, "end": ""}]), json!(["b"])),
    ] {
        let tags = json!({"type": "structural_tag", "structures": structures, "triggers": triggers});
        let reply = site.complete(&json!({"prompt": "a", "response_format": tags})).with(400);
        assert_eq!(reply["error"]["param"], "response_format");
    }
    site.end();
}

#[test]
fn each_format_of_a_structural_tag_is_kept_to() {
    let site = Site::roomy(options());
    let constant = |text: &str| json!({"type": "const_string", "value": text});
    let tag = |begin: &str, content: &Value, end: Value| json!({"begin": begin, "content": content, "end": end});
    let (any, digit) = (json!({"type": "any_text"}), json!({"type": "regex", "pattern": "[0-9]"}));
    let tags = json!([tag("<", &digit, json!(">")), tag("(", &digit, json!([")", "]"]))]);
    let grammar = json!({"type": "grammar", "grammar": "root ::= \"x\" | \"y\""});
    let with = |format: &Value, more: Value| and(format.clone(), more);
    let triggered = json!({"type": "triggered_tags", "triggers": ["<", "("], "tags": tags});
    let separated = json!({"type": "tags_with_separator", "tags": tags, "separator": ", "});
    let once = json!({"at_least_one": true, "stop_after_first": true});
    let is_tag = |text: &str| match *text.as_bytes() {
        [b'<', digit, b'>'] | [b'(', digit, b')' | b']'] => digit.is_ascii_digit(),
        _ => false,
    };
    let are_tags = |text: &str| text.split(", ").all(is_tag);
    let cases: [(Value, &dyn Fn(&str) -> bool); 10] = [
        (constant("\"a\\b"), &|text| text == "\"a\\b"),
        (json!({"type": "sequence", "elements": [constant("a"), digit, grammar]}), &|text| {
            let [b'a', digit, last] = *text.as_bytes() else { return false };
            digit.is_ascii_digit() && matches!(last, b'x' | b'y')
        }),
        (json!({"type": "or", "elements": [constant("ab"), constant("ac")]}), &|text| text == "ab" || text == "ac"),
        (and(json!({"type": "tag"}), tags[1].clone()), &|text| is_tag(text) && text.starts_with('(')),
        (and(json!({"type": "tag"}), tag("a", &any, json!(["b", "c"]))), &|text| {
            text.starts_with('a') && text.find(['b', 'c']) == Some(text.len() - 1)
        }),
        (with(&triggered, once.clone()), &is_tag),
        (with(&triggered, json!({"stop_after_first": true})), &|text| {
            text.find(['<', '(']).is_none_or(|at| is_tag(&text[at..]))
        }),
        (with(&separated, once), &is_tag),
        (with(&separated, json!({"at_least_one": true})), &are_tags),
        (separated.clone(), &|text| text.is_empty() || are_tags(text)),
    ];
    for (format, is_right) in cases {
        let mut num_whole = 0;
        for seed in 0..4 {
            let form = json!({"type": "structural_tag", "format": format});
            let ask = json!({"prompt": "a", "max_tokens": 200, "seed": seed, "response_format": form});
            let choice = site.complete(&ask).with(200)["choices"][0].clone();
            let text = choice["text"].as_str().expect("a text");
            let has_ended = choice["finish_reason"] == "stop";
            assert!(!has_ended || is_right(text), "{format} gave {text:?}");
            num_whole += usize::from(has_ended);
        }
        assert!(num_whole > 0, "{format}");
    }
    let inner = json!({"type": "sequence", "elements": [any, constant("a")]});
    for format in [
        inner,
        json!({"type": "qwen_xml_parameter", "json_schema": {}}),
        json!({"type": "or", "elements": []}),
        and(json!({"type": "tag"}), tag("a", &any, json!(""))),
        and(json!({"type": "tag"}), tag("a", &triggered, json!("b"))),
    ] {
        let form = json!({"type": "structural_tag", "format": format});
        let reply = site.complete(&json!({"prompt": "a", "response_format": form})).with(400);
        assert_eq!(reply["error"]["param"], "response_format", "{format}");
    }
    site.end();
}

#[test]
fn forms_of_vllm_and_sglang_are_kept_to() {
    let site = Site::roomy(options());
    let base = json!({"prompt": "a", "max_tokens": 60, "seed": 1});
    let text = |form: Value| {
        let choice = site.complete(&and(base.clone(), form.clone())).with(200)["choices"][0].clone();
        assert_eq!(choice["finish_reason"], "stop", "{form}");
        choice["text"].as_str().expect("a text").to_owned()
    };
    for form in [json!({"guided_json": weather()}), json!({"structured_outputs": {"json": weather().to_string()}})] {
        check_arguments(&text(form).into());
    }
    for form in [json!({"guided_choice": ["yes", "no"]}), json!({"structured_outputs": {"choice": ["yes", "no"]}})] {
        let found = text(form);
        assert!(found == "yes" || found == "no", "{found}");
    }
    for form in [json!({"guided_regex": "[a-c]{3}/[0-9]"}), json!({"regex": "[a-c]{3}/[0-9]"})] {
        let found = text(form);
        assert!(found.len() == 5 && found.as_bytes()[3] == b'/', "{found}");
    }
    assert_eq!(text(json!({"guided_grammar": "start: \"a\" b\nb: \"b\" | \"b\""})), "ab");
    for field in ["guided_grammar", "ebnf"] {
        let gbnf = "root ::= [ ]? b | \"a/\"{3}\nb ::= [b] # or deeper\n | \"(\" b \")\"";
        let found = text(json!({field: gbnf}));
        let found = found.trim_start_matches(' ').trim_start_matches('(').trim_end_matches(')');
        assert!(found == "b" || found == "a/a/a/", "{found}");
    }
    let object: Value = serde_json::from_str(&text(json!({"response_format": {"type": "json_schema", "json_schema":
        {"name": "x", "schema": {"type": "object", "properties": {}, "additionalProperties": false}}}})))
    .expect("JSON");
    assert_eq!(object, json!({}));
    site.end();
}

#[test]
fn hostile_schemas_are_refused_or_read_in_bounded_time() {
    let site = Site::roomy(options());
    let nested = (0..60).fold(json!({"type": "string"}), |inner, _| json!({"type": "array", "items": inner}));
    let many: serde_json::Map<String, Value> = (0..20_000)
        .map(|i| (format!("property{i}"), json!({"type": "string", "pattern": format!("^a{i}$")})))
        .collect();
    let all_of: Vec<Value> = (0..300).map(|i| json!({"pattern": format!("(a|b)*{i}(c|d)*")})).collect();
    let recursive =
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}});
    for schema in [
        nested,
        json!({"type": "object", "properties": many}),
        json!({"type": "string", "allOf": all_of}),
        recursive,
        json!({"type": "string", "pattern": "(a{1000}){1000}"}),
        json!({"type": "string", "pattern": "((a|ab|b){1,500}c){1,500}"}),
        json!({"type": "string", "minLength": 1_000_000_000, "maxLength": 2_000_000_000}),
        json!({"type": "array", "items": {"type": "string"}, "minItems": 1_000_000}),
        json!({"$ref": "http://example.invalid/schema.json"}),
        json!({"type": "integer", "multipleOf": 1e-300, "minimum": -1e300, "maximum": 1e300}),
        json!({"enum": (0..50_000).map(|i| format!("value{i}")).collect::<Vec<_>>()}),
    ] {
        let start = std::time::Instant::now();
        let form = json!({"guided_json": schema, "max_tokens": 3});
        let reply = site.complete(&and(json!({"prompt": "a"}), form));
        let shown: String = schema.to_string().chars().take(80).collect();
        println!("{} in {:?}: {shown}", reply.status, start.elapsed());
        assert!(matches!(reply.status, 200 | 400), "{} {shown} {}", reply.status, reply.body);
        assert!(start.elapsed() < std::time::Duration::from_secs(30), "{shown}");
        if reply.status == 400 {
            assert_eq!(reply.with(400)["error"]["param"], "guided_json", "{shown}");
        }
    }
    // A text of 2^40 characters in forty rules.
    let doubled: String = (0..40).map(|i| format!("g{i} ::= g{0} g{0}\n", i + 1)).collect();
    let doubled = format!("root ::= g0\n{doubled}g40 ::= \"a\"");
    let reply = site.complete(&json!({"prompt": "a", "max_tokens": 2, "guided_grammar": doubled}));
    assert!(matches!(reply.status, 200 | 400), "{}", reply.body);
    for lark in [
        format!("root ::= {}\"a\"{}", "(".repeat(90_000), ")".repeat(90_000)),
        "root ::= root".to_owned(),
        format!("start: {}\"a\"{}", "(".repeat(90_000), ")".repeat(90_000)),
        "start: start".to_owned(),
        String::new(),
    ] {
        site.complete(&and(json!({"prompt": "a"}), json!({"guided_grammar": lark}))).with(400);
    }
    site.complete(&json!({"prompt": "a", "max_tokens": 2})).with(200);
    site.end();
}
