//! From loading to the end: readiness, clients that leave, draining, an engine that dies.

use serde_json::json;
use warpfold_engine::scripted::Scripted;
use warpfold_engine::{Batch, CacheShape, Limits, Model, ModelError, Moves, Sampled};
use warpfold_serve::{Bounds, ErrorKind, Options, Server};

use crate::support::{Gated, MAX_LEN, Site, VOCAB, bounded, config, fixed, options, text};

#[test]
fn a_server_is_not_ready_before_it_has_a_model() {
    let site = Site::empty(options());
    for reply in [site.get("/health"), site.get("/v1/models"), site.complete(&fixed(json!("a"), 1))] {
        assert_eq!(reply.header("retry-after"), Some("1"));
        assert_eq!(reply.with(503)["error"]["message"], "the model is being loaded");
    }
    assert_eq!(site.get("/version").status, 200);
    assert_eq!(site.metric("vllm:num_requests_running"), 0.0);
    site.handle().serve(Scripted::new(VOCAB, MAX_LEN), config(), text()).expect("the settings are right");
    assert_eq!(site.get("/health").status, 200);
    site.complete(&fixed(json!("a"), 1)).with(200);
    site.end();
}

#[test]
fn a_server_that_never_had_a_model_ends() {
    let site = Site::empty(options());
    site.handle().stop();
    assert_eq!(site.into_server().wait().expect("nothing fails"), None);
}

#[test]
fn options_that_cannot_be_are_named() {
    let site = Site::plain();
    let taken = Options { address: site.address(), ..options() };
    let error = Server::start(taken).expect_err("the port is taken").to_string();
    assert!(error.starts_with("cannot listen at 127.0.0.1:"), "{error}");
    let error = Server::start(Options { keys: vec![String::new()], ..options() }).expect_err("it is empty");
    assert_eq!(error.to_string(), "--api-key: the key is empty");
    site.end();
}

#[test]
fn a_client_that_leaves_aborts_its_request() {
    for is_stream in [true, false] {
        let (model, word) = Gated::new();
        let site = Site::with(options(), model, config());
        let mut body = fixed(json!(["one", "two"]), 200);
        body["stream"] = json!(is_stream);
        let mut connection = site.open();
        connection.post("/v1/completions", &body);
        (0..3).for_each(|_| word.send(()).expect("the model waits"));
        if is_stream {
            assert_eq!(connection.head().map(|(status, _)| status), Some(200));
        } else {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        drop(connection);
        site.step_until_idle(&word);
        drop(word);
        let metrics = site.end();
        assert_eq!((metrics.aborted, metrics.finished_length), (2, 0), "stream: {is_stream}");
    }
}

#[test]
fn a_client_that_leaves_is_seen_behind_a_second_request() {
    for behind in ["GET /health HTTP/1.1\r\nHost: a\r\n\r\n", "\r\n"] {
        let (model, word) = Gated::new();
        let site = Site::with(options(), model, config());
        let mut connection = site.open();
        connection.post("/v1/completions", &fixed(json!([5]), 200));
        connection.send(behind.as_bytes());
        (0..3).for_each(|_| word.send(()).expect("the model waits"));
        std::thread::sleep(std::time::Duration::from_millis(100));
        drop(connection);
        site.step_until_idle(&word);
        drop(word);
        let metrics = site.end();
        assert_eq!((metrics.aborted, metrics.finished_length), (1, 0), "{behind:?}");
    }
}

#[test]
fn requests_that_are_sent_at_once_are_answered_in_order() {
    let site = Site::plain();
    let mut connection = site.open();
    connection.post("/v1/completions", &fixed(json!([5]), 3)).request("GET", "/health", &[], "");
    connection.post("/v1/completions", &fixed(json!([6]), 3));
    assert_eq!(connection.reply().json()["object"], "text_completion");
    assert_eq!(connection.reply().json()["status"], "ok");
    assert_eq!(connection.reply().json()["object"], "text_completion");
    site.end();
}

#[test]
fn draining_lets_requests_end_and_takes_no_more() {
    let (model, word) = Gated::new();
    let site = Site::with(options(), model, config());
    let mut idle = site.open();
    assert_eq!(idle.request("GET", "/health", &[], "").reply().status, 200);
    let mut running = site.open();
    let mut body = fixed(json!("a"), 5);
    body["stream"] = json!(true);
    running.post("/v1/completions", &body);
    word.send(()).expect("the model waits");
    assert_eq!(running.head().map(|(status, _)| status), Some(200));
    let address = site.address();
    site.handle().stop();
    assert!(idle.is_closed(), "an idle connection is closed");
    drop(word);
    let metrics = site.end();
    assert_eq!((metrics.finished_length, metrics.aborted), (1, 0));
    let rest: Vec<String> = std::iter::from_fn(|| running.line()).collect();
    assert!(rest.contains(&"data: [DONE]".to_owned()), "{rest:?}");
    assert!(std::net::TcpStream::connect(address).is_err(), "nobody listens");
}

#[test]
fn draining_ends_after_its_time_and_says_so_to_those_who_wait() {
    for is_stream in [false, true] {
        let (model, word) = Gated::new();
        let soon = std::time::Duration::from_millis(300);
        let site = Site::with(bounded(Bounds { drain_time: soon, ..Bounds::default() }), model, config());
        let mut running = site.open();
        let mut body = fixed(json!("a"), 200);
        body["stream"] = json!(is_stream);
        running.post("/v1/completions", &body);
        word.send(()).expect("the model waits");
        std::thread::sleep(std::time::Duration::from_millis(100));
        let handle = site.handle();
        let ended = std::thread::spawn(move || site.end());
        handle.stop();
        let reply = running.reply();
        assert_eq!(reply.status, if is_stream { 200 } else { 503 });
        let last = reply.body.trim_end().rsplit("data: ").next().expect("an event");
        let last: serde_json::Value = serde_json::from_str(last).expect("an object");
        assert_eq!(last["error"]["message"], "the server has ended before the answer had", "{reply:?}");
        drop(word);
        assert_eq!(ended.join().expect("it ends").aborted, 1);
    }
}

#[test]
fn a_client_that_sends_no_more_is_answered() {
    for is_stream in [false, true] {
        let (model, word) = Gated::new();
        let site = Site::with(options(), model, config());
        let mut body = fixed(json!("a"), 5);
        body["stream"] = json!(is_stream);
        let mut connection = site.open();
        connection.post("/v1/completions", &body).half_close();
        // Long enough to be asked whether it is there.
        std::thread::sleep(std::time::Duration::from_millis(400));
        drop(word);
        assert_eq!(connection.head().map(|(status, _)| status), Some(100));
        let reply = connection.reply();
        assert_eq!(reply.status, 200, "{reply:?}");
        assert!(connection.is_closed());
        assert_eq!(site.end().finished_length, 1);
    }
}

/// A model with a bug.
#[derive(Debug)]
struct Broken(Scripted);

impl Model for Broken {
    fn limits(&self) -> Limits {
        self.0.limits()
    }

    fn allocate(&mut self, cache: CacheShape) -> Result<(), ModelError> {
        self.0.allocate(cache)
    }

    fn copy(&mut self, moves: &Moves) -> Result<(), ModelError> {
        self.0.copy(moves)
    }

    fn step(&mut self, _: &Batch) -> Result<Vec<Sampled>, ModelError> {
        panic!("the model has a bug, and this test wants it")
    }
}

#[test]
fn an_engine_that_dies_ends_the_server_with_an_error() {
    let site = Site::with(options(), Broken(Scripted::new(VOCAB, MAX_LEN)), config());
    let reply = site.complete(&fixed(json!("a"), 3));
    assert_eq!(reply.with(500)["error"]["message"], "the engine has failed");
    let error = site.into_server().wait().expect_err("the engine is gone");
    assert!(matches!(error.kind(), ErrorKind::EngineEnded));
}
