//! Other weights for the model that is served.

use std::sync::Arc;

use serde_json::json;
use warpfold_engine::scripted::Scripted;
use warpfold_serve::{OpenWeights, Text};

use crate::support::{Gated, MAX_LEN, Site, VOCAB, and, config, fixed, options, text};

/// Files of weights whose names are numbers.
fn numbered() -> Text {
    let open = |path: &std::path::Path| {
        let number: u32 = path.to_string_lossy().parse().map_err(|_| "it is no number".to_owned())?;
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
