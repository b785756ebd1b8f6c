//! Keys, tenants, and pages of other origins.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};
use warpfold_engine::Config;
use warpfold_serve::{LogFormat, LogSink, Options};

use crate::client::Reply;
use crate::support::{Gated, Site, and, config, fixed, options, tokenizer};

fn two_keys() -> Site {
    Site::new(Options { keys: vec!["sesame".to_owned(), "other".to_owned()], ..options() })
}

fn ask(site: &Site, key: &str, body: &serde_json::Value) -> Reply {
    let authorization = format!("Bearer {key}");
    let headers = [("Content-Type", "application/json"), ("Authorization", authorization.as_str())];
    site.open().request("POST", "/v1/completions", &headers, &body.to_string()).reply()
}

#[test]
fn without_the_key_nothing_is_answered_but_what_is_open() {
    let site = two_keys();
    let body = fixed(json!("a"), 2);
    for path in ["/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"] {
        let reply = site.post(path, &body);
        assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
        assert_eq!(reply.with(401)["error"]["code"], "invalid_api_key", "{path}");
    }
    site.get("/v1/models").with(401);
    for path in ["/health", "/version", "/metrics", "/"] {
        assert_eq!(site.get(path).status, 200, "{path}");
    }
    for wrong in ["sesam", "sesamesesame", "", "SESAME"] {
        ask(&site, wrong, &body).with(401);
    }
    ask(&site, "sesame", &body).with(200);
    ask(&site, "other", &body).with(200);
    site.end();
}

#[test]
fn the_header_of_anthropics_clients_holds_the_key() {
    let site = two_keys();
    let send = |key| {
        let headers = [("Content-Type", "application/json"), ("X-Api-Key", key)];
        let body = json!({"max_tokens": 2, "messages": [{"role": "user", "content": "Hi"}]});
        site.open().request("POST", "/v1/messages", &headers, &body.to_string()).reply()
    };
    send("other").with(200);
    let error = send("wrong").with(401);
    assert_eq!((&error["type"], &error["error"]["type"]), (&json!("error"), &json!("authentication_error")));
    site.end();
}

/// A server that writes its access log here.
fn logged(options: Options, format: LogFormat) -> (Options, Receiver<String>) {
    let (sender, lines) = channel();
    let sink = LogSink(Arc::new(move |line: &str| drop(sender.send(line.to_owned()))));
    (Options { log: Some((format, sink)), ..options }, lines)
}

#[test]
fn each_request_is_a_line_of_the_log() {
    for is_stream in [false, true] {
        let (options, lines) = logged(options(), LogFormat::Json);
        let site = Site::new(options);
        let mut body = fixed(json!(["a", "bcd"]), 5);
        body["stream"] = json!(is_stream);
        let headers = [("Content-Type", "application/json"), ("X-Request-Id", "mine")];
        site.open().request("POST", "/v1/completions?x=secret", &headers, &body.to_string()).reply();
        let line: Value = serde_json::from_str(&lines.recv().expect("a line")).expect("an object");
        let prompt = tokenizer().encode("a").expect("a text").len() + tokenizer().encode("bcd").expect("a text").len();
        for (field, value) in [
            ("id", json!("mine")),
            ("method", json!("POST")),
            ("path", json!("/v1/completions")),
            ("status", json!(200)),
            ("sent", json!(true)),
            ("prompt_tokens", json!(prompt)),
            ("cached_tokens", json!(0)),
            ("completion_tokens", json!(10)),
        ] {
            assert_eq!(line[field], value, "{field} of {line}");
        }
        let times = ["queue_ms", "ttft_ms", "ms"].map(|field| line[field].as_f64().expect("a number"));
        assert!(times.is_sorted() && times[2] > 0.0 && line["ts"].as_f64() > Some(1.7e9), "{line}");
        // What has no engine in it has none in its line.
        site.get("/nothing");
        let line: Value = serde_json::from_str(&lines.recv().expect("a line")).expect("an object");
        assert_eq!((&line["status"], line.get("ttft_ms")), (&json!(404), None));
        site.end();
    }
}

#[test]
fn a_line_for_people_begins_no_other_and_says_that_the_client_left() {
    let (options, lines) = logged(options(), LogFormat::Text);
    let (model, word) = Gated::new();
    let site = Site::with(options, model, config());
    site.get("/a%0Ab");
    let line = lines.recv().expect("a line");
    assert!(line.contains(" GET /a%0Ab 404 ") && line.ends_with(" ms"), "{line}");
    let mut connection = site.open();
    let mut body = fixed(json!("a"), 200);
    body["stream"] = json!(true);
    connection.post("/v1/completions", &body);
    word.send(()).expect("the model waits");
    connection.head().expect("it begins");
    drop(connection);
    drop(word);
    let line = lines.recv().expect("a line");
    assert!(line.contains(" POST /v1/completions 200 ") && line.ends_with(", the client left"), "{line}");
    site.end();
}

#[test]
fn a_lower_priority_is_served_first_and_passes_no_other_key() {
    let (options, lines) = logged(options(), LogFormat::Json);
    let (model, word) = Gated::new();
    let site = Site::with(options, model, Config { max_seqs: 1, ..config() });
    let send = |id: &str, priority: i32| {
        let mut connection = site.open();
        let headers = [("Content-Type", "application/json"), ("X-Request-Id", id)];
        let body = and(fixed(json!("a"), 3), json!({"priority": priority})).to_string();
        connection.request("POST", "/v1/completions", &headers, &body);
        connection
    };
    // The engine says nothing while its model waits.
    let moment = std::time::Duration::from_millis(100);
    let mut all = vec![send("running", 0)];
    word.send(()).expect("the model waits");
    std::thread::sleep(moment);
    all.extend([send("late", 7), send("usual", 0), send("early", -7)]);
    std::thread::sleep(moment);
    // Step by step, so that lines are written one at a time.
    for id in ["running", "early", "usual", "late"] {
        let line = loop {
            word.send(()).expect("the model waits");
            if let Ok(line) = lines.recv_timeout(moment / 2) {
                break line;
            }
        };
        assert!(line.contains(&format!("\"id\":\"{id}\"")), "{id}: {line}");
    }
    drop(word);
    all.iter_mut().for_each(|connection| assert_eq!(connection.reply().status, 200));
    site.end();

    let site = two_keys();
    let of = |priority: i32| and(fixed(json!("a"), 1), json!({"priority": priority}));
    assert_eq!(ask(&site, "other", &of(-1)).with(400)["error"]["param"], "priority");
    ask(&site, "other", &of(1)).with(200);
    site.end();
}

#[test]
fn requests_share_prefixes_with_those_of_their_key_and_salt_only() {
    let site = two_keys();
    let mut body = fixed(json!(vec![7; 100]), 1);
    let mut hits_of = |key: &str, salt: Option<&str>| {
        body["cache_salt"] = json!(salt);
        let before = site.metric("vllm:prefix_cache_hits_total");
        ask(&site, key, &body).with(200);
        site.metric("vllm:prefix_cache_hits_total") - before
    };
    assert_eq!(hits_of("sesame", None), 0.0);
    assert_eq!(hits_of("sesame", None), 96.0);
    assert_eq!(hits_of("other", None), 0.0);
    assert_eq!(hits_of("other", None), 96.0);
    assert_eq!(hits_of("sesame", Some("a")), 0.0);
    assert_eq!(hits_of("sesame", Some("a")), 96.0);
    assert_eq!(hits_of("other", Some("a")), 0.0);
    site.end();
}

#[test]
fn other_origins_read_answers_only_where_the_server_allows_them() {
    let plain = Site::plain();
    let origin = [("Origin", "http://a.example")];
    let reply = plain.open().request("GET", "/health", &origin, "").reply();
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, None));
    plain.end();

    let site = Site::new(Options { cors: vec!["http://a.example".to_owned()], ..options() });
    let reply = site.open().request("GET", "/health", &origin, "").reply();
    assert_eq!(reply.header("access-control-allow-origin"), Some("http://a.example"));
    assert_eq!(reply.header("vary"), Some("origin"));
    let preflight = [origin[0], ("Access-Control-Request-Method", "POST")];
    let reply = site.open().request("OPTIONS", "/v1/completions", &preflight, "").reply();
    assert_eq!(
        (reply.status, reply.header("access-control-allow-headers")),
        (204, Some("authorization, content-type"))
    );
    // Clients have headers of their own, and a browser asks for each.
    let preflight = [preflight[0], preflight[1], ("Access-Control-Request-Headers", "authorization,x-stainless-lang")];
    let reply = site.open().request("OPTIONS", "/v1/completions", &preflight, "").reply();
    assert_eq!(reply.header("access-control-allow-headers"), Some("authorization,x-stainless-lang"));
    let other = [("Origin", "http://b.example")];
    let reply = site.open().request("GET", "/health", &other, "").reply();
    assert_eq!(reply.header("access-control-allow-origin"), None);
    site.end();
}

#[test]
fn a_request_keeps_its_id_or_gets_one() {
    let site = Site::plain();
    let reply = site.open().request("GET", "/v1/models", &[("X-Request-Id", "mine-7")], "").reply();
    assert_eq!(reply.header("x-request-id"), Some("mine-7"));
    for (len, is_kept) in [(256, true), (257, false), (0, false)] {
        let id = "i".repeat(len);
        let reply = site.open().request("GET", "/v1/models", &[("X-Request-Id", &id)], "").reply();
        assert_eq!(reply.header("x-request-id") == Some(&id), is_kept, "{len}");
    }
    let ids: Vec<String> =
        (0..2).filter_map(|_| site.get("/nowhere").header("x-request-id").map(str::to_owned)).collect();
    assert!(ids.len() == 2 && ids[0] != ids[1] && ids[0].starts_with("req-"), "{ids:?}");
    site.end();
}
