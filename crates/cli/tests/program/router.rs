//! Two replicas of `serve` behind a router that others have written: vLLM's, from its Python
//! package. `.ci/run` gets it on request; without it this test says that it does nothing.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::serve::Served;
use crate::support::folder;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that ends with the test.
struct Router {
    child: Child,
    address: String,
    metrics: String,
}

impl Drop for Router {
    fn drop(&mut self) {
        // One that has ended already need not end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that nobody listens at.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port is free").port()
}

impl Router {
    fn start(program: &std::ffi::OsStr, replicas: &[&Served]) -> Self {
        let [port, metrics] = [free_port(), free_port()];
        let log = std::fs::File::create(folder("router").join("log")).expect("a file");
        let child = Command::new(program)
            .args(["--host", "127.0.0.1", "--port", &port.to_string(), "--prometheus-port", &metrics.to_string()])
            .args(["--policy", "cache_aware", "--health-check-interval-secs", "1", "--health-failure-threshold", "1"])
            .arg("--worker-urls")
            .args(replicas.iter().map(|replica| format!("http://{}", replica.address())))
            .stdout(log.try_clone().expect("a file has two handles"))
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .expect("the router starts");
        let [address, metrics] = [port, metrics].map(|port| format!("127.0.0.1:{port}"));
        let router = Self { child, address, metrics };
        wait_for("the router is ready", || {
            request(&router.address, "GET", "/health", "").is_some_and(|(code, _)| code == 200)
        });
        router
    }

    /// A completion through the router.
    fn complete(&self, prompt: &str, max_tokens: usize) -> (u16, String) {
        let body = json!({"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": true});
        request(&self.address, "POST", "/v1/completions", &body.to_string()).expect("the router answers")
    }
}

#[track_caller]
fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{what} within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Status and body of an answer, if somebody answers.
fn request(address: &str, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let head = format!("Host: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n");
    write!(stream, "{method} {path} HTTP/1.1\r\n{head}Content-Length: {}\r\n\r\n{body}", body.len()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// A counter of a replica, by vLLM's name, over all its labels.
#[track_caller]
fn metric(replica: &Served, name: &str) -> f64 {
    let (_, text) = request(replica.address(), "GET", "/metrics", "").expect("the replica answers");
    let lines: Vec<_> = text.lines().filter(|line| line.split(['{', ' ']).next() == Some(name)).collect();
    assert!(!lines.is_empty(), "no {name} in {text}");
    let value = |line: &&str| line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok()).expect("a number");
    lines.iter().map(value).sum()
}

#[test]
fn a_router_of_vllm_finds_drains_and_measures_replicas_and_keeps_prefixes_together() {
    let Some(program) = std::env::var_os("VLLM_ROUTER") else {
        eprintln!("skipped: VLLM_ROUTER names no router");
        return;
    };
    let replicas = [0, 1].map(|_| Served::start(&["--served-model-name", "tiny", "--drain-seconds", "30"]));
    let router = Router::start(&program, &replicas.each_ref());
    let answered = |replica: &Served| metric(replica, "vllm:request_success_total");

    // Prompts with a beginning in common go where it is in the cache already.
    let beginning = "Once upon a time there was a great giant who had";
    for end in [" a daughter", " two sons", " a goose"] {
        let (code, body) = router.complete(&format!("{beginning}{end}"), 2);
        assert_eq!(code, 200, "{body}");
        let answer: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!((&answer["model"], &answer["usage"]["completion_tokens"]), (&json!("tiny"), &json!(2)));
    }
    let hits: Vec<f64> = replicas.iter().map(|replica| metric(replica, "vllm:prefix_cache_hits_total")).collect();
    assert!(hits.contains(&0.0) && hits.iter().any(|hits| *hits > 0.0), "one replica has all of them: {hits:?}");

    // The router's own metrics, and those of the replicas by vLLM's names.
    let (code, text) = request(&router.metrics, "GET", "/metrics", "").expect("the router is measured");
    assert!(code == 200 && text.contains("vllm_router_"), "{text}");
    for name in ["vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"] {
        metric(&replicas[0], name);
    }

    // The replica that has the prefix is asked to end: what it is at goes on, the rest goes
    // elsewhere.
    let [first, second] = replicas;
    let (leaving, staying) = if hits[0] > 0.0 { (first, second) } else { (second, first) };
    let before = answered(&staying);
    let long = std::thread::scope(|scope| {
        let long = scope.spawn(|| router.complete(&format!("{beginning} a very long tale"), 90));
        wait_for("the long answer runs", || metric(&leaving, "vllm:num_requests_running") > 0.0);
        leaving.ask_to_end();
        wait_for("it says that it drains", || {
            request(leaving.address(), "GET", "/health", "").is_none_or(|(code, _)| code == 503)
        });
        wait_for("the router sends requests to the other one", || {
            router.complete(&format!("{beginning} a last word"), 1).0 == 200 && answered(&staying) > before
        });
        long.join().expect("no panic")
    });
    assert_eq!(long.0, 200, "{}", long.1);
    let long: Value = serde_json::from_str(&long.1).expect("JSON");
    assert_eq!(long["usage"]["completion_tokens"], 90, "draining lets it end");
    leaving.wait();
    assert_eq!(router.complete("and so on", 1).0, 200);
    drop(router);
    staying.end();
}
