//! Other weights for the model that is served.

use std::sync::Arc;

use serde_json::{Value, json};
use warpfold_engine::scripted::Scripted;
use warpfold_serve::{OpenWeights, Text};

use crate::support::{Gated, MAX_LEN, Site, VOCAB, and, config, fixed, options, text};

/// Files of weights whose names are numbers.
fn numbered() -> Text {
    let open = |path: Option<&std::path::Path>| {
        let number: u32 = match path {
            Some(path) => path.to_string_lossy().parse().map_err(|_| "it is no number".to_owned())?,
            None => 0,
        };
        Ok((Box::new(number) as Box<dyn std::any::Any + Send + Sync>, Arc::default()))
    };
    Text { open_weights: Some(OpenWeights(Arc::new(open))), ..text() }
}

#[test]
fn answers_are_those_of_the_weights_that_were_loaded_before_them() {
    let site = Site::empty(options());
    site.handle().serve(Scripted::new(VOCAB, MAX_LEN), config(), numbered()).expect("the settings are right");
    let answer = || {
        let body = and(fixed(json!(vec![5; 40]), 8), json!({"return_token_ids": true}));
        site.complete(&body).with(200)["choices"][0]["token_ids"].clone()
    };
    let load = |path: &str| site.post("/v1/load_weights", &json!({"path": path}));
    let old = answer();
    assert_eq!(load("7").with(200), json!({"object": "weights", "loaded": true, "weights_digest": null}));
    let new = answer();
    assert_ne!(old, new);
    for (path, part) in [("x", "it is no number"), ("256", "a number below 256")] {
        let error = load(path).with(400);
        assert_eq!(error["error"]["param"], "path");
        assert!(error["error"]["message"].as_str().is_some_and(|message| message.contains(part)), "{error}");
    }
    assert_eq!(answer(), new);
    load("0").with(200);
    assert_eq!(answer(), old);
    site.end();
}

#[test]
fn weights_wait_for_answers_under_way() {
    let (model, word) = Gated::new();
    let site = Site::empty(options());
    site.handle().serve(model, config(), numbered()).expect("the settings are right");
    let mut running = site.open();
    running.post("/v1/completions", &fixed(json!("a"), 5));
    std::thread::sleep(std::time::Duration::from_millis(100));
    let mut load = site.open();
    load.post("/v1/load_weights", &json!({"path": "7"}));
    std::thread::sleep(std::time::Duration::from_millis(100));
    drop(word);
    assert_eq!(running.reply().with(200)["usage"]["completion_tokens"], 5);
    // This model takes none.
    assert_eq!(load.reply().with(400)["error"]["message"], "path: the model takes no other weights");
    site.end();
}

#[test]
fn a_model_that_sleeps_frees_everything_and_wakes_with_the_same_bits() {
    let site = Site::empty(options());
    site.handle().serve(Scripted::new(VOCAB, MAX_LEN), config(), numbered()).expect("the settings are right");
    let asked = and(fixed(json!(vec![5; 40]), 8), json!({"return_token_ids": true}));
    let answer = || site.complete(&asked).with(200)["choices"][0]["token_ids"].clone();
    let is_sleeping = || site.get("/is_sleeping").with(200)["is_sleeping"].clone();
    let post = |path: &str| site.post(path, &json!({}));
    let old = answer();
    // Level 1: its weights come back with it, those of the start or those that were loaded last.
    for (path, before) in [(None, old.clone()), (Some("7"), Value::Null)] {
        if let Some(path) = path {
            site.post("/v1/load_weights", &json!({"path": path})).with(200);
        }
        let before = if before.is_null() { answer() } else { before };
        assert_eq!((post("/sleep?level=1").status, is_sleeping()), (200, json!(true)));
        let refused = site.complete(&asked).with(503);
        assert!(refused["error"]["message"].as_str().is_some_and(|text| text.contains("sleeps")), "{refused}");
        assert_eq!((post("/wake_up").status, is_sleeping()), (200, json!(false)));
        assert_eq!(answer(), before);
    }
    // Level 2: they are forgotten, and others come in their place.
    assert_eq!(post("/sleep?level=2&mode=wait").status, 200);
    let error = post("/wake_up").with(400);
    assert!(error["error"]["message"].as_str().is_some_and(|text| text.contains("/v1/load_weights")), "{error}");
    site.post("/v1/load_weights", &json!({"path": "0"})).with(200);
    assert_eq!(is_sleeping(), true);
    assert_eq!((post("/wake_up?tags=kv_cache").status, answer()), (200, old.clone()));
    // In two steps, as a trainer does it; and when nothing sleeps.
    assert_eq!(post("/sleep").status, 200);
    assert_eq!((post("/wake_up?tags=weights").status, is_sleeping()), (200, json!(true)));
    assert_eq!((post("/wake_up?tags=kv_cache").status, post("/wake_up").status, answer()), (200, 200, old));
    for (path, param) in
        [("/sleep?level=3", "level"), ("/sleep?mode=abort", "mode"), ("/wake_up?tags=x", "tags"), ("/sleep?x=1", "x")]
    {
        assert_eq!(post(path).with(400)["error"]["param"], param);
    }
    site.end();
}
