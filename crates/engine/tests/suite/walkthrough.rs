//! The origin's example, step by step: the page `docs/book/src/engine-walkthrough.md` shows these
//! traces.

use std::path::Path;

use warpfold_engine::scripted::Scripted;
use warpfold_engine::{Allocator, Config, Engine, Policy, Preemption, Request};

/// vLLM's settings of the time, with blocks so small that they are seen to fill.
fn config(num_blocks: usize, num_host_blocks: usize) -> Config {
    Config {
        policy: Policy::VllmV0,
        allocator: Allocator::Naive,
        preemption: Preemption::Auto,
        block_size: 4,
        num_blocks,
        num_host_blocks,
        budget: 64,
        max_len: Some(20),
        trace: true,
        check: true,
        ..Config::default()
    }
}

/// `n` answers of `num` tokens to a prompt of seven.
fn request(first: u32, n: usize, num: usize) -> Request {
    let prompt = (first..first + 7).collect();
    Request { n, seed: Some(1), max_tokens: Some(num), ignore_eos: true, ..Request::new(prompt) }
}

/// What each step did.
fn trace(config: Config, requests: &[Request]) -> String {
    let mut engine = Engine::new(Scripted::new(100, 64), config).expect("the settings are right");
    for request in requests {
        engine.add(request.clone()).expect("the request is right");
    }
    let mut text = String::new();
    while !engine.is_idle() {
        engine.step().expect("the model runs");
        text += &engine.trace().expect("a trace is asked for").to_string();
    }
    text
}

/// The blocks of the page that are marked as traces.
fn traces_of_the_page() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/src/engine-walkthrough.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    page.split("```trace\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn the_page_shows_what_two_answers_to_a_prompt_of_seven_tokens_do() {
    let found = trace(config(6, 0), &[request(1, 2, 4)]);
    assert_eq!(traces_of_the_page()[..4].concat(), found, "the page docs/book/src/engine-walkthrough.md");
}

#[test]
fn the_page_shows_what_happens_when_blocks_run_out() {
    let found = trace(config(6, 6), &[request(1, 1, 6), request(30, 2, 4), request(60, 1, 2)]);
    assert_eq!(traces_of_the_page()[4..13].concat(), found, "the page docs/book/src/engine-walkthrough.md");
}

#[test]
fn the_page_shows_what_the_prefix_cache_keeps_and_evicts() {
    let cached =
        Config { policy: Policy::Continuous, allocator: Allocator::PrefixCaching, max_seqs: 1, ..config(3, 0) };
    let found = trace(cached, &[request(1, 1, 1), request(1, 1, 1), request(30, 1, 3)]);
    assert_eq!(traces_of_the_page()[13..].concat(), found, "the page docs/book/src/engine-walkthrough.md");
}
