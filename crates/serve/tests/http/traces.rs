//! Spans of requests, as a collector of OpenTelemetry takes them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};
use warpfold_serve::Options;

use crate::support::{Site, fixed, options};

/// A collector that takes bodies, and the spans that it has been sent.
fn collector() -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (sender, spans) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(body) = stream.and_then(take) else { return };
            let all = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans").clone();
            if all.into_iter().any(|span| sender.send(span).is_err()) {
                return;
            }
        }
    });
    (url, spans)
}

/// Reads a request, and answers as a collector does.
fn take(mut stream: TcpStream) -> std::io::Result<Value> {
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let num = stream.read(&mut part)?;
        bytes.extend(&part[..num]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        assert!(head.starts_with("post /v1/traces ") && head.contains("content-type: application/json"), "{head}");
        let len = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        if let Ok(body) = serde_json::from_slice(&bytes[end + 4..])
            && bytes.len() == end + 4 + len.unwrap_or_default()
        {
            let partial = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
            stream.write_all(partial.as_bytes())?;
            return Ok(body);
        }
    }
}

#[test]
fn a_request_is_a_span_of_its_trace_with_what_the_engine_did_for_it() {
    let (url, spans) = collector();
    let site = Site::new(Options { traces: Some(url), ..options() });
    let ask = |parent: &str| {
        let mut connection = site.open();
        let headers = [("Content-Type", "application/json"), ("traceparent", parent)];
        connection.request("POST", "/v1/completions", &headers, &fixed(json!("a"), 3).to_string()).reply().with(200)
    };
    let (trace, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    // The first is not recorded by its sender; the last brings no trace, but a text.
    ask(&format!("00-{trace}-{parent}-00"));
    ask(&format!("00-{trace}-{parent}-01"));
    ask("00-0-0-01");
    site.end();
    let all: Vec<Value> = spans.try_iter().collect();
    let [one, other] = [&all[..4], &all[4..]];
    assert_eq!((one.len(), other.len()), (4, 4), "{all:?}");
    assert_eq!((&one[0]["traceId"], &one[0]["parentSpanId"]), (&json!(trace), &json!(parent)));
    assert!(other[0]["parentSpanId"].is_null() && other[0]["traceId"] != trace && other[0]["kind"] == 2);
    for spans in [one, other] {
        let names: Vec<_> = spans.iter().map(|span| span["name"].as_str().expect("a name")).collect();
        assert_eq!(names, ["POST /v1/completions", "queue", "prefill", "decode"]);
        let time =
            |span: &Value, name: &str| span[name].as_str().and_then(|time| time.parse::<u64>().ok()).expect("a time");
        let times = spans.iter().map(|span| [time(span, "startTimeUnixNano"), time(span, "endTimeUnixNano")]);
        let times: Vec<[u64; 2]> = times.collect();
        assert!(
            times.iter().all(|[start, end]| start <= end && *start >= times[0][0] && *end <= times[0][1]),
            "{times:?}"
        );
        assert!(spans[1..].iter().all(|span| span["parentSpanId"] == spans[0]["spanId"] && span["kind"] == 1));
        let attributes = spans[0]["attributes"].as_array().expect("a list");
        let value = |name: &str| {
            &attributes.iter().find(|of| of["key"] == name).unwrap_or_else(|| panic!("{name}: {attributes:?}"))["value"]
        };
        assert_eq!(value("http.response.status_code"), &json!({"intValue": "200"}));
        assert_eq!(value("gen_ai.usage.output_tokens"), &json!({"intValue": "3"}));
        assert!(value("http.request.id")["stringValue"].is_string());
    }
}

#[test]
fn spans_that_nobody_takes_are_counted() {
    let unused = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let site = Site::new(Options { traces: Some(format!("http://{unused}")), ..options() });
    site.complete(&fixed(json!("a"), 1)).with(200);
    site.wait_for("a span is lost", |site| site.metric("vllm:lost_trace_spans_total") >= 1.0);
    site.end();
    let refused = warpfold_serve::Server::start(Options { traces: Some("https://a".to_owned()), ..options() });
    assert!(refused.expect_err("there is no TLS").to_string().contains("https://a"));
}
