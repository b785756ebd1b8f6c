//! Embeddings, scores and ranks.

use serde_json::{Value, json};
use warpfold_engine::Pooling;
use warpfold_engine::scripted::Scripted;
use warpfold_models::PoolingDefaults;
use warpfold_serve::Text;

use crate::support::{MAX_LEN, Site, VOCAB, and, config, fixed, options, text, tokenizer};

fn embed(site: &Site, body: &Value) -> Value {
    site.post("/v1/embeddings", body).with(200)
}

fn numbers(entry: &Value) -> Vec<f64> {
    serde_json::from_value(entry["embedding"].clone()).expect("numbers")
}

fn length(vector: &[f64]) -> f64 {
    vector.iter().map(|x| x * x).sum::<f64>().sqrt()
}

#[test]
fn an_input_of_every_form_has_embeddings_of_length_one() {
    let site = Site::plain();
    let tokens = [tokenizer().encode("the quick").expect("a text"), tokenizer().encode("brown fox").expect("a text")];
    let one = embed(&site, &json!({"model": "scripted", "input": "the quick", "user": "me"}));
    assert_eq!((&one["object"], &one["data"][0]["object"]), (&json!("list"), &json!("embedding")));
    assert_eq!(one["usage"], json!({"prompt_tokens": tokens[0].len(), "total_tokens": tokens[0].len()}));
    let first = numbers(&one["data"][0]);
    assert!(first.len() == 8 && (length(&first) - 1.0).abs() < 1e-6, "{first:?}");
    for input in [json!(tokens[0]), json!([tokens[0]]), json!(["the quick"])] {
        assert_eq!(embed(&site, &json!({"input": input}))["data"], one["data"]);
    }
    let both = embed(&site, &json!({"input": tokens}));
    assert_eq!(both["data"], embed(&site, &json!({"input": ["the quick", "brown fox"]}))["data"]);
    assert_eq!((&both["data"][0], &both["data"][1]["index"]), (&one["data"][0], &json!(1)));
    assert!(numbers(&both["data"][1]) != first);
    // The same beside answers, and of a prompt that the cache has.
    let mut busy = site.open();
    busy.post("/v1/completions", &fixed(json!("the quick"), 60));
    assert_eq!(embed(&site, &json!({"input": "the quick"}))["data"], one["data"]);
    busy.reply().with(200);
    site.end();
}

#[test]
fn an_embedding_is_cut_written_as_bytes_and_left_as_it_is_where_that_is_asked_for() {
    let site = Site::plain();
    let ask = |more: Value| embed(&site, &and(json!({"input": "the quick"}), more))["data"][0].clone();
    let raw = numbers(&ask(json!({"normalize": false})));
    assert_eq!(raw, numbers(&ask(json!({"use_activation": false}))));
    assert!((length(&raw) - 1.0).abs() > 0.01, "{raw:?}");
    let cut = numbers(&ask(json!({"dimensions": 3})));
    let expected = length(&raw[..3]);
    assert!(cut.iter().zip(&raw).all(|(cut, raw)| (cut - raw / expected).abs() < 1e-6) && cut.len() == 3, "{cut:?}");
    let text = ask(json!({"encoding_format": "base64", "normalize": false}))["embedding"].clone();
    let bytes: Vec<u8> = raw.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect();
    assert_eq!(text, json!(encoded(&bytes)));
    let cut = ask(json!({"encoding_format": "base64", "dimensions": 2}))["embedding"].clone();
    assert!(cut.as_str().is_some_and(|text| text.len() == 12 && text.ends_with('=')), "{cut}");
    site.end();
}

/// Base64 by bits, one after the other.
fn encoded(bytes: &[u8]) -> String {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: Vec<u8> = bytes.iter().flat_map(|byte| (0..8).rev().map(move |i| byte >> i & 1)).collect();
    let digit =
        |six: &[u8]| six.iter().chain([0; 6].iter()).take(6).fold(0, |value, bit| value << 1 | usize::from(*bit));
    let text: String = bits.chunks(6).map(|six| &DIGITS[digit(six)..=digit(six)]).collect();
    let padding = (4 - text.len() % 4) % 4;
    text + &"=".repeat(padding)
}

#[test]
fn pooling_is_that_of_the_server() {
    let prompt = [5, 80, 7, 9];
    let site = |pooling, is_normalized| {
        let site = Site::empty(options());
        let text = Text { pooling: PoolingDefaults { pooling, is_normalized }, ..text() };
        site.handle().serve(Scripted::new(VOCAB, MAX_LEN), config(), text).expect("the settings are right");
        site
    };
    let of = |pooling, prompt: &[u32]| {
        let site = site(pooling, false);
        let found = numbers(&embed(&site, &json!({"input": prompt}))["data"][0]);
        site.end();
        found
    };
    assert_eq!(of(Pooling::Cls, &prompt), of(Pooling::Last, &prompt[..1]));
    assert_ne!(of(Pooling::Mean, &prompt), of(Pooling::Last, &prompt));
}

#[test]
fn scores_are_cosines_and_ranks_are_in_their_order() {
    let site = Site::plain();
    let texts = ["the quick", "brown fox", "jumps", "the quick"];
    let all = embed(&site, &json!({"input": texts}));
    let vectors: Vec<Vec<f64>> = (0..4).map(|i| numbers(&all["data"][i])).collect();
    let cosine = |i: usize| vectors[0].iter().zip(&vectors[i]).map(|(a, b)| a * b).sum::<f64>();
    let found = site.post("/v1/score", &json!({"model": "scripted", "text_1": texts[0], "text_2": texts})).with(200);
    for i in 0..4 {
        let score = found["data"][i]["score"].as_f64().expect("a number");
        assert!((score - cosine(i)).abs() < 1e-6, "{score}, not {}", cosine(i));
    }
    let pairs = site.post("/score", &json!({"queries": texts, "documents": texts})).with(200);
    assert!((pairs["data"][2]["score"].as_f64().expect("a number") - 1.0).abs() < 1e-6, "{pairs}");
    for path in ["/v1/rerank", "/rerank", "/v2/rerank"] {
        let ranks = site.post(path, &json!({"query": texts[0], "documents": texts, "top_n": 3})).with(200);
        let order: Vec<usize> =
            (0..3).map(|i| ranks["results"][i]["index"].as_u64().expect("a place") as usize).collect();
        assert_eq!((&order[..2], &ranks["results"][3]), (&[0, 3][..], &Value::Null), "{ranks}");
        assert_eq!(ranks["results"][2]["document"]["text"], texts[order[2]]);
        assert!(cosine(order[2]) >= cosine(1).max(cosine(2)) - 1e-6);
    }
    site.end();
}

#[test]
fn what_an_embedding_does_not_have_is_refused_by_name() {
    let site = Site::plain();
    let ok = json!({"input": "a"});
    for (more, param) in [
        (json!({"input": []}), "input"),
        (json!({"input": {"a": 1}}), "input"),
        (json!({"input": [[]]}), "input"),
        (json!({"input": [VOCAB]}), "input"),
        (json!({"input": vec![5; MAX_LEN + 1]}), "input"),
        (json!({"dimensions": 0}), "dimensions"),
        (json!({"dimensions": 9}), "dimensions"),
        (json!({"encoding_format": "int8"}), "encoding_format"),
        (json!({"normalize": true, "use_activation": true}), "use_activation"),
        (json!({"messages": []}), "messages"),
    ] {
        assert_eq!(
            site.post("/v1/embeddings", &and(ok.clone(), more.clone())).with(400)["error"]["param"],
            param,
            "{more}"
        );
    }
    assert_eq!(site.post("/v1/embeddings", &json!({})).with(400)["error"]["param"], "input");
    embed(&site, &json!({"input": vec![5; MAX_LEN]}));
    let pair = json!({"text_1": ["a", "b"], "text_2": ["a"]});
    assert_eq!(site.post("/v1/score", &pair).with(400)["error"]["param"], "text_1");
    let cross = site.post("/v1/score", &json!({"text_1": "a", "text_2": "b", "use_activation": true})).with(400);
    assert_eq!(cross["error"]["param"], "use_activation");
    assert!(cross["error"]["message"].as_str().is_some_and(|text| text.contains("cross-encoders")), "{cross}");
    for (body, param) in [(json!({"documents": ["a"]}), "query"), (json!({"query": "a", "documents": []}), "documents")]
    {
        assert_eq!(site.post("/v1/rerank", &body).with(400)["error"]["param"], param);
    }
    site.end();
}
