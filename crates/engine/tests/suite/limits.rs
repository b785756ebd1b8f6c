//! Requests that cannot run, that are given up, and a model that fails: all of them leave nothing
//! behind.

use warpfold_engine::scripted::Scripted;
use warpfold_engine::{
    Batch, Beam, CacheShape, Config, Engine, ErrorKind, Finish, Limits, Model, ModelError, Moves, Policy, Preemption,
    Request, Sampled,
};

use super::{MAX_LEN, VOCAB, engine, fixed, is_empty, run, small};

#[test]
fn a_request_that_the_cache_cannot_hold_is_refused_in_bytes() {
    let mut engine = engine(Config { num_blocks: 10, ..small() });
    let error = engine.add(fixed(30, 1, 11)).expect_err("it needs 11 blocks").to_string();
    let expected = "the request needs 11 blocks of the KV cache (352 bytes) but the cache has 10 (32 bytes are \
                    missing): raise --kv-blocks or --kv-bytes, or lower max_tokens or n";
    assert_eq!(error, expected);
    engine.add(fixed(30, 1, 10)).expect("it needs 10 blocks");
    let four = Request { n: 4, ..fixed(8, 1, 9) };
    assert!(engine.add(four).is_err(), "two shared blocks, and three for each answer");
    engine.add(Request { n: 2, ..fixed(8, 1, 9) }).expect("two shared blocks and twice three");
    engine.run_to_end().expect("the model runs");
    is_empty(&engine);
}

#[test]
fn without_max_tokens_an_answer_ends_where_the_cache_does() {
    let mut engine = engine(Config { num_blocks: 10, ..small() });
    let request = Request { max_tokens: None, ..fixed(30, 1, 1) };
    let (answers, _) = run(&mut engine, vec![request]);
    assert_eq!((answers[0][0].tokens.len(), answers[0][0].finish), (10, Some(Finish::Length)));
}

#[test]
fn requests_beyond_other_limits_name_them() {
    let mut engine = engine(small());
    let error = engine.add(Request { n: 17, ..fixed(3, 1, 3) }).expect_err("too many").to_string();
    assert_eq!(error, "n: 17 sequences, but at most 16 run at a time (--max-seqs)");
    let error = engine.add(fixed(90, 1, 7)).expect_err("too long");
    assert!(matches!(error.kind(), ErrorKind::TooLong { prompt: 90, new: 7, max_len: 96 }));
    let error = engine.add(Request { stop: vec!["a".to_owned()], ..fixed(3, 1, 3) }).expect_err("no text").to_string();
    assert!(error.starts_with("stop: the engine has no tokenizer"), "{error}");
    let contiguous = Config { allocator: warpfold_engine::Allocator::Contiguous, ..small() };
    let beam = Some(Beam { width: 2, length_penalty: 1.0 });
    let error = super::engine(contiguous).add(Request { beam, ..fixed(3, 1, 3) }).expect_err("no forks").to_string();
    assert!(error.starts_with("--allocator"), "{error}");
}

#[test]
fn a_request_can_be_given_up_in_every_queue() {
    for policy in Policy::ALL {
        let preemption = Preemption::Swap;
        let config = Config { num_blocks: 16, num_host_blocks: 20, max_seqs: 4, policy, preemption, ..small() };
        let mut engine = engine(config);
        let requests = [fixed(10, 1, 25), Request { n: 2, ..fixed(11, 2, 20) }, fixed(30, 3, 10)];
        let ids = requests.map(|r| engine.add(r).expect("the request is right"));
        for _ in 0..14 {
            engine.step().expect("the model runs");
        }
        let now = engine.metrics().now;
        assert_eq!(now.running + now.waiting + now.swapped, 3, "{policy:?}");
        for id in ids {
            assert!(engine.abort(id));
            assert!(!engine.abort(id), "it is gone");
        }
        is_empty(&engine);
        assert_eq!(engine.metrics().aborted, 3);
    }
}

#[test]
fn a_failing_model_ends_what_holds_blocks_and_nothing_else() {
    let model = Scripted::new(VOCAB, MAX_LEN).failing_at(3);
    let mut engine = Engine::new(model, Config { max_seqs: 2, ..small() }).expect("the settings are right");
    let ids = [1, 2, 3].map(|i| engine.add(fixed(5, i, 6)).expect("the request is right"));
    engine.step().expect("the first step runs");
    engine.step().expect("the second step runs");
    let error = engine.step().expect_err("the third step fails");
    let ErrorKind::Model { step: 3, failed, .. } = error.kind() else { panic!("{error}") };
    assert_eq!(failed[..], ids[..2]);
    assert_eq!(error.to_string(), "the model failed in step 3, and with it 2 requests: step 3 was to fail");
    let answers = engine.run_to_end().expect("the model runs again");
    assert_eq!(answers.keys().copied().collect::<Vec<_>>(), [ids[2]]);
    is_empty(&engine);
    assert_eq!(engine.metrics().failed, 2);
}

#[test]
fn injected_preemptions_happen_and_every_request_ends() {
    for preemption in [Preemption::Recompute, Preemption::Swap, Preemption::Auto] {
        let config = Config { inject_preemptions: 1.0, num_host_blocks: 64, budget: 5, preemption, ..small() };
        let mut engine = engine(config);
        run(&mut engine, (0..4).map(|i| fixed(9, i, 6)).collect());
        let metrics = engine.metrics();
        assert_eq!(metrics.preempted_by_recompute > 0, preemption != Preemption::Swap);
        assert_eq!(metrics.preempted_by_swap > 0, preemption != Preemption::Recompute);
    }
}

/// A model that has room for nothing.
struct NoRoom;

impl Model for NoRoom {
    fn limits(&self) -> Limits {
        Scripted::new(VOCAB, MAX_LEN).limits()
    }

    fn allocate(&mut self, _: CacheShape) -> Result<(), ModelError> {
        Err("out of memory".into())
    }

    fn copy(&mut self, _: &Moves) -> Result<(), ModelError> {
        Err("there is no cache".into())
    }

    fn step(&mut self, _: &Batch) -> Result<Vec<Sampled>, ModelError> {
        Err("there is no cache".into())
    }
}

#[test]
fn a_cache_that_cannot_be_allocated_is_an_error_in_bytes() {
    let error = Engine::new(NoRoom, small()).map(drop).expect_err("there is no room").to_string();
    let expected = "no room for 65 blocks on the device and 1 on the host, of 32 bytes each: out of memory; lower \
                    --kv-blocks, --kv-bytes or --swap-bytes";
    assert_eq!(error, expected);
}
