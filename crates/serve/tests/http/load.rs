//! The load generator against a server and against an engine.

use std::time::Duration;

use warpfold_engine::Engine;
use warpfold_engine::scripted::Scripted;
use warpfold_engine::service::{self, Service};
use warpfold_serve::Options;
use warpfold_serve::load::{Check, Goal, Load, Pace, Room, Summary, Target, Workload};

use crate::support::{MAX_LEN, Site, VOCAB, config, options};

fn site_load(site: &Site, key: Option<&str>) -> Result<Load, warpfold_serve::Error> {
    let url = format!("http://{}/v1", site.address());
    Load::new(Target::Url { url, key: key.map(str::to_owned) }, 1)
}

#[test]
fn both_loops_count_every_request_and_token() {
    let site = Site::plain();
    let load = site_load(&site, None).expect("the server answers");
    let room = load.room().expect("a server says what it takes").clone();
    assert_eq!(room.max_len, MAX_LEN);
    let jobs = Workload::Random { input: 20, output: 10 }.draw(40, &room, 0);
    for pace in [Pace::Closed { concurrency: 4 }, Pace::Open { rate: 400.0 }] {
        let run = load.run(&jobs, pace);
        let goal = Goal { ttft: Duration::from_secs(60), per_token: Duration::from_secs(60) };
        let summary = Summary::of(&run.timelines, run.wall, Some(goal));
        assert_eq!((summary.completed, summary.failed), (40, 0), "{summary:?}");
        assert_eq!((summary.input_tokens, summary.output_tokens), (800, 400));
        assert_eq!(summary.goodput, Some(summary.requests_per_second));
        assert!(summary.ttft_ms.p50 > 0.0 && summary.e2e_ms.p99 >= summary.ttft_ms.p50);
        if let Pace::Open { rate } = pace {
            // The last one is sent no earlier than its arrival, which the seed fixes.
            assert!(run.wall.as_secs_f64() > 0.3 * 40.0 / rate);
        }
    }
    assert_eq!(site.metric("vllm:generation_tokens_total"), 800.0);
    site.end();
}

#[test]
fn an_engine_in_this_process_is_measured_without_http() {
    let engine = Engine::new(Scripted::new(VOCAB, MAX_LEN), config()).expect("the settings are right");
    let service = Service::spawn(engine, service::Options::default());
    let load = Load::new(Target::Engine(service.client()), 1).expect("there are threads");
    assert!(load.room().is_none());
    let room = Room { alphabet: (2..280).collect(), max_len: MAX_LEN };
    let jobs = Workload::ShareGptLike.draw(30, &room, 0);
    let run = load.run(&jobs, Pace::Closed { concurrency: 8 });
    let summary = Summary::of(&run.timelines, run.wall, None);
    assert_eq!((summary.completed, summary.goodput), (30, None));
    assert_eq!(summary.output_tokens, jobs.iter().map(|job| job.output).sum::<usize>());
    // One that does not fit is a failure that is told.
    let mut long = jobs[..2].to_vec();
    long[1].output = 1000;
    let run = load.run(&long, Pace::Closed { concurrency: 1 });
    let summary = Summary::of(&run.timelines, run.wall, None);
    assert_eq!((summary.completed, summary.failed), (1, 1));
    assert!(summary.error.is_some_and(|error| error.contains("at least 1000")));
    assert_eq!(service.drain().now.used_blocks, 0);
}

#[test]
fn answers_that_differ_from_the_same_requests_alone_are_named() {
    let site = Site::plain();
    let load = site_load(&site, None).expect("the server answers");
    let room = load.room().expect("a server says what it takes").clone();
    let jobs = Workload::Random { input: 20, output: 40 }.draw(9, &room, 0);
    let mut digests = Vec::new();
    for wrong in [None, Some(0), Some(8), Some(1)] {
        let mut check = Check::begin(&load, &room, &jobs);
        let mut run = load.run(&jobs, Pace::Closed { concurrency: 4 });
        if let Some(wrong) = wrong {
            run.timelines[wrong].answer[3] ^= 1;
        }
        check.compare(&load, &jobs, &run);
        let verdict = check.end(&load);
        // The first, the last and two between are asked again, and four before and after.
        assert_eq!(verdict.compared, 8);
        let expected = wrong
            .filter(|wrong| [0, 8].contains(wrong))
            .map(|wrong| format!("request {wrong}, alone and in its run: other answers from byte 3 on"));
        assert_eq!(verdict.differences, Vec::from_iter(expected));
        digests.push(verdict.digest);
    }
    digests.dedup();
    assert_eq!(digests.len(), 1, "{digests:?}");
    site.end();
}

#[test]
fn a_server_that_does_not_answer_is_an_error() {
    let site = Site::new(Options { keys: vec!["sesame".to_owned()], ..options() });
    let error = site_load(&site, Some("wrong")).expect_err("the key is wrong").to_string();
    assert!(error.ends_with("/v1/models: 401 Unauthorized the API key is wrong"), "{error}");
    site_load(&site, Some("sesame")).expect("the key is right");
    let address = site.address();
    site.end();
    let target = Target::Url { url: format!("http://{address}"), key: None };
    assert!(Load::new(target, 1).is_err());
}
