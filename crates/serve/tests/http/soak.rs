//! Thousands of requests of every kind at once, most of them rude: at the end nothing is held.

use std::time::Duration;

use serde_json::{Value, json};
use warpfold_engine::scripted::Scripted;
use warpfold_engine::{Config, Preemption};
use warpfold_serve::{Bounds, Options};

use crate::support::{MAX_LEN, Site, VOCAB, config, options};

const CLIENTS: u64 = 12;
const REQUESTS: u64 = 300;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (x ^ (x >> 31)) % end
    }
}

fn completion(random: &mut Random) -> Value {
    let len = 1 + random.below(120) as usize;
    let prompt: Vec<u64> = (0..len).map(|i| if i < 64 { 7 } else { 2 + random.below(280) }).collect();
    json!({
        "prompt": prompt,
        "max_tokens": 1 + random.below(60),
        "n": 1 + random.below(3),
        "temperature": random.below(3),
        "stream": random.below(2) == 0,
        "logprobs": if random.below(4) == 0 { json!(random.below(20)) } else { Value::Null },
        "stop": if random.below(4) == 0 { json!(["a", "th"]) } else { Value::Null },
        "ignore_eos": random.below(2) == 0,
        "use_beam_search": null,
    })
}

/// One client does one thing, and says whether it was answered in full.
fn one(site: &Site, random: &mut Random) -> bool {
    let key = if random.below(2) == 0 { "Bearer one" } else { "Bearer two" };
    let headers = [("Content-Type", "application/json"), ("Authorization", key)];
    let deed = random.below(10);
    let mut body = completion(random);
    if matches!(deed, 2 | 6) {
        // Only streams have lines.
        body["stream"] = json!(true);
    }
    let mut connection = site.open();
    let text = body.to_string();
    match deed {
        // Leaves before, or while, it is answered.
        0 => {
            connection.request("POST", "/v1/completions", &headers, &text);
        }
        1 => {
            connection.request("POST", "/v1/completions", &headers, &text);
            std::thread::sleep(Duration::from_micros(random.below(3000)));
        }
        2 => {
            connection.request("POST", "/v1/completions", &headers, &text);
            connection.head();
            connection.line();
        }
        // Sends half of it, or rubbish.
        3 => {
            let half = text.len() / 2;
            let head = format!(
                "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nAuthorization: {key}\r\n\
                 Content-Length: {}\r\n\r\n",
                text.len()
            );
            connection.send((head + &text[..half]).as_bytes());
        }
        4 => {
            let rubbish: Vec<u8> = (0..200).map(|_| random.below(256) as u8).collect();
            connection.send(&rubbish);
        }
        5 => {
            let at = random.below(text.len() as u64) as usize;
            let broken: String = text.chars().enumerate().map(|(i, c)| if i == at { '~' } else { c }).collect();
            let reply = connection.request("POST", "/v1/completions", &headers, &broken).reply();
            // A broken number may still be right, and so may a broken text.
            assert!(matches!(reply.status, 200 | 400), "{}", reply.body);
        }
        // Reads slowly.
        6 => {
            connection.request("POST", "/v1/completions", &headers, &text);
            connection.head();
            for _ in 0..5 {
                std::thread::sleep(Duration::from_millis(2));
                connection.line();
            }
        }
        _ => {
            let reply = connection.request("POST", "/v1/completions", &headers, &text).reply();
            assert!(matches!(reply.status, 200 | 503), "{}", reply.body);
            let is_stream = body["stream"] == true;
            assert!(!is_stream || reply.status != 200 || reply.body.ends_with("data: [DONE]\n\n"), "{}", reply.body);
            return reply.status == 200;
        }
    }
    false
}

#[test]
fn after_thousands_of_rude_requests_nothing_is_held() {
    let bounds = Bounds { connections: 64, write_time: Duration::from_secs(2), ..Bounds::default() };
    let options = Options { keys: vec!["one".to_owned(), "two".to_owned()], bounds, ..options() };
    // A cache that is too small for all, so that requests are preempted both ways.
    let config = Config {
        num_blocks: 60,
        num_host_blocks: 30,
        preemption: Preemption::Auto,
        swap_above: 40,
        inject_preemptions: 0.02,
        max_seqs: 24,
        budget: 96,
        ..config()
    };
    let site = Site::with(options, Scripted::new(VOCAB, MAX_LEN), config);
    let served: u64 = std::thread::scope(|scope| {
        let site = &site;
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                scope.spawn(move || {
                    let mut random = Random(client);
                    (0..REQUESTS).map(|_| u64::from(one(site, &mut random))).sum::<u64>()
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().expect("no client finds a fault")).sum()
    });
    assert!(served > CLIENTS * REQUESTS / 5, "{served} requests were served");
    site.wait_for("all requests end", |site| {
        site.metric("vllm:num_requests_running") + site.metric("vllm:num_requests_waiting") == 0.0
    });
    assert_eq!(site.metric("vllm:kv_cache_usage_perc"), 0.0);
    let metrics = site.end();
    assert!(metrics.aborted > 0 && metrics.preempted_by_recompute + metrics.preempted_by_swap > 0, "{metrics:?}");
}
