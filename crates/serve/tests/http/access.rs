//! Keys, tenants, and pages of other origins.

use serde_json::json;
use warpfold_serve::Options;

use crate::client::Reply;
use crate::support::{Site, fixed, options};

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
