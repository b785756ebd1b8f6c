//! Requests of clients and their behaviour, drawn from a seed.

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{Value, json};
use warpfold_engine::simulation::SeedDraws;

/// Request of a client, with the outcomes that it may have.
#[derive(Debug, Clone)]
pub(crate) enum CallerAsks {
    /// An answer: the path and the body without `stream`, to be compared with the same alone.
    Answer { path: &'static str, body: Value, is_stream: bool, names_adapter: bool },
    /// An adapter, to be loaded or unloaded.
    Adapter { path: &'static str, body: Value },
    /// Other weights, of a number.
    Weights(u32),
    /// A path that lets the model sleep or wakes it.
    Sleep(&'static str),
    /// Something else that is answered with 200.
    Other(&'static str),
    /// A wrong request, and the status of its answer.
    Wrong(Vec<u8>, u16),
}

/// Pace at which a client reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallerReads {
    /// At once.
    All,
    /// Some bytes at a time.
    Slowly { bytes: usize, every: Duration },
    /// None.
    Nothing,
}

/// End of what a client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallerEnds {
    /// It closes the connection when it has its answer.
    WithAnswer,
    /// It sends no more, and waits.
    HalfClosed,
    /// It leaves some time after it came.
    Leaves(Duration),
    /// It stops in the middle of what it sends.
    Stalls,
}

/// A client.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) at: Duration,
    pub(crate) asks: CallerAsks,
    pub(crate) reads: CallerReads,
    pub(crate) ends: CallerEnds,
    /// Its request in pieces, each so long after the one before.
    pub(crate) pieces: Vec<(Duration, SentPiece)>,
}

/// Bytes, shown as the text that they are.
#[derive(Clone)]
pub(crate) struct SentPiece(pub(crate) Vec<u8>);

impl std::fmt::Debug for SentPiece {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

/// Folders of adapters; the rank of each is its number and one more.
pub(crate) fn adapters() -> &'static [String; 2] {
    static FOLDERS: OnceLock<[String; 2]> = OnceLock::new();
    FOLDERS.get_or_init(|| [1, 2].map(adapter))
}

/// A folder with an adapter of a rank.
fn adapter(rank: usize) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("simulation-adapter-{rank}"));
    std::fs::create_dir_all(&folder).expect("a folder");
    let write = |name: &str, bytes: &[u8]| {
        // Another process may read it: it is there as a whole, or not at all.
        let beside = folder.join(format!("{name}.{}", std::process::id()));
        std::fs::write(&beside, bytes).and_then(|()| std::fs::rename(&beside, folder.join(name))).expect("a file");
    };
    write("adapter_config.json", json!({"peft_type": "LORA", "r": rank, "lora_alpha": 1}).to_string().as_bytes());
    let size = 8 * rank;
    let tensor =
        |at: usize, shape: [usize; 2]| json!({"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]});
    let header = json!({
        "base_model.model.w.lora_A.weight": tensor(0, [rank, 2]),
        "base_model.model.w.lora_B.weight": tensor(size, [2, rank]),
    });
    let (header, data) = (header.to_string(), 1.0_f32.to_le_bytes().repeat(4 * rank));
    write("adapter_model.safetensors", &[&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat());
    folder.to_string_lossy().into_owned()
}

pub(crate) const NAMES: [&str; 2] = ["one", "two"];

fn answer(draws: &mut SeedDraws, has_adapters: bool) -> CallerAsks {
    let first = draws.below(3);
    let is_chat = draws.percent(40);
    let adapter = (has_adapters && draws.percent(50)).then(|| draws.one_of(&NAMES));
    let mut body = json!({
        "model": adapter.unwrap_or("scripted"),
        "max_tokens": 1 + draws.below(10),
        "seed": draws.below(100),
        "n": 1 + draws.below(2),
        "temperature": draws.one_of(&[0.0, 0.8]),
        "ignore_eos": draws.percent(50),
        "return_token_ids": true,
    });
    if draws.percent(30) {
        body["stop"] = json!(["e", "th"]);
    }
    if is_chat {
        (body["logprobs"], body["top_logprobs"]) = (true.into(), 2.into());
        let text = "tell me more about it ".repeat(1 + draws.below(2));
        body["messages"] = json!([{"role": "user", "content": format!("{text}{first}")}]);
    } else {
        body["logprobs"] = 2.into();
        let tokens: Vec<usize> = (0..1 + draws.below(40)).map(|i| (first * 40 + i * 7) % 280 + 2).collect();
        body["prompt"] =
            if draws.percent(30) { "the way of a request ".repeat(first + 1).into() } else { json!(tokens) };
    }
    let path = if is_chat { "/v1/chat/completions" } else { "/v1/completions" };
    CallerAsks::Answer { path, body, is_stream: draws.percent(60), names_adapter: adapter.is_some() }
}

fn wrong(draws: &mut SeedDraws) -> CallerAsks {
    let post = |body: &str| request("POST", "/v1/completions", body.as_bytes());
    let (bytes, status) = match draws.below(8) {
        0 => (post("{\"prompt\": [1, 2"), 400),
        1 => (post("{\"prompt\": [1], \"no_such_field\": 1}"), 400),
        2 => (post("{\"prompt\": 3.5}"), 400),
        3 => (post(&json!({"prompt": vec![5; 400]}).to_string()), 400),
        4 => (post(&format!("{{\"prompt\": {:?}}}", "x".repeat(5000))), 413),
        5 => (request("GET", "/v1/completions", b""), 405),
        6 => (request("POST", "/v1/no_such_path", b"{}"), 404),
        _ => (b"no request at all\r\n\r\n".to_vec(), 400),
    };
    CallerAsks::Wrong(bytes, status)
}

/// The bytes of a request.
pub(crate) fn request(method: &str, path: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("{method} {path} HTTP/1.1\r\nhost: here\r\ncontent-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// Loader of one of the adapters.
fn load(i: usize) -> CallerAsks {
    let body = json!({"lora_name": NAMES[i], "lora_path": adapters()[i]});
    CallerAsks::Adapter { path: "/v1/load_lora_adapter", body }
}

impl CallerAsks {
    /// The bytes that ask it.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Answer { path, body, is_stream, .. } => {
                let mut body = body.clone();
                body["stream"] = (*is_stream).into();
                request("POST", path, body.to_string().as_bytes())
            }
            Self::Adapter { path, body } => request("POST", path, body.to_string().as_bytes()),
            Self::Weights(number) => {
                request("POST", "/v1/load_weights", json!({"path": number.to_string()}).to_string().as_bytes())
            }
            Self::Sleep(path) => request("POST", path, b""),
            Self::Other(path) => request("GET", path, b""),
            Self::Wrong(bytes, _) => bytes.clone(),
        }
    }
}

impl Caller {
    /// Bytes of its request before the body.
    pub(crate) fn head_bytes(&self) -> usize {
        let all: Vec<u8> = self.pieces.iter().flat_map(|(_, piece)| piece.0.iter().copied()).collect();
        all.windows(4).position(|four| four == b"\r\n\r\n").map_or(all.len(), |end| end + 4)
    }

    /// A client, one of those that ask for an adapter if there are some.
    pub(crate) fn draw(draws: &mut SeedDraws, has_adapters: bool) -> Self {
        let ms = |draws: &mut SeedDraws, most: usize| Duration::from_millis(draws.below(most) as u64);
        let asks = match draws.below(20) {
            0 | 1 => wrong(draws),
            2 => CallerAsks::Other(draws.one_of(&["/health", "/v1/models", "/version"])),
            3 if has_adapters => load(draws.below(2)),
            4 if has_adapters => CallerAsks::Adapter {
                path: "/v1/unload_lora_adapter",
                body: json!({"lora_name": draws.one_of(&NAMES)}),
            },
            _ => answer(draws, has_adapters),
        };
        let reads = match draws.below(10) {
            0 => CallerReads::Nothing,
            1 | 2 => CallerReads::Slowly { bytes: 20 + draws.below(300), every: ms(draws, 40) },
            _ => CallerReads::All,
        };
        let ends = match draws.below(14) {
            0 => CallerEnds::HalfClosed,
            1 | 2 => CallerEnds::Leaves(ms(draws, 60)),
            3 => CallerEnds::Stalls,
            _ => CallerEnds::WithAnswer,
        };
        let mut bytes = asks.bytes();
        if ends == CallerEnds::Stalls {
            bytes.truncate(bytes.len() - 1 - draws.below(bytes.len() - 1));
        }
        let mut pieces = Vec::new();
        while !bytes.is_empty() {
            let len = if draws.percent(70) { bytes.len() } else { 1 + draws.below(bytes.len()) };
            let rest = bytes.split_off(len);
            pieces.push((ms(draws, 15), SentPiece(bytes)));
            bytes = rest;
        }
        Self { at: ms(draws, 80), asks, reads, ends, pieces }
    }

    /// One that loads weights, or lets the model sleep and wakes it.
    pub(crate) fn trainer(draws: &mut SeedDraws) -> Self {
        let asks = match draws.below(8) {
            0 => CallerAsks::Sleep("/sleep"),
            1 => CallerAsks::Sleep("/sleep?level=2"),
            2 => CallerAsks::Sleep("/wake_up?tags=weights"),
            3 | 4 => CallerAsks::Sleep("/wake_up"),
            _ => CallerAsks::Weights(1 + draws.below(3) as u32),
        };
        let ends = match draws.below(6) {
            0 => CallerEnds::Leaves(Duration::from_millis(draws.below(20) as u64)),
            _ => CallerEnds::WithAnswer,
        };
        let pieces = vec![(Duration::ZERO, SentPiece(asks.bytes()))];
        Self { at: Duration::from_millis(draws.below(80) as u64), asks, reads: CallerReads::All, ends, pieces }
    }

    /// One that loads an adapter before all others come.
    pub(crate) fn loader(i: usize) -> Self {
        let asks = load(i);
        let pieces = vec![(Duration::ZERO, SentPiece(asks.bytes()))];
        Self { at: Duration::ZERO, asks, reads: CallerReads::All, ends: CallerEnds::WithAnswer, pieces }
    }
}
