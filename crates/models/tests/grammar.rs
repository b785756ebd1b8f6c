//! Answers that are JSON of a schema, by the model that ships: with the feature `grammar`.
#![cfg(feature = "grammar")]

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use warpfold::{Device, Dtype, Profile, Queue};
use warpfold_engine::{
    Batch, CacheShape, Config, Engine, Limits, Model, ModelError, Moves, Request, SampleRow, Sampled, Sampling,
};
use warpfold_models::{Grammar, Grammars, ModelFiles, Tokenizer};

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
    // It leads to itself alone.
    let error = grammars.constraint(&Grammar::Json(json!({"$ref": "#"}))).unwrap_err().to_string();
    assert_eq!(error, "the grammar cannot be used: no token of the vocabulary may come first");
}

fn order_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "id": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{6}$"},
            "customer": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "email": {"type": "string", "format": "email"},
                    "address": {"$ref": "#/$defs/address"},
                },
                "required": ["name", "email", "address"],
                "additionalProperties": false,
            },
            "status": {"enum": ["new", "paid", "sent", "returned"]},
            "items": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "properties": {
                        "title": {"type": "string", "maxLength": 80},
                        "count": {"type": "integer", "minimum": 1, "maximum": 999},
                        "price": {"type": "number", "minimum": 0},
                        "gift": {"type": ["boolean", "null"]},
                    },
                    "required": ["title", "count", "price", "gift"],
                    "additionalProperties": false,
                },
            },
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["id", "customer", "status", "items", "note"],
        "additionalProperties": false,
        "$defs": {
            "address": {
                "type": "object",
                "properties": {
                    "street": {"type": "string"},
                    "city": {"type": "string"},
                    "zip": {"type": "string", "pattern": "^[0-9]{5}$"},
                },
                "required": ["street", "city", "zip"],
                "additionalProperties": false,
            },
        },
    })
}

fn order(i: usize) -> String {
    let words = ["crisp", "amber", "longing", "harbour", "unbelievable", "Zürich", "of", "seven", "grey", "umbrella"];
    let text = |len: usize, salt: usize| {
        (0..len).map(|j| words[(i * 7 + j * j + salt) % words.len()]).collect::<Vec<_>>().join(" ")
    };
    let items: Vec<Value> = (0..1 + i % 3)
        .map(
            |j| json!({"title": text(3 + i % 4, j), "count": 1 + i * 13 % 900, "price": i as f64 * 1.25, "gift": null}),
        )
        .collect();
    let address = json!({"street": text(2, 5), "city": text(1, 3), "zip": format!("{:05}", i * 977)});
    let customer = format!(
        r#"{{"name":{},"email":"a{i}@example.org","address":{{"street":{},"city":{},"zip":{}}}}}"#,
        Value::from(text(2, 1)),
        address["street"],
        address["city"],
        address["zip"]
    );
    let items: Vec<String> = items
        .iter()
        .map(|item| {
            let [title, count, price, gift] = ["title", "count", "price", "gift"].map(|name| &item[name]);
            format!(r#"{{"title":{title},"count":{count},"price":{price},"gift":{gift}}}"#)
        })
        .collect();
    format!(
        r#"{{"id":"AB-{:06}","customer":{customer},"status":"paid","items":[{}],"note":{}}}"#,
        i * 31,
        items.join(","),
        Value::from(text(12 + i % 9, 2))
    )
}

/// Masks of 64 sequences: of the model that ships and of the folder of a tokenizer that
/// `MASK_TOKENIZER` names.
#[test]
#[ignore = "it measures"]
fn masks_of_64_sequences_are_measured() {
    let files = ModelFiles::shipped().unwrap();
    let shipped = files.tokenizer().unwrap();
    let named = std::env::var_os("MASK_TOKENIZER").map(|folder| Tokenizer::of_folder(folder.as_ref()).unwrap());
    let eos = named.as_ref().map(|tokenizer| vec![u32::try_from(tokenizer.len() - 1).unwrap()]);
    for (tokenizer, eos) in
        [Some((shipped, &files.config().eos)), named.as_ref().zip(eos.as_ref())].into_iter().flatten()
    {
        for num_threads in [1, 2, 4, 8, 16] {
            measure_masks(tokenizer, eos, num_threads);
        }
    }
}

fn measure_masks(tokenizer: &Tokenizer, eos: &[u32], num_threads: usize) {
    let grammars = Grammars::of(tokenizer, eos).unwrap();
    let texts: Vec<Vec<u32>> = (0..64).map(|i| tokenizer.encode(&order(i)).unwrap()).collect();
    let longest = texts.iter().map(Vec::len).max().unwrap();
    let limits = Limits {
        vocab: tokenizer.len(),
        max_len: longest + 8,
        eos: eos.to_vec(),
        hidden: 1,
        kv_bytes_per_token: 1,
        state_bytes: 0,
    };
    let config = Config { num_blocks: 64 * (longest / 16 + 2), ..Config::default() };
    let writer = Writer { texts, limits, num_threads, times: Vec::new() };
    let mut engine = Engine::new(writer, config).unwrap();
    for seed in 0..64 {
        let constraint = Some(grammars.constraint(&Grammar::Json(order_schema())).unwrap());
        engine.add(Request { constraint, seed: Some(seed), ..Request::new(vec![0]) }).unwrap();
    }
    let start = Instant::now();
    engine.run_to_end().unwrap();
    let (all, mut times) = (start.elapsed(), engine.model().times.clone());
    let num = u32::try_from(times.len()).unwrap();
    let sum: Duration = times.iter().sum();
    times.sort_unstable();
    let [median, worst] = [times[times.len() / 2], times[times.len() - 1]];
    println!(
        "{} tokens, {num_threads} threads: {num} steps, masks {:?} a step (median {median:?}, worst {worst:?}), all else {:?}",
        tokenizer.len(),
        sum / num,
        (all - sum) / num
    );
}

/// Writes texts by heart, and takes the time of masks.
struct Writer {
    texts: Vec<Vec<u32>>,
    limits: Limits,
    num_threads: usize,
    times: Vec<Duration>,
}

impl Model for Writer {
    fn limits(&self) -> Limits {
        self.limits.clone()
    }

    fn allocate(&mut self, _cache: CacheShape) -> Result<(), ModelError> {
        Ok(())
    }

    fn copy(&mut self, _moves: &Moves) -> Result<(), ModelError> {
        Ok(())
    }

    fn step(&mut self, batch: &Batch) -> Result<Vec<Sampled>, ModelError> {
        let start = Instant::now();
        batch.make_masks(self.num_threads);
        self.times.push(start.elapsed());
        let token = |row: &SampleRow| {
            let text = &self.texts[usize::try_from(row.seed).unwrap()];
            let token = text.get(row.position as usize - 1).copied().unwrap_or(self.limits.eos[0]);
            assert!(row.mask_bits().unwrap()[token as usize / 32] >> (token % 32) & 1 != 0);
            Sampled { token, ..Sampled::default() }
        };
        Ok(batch.samples.iter().map(token).collect())
    }
}
