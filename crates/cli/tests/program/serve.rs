//! `serve` and `bench serve` on a tiny model of the fixtures.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

use serde_json::Value;

use crate::support::{folder, program, refused, warpfold};

fn model(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models").join(name);
    path.to_str().expect("UTF-8").to_owned()
}

/// A server in a process of its own, whose weights are compared with the files.
pub(crate) struct Served {
    child: Child,
    stdout: BufReader<ChildStdout>,
    address: String,
}

impl Served {
    pub(crate) fn start(more: &[&str]) -> Self {
        let llama = model("llama");
        let args = [&["serve", &llama, "--device", "virtual", "--port", "0", "--verify-weights"], more].concat();
        let mut child = program(&args).stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = || {
            let mut line = String::new();
            stdout.read_line(&mut line).expect("UTF-8");
            line
        };
        let first = line();
        let address = first.trim().strip_prefix("listening at http://").expect("it says where").to_owned();
        let sizes: Vec<String> = std::iter::from_fn(|| Some(line()).filter(|l| !l.starts_with("ready on "))).collect();
        assert!(sizes.iter().any(|line| line.contains("blocks on the device")), "{sizes:?}");
        Self { child, stdout, address }
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("UTF-8");
        text
    }

    fn post(&self, path: &str, headers: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        let len = body.len();
        let head = "Host: a\r\nConnection: close\r\nContent-Type: application/json\r\n";
        write!(stream, "POST {path} HTTP/1.1\r\n{head}{headers}Content-Length: {len}\r\n\r\n{body}").expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("UTF-8");
        text
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Asks it to end, as service managers do.
    pub(crate) fn ask_to_end(&self) {
        let id = self.child.id().to_string();
        let sent = std::process::Command::new("kill").args(["-TERM", &id]).status().expect("kill runs");
        assert!(sent.success());
    }

    /// Asks it to end; returns what it still says.
    pub(crate) fn end(self) -> String {
        self.ask_to_end();
        self.wait()
    }

    /// Waits until it has ended; returns what it still says.
    pub(crate) fn wait(mut self) -> String {
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("UTF-8");
        assert_eq!(self.child.wait().expect("it ends").code(), Some(0));
        rest
    }
}

#[test]
fn the_digest_of_verified_weights_is_that_of_generate_in_the_list_of_models_and_in_answers() {
    let asked = ["generate", &model("llama"), "--device", "virtual", "--prompt-tokens", "5", "--max-tokens", "1"];
    let found = warpfold(&[&asked[..], &["--verify-weights"]].concat()).ended_with(0).stderr;
    let digest = found.lines().find_map(|line| line.strip_prefix("weights are those of the files, digest "));
    let digest = digest.unwrap_or_else(|| panic!("{found}"));
    let served = Served::start(&[]);
    let models = served.get("/v1/models");
    assert!(models.contains(&format!(r#""weights_digest":"{digest}""#)), "{models}");
    let answer = served.post("/v1/completions", "", r#"{"model": "llama", "prompt": [5], "max_tokens": 1}"#);
    let fingerprint = format!(r#""system_fingerprint":"warpfold-{}-{digest}""#, env!("CARGO_PKG_VERSION"));
    assert!(answer.contains(&fingerprint), "{answer}");
    served.end();
}

#[test]
fn weights_are_replaced_while_the_server_runs_and_answers_name_them() {
    let folder = folder("weights_are_replaced_while_the_server_runs");
    for file in std::fs::read_dir(model("llama")).expect("the fixture") {
        let file = file.expect("a file");
        let mut bytes = std::fs::read(file.path()).expect("it is read");
        if file.file_name().to_string_lossy().starts_with("model-00002") {
            // The sign of the last number.
            *bytes.last_mut().expect("it has bytes") ^= 0x80;
        }
        std::fs::write(folder.join(file.file_name()), bytes).expect("written");
    }
    let served = Served::start(&[]);
    let answer = || -> Value {
        let body = r#"{"prompt": [5, 9], "max_tokens": 2, "temperature": 0, "logprobs": 1, "seed": 1}"#;
        serde_json::from_str(served.post("/v1/completions", "", body).split_once("\r\n\r\n").expect("a body").1)
            .expect("JSON")
    };
    let load = |path: &str| served.post("/v1/load_weights", "", &serde_json::json!({"path": path}).to_string());
    let old = answer();
    let loaded = load(folder.to_str().expect("UTF-8"));
    let digest = loaded.split_once("weights_digest\":\"").unwrap_or_else(|| panic!("{loaded}")).1[..16].to_owned();
    let new = answer();
    assert!(new["system_fingerprint"].as_str().is_some_and(|print| print.ends_with(&digest)), "{new}");
    assert_ne!(old["system_fingerprint"], new["system_fingerprint"]);
    assert!(served.get("/v1/models").contains(&digest));
    let refused = load(&model("qwen2"));
    assert!(refused.contains(" 400 ") && refused.contains("another configuration"), "{refused}");
    let same =
        |one: &Value, other: &Value| ["choices", "system_fingerprint"].iter().all(|field| one[field] == other[field]);
    // A model that slept has the weights that it had, or others with nothing beside them.
    let post = |path: &str| served.post(path, "", "").contains(" 200 ");
    assert!(post("/sleep?level=1") && post("/wake_up"));
    assert!(same(&answer(), &new));
    // The first weights again, and what they answer.
    assert!(post("/sleep?level=2"));
    let loaded = load(&model("llama"));
    assert!(loaded.contains(" 200 ") && post("/wake_up"), "{loaded}");
    assert!(same(&answer(), &old));
    served.end();
}

#[test]
fn a_server_answers_as_generate_does_and_ends_when_it_is_asked_to() {
    answers_as_generate_does(&["--dtype", "f32"]);
}

#[test]
fn a_server_on_two_devices_answers_as_generate_does() {
    answers_as_generate_does(&["--dtype", "f32", "--tensor-parallel", "2"]);
}

#[track_caller]
fn answers_as_generate_does(options: &[&str]) {
    let served = Served::start(options);
    let body = r#"{"prompt": [5, 9, 200, 17], "max_tokens": 6, "temperature": 0, "return_token_ids": true}"#;
    let reply = served.post("/v1/completions", "", body);
    let (head, json) = reply.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{reply}");
    let found: Value = serde_json::from_str(json).expect("JSON");
    assert_eq!(found["model"], "llama");
    let golden = std::fs::read_to_string(Path::new(&model("llama")).join("golden.json")).expect("the fixture");
    let golden: Value = serde_json::from_str(&golden).expect("JSON");
    let steps = golden[0]["steps"].as_array().expect("a list");
    let expected: Value = steps.iter().take(6).map(|step| step["token"].clone()).collect();
    let given = &found["choices"][0]["token_ids"];
    assert_eq!(given.as_array().map(|ids| &ids[..]), expected.as_array().map(|ids| &ids[..ids.len().min(6)]));
    let rest = served.end();
    assert!(rest.contains("1 answers of 6 tokens"), "{rest}");
}

#[test]
fn options_of_the_server_are_obeyed() {
    let folder = folder("options_of_the_server_are_obeyed");
    let (keys, template) = (folder.join("keys"), folder.join("chat.jinja"));
    std::fs::write(&keys, "sesame\n").expect("written");
    std::fs::write(&template, "{{ messages[0].content }}").expect("written");
    let served = Served::start(&[
        "--api-key-file",
        keys.to_str().expect("UTF-8"),
        "--chat-template",
        template.to_str().expect("UTF-8"),
        "--served-model-name",
        "own",
        "--kv-bytes",
        "100000",
        "--swap-bytes",
        "100000",
        "--budget",
        "7",
        "--max-seqs",
        "2",
        "--no-prefix-cache",
        "--inject-preemptions",
        "0.3",
        "--pooling",
        "cls",
    ]);
    let body = r#"{"model": "own", "messages": [{"role": "user", "content": "the"}], "max_tokens": 4}"#;
    assert!(served.post("/v1/chat/completions", "", body).starts_with("HTTP/1.1 401"));
    let reply = served.post("/v1/chat/completions", "Authorization: Bearer sesame\r\n", body);
    assert!(reply.starts_with("HTTP/1.1 200") && reply.contains("\"model\":\"own\""), "{reply}");
    // The first token's, whatever comes after it.
    let embedding = |input: &str| {
        let body = format!(r#"{{"model": "own", "input": {input}}}"#);
        let reply = served.post("/v1/embeddings", "Authorization: Bearer sesame\r\n", &body);
        let (_, json) = reply.split_once("\r\n\r\n").expect("a head and a body");
        serde_json::from_str::<Value>(json).expect("JSON")["data"][0]["embedding"].clone()
    };
    assert_eq!(embedding("[5, 9]"), embedding("[5]"));
    assert!(embedding("[5]").as_array().is_some_and(|numbers| numbers.len() == 32));
    served.end();
}

#[test]
fn a_server_is_measured_from_outside_and_an_engine_from_inside() {
    let served = Served::start(&[]);
    let url = format!("http://{}", served.address);
    let options = ["--workload", "random:12/5", "--requests", "6", "--report", "json"];
    let outside = ["bench", "serve", "--url", &url, "--concurrency", "1,3"];
    let found = warpfold(&[&outside[..], &options].concat()).ended_with(0).json();
    for (run, concurrency) in found["runs"].as_array().expect("a list").iter().zip([1, 3]) {
        assert_eq!(
            (&run["completed"], &run["failed"], &run["concurrency"]),
            (&6.into(), &0.into(), &concurrency.into())
        );
        assert_eq!(run["output_tokens"], 30);
    }
    assert_eq!((&found["answers"]["verified"], &found["answers"]["compared"]), (&true.into(), &12.into()), "{found}");
    served.end();
    let llama = model("llama");
    let inside = ["bench", "serve", &llama, "--device", "virtual", "--rate", "50", "--kv-blocks", "64"];
    let goal = ["--goal-ttft-ms", "60000", "--goal-tpot-ms", "60000"];
    let found = warpfold(&[&inside[..], &options, &goal].concat()).ended_with(0).json();
    assert_eq!((&found["runs"][0]["completed"], &found["runs"][0]["rate"]), (&6.into(), &Value::from(50.0)));
    assert_eq!(found["runs"][0]["goodput"], found["runs"][0]["requests_per_second"]);
    let table = [&inside[..], &["--workload", "random:12/5", "--requests", "4"]].concat();
    let table = warpfold(&table).ended_with(0).stdout;
    assert!(table.contains("TTFT ms") && table.contains("50/s"), "{table}");
    let digest = found["answers"]["digest"].as_str().expect("a digest");
    let verified = format!("answers verified: 8 compared with the same requests alone; digest {digest}\n");
    assert!(table.ends_with(&verified), "{verified} {table}");
}

#[test]
fn what_cannot_be_served_is_one_line() {
    let llama = model("llama");
    refused(&["serve", "absent.gguf"], 2, "cannot read absent.gguf: ");
    refused(&["serve", &llama, "--api-key", "", "--port", "0"], 2, "--api-key: the key is empty");
    refused(&["serve", &llama, "--tensor-parallel", "8"], 2, "8 devices cannot share the model: it has 4 heads");
    refused(&["serve", &llama, "--kv-bytes", "1", "--kv-blocks", "1"], 2, "cannot be used with");
    refused(&["bench", "serve", "--url", "https://a"], 4, "there is no TLS here");
    refused(&["bench", "serve", "--url", "http://127.0.0.1:9"], 4, "/v1/models");
    refused(&["bench", "serve", &llama, "--workload", "none"], 2, "it is not sharegpt-like");
    refused(&["bench", "serve", &llama, "--rate", "0"], 2, "--rate: it is not positive");
}
