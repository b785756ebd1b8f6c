//! The engine on its own thread: streams, leaving clients, limits, draining.

use std::sync::mpsc::channel;
use std::time::Duration;

use warpfold_engine::scripted::Scripted;
use warpfold_engine::service::{Options, Service, ServiceClock, Stream, Worker, WorkerTurn};
use warpfold_engine::{
    Batch, CacheShape, Config, Engine, ErrorKind, Limits, Model, ModelError, Moves, Output, Policy, Request, Sampled,
    Sampling,
};

use super::{MAX_LEN, VOCAB, engine, fixed, run, small};

fn whole(stream: Stream) -> Vec<Output> {
    let mut outputs: Vec<Output> = Vec::new();
    for update in stream {
        let update = update.expect("the model runs");
        outputs.resize(outputs.len().max(update.output + 1), Output::default());
        outputs[update.output].extend(update);
    }
    outputs
}

fn requests() -> Vec<Request> {
    let request = |i: u32| Request {
        n: 1 + i as usize % 3,
        seed: Some(u64::from(i)),
        sampling: Sampling::default(),
        ..fixed(3 + i, i, 12)
    };
    (0..24).map(request).collect()
}

#[test]
fn clients_on_many_threads_get_the_answers_that_they_would_get_alone() {
    let (expected, _) = run(&mut engine(small()), requests());
    let service = Service::spawn(engine(Config { num_blocks: 30, ..small() }), Options::default());
    let client = service.client();
    let answers = std::thread::scope(|scope| {
        let threads: Vec<_> = requests()
            .into_iter()
            .map(|r| {
                scope.spawn({
                    let client = client.clone();
                    move || whole(client.submit(r))
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().expect("the thread ends")).collect::<Vec<_>>()
    });
    assert_eq!(answers, expected);
    let metrics = service.drain();
    assert_eq!((metrics.now.used_blocks, metrics.aborted), (0, 0));
    assert!(matches!(client.metrics().expect_err("it has ended").kind(), ErrorKind::Stopped));
    let refused = client.submit(fixed(3, 1, 3)).next().expect("there is an event").expect_err("it has ended");
    assert!(matches!(refused.kind(), ErrorKind::Stopped));
}

/// A model whose steps wait for a word.
struct Gated {
    inner: Scripted,
    gate: std::sync::mpsc::Receiver<()>,
}

impl Model for Gated {
    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn allocate(&mut self, cache: CacheShape) -> Result<(), ModelError> {
        self.inner.allocate(cache)
    }

    fn copy(&mut self, moves: &Moves) -> Result<(), ModelError> {
        self.inner.copy(moves)
    }

    fn step(&mut self, batch: &Batch) -> Result<Vec<Sampled>, ModelError> {
        self.gate.recv().map_err(|_| "the test is over")?;
        self.inner.step(batch)
    }
}

fn gated(options: Options, fails_at: u64) -> (Service, std::sync::mpsc::Sender<()>) {
    let (word, gate) = channel();
    let inner = Scripted::new(VOCAB, MAX_LEN).failing_at(fails_at);
    let engine = Engine::new(Gated { inner, gate }, Config { max_seqs: 1, ..small() }).expect("the settings are right");
    (Service::spawn(engine, options), word)
}

#[test]
fn a_dropped_stream_frees_what_its_request_held() {
    let (service, word) = gated(Options::default(), 0);
    let client = service.client();
    let mut stream = client.submit(fixed(20, 1, 70));
    word.send(()).expect("the model waits");
    stream.next().expect("there is an update").expect("the model runs");
    drop(stream);
    word.send(()).expect("the model waits");
    let metrics = client.metrics().expect("the service runs");
    assert_eq!((metrics.aborted, metrics.now.used_blocks, metrics.now.running), (1, 0, 0));
    drop(word);
    assert!(service.drain().generation_tokens <= 2);
}

#[test]
fn a_full_queue_refuses_and_says_how_full_it_is() {
    let (service, word) = gated(Options { max_waiting: 2 }, 0);
    let client = service.client();
    let mut running = client.submit(fixed(3, 0, 3));
    word.send(()).expect("the model waits");
    running.next().expect("there is an update").expect("the model runs");
    let streams: Vec<_> = (1..4).map(|i| client.submit(fixed(3, i, 3))).collect();
    (0..20).for_each(|_| word.send(()).expect("the model waits"));
    let mut firsts = streams.into_iter().map(|mut s| s.next().expect("there is an event"));
    assert!(firsts.next().is_some_and(|e| e.is_ok()) && firsts.next().is_some_and(|e| e.is_ok()));
    let error = firsts.next().expect("the third one").expect_err("two wait").to_string();
    assert_eq!(error, "2 requests wait, and no more than 2 may: try again later");
}

#[test]
fn a_failing_model_ends_the_streams_that_it_served_and_no_others() {
    let (service, word) = gated(Options::default(), 2);
    let client = service.client();
    let (mut first, second) = (client.submit(fixed(3, 0, 3)), client.submit(fixed(3, 1, 3)));
    (0..10).for_each(|_| word.send(()).expect("the model waits"));
    first.next().expect("there is an update").expect("the first step runs");
    let error = first.next().expect("there is an event").expect_err("the second step fails");
    assert!(error.to_string().ends_with("step 2 was to fail"), "{error}");
    assert!(first.next().is_none());
    assert_eq!(whole(second)[0].tokens.len(), 3);
    drop(first);
    assert_eq!(service.drain().now.used_blocks, 0);
}

#[test]
fn a_static_batch_starts_by_itself_when_its_time_is_over() {
    let static_wait = Duration::from_millis(20);
    let config = Config { policy: Policy::Static, static_wait, ..small() };
    let service = Service::spawn(engine(config), Options::default());
    let start = std::time::Instant::now();
    assert_eq!(whole(service.client().submit(fixed(3, 1, 3)))[0].tokens.len(), 3);
    assert!(start.elapsed() >= static_wait);
}

#[test]
fn a_request_that_comes_when_all_is_drained_is_told_so() {
    let (client, mut worker) = Worker::new(engine(small()), Options::default(), ServiceClock::system());
    worker.drain();
    assert_eq!(worker.turn(), WorkerTurn::Over);
    let mut late = client.submit(fixed(3, 1, 3));
    while worker.turn() != WorkerTurn::Over {}
    let error = late.next().expect("there is an event").expect_err("it has drained");
    assert!(matches!(error.kind(), ErrorKind::Stopped), "{error}");
}

#[test]
fn other_weights_come_between_two_requests_and_nothing_of_the_old_is_left() {
    let mut other = Scripted::new(VOCAB, MAX_LEN);
    other.load_weights(&7_u32).expect("it is a number");
    let request = || Request { seed: Some(7), ..fixed(40, 1, 20) };
    let of = |mut engine| run(&mut engine, vec![request()]).0;
    let expected = [of(engine(small())), of(Engine::new(other, small()).expect("the settings are right"))];
    assert_ne!(expected[0], expected[1]);

    let service = Service::spawn(engine(small()), Options::default());
    let client = service.client();
    let before = client.submit(request());
    let error = client.load_weights(Box::new("no number")).expect_err("it is none").to_string();
    assert_eq!(error, "the weights of a scripted model are a number below 256");
    client.load_weights(Box::new(7_u32)).expect("it is a number");
    // The prompt is one that the cache would know.
    let after = client.submit(request());
    for (weights, (stream, expected)) in [before, after].into_iter().zip(&expected).enumerate() {
        let updates: Vec<_> = stream.map(|update| update.expect("the model runs")).collect();
        assert!(updates.iter().all(|update| update.weights == weights && update.cached == 0));
        let mut output = Output::default();
        updates.into_iter().for_each(|update| output.extend(update));
        assert_eq!(&vec![vec![output]], expected);
    }
    assert_eq!(service.drain().now.used_blocks, 0);
}
