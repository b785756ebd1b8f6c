//! What a client may take: bytes, headers, time, connections, places in the queue.

use std::time::{Duration, Instant};

use serde_json::json;
use warpfold_engine::Config;
use warpfold_serve::Bounds;

use crate::support::{Gated, Site, bounded, config, fixed};

const SOON: Duration = Duration::from_millis(200);

#[test]
fn a_body_is_bounded_whether_its_length_is_said_or_not() {
    let site = Site::new(bounded(Bounds { body_bytes: 1000, ..Bounds::default() }));
    let typed = ("Content-Type", "application/json");
    let long = "x".repeat(2000);
    let reply = site.open().request("POST", "/v1/completions", &[typed], &long).reply();
    assert_eq!(reply.with(413)["error"]["message"], "the body has more than 1000 bytes");
    let mut connection = site.open();
    connection.send(
        b"POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    for _ in 0..20 {
        connection.send(format!("64\r\n{}\r\n", "y".repeat(100)).as_bytes());
    }
    connection.reply().with(413);
    // Nobody waits for a body that says that it is too long.
    let mut connection = site.open();
    connection
        .send(b"POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1001\r\n\r\n{");
    connection.reply().with(413);
    site.end();
}

#[test]
fn headers_are_bounded_in_bytes_and_number() {
    let site = Site::plain();
    let long = "x".repeat(100_000);
    let reply = site.open().request("GET", "/health", &[("X-Long", &long)], "").try_reply();
    assert!(reply.is_none_or(|reply| reply.status == 431));
    let many: Vec<(String, &str)> = (0..100).map(|i| (format!("X-{i}"), "a")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    let reply = site.open().request("GET", "/health", &many, "").try_reply();
    assert!(reply.is_none_or(|reply| reply.status == 431));
    assert_eq!(site.get("/health").status, 200);
    site.end();
}

#[test]
fn who_says_nothing_or_stops_in_the_middle_is_closed() {
    let site = Site::new(bounded(Bounds { header_time: SOON, body_time: SOON, ..Bounds::default() }));
    let start = Instant::now();
    let mut silent = site.open();
    let mut in_headers = site.open();
    in_headers.send(b"GET /health HTTP/1.1\r\nHost:");
    let mut in_body = site.open();
    in_body
        .send(b"POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{");
    in_body.reply().with(408);
    assert!(silent.is_closed() && in_headers.try_reply().is_none_or(|reply| reply.status == 408));
    assert!(start.elapsed() >= SOON && start.elapsed() < Duration::from_secs(20));
    site.end();
}

#[test]
fn connections_beyond_the_last_place_are_told_to_come_again() {
    let site = Site::new(bounded(Bounds { connections: 2, ..Bounds::default() }));
    let mut first = site.open();
    let mut second = site.open();
    for connection in [&mut first, &mut second] {
        assert_eq!(connection.request("GET", "/health", &[], "").reply().status, 200);
    }
    let mut refused = site.open();
    let reply = refused.reply();
    assert!(refused.is_closed(), "nothing is behind what the answer says is its length");
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("1")));
    assert_eq!(reply.json()["error"]["message"], "too many connections");
    drop(first);
    // The place is free again as soon as the server has seen the end.
    let opened = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        site.open().request("GET", "/health", &[], "").try_reply().is_some_and(|reply| reply.status == 200)
    });
    assert!(opened);
    drop(second);
    site.end();
}

#[test]
fn a_full_queue_is_told_with_when_to_come_again() {
    let (model, word) = Gated::new();
    let site =
        Site::with(bounded(Bounds { waiting: 3, ..Bounds::default() }), model, Config { max_seqs: 1, ..config() });
    let mut connections: Vec<_> = (0..3).map(|_| site.open()).collect();
    for connection in &mut connections {
        connection.post("/v1/completions", &fixed(json!([5]), 2));
    }
    // The engine does not answer while its first step waits for a word, so there is only time.
    std::thread::sleep(SOON);
    let reply = site.complete(&fixed(json!([5]), 2));
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert_eq!(reply.with(503)["error"]["type"], "overloaded_error");
    drop(word);
    for connection in &mut connections {
        assert_eq!(connection.reply().status, 200);
    }
    assert_eq!(site.metric("vllm:admission_rejections_total"), 1.0);
    site.complete(&fixed(json!([5]), 2)).with(200);
    site.end();
}

#[test]
fn a_reader_that_takes_nothing_is_closed_and_frees_what_it_held() {
    let bounds = Bounds { write_time: SOON, ..Bounds::default() };
    let model = warpfold_engine::scripted::Scripted::new(288, 200_000);
    let site = Site::with(bounded(bounds), model, Config { num_blocks: 16_000, check: false, ..config() });
    let ask = json!({"prompt": [5], "n": 4, "max_tokens": 50_000, "ignore_eos": true, "logprobs": 20, "stream": true});
    let mut slow = site.open();
    slow.post("/v1/completions", &ask);
    assert_eq!(slow.head().map(|(status, _)| status), Some(200));
    site.wait_for("the request is given up", |site| site.metric("vllm:num_requests_running") == 0.0);
    let metrics = site.end();
    assert_eq!((metrics.aborted, metrics.finished_length), (1, 0));
}
