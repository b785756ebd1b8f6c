//! Completions: what they are, and that streams say the same.

use serde_json::{Value, json};
use warpfold_engine::scripted::Scripted;
use warpfold_engine::{Engine, Request};

use crate::support::{MAX_LEN, Site, VOCAB, and, config, counts, fixed, tokenizer};

/// Choices put together from a stream's chunks.
fn folded(events: &[Value]) -> Vec<Value> {
    let mut choices: Vec<Value> = Vec::new();
    for part in events.iter().flat_map(|event| event["choices"].as_array().expect("a list")) {
        let index = part["index"].as_u64().expect("a number") as usize;
        choices.resize(choices.len().max(index + 1), Value::Null);
        match &mut choices[index] {
            whole if whole.is_null() => *whole = part.clone(),
            whole => extend(whole, part),
        }
    }
    choices
}

fn extend(whole: &mut Value, part: &Value) {
    let text = whole["text"].as_str().expect("a text").to_owned() + part["text"].as_str().expect("a text");
    whole["text"] = text.into();
    for field in ["finish_reason", "stop_reason", "seed"] {
        whole[field] = part[field].clone();
    }
    let append = |to: &mut Value, from: &Value| {
        if let (Some(to), Some(from)) = (to.as_array_mut(), from.as_array()) {
            to.extend(from.iter().cloned());
        }
    };
    if let Some(ids) = whole.get_mut("token_ids") {
        append(ids, &part["token_ids"]);
    }
    for field in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
        if whole["logprobs"].is_object() {
            append(&mut whole["logprobs"][field], &part["logprobs"][field]);
        }
    }
}

#[test]
fn a_completion_is_what_the_engine_says() {
    let site = Site::plain();
    let found = site.complete(&and(fixed(json!([5, 9, 200]), 12), json!({"return_token_ids": true}))).with(200);
    let mut engine = Engine::new(Scripted::new(VOCAB, MAX_LEN), config()).expect("the settings are right");
    let request = Request { seed: Some(7), max_tokens: Some(12), ignore_eos: true, ..Request::new(vec![5, 9, 200]) };
    let id = engine.add(request).expect("the request is right");
    let tokens = engine.run_to_end().expect("the model runs")[&id][0].ids();
    let choice = &found["choices"][0];
    assert_eq!(choice["token_ids"], json!(tokens));
    assert_eq!(choice["prompt_token_ids"], json!([5, 9, 200]));
    assert_eq!((&choice["finish_reason"], &choice["seed"], &choice["index"]), (&json!("length"), &json!(7), &json!(0)));
    let special = |id: &u32| warpfold_engine::Decode::is_special(&tokenizer(), *id);
    let shown: Vec<u32> = tokens.into_iter().filter(|id| !special(id)).collect();
    assert_eq!(choice["text"], tokenizer().decode(&shown));
    assert_eq!(counts(&found["usage"]), json!([3, 12, 15]));
    assert_eq!(found["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    assert_eq!((&found["object"], &found["model"]), (&json!("text_completion"), &json!("scripted")));
    assert!(found["id"].as_str().is_some_and(|id| id.starts_with("cmpl-")));
    site.end();
}

#[test]
fn a_stream_says_what_a_whole_answer_says() {
    let site = Site::plain();
    let texts = fixed(json!("the quick brown fox"), 40);
    let requests = [
        texts.clone(),
        and(texts.clone(), json!({"logprobs": 3, "return_token_ids": true})),
        and(texts.clone(), json!({"n": 3, "logprobs": 0, "temperature": 2.0})),
        and(fixed(json!(["one", "two", "three"]), 9), json!({"n": 2, "echo": true})),
        and(texts.clone(), json!({"echo": true, "logprobs": 2})),
        and(texts.clone(), json!({"stop": ["a", "e"], "max_tokens": 100})),
        and(texts, json!({"ignore_eos": false, "stop_token_ids": (2..60).collect::<Vec<_>>()})),
    ];
    for request in requests {
        let whole = site.complete(&request).with(200);
        let streamed = and(request.clone(), json!({"stream": true, "stream_options": {"include_usage": true}}));
        let mut events = site.complete(&streamed).events();
        let last = events.pop().expect("there is an end");
        assert_eq!(last["choices"], json!([]));
        assert_eq!(counts(&last["usage"]), counts(&whole["usage"]), "{request}");
        assert!(events.iter().all(|event| event["usage"].is_null() && event.get("usage").is_some()));
        assert_eq!(json!(folded(&events)), whole["choices"], "{request}");
    }
    site.end();
}

#[test]
fn a_stream_tells_no_usage_that_nobody_asked_for() {
    let site = Site::plain();
    let events = site.complete(&and(fixed(json!("a"), 3), json!({"stream": true}))).events();
    assert!(events.iter().all(|event| event.get("usage").is_none() && event["object"] == "text_completion"));
    let ids: Vec<&Value> = events.iter().map(|event| &event["id"]).collect();
    assert!(ids.windows(2).all(|pair| pair[0] == pair[1]));
    site.end();
}

#[test]
fn a_drawn_seed_gives_the_same_answer_again() {
    let site = Site::plain();
    let ask = json!({"prompt": "the", "max_tokens": 20, "n": 3, "temperature": 1.5, "ignore_eos": true});
    let first = site.complete(&ask).with(200);
    for choice in first["choices"].as_array().expect("a list") {
        let again = and(ask.clone(), json!({"n": 1, "seed": choice["seed"]}));
        let again = site.complete(&again).with(200);
        assert_eq!(again["choices"][0]["text"], choice["text"]);
    }
    let others = site.complete(&ask).with(200);
    assert_ne!(others["choices"][0]["seed"], first["choices"][0]["seed"]);
    site.end();
}

#[test]
fn a_seed_comes_back_as_it_was_sent() {
    let site = Site::plain();
    for seed in [json!(-1), json!(i64::MIN), json!(u64::MAX), json!(1_u64 << 60)] {
        let ask = json!({"prompt": "the", "max_tokens": 4, "temperature": 1.5, "seed": seed});
        let first = site.complete(&ask).with(200)["choices"][0].clone();
        assert_eq!(first["seed"], seed);
        assert_eq!(site.complete(&ask).with(200)["choices"][0]["text"], first["text"]);
    }
    site.end();
}

#[test]
fn a_stream_tells_its_usage_all_along_where_that_is_asked_for() {
    let site = Site::plain();
    let options = json!({"stream": true, "stream_options": {"include_usage": true, "continuous_usage_stats": true}});
    let events = site.complete(&and(fixed(json!([5, 9, 200]), 4), options)).events();
    let generated: Vec<&Value> = events.iter().map(|event| &event["usage"]["completion_tokens"]).collect();
    assert_eq!((generated.first(), generated.last()), (Some(&&json!(1)), Some(&&json!(4))));
    site.end();
}

#[test]
fn what_the_cache_had_of_a_prompt_is_told() {
    let site = Site::plain();
    let cached = || {
        let usage = site.complete(&fixed(json!(vec![7; 100]), 1)).with(200)["usage"].clone();
        usage["prompt_tokens_details"]["cached_tokens"].as_u64()
    };
    assert_eq!((cached(), cached()), (Some(0), Some(96)));
    site.end();
}

#[test]
fn a_request_is_drawn_as_the_model_wants_unless_it_says_otherwise() {
    let site = Site::empty(crate::support::options());
    let sampling = warpfold_models::SamplingDefaults { top_k: Some(1), max_new_tokens: Some(5), ..Default::default() };
    let text = warpfold_serve::Text { sampling, ..crate::support::text() };
    site.handle().serve(Scripted::new(VOCAB, MAX_LEN), config(), text).expect("the settings are right");
    let text = |more: Value| {
        let ask = and(json!({"prompt": "the", "max_tokens": 12, "ignore_eos": true}), more);
        site.complete(&ask).with(200)["choices"][0]["text"].clone()
    };
    let greedy = text(json!({"temperature": 0}));
    assert_eq!((text(json!({"seed": 1})), text(json!({"seed": 2}))), (greedy.clone(), greedy.clone()));
    assert_ne!(text(json!({"seed": 1, "top_k": -1, "temperature": 2})), greedy);
    let chat = site.chat(&json!({"messages": [{"role": "user", "content": "Hi"}], "ignore_eos": true})).with(200);
    assert_eq!(chat["usage"]["completion_tokens"], 5);
    site.complete(&json!({"prompt": "the", "max_tokens": 3, "n": 2, "use_beam_search": true})).with(200);
    site.end();
}

#[test]
fn logprobs_belong_to_their_tokens() {
    let site = Site::plain();
    let ask = and(fixed(json!([5, 9, 200]), 10), json!({"logprobs": 4, "echo": true, "return_token_ids": true}));
    let choice = site.complete(&ask).with(200)["choices"][0].clone();
    let logprobs = &choice["logprobs"];
    let list = |field: &str| logprobs[field].as_array().expect("a list").clone();
    let (texts, values, tops, offsets) =
        (list("tokens"), list("token_logprobs"), list("top_logprobs"), list("text_offset"));
    assert_eq!([texts.len(), values.len(), tops.len(), offsets.len()], [13; 4]);
    assert!(values[0].is_null() && tops[0].is_null() && values[1..].iter().all(|v| v.as_f64() < Some(0.0)));
    for ((text, value), top) in texts.iter().zip(&values).zip(&tops).skip(1) {
        let top = top.as_object().expect("an object");
        assert_eq!(top.get(text.as_str().expect("a text")), Some(value), "the token is among the likely ones");
        assert!((1..=5).contains(&top.len()));
    }
    assert_eq!(offsets[0], 0);
    let len = texts[0].as_str().expect("a text").chars().count();
    assert_eq!(offsets[1], json!(len));
    let none = site.complete(&fixed(json!([5]), 2)).with(200);
    assert!(none["choices"][0]["logprobs"].is_null());
    site.end();
}

#[test]
fn stop_strings_end_answers_and_are_cut_off_or_kept() {
    let site = Site::plain();
    let base = and(fixed(json!("the"), 60), json!({"seed": 3}));
    let full = site.complete(&base).with(200)["choices"][0]["text"].as_str().expect("a text").to_owned();
    // Two letters somewhere behind the middle, which may lie in two tokens.
    let letters = |pair: &&[u8]| pair.iter().all(u8::is_ascii_alphabetic);
    let stop = full.as_bytes()[full.len() / 2..].windows(2).find(letters).expect("there are letters");
    let stop = std::str::from_utf8(stop).expect("letters");
    let cut = full.find(stop).expect("it is there");
    let ask = and(base.clone(), json!({"stop": stop}));
    let found = site.complete(&ask).with(200)["choices"][0].clone();
    assert_eq!((found["text"].as_str(), found["finish_reason"].as_str()), (Some(&full[..cut]), Some("stop")));
    assert_eq!(found["stop_reason"], stop);
    let kept = and(ask, json!({"include_stop_str_in_output": true}));
    assert_eq!(site.complete(&kept).with(200)["choices"][0]["text"], full[..cut + stop.len()]);
    site.end();
}

#[test]
fn beams_are_the_best_answers() {
    let site = Site::plain();
    let ask = json!({"prompt": "the", "max_tokens": 6, "n": 3, "use_beam_search": true, "temperature": 0.0});
    let found = site.complete(&ask).with(200);
    let texts: Vec<&str> = (0..3).map(|i| found["choices"][i]["text"].as_str().expect("a text")).collect();
    assert!(texts[0] != texts[1] && texts[1] != texts[2]);
    let error = site.complete(&and(ask, json!({"stream": true}))).with(400);
    assert_eq!(error["error"]["param"], "stream");
    site.end();
}

#[test]
fn answers_do_not_depend_on_who_else_asks() {
    let site = Site::plain();
    let ask =
        |i: usize| and(fixed(json!(format!("number {}", i % 7)), 10 + i % 30), json!({"seed": i, "n": 1 + i % 3}));
    let alone: Vec<Value> = (0..60).map(|i| site.complete(&ask(i)).with(200)["choices"].clone()).collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..60)
            .map(|i| {
                scope.spawn({
                    let site = &site;
                    move || site.complete(&ask(i)).with(200)["choices"].clone()
                })
            })
            .collect();
        for (i, thread) in threads.into_iter().enumerate() {
            assert_eq!(thread.join().expect("the thread ends"), alone[i], "{i}");
        }
    });
    site.end();
}

#[test]
fn the_tokens_of_a_prompt_are_scored_in_vllms_form() {
    let site = Site::plain();
    let prompt = [5, 80, 7, 9];
    let ask = json!({"prompt": prompt, "max_tokens": 2, "temperature": 0, "prompt_logprobs": 2});
    let scored = site.complete(&ask).with(200)["choices"][0]["prompt_logprobs"].clone();
    let echo = json!({"prompt": prompt, "max_tokens": 0, "temperature": 0, "logprobs": 2, "echo": true});
    let echoed = site.complete(&echo).with(200);
    let (choice, usage) = (&echoed["choices"][0], &echoed["usage"]);
    // The prompt alone, without the token that was drawn after it.
    assert_eq!((&usage["completion_tokens"], &choice["finish_reason"]), (&json!(0), &json!("length")));
    assert_eq!(choice["logprobs"]["tokens"].as_array().map(Vec::len), Some(4));
    let streamed = site.complete(&and(echo, json!({"stream": true}))).events();
    let text: String = streamed.iter().filter_map(|event| event["choices"][0]["text"].as_str()).collect();
    assert_eq!(choice["text"], text);
    assert_eq!((scored.as_array().map(Vec::len), &scored[0]), (Some(4), &Value::Null));
    for i in 1..4 {
        let own = &scored[i][prompt[i].to_string()];
        assert_eq!(own["logprob"], choice["logprobs"]["token_logprobs"][i]);
        assert_eq!(own["decoded_token"], choice["logprobs"]["tokens"][i]);
        let entries = scored[i].as_object().expect("tokens");
        let ranks: Vec<_> = entries.values().filter_map(|entry| entry["rank"].as_u64()).collect();
        assert!(ranks.contains(&1) && ranks.contains(&2) && (2..=3).contains(&entries.len()), "{entries:?}");
    }
    let messages = json!([{"role": "user", "content": "Hi"}]);
    let chat = site.chat(&json!({"messages": messages, "max_tokens": 1, "prompt_logprobs": 0})).with(200);
    let tokens = chat["usage"]["prompt_tokens"].as_u64().expect("a count") as usize;
    assert_eq!(chat["prompt_logprobs"].as_array().map(Vec::len), Some(tokens));
    for more in [json!({"prompt_logprobs": 21}), json!({"prompt_logprobs": -1}), json!({"stream": true})] {
        assert_eq!(site.complete(&and(ask.clone(), more)).with(400)["error"]["param"], "prompt_logprobs");
    }
    site.end();
}

#[test]
fn the_best_of_several_answers_are_the_likeliest() {
    let site = Site::plain();
    let base = json!({"prompt": [[5, 80], [7]], "max_tokens": 6, "seed": 7, "ignore_eos": true, "logprobs": 0});
    let all = site.complete(&and(base.clone(), json!({"n": 5}))).with(200);
    let best = site.complete(&and(base, json!({"n": 2, "best_of": 5}))).with(200);
    let choices = |answer: &Value| answer["choices"].as_array().expect("a list").clone();
    let mean = |choice: &Value| {
        let all: Vec<f64> = serde_json::from_value(choice["logprobs"]["token_logprobs"].clone()).expect("numbers");
        all.iter().sum::<f64>() / all.len() as f64
    };
    assert_eq!(choices(&best).len(), 4);
    for prompt in 0..2 {
        let mut sorted = choices(&all)[5 * prompt..][..5].to_vec();
        sorted.sort_by(|a, b| mean(b).total_cmp(&mean(a)));
        for (i, expected) in sorted[..2].iter().enumerate() {
            let found = &choices(&best)[2 * prompt + i];
            assert_eq!((&found["text"], &found["seed"]), (&expected["text"], &expected["seed"]));
            assert_eq!(found["index"], 2 * prompt + i);
        }
    }
    assert_eq!(best["usage"]["completion_tokens"], all["usage"]["completion_tokens"]);
    site.end();
}
