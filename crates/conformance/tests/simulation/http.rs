//! Replies as bytes, and what an answer says however it was sent.

use std::collections::BTreeMap;

use serde_json::Value;

/// Reply of a server, as far as it has come.
#[derive(Debug, Clone)]
pub(crate) struct HttpReply {
    pub(crate) status: u16,
    pub(crate) body: String,
    pub(crate) is_whole: bool,
}

impl HttpReply {
    /// Reads bytes; nothing if the headers are not there yet.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&bytes[..end]).expect("headers are text").to_ascii_lowercase();
        let status = head.split(' ').nth(1)?.parse().expect("a status is a number");
        let rest = &bytes[end + 4..];
        let len = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        let (body, is_whole) = match len {
            Some(len) => (rest[..len.min(rest.len())].to_vec(), rest.len() >= len),
            None if head.contains("transfer-encoding: chunked") => unchunked(rest),
            None => (Vec::new(), true),
        };
        Some(Self { status, body: String::from_utf8_lossy(&body).into_owned(), is_whole })
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    /// The events of a stream.
    pub(crate) fn events(&self) -> Vec<&str> {
        self.body.split("\n\n").filter_map(|event| event.strip_prefix("data: ")).collect()
    }
}

fn unchunked(mut bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") else { return (body, false) };
        let len = std::str::from_utf8(&bytes[..end]).ok().and_then(|len| usize::from_str_radix(len, 16).ok());
        let len = len.expect("a chunk has a length");
        let Some(chunk) = bytes.get(end + 2..end + 4 + len) else { return (body, false) };
        if len == 0 {
            return (body, true);
        }
        body.extend(&chunk[..len]);
        bytes = &bytes[end + 4 + len..];
    }
}

/// One answer of a reply.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ReplyChoice {
    text: String,
    /// Lists of ids and logprobs by name: numbers are compared as they are written, which is all
    /// their bits.
    lists: BTreeMap<String, Vec<Value>>,
    finish: Value,
    stop: Value,
    seed: Value,
}

/// The answers of a whole reply or of the chunks of a stream, by their number.
pub(crate) fn choices<'a>(objects: impl IntoIterator<Item = &'a Value>) -> BTreeMap<u64, ReplyChoice> {
    let mut all: BTreeMap<u64, ReplyChoice> = BTreeMap::new();
    let parts = objects.into_iter().flat_map(|object| object["choices"].as_array().expect("a list of choices"));
    for part in parts {
        let choice = all.entry(part["index"].as_u64().expect("a number")).or_default();
        let text = [&part["text"], &part["message"]["content"], &part["delta"]["content"]];
        choice.text.extend(text.iter().filter_map(|text| text.as_str()));
        let logprobs = part["logprobs"].as_object().into_iter().flatten();
        let ids = ["token_ids", "prompt_token_ids"].map(|name| (name, &part[name]));
        for (name, list) in logprobs.map(|(name, list)| (name.as_str(), list)).chain(ids) {
            let list = list.as_array().into_iter().flatten().cloned();
            choice.lists.entry(name.to_owned()).or_default().extend(list);
        }
        choice.seed = part["seed"].clone();
        if !part["finish_reason"].is_null() {
            (choice.finish, choice.stop) = (part["finish_reason"].clone(), part["stop_reason"].clone());
        }
    }
    all
}
