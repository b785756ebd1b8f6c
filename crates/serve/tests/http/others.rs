//! Models, tokens, metrics, versions.

use std::time::Duration;

use serde_json::json;
use warpfold_engine::Config;
use warpfold_serve::Options;

use crate::support::{Gated, Site, config, fixed, options, tokenizer};

#[test]
fn models_are_listed_by_every_name() {
    let names = vec!["owner/one".to_owned(), "two".to_owned()];
    let site = Site::new(Options { names, ..options() });
    let list = site.get("/v1/models").with(200);
    assert_eq!((&list["object"], &list["data"][1]["id"]), (&json!("list"), &json!("two")));
    assert_eq!((&list["data"][0]["id"], &list["data"][0]["max_model_len"]), (&json!("owner/one"), &json!(256)));
    for path in ["/v1/models/owner/one", "/v1/models/owner%2Fone"] {
        assert_eq!(site.get(path).with(200)["id"], "owner/one");
    }
    for name in ["owner/one", "two"] {
        let mut body = fixed(json!("a"), 1);
        body["model"] = json!(name);
        assert_eq!(site.complete(&body).with(200)["model"], "owner/one");
    }
    site.end();
}

#[test]
fn texts_become_tokens_and_tokens_texts() {
    let site = Site::plain();
    let text = "the quick brown fox 42 é€";
    let found = site.post("/tokenize", &json!({"prompt": text, "return_token_strs": true})).with(200);
    let expected = tokenizer().encode(text).expect("a text");
    assert_eq!((&found["tokens"], &found["count"]), (&json!(expected), &json!(expected.len())));
    assert_eq!(found["max_model_len"], 256);
    assert_eq!(found["token_strs"].as_array().map(Vec::len), Some(expected.len()));
    let back = site.post("/detokenize", &json!({"tokens": expected})).with(200);
    assert_eq!(back["prompt"], text);
    let chat = site.post("/tokenize", &json!({"messages": [{"role": "user", "content": "Hi"}]})).with(200);
    let same = tokenizer().encode_marked("user: Hi\nassistant:").expect("a text");
    assert_eq!(chat["tokens"], json!(same));
    assert_eq!(site.post("/detokenize", &json!({"tokens": [288]})).with(400)["error"]["param"], "tokens");
    assert_eq!(site.post("/tokenize", &json!({"prompt": "a", "x": 1})).with(400)["error"]["param"], "x");
    site.end();
}

#[test]
fn metrics_have_the_names_of_vllm_and_count() {
    let site = Site::plain();
    let mut body = fixed(json!(vec![5; 40]), 10);
    body["n"] = json!(2);
    site.complete(&body).with(200);
    site.complete(&body).with(200);
    for (name, value) in [
        ("vllm:num_requests_running", 0.0),
        ("vllm:num_requests_waiting", 0.0),
        ("vllm:kv_cache_usage_perc", 0.0),
        ("vllm:num_preemptions_total", 0.0),
        ("vllm:prompt_tokens_total", 80.0),
        ("vllm:generation_tokens_total", 40.0),
        ("vllm:prefix_cache_hits_total", 32.0),
        ("vllm:time_to_first_token_seconds_count", 4.0),
        ("vllm:inter_token_latency_seconds_count", 36.0),
        ("vllm:e2e_request_latency_seconds_count", 4.0),
        ("vllm:request_queue_time_seconds_count", 4.0),
        ("vllm:request_prefill_time_seconds_count", 4.0),
        ("vllm:request_decode_time_seconds_count", 4.0),
        ("vllm:request_inference_time_seconds_count", 4.0),
        ("vllm:request_generation_tokens_sum", 40.0),
        ("vllm:request_params_n_sum", 8.0),
        ("vllm:cache_config_info", 1.0),
    ] {
        assert_eq!(site.metric(name), value, "{name}");
    }
    let text = site.get("/metrics").body;
    assert!(
        text.contains(
            "vllm:request_success_total{model_name=\"scripted\",engine=\"0\",finished_reason=\"length\"} 4\n"
        )
    );
    // Each name has one head, before its values, as Prometheus wants it.
    let heads: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    let mut names: Vec<&str> = heads.iter().filter_map(|head| head.split(' ').next()).collect();
    let num = names.len();
    names.sort_unstable();
    names.dedup();
    assert!(num > 15 && names.len() == num);
    site.end();
}

#[test]
fn times_of_queue_prefill_and_decoding_add_up_to_the_whole() {
    // One sequence at a time, so that all but the first request wait for those before.
    let config = Config { max_seqs: 1, ..config() };
    let (model, word) = Gated::new();
    let site = Site::with(options(), model, config);
    let clock = std::thread::spawn(move || {
        for _ in 0..30 {
            std::thread::sleep(Duration::from_millis(4));
            word.send(()).expect("the model waits");
        }
    });
    let mut waiting: Vec<_> = (0..3).map(|_| site.open()).collect();
    for (i, connection) in waiting.iter_mut().enumerate() {
        connection.post("/v1/completions", &fixed(json!([5 + i]), 10));
    }
    waiting.iter_mut().for_each(|connection| assert_eq!(connection.reply().status, 200));
    clock.join().expect("all steps were asked for");
    let sum = |name: &str| site.metric(&format!("vllm:{name}_seconds_sum"));
    let parts = ["request_queue_time", "request_prefill_time", "request_decode_time"].map(sum);
    let (whole, inference) = (sum("e2e_request_latency"), sum("request_inference_time"));
    assert!((parts.iter().sum::<f64>() - whole).abs() < 1e-4, "{parts:?} of {whole}");
    assert!((parts[0] + inference - whole).abs() < 1e-4, "{parts:?} and {inference} of {whole}");
    // The second waits for ten steps, the third for twenty; nine are between first and last tokens.
    // Some words may have been there before the first request was.
    assert!(parts[0] > 0.08 && parts[1] > 0.003 && parts[2] > 0.08, "{parts:?}");
    site.end();
}

#[test]
fn a_connection_serves_many_requests() {
    let site = Site::plain();
    let mut connection = site.open();
    for i in 0..50 {
        let reply = connection.post("/v1/completions", &fixed(json!([5]), 1 + i % 3)).reply();
        assert_eq!(reply.status, 200);
    }
    assert_eq!(connection.request("GET", "/version", &[], "").reply().with(200)["version"], env!("CARGO_PKG_VERSION"));
    site.end();
}
