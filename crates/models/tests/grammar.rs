//! Answers that are JSON of a schema, by the model that ships: with the feature `grammar`.
#![cfg(feature = "grammar")]

use serde_json::{Value, json};
use warpfold::{Device, Dtype, Profile, Queue};
use warpfold_engine::{Config, Engine, Request, Sampling};
use warpfold_models::{Grammar, Grammars, ModelFiles};

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 12},
            "animal": {"enum": ["fox", "bear", "hare"]},
            "age": {"type": "integer", "minimum": 1, "maximum": 99},
        },
        "required": ["name", "animal", "age"],
        "additionalProperties": false,
    })
}

#[test]
fn every_answer_is_json_of_the_schema_whatever_is_drawn() {
    let files = ModelFiles::shipped().unwrap().verified();
    let eos = files.config().eos[0];
    let grammars = Grammars::of(files.tokenizer().unwrap(), &[eos]).unwrap();
    let queue = Queue::of(&Device::virtual_gpu(Profile::H200));
    let model = files.load(&queue, Dtype::Bf16, &mut |_, _| ()).unwrap();
    let mut engine = Engine::new(model, Config { num_blocks: 64, ..Config::default() }).unwrap();
    let prompt = files.tokenizer().unwrap().encode("Once upon a time there was").unwrap();
    let sampling = Sampling { temperature: 1.5, ..Sampling::default() };
    let constraint = Some(grammars.constraint(&Grammar::Json(schema())).unwrap());
    let asked = Request { n: 3, seed: Some(3), sampling, constraint, max_tokens: Some(120), ..Request::new(prompt) };
    let id = engine.add(asked).unwrap();
    for answer in engine.run_to_end().unwrap().remove(&id).unwrap() {
        let text = files.tokenizer().unwrap().decode(&answer.ids());
        // The token that ends the answer has a text, too.
        let value: Value = serde_json::from_str(&text[..=text.rfind('}').unwrap_or(0)])
            .unwrap_or_else(|error| panic!("{error}: {text:?}, {:?}", answer.finish));
        assert_eq!(answer.finish.map(warpfold_engine::Finish::name), Some("stop"));
        assert!(value["name"].as_str().is_some_and(|name| name.chars().count() <= 12), "{text}");
        assert!(["fox", "bear", "hare"].contains(&value["animal"].as_str().unwrap()), "{text}");
        assert!((1..=99).contains(&value["age"].as_i64().unwrap()), "{text}");
    }
}

#[test]
fn a_schema_that_is_none_is_refused_with_a_reason() {
    let files = ModelFiles::shipped().unwrap();
    let grammars = Grammars::of(files.tokenizer().unwrap(), &files.config().eos).unwrap();
    let error = grammars.constraint(&Grammar::Json(json!({"type": "elephant"}))).unwrap_err().to_string();
    assert!(error.starts_with("the grammar cannot be used: "), "{error}");
}
