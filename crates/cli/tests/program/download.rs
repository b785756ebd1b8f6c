//! `hf:` models, from a server in this process that speaks the hub's interface.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::support::{Outcome, finish, folder, program};

/// What is wrong with the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// Every answer with a file's content ends after so many bytes.
    Cuts(usize),
    /// The same, and no request's `Range` is heard.
    CutsWithoutRanges(usize),
    /// Files have a byte more than the list says.
    Longer,
    /// Files have a wrong byte.
    Changed,
    /// Who has no token is refused.
    Gated,
    /// The list names what is elsewhere.
    LeadsOut,
    /// The list is longer than any.
    Endless,
}

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A hub with one model, `tiny/model`.
struct Hub {
    address: String,
    /// Files that were asked for, with their first byte.
    asked: Arc<Mutex<Vec<(String, usize)>>>,
    cache: PathBuf,
}

impl Hub {
    fn start(test: &str, fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let asked: Arc<Mutex<Vec<(String, usize)>>> = Arc::default();
        let files = files();
        let noted = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.expect("a connection");
                let (files, noted) = (files.clone(), noted.clone());
                // A client that leaves is no fault of the server's.
                std::thread::spawn(move || answer(stream, fault, &files, &noted).unwrap_or_default());
            }
        });
        Self { address, asked, cache: folder(test) }
    }

    fn generate(&self, model: &str, variables: &[(&str, &str)]) -> Outcome {
        let mut command =
            program(&["generate", model, "--device", "virtual", "--prompt-tokens", "5,9", "--max-tokens"]);
        command.args(["2", "--temperature", "0", "--json"]).env("HF_ENDPOINT", &self.address);
        command.env("HF_HUB_CACHE", &self.cache).env("HF_HOME", self.cache.join("home")).env_remove("HF_TOKEN");
        finish(command.env_remove("HF_HUB_OFFLINE").envs(variables.iter().copied()))
    }

    fn asked(&self) -> Vec<(String, usize)> {
        std::mem::take(&mut *self.asked.lock().expect("no thread panics"))
    }

    fn blobs(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.cache.join("models--tiny--model/blobs")).expect("a folder");
        names.map(|entry| entry.expect("a file").file_name().into_string().expect("UTF-8")).collect()
    }
}

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models/qwen3")
}

fn files() -> BTreeMap<String, Vec<u8>> {
    let names = ["config.json", "model.safetensors"];
    let read = |name: &str| (name.to_owned(), std::fs::read(fixture().join(name)).expect("the fixture"));
    names.into_iter().map(read).chain([("README.md".to_owned(), b"text".to_vec())]).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn list(files: &BTreeMap<String, Vec<u8>>, fault: Fault) -> Value {
    let entry = |(name, content): (&String, &Vec<u8>)| {
        let blob = [format!("blob {}\0", content.len()).as_bytes(), content].concat();
        let mut entry = json!({"rfilename": name, "size": content.len(), "blobId": hex(&Sha1::digest(&blob))});
        if name.ends_with(".safetensors") {
            entry["lfs"] = json!({"sha256": hex(&Sha256::digest(content)), "size": content.len(), "pointerSize": 1});
        }
        entry
    };
    let mut siblings: Vec<Value> = files.iter().map(entry).collect();
    if fault == Fault::LeadsOut {
        siblings.iter_mut().for_each(|entry| entry["rfilename"] = json!("../../../config.json"));
    }
    json!({"sha": COMMIT, "siblings": siblings})
}

fn answer(
    mut stream: TcpStream,
    fault: Fault,
    files: &BTreeMap<String, Vec<u8>>,
    asked: &Mutex<Vec<(String, usize)>>,
) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let (mut start, mut has_token, mut has_range) = (0, false, false);
    for line in lines {
        let line = line?.to_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(range) = line.strip_prefix("range: bytes=") {
            (start, has_range) = (range.trim_end_matches('-').parse().expect("a number"), true);
        }
        has_token |= line == "authorization: bearer secret";
    }
    let reply = |stream: &mut TcpStream, status: &str, body: &[u8], len: usize| {
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body))
    };
    if fault == Fault::Gated && !has_token {
        return reply(&mut stream, "401 Unauthorized", b"", 0);
    }
    if path == "/api/models/tiny/model/revision/main?blobs=true" {
        let mut text = list(files, fault).to_string();
        if fault == Fault::Endless {
            text.push_str(&" ".repeat(17 << 20));
        }
        return reply(&mut stream, "200 OK", text.as_bytes(), text.len());
    }
    let name = path.strip_prefix(&format!("/tiny/model/resolve/{COMMIT}/")).unwrap_or_default();
    let Some(content) = files.get(name) else { return reply(&mut stream, "404 Not Found", b"", 0) };
    asked.lock().expect("no thread panics").push((name.to_owned(), start));
    let mut content = content.clone();
    match fault {
        Fault::Longer => content.push(0),
        Fault::Changed => content[7] ^= 1,
        _ => {}
    }
    let hears = !matches!(fault, Fault::CutsWithoutRanges(_)) && has_range;
    let rest = if hears { &content[start..] } else { &content[..] };
    let sent = match fault {
        Fault::Cuts(most) => most.min(rest.len()),
        // More each time, so that it ends.
        Fault::CutsWithoutRanges(most) => {
            static TIMES: AtomicUsize = AtomicUsize::new(0);
            (most * (1 + TIMES.fetch_add(1, Ordering::Relaxed))).min(rest.len())
        }
        _ => rest.len(),
    };
    reply(&mut stream, if hears { "206 Partial Content" } else { "200 OK" }, &rest[..sent], rest.len())
}

const MODEL: &str = "hf:tiny/model";

/// The answer of the model where it lies.
fn expected() -> Value {
    let path = fixture();
    let path = path.to_str().expect("UTF-8");
    let args = ["generate", path, "--device", "virtual", "--prompt-tokens", "5,9", "--max-tokens", "2"];
    finish(program(&args).args(["--temperature", "0", "--json"])).ended_with(0).json()["outputs"][0]["tokens"].clone()
}

#[test]
fn a_model_comes_from_the_hub_once_and_answers() {
    let hub = Hub::start("download-once", Fault::None);
    let found = hub.generate(MODEL, &[]).ended_with(0).json();
    assert_eq!(found["outputs"][0]["tokens"], expected());
    // What is needed alone, the configuration last.
    assert_eq!(hub.asked(), [("model.safetensors".to_owned(), 0), ("config.json".to_owned(), 0)]);
    assert_eq!(hub.blobs().len(), 2);
    // The cache is the usual one: without hf: and without a network it is found as well.
    hub.generate(MODEL, &[]).ended_with(0);
    hub.generate("tiny/model", &[]).ended_with(0);
    hub.generate(MODEL, &[("HF_HUB_OFFLINE", "1")]).ended_with(0);
    assert_eq!(hub.asked(), []);
    let alone = hub.generate(MODEL, &[("HF_ENDPOINT", "http://127.0.0.1:1")]).ended_with(0);
    assert!(alone.stderr.contains("http://127.0.0.1:1 does not answer: "), "{}", alone.stderr);
    let offline = hub.generate("hf:tiny/other", &[("HF_HUB_OFFLINE", "1")]).ended_with(2);
    assert!(offline.stderr.contains("and HF_HUB_OFFLINE is set"), "{}", offline.stderr);
    let other = hub.generate("hf:tiny/other", &[]).ended_with(2);
    assert!(other.stderr.contains("has no tiny/other at main"), "{}", other.stderr);
    if !cfg!(feature = "download") {
        let tls = hub.generate(MODEL, &[("HF_ENDPOINT", "https://127.0.0.1:1")]).ended_with(2);
        assert!(tls.stderr.contains("--features download"), "{}", tls.stderr);
    }
}

#[test]
fn what_is_cut_off_goes_on_where_it_was() {
    let hub = Hub::start("download-cuts", Fault::Cuts(10_000));
    assert_eq!(hub.generate(MODEL, &[]).ended_with(0).json()["outputs"][0]["tokens"], expected());
    let starts: Vec<usize> =
        hub.asked().into_iter().filter(|(name, _)| name != "config.json").map(|(_, at)| at).collect();
    let steps: Vec<usize> = (0..starts.len()).map(|i| 10_000 * i).collect();
    assert!(starts.len() > 1 && starts == steps, "{starts:?}");
    // A server that begins anew each time.
    let hub = Hub::start("download-anew", Fault::CutsWithoutRanges(20_000));
    assert_eq!(hub.generate(MODEL, &[]).ended_with(0).json()["outputs"][0]["tokens"], expected());
    // One that sends nothing is given up.
    let hub = Hub::start("download-nothing", Fault::Cuts(0));
    let error = hub.generate(MODEL, &[]).ended_with(4).stderr;
    assert!(error.contains("cannot download http://") && error.contains("model.safetensors: "), "{error}");
}

#[test]
fn what_the_hub_says_is_not_believed() {
    for (fault, code, expected) in [
        (Fault::Longer, 4, "it has more than the "),
        (Fault::Changed, 4, ": its digest is "),
        (Fault::LeadsOut, 2, "it has no config.json"),
        (Fault::Endless, 2, "says of tiny/model: "),
        (Fault::Gated, 2, "tiny/model is gated, private or not there; HF_TOKEN says who asks"),
    ] {
        let hub = Hub::start(&format!("download-{fault:?}"), fault);
        let error = hub.generate(MODEL, &[]).ended_with(code).stderr;
        assert!(error.contains(expected), "{fault:?}: {error}");
        if fault == Fault::Gated {
            hub.generate(MODEL, &[("HF_TOKEN", "secret")]).ended_with(0);
        } else if code == 4 {
            assert_eq!(hub.blobs(), [""; 0], "{fault:?}: nothing is kept");
        }
    }
}
