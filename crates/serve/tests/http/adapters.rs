//! Adapters: named, loaded and unloaded while the server runs.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use warpfold_models::AdapterWeights;
use warpfold_serve::Options;

use crate::support::{Site, and, fixed, options};

/// An adapter's folder, gone with the test.
struct Folder(PathBuf);

impl Folder {
    /// Of one pair of matrices of ones.
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("warpfold-http-adapter-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        let config = json!({"peft_type": "LORA", "r": 1, "lora_alpha": 1});
        fs::write(path.join("adapter_config.json"), config.to_string()).expect("a file");
        let tensor =
            |place: [usize; 2], shape: [usize; 2]| json!({"dtype": "F32", "shape": shape, "data_offsets": place});
        let header = json!({
            "base_model.model.w.lora_A.weight": tensor([0, 8], [1, 2]),
            "base_model.model.w.lora_B.weight": tensor([8, 16], [2, 1]),
        });
        let (header, data) = (header.to_string(), 1.0_f32.to_le_bytes().repeat(4));
        let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat();
        fs::write(path.join("adapter_model.safetensors"), bytes).expect("a file");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn load(name: &str, path: &Path) -> Value {
    json!({"lora_name": name, "lora_path": path})
}

const LOAD: &str = "/v1/load_lora_adapter";
const UNLOAD: &str = "/v1/unload_lora_adapter";

#[test]
fn a_request_that_names_an_adapter_is_answered_by_it() {
    let folder = Folder::new("names");
    let site = Site::new(Options { adapters: 2, ..options() });
    let ask = |model: Option<&str>| {
        let body = and(fixed(json!(vec![5; 40]), 10), json!({ "model": model }));
        let reply = site.complete(&body).with(200);
        (reply["model"].clone(), reply["choices"][0]["text"].clone(), reply["usage"]["prompt_tokens_details"].clone())
    };
    let (_, base, _) = ask(None);
    site.post(LOAD, &load("one", &folder.0)).with(200);
    site.handle().load_adapter("two", AdapterWeights::open(&folder.0).expect("it is right")).expect("there is room");
    let list = site.get("/v1/models").with(200);
    let ids: Vec<&Value> = list["data"].as_array().expect("a list").iter().map(|model| &model["id"]).collect();
    assert_eq!(ids, ["scripted", "one", "two"]);
    assert_eq!((&list["data"][1]["parent"], &list["data"][0]["parent"]), (&json!("scripted"), &Value::Null));
    assert_eq!(site.get("/v1/models/two").with(200)["id"], "two");
    let [one, two, again] = [Some("one"), Some("two"), Some("one")].map(ask);
    assert_eq!((&one.0, &two.0), (&json!("one"), &json!("two")));
    assert!(one.1 != base && two.1 != base && one.1 != two.1, "{base} {one:?} {two:?}");
    assert_eq!(one.1, again.1);
    // The prefix of one is none of the others'.
    assert_eq!(ask(Some("scripted")).1, base);
    let chat = json!({"model": "two", "max_tokens": 3, "messages": [{"role": "user", "content": "Hi"}]});
    assert_eq!(site.chat(&chat).with(200)["model"], "two");
    assert_eq!(site.post("/v1/messages", &chat).with(200)["model"], "two");
    let input = json!({"model": "two", "max_output_tokens": 3, "input": "Hi"});
    assert_eq!(site.post("/v1/responses", &input).with(200)["model"], "two");
    site.end();
}

#[test]
fn adapters_are_loaded_where_there_is_room_and_unloaded() {
    let folder = Folder::new("room");
    let site = Site::new(Options { adapters: 1, ..options() });
    let told = |path: &str, body: &Value, status: u16| {
        site.post(path, body).with(status)["error"]["message"].as_str().expect("a text").to_owned()
    };
    let absent = told(LOAD, &load("one", &folder.0.join("absent")), 400);
    assert!(absent.starts_with("lora_path: cannot read ") && absent.contains("adapter_config.json"), "{absent}");
    assert_eq!(told(LOAD, &load("scripted", &folder.0), 400), "lora_name: there is a model \"scripted\" already");
    assert_eq!(told(LOAD, &json!({"lora_name": "one"}), 400), "lora_path: it is required");
    site.post(LOAD, &load("one", &folder.0)).with(200);
    assert_eq!(told(LOAD, &load("one", &folder.0), 400), "lora_name: there is a model \"one\" already");
    let full = told(LOAD, &load("two", &folder.0), 400);
    assert_eq!(full, "all 1 places of adapters are taken; --max-loras says how many there are");
    site.post(UNLOAD, &json!({"lora_name": "one"})).with(200);
    assert_eq!(told(UNLOAD, &json!({"lora_name": "one"}), 404), "lora_name: there is no adapter \"one\"");
    site.complete(&and(fixed(json!("a"), 1), json!({"model": "one"}))).with(404);
    site.post(LOAD, &load("two", &folder.0)).with(200);
    site.complete(&and(fixed(json!("a"), 1), json!({"model": "two"}))).with(200);
    site.end();
}

#[test]
fn a_server_without_room_loads_none() {
    let folder = Folder::new("none");
    let site = Site::plain();
    let reply = site.post(LOAD, &load("one", &folder.0)).with(400);
    assert!(reply["error"]["message"].as_str().is_some_and(|text| text.starts_with("all 0 places")), "{reply}");
    site.end();
}
