//! An agent of twenty turns with three tools: it reads the same bytes alone and among others.
#![cfg(feature = "grammar")]

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use warpfold_engine::scripted::Scripted;
use warpfold_engine::{Config, Preemption};

use crate::support::{MAX_LEN, Site, VOCAB, and, config, options};
use crate::tools::weather;

const TURNS: usize = 20;
const OTHERS: usize = 16;

fn tools() -> Value {
    let tool = |name: &str, parameters: Value| json!({"type": "function", "function": {"name": name, "description": "a tool", "parameters": parameters, "strict": true}});
    let choice = |name: &str, of: Value| json!({"type": "object", "properties": {name: {"enum": of}}, "required": [name], "additionalProperties": false});
    json!([
        tool("weather", weather()),
        tool("read", choice("file", json!(["a.txt", "b.txt"]))),
        tool("answer", choice("is_right", json!([true, false]))),
    ])
}

/// Talks for some turns: asks, runs what is called, streams every other answer; returns all bytes
/// of what came, ids left out, which are never the same.
fn talk(site: &Site, seed: usize, turns: usize) -> String {
    let mut messages = vec![json!({"role": "user", "content": format!("Task {seed}")})];
    let mut heard = String::new();
    for turn in 0..turns {
        let choice = if turn % 3 == 2 { "auto" } else { "required" };
        let ask = json!({"messages": messages, "tools": tools(), "tool_choice": choice, "max_tokens": 160,
            "seed": 100 * seed + turn, "parallel_tool_calls": turn % 2 == 0});
        let whole = site.chat(&ask).with(200);
        let message = &whole["choices"][0]["message"];
        if turn % 2 == 1 {
            let events = site.chat(&and(ask, json!({"stream": true}))).events();
            let delta = |event: &Value, field: &str| {
                event["choices"][0]["delta"][field].as_str().unwrap_or_default().to_owned()
            };
            let text: String = events.iter().map(|event| delta(event, "content")).collect();
            assert_eq!(text, message["content"].as_str().unwrap_or_default(), "turn {turn}");
            let parts =
                events.iter().filter_map(|event| event["choices"][0]["delta"]["tool_calls"].as_array()).flatten();
            let arguments: String = parts.filter_map(|part| part["function"]["arguments"].as_str()).collect();
            assert_eq!(
                arguments,
                calls(message)
                    .map(|call| call["function"]["arguments"].as_str().unwrap_or_default())
                    .collect::<String>()
            );
        }
        heard += &format!("{} {}", message["content"], whole["choices"][0]["finish_reason"]);
        messages.push(json!({"role": "assistant", "content": message["content"]}));
        let mut results = Vec::new();
        // A call that was cut off is none.
        let is_whole = whole["choices"][0]["finish_reason"] == "tool_calls";
        for (i, call) in calls(message).enumerate().filter(|_| is_whole) {
            let (name, arguments) = (&call["function"]["name"], &call["function"]["arguments"]);
            heard += &format!("{name}{arguments}");
            let of_turn = json!({"id": format!("{turn}.{i}"), "type": "function", "function": call["function"]});
            results.push((of_turn, json!({"role": "tool", "tool_call_id": format!("{turn}.{i}"), "content": format!("{name} is {}", heard.len())})));
        }
        let last = messages.last_mut().expect("it was added");
        if results.is_empty() {
            messages.push(json!({"role": "user", "content": "Go on"}));
        } else {
            last["tool_calls"] = results.iter().map(|(call, _)| call.clone()).collect();
            messages.extend(results.into_iter().map(|(_, result)| result));
        }
    }
    heard
}

fn calls(message: &Value) -> impl Iterator<Item = &Value> {
    message["tool_calls"].as_array().into_iter().flatten()
}

#[test]
fn an_agent_of_twenty_turns_hears_the_same_alone_and_among_sixteen_others() {
    let site = |config| Site::with(options(), Scripted::new(VOCAB, 64 * MAX_LEN).overlapping(), config);
    let roomy = Config { num_blocks: 2048, ..config() };
    let alone = site(roomy.clone());
    let expected = talk(&alone, 0, TURNS);
    assert!(expected.matches("tool_calls").count() > TURNS / 4, "{expected}");
    alone.end();
    // Among others there is too little room, and somebody is always preempted.
    let few = Config {
        num_blocks: 1100,
        num_host_blocks: 200,
        preemption: Preemption::Auto,
        inject_preemptions: 0.02,
        budget: 256,
        check: false,
        ..roomy
    };
    let site = site(few);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for other in 1..=OTHERS {
            let (site, is_over) = (&site, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    talk(site, other, 2);
                }
            });
        }
        let heard = talk(&site, 0, TURNS);
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(heard, expected);
    });
    let metrics = site.end();
    assert!(metrics.preempted_by_recompute + metrics.preempted_by_swap > 0, "{metrics:?}");
}
