//! The hub's interface: which files a model has, and how large they are.

use std::env;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use ureq::Agent;

use super::{Named, is_plain};
use crate::failure::Failure;

/// The hub, and who asks.
pub(super) struct Hub {
    pub(super) agent: Agent,
    pub(super) endpoint: String,
    token: Option<String>,
}

/// The files of a model at one commit.
pub(super) struct Remote {
    pub(super) commit: String,
    pub(super) files: Vec<RemoteFile>,
}

/// A file of the hub.
pub(super) struct RemoteFile {
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) digest: Digest,
}

/// The hash that identifies the content of a file.
pub(super) enum Digest {
    /// SHA-256 of the content: large files.
    Content(String),
    /// SHA-1 of it as a blob of git.
    Blob(String),
}

impl Digest {
    /// The name of the content in the cache.
    pub(super) fn name(&self) -> String {
        let (Self::Content(digest) | Self::Blob(digest)) = self;
        digest.clone()
    }
}

/// Why there is no list.
pub(super) enum Refused {
    /// Nobody answers.
    Unreachable(String),
    /// The hub says no, or what makes no sense.
    Answered(String),
}

// THRESHOLD: longer answers of the hub are refused; tested by
// crates/cli/tests/program/download.rs::what_the_hub_says_is_not_believed
/// Bytes of a list of files at most.
const MOST_LIST_BYTES: u64 = 16 << 20;

impl Hub {
    /// The hub that the environment names.
    pub(super) fn of_environment() -> Result<Self, Failure> {
        let text =
            |name: &str| env::var(name).ok().map(|value| value.trim().to_owned()).filter(|text| !text.is_empty());
        let endpoint = text("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".to_owned());
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        let schemes: &[&str] = if cfg!(feature = "download") { &["http://", "https://"] } else { &["http://"] };
        if !schemes.iter().any(|scheme| endpoint.starts_with(scheme)) {
            return Err(Failure::usage(match endpoint.starts_with("https://") {
                true => format!(
                    "{endpoint} speaks TLS, which this program was built without: build it with --features download, \
                     or set HF_ENDPOINT to an http:// mirror"
                ),
                false => format!("HF_ENDPOINT: {endpoint} is no http:// or https:// address"),
            }));
        }
        let home = env::var_os("HF_HOME").map(PathBuf::from);
        let home = home.or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/huggingface")));
        let of_file = || fs::read_to_string(home?.join("token")).ok().map(|token| token.trim().to_owned());
        let token = text("HF_TOKEN").or_else(of_file).filter(|token| !token.is_empty());
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(std::time::Duration::from_secs(10)))
            .timeout_recv_response(Some(std::time::Duration::from_secs(30)))
            .user_agent(concat!("warpfold/", env!("CARGO_PKG_VERSION")));
        Ok(Self { agent: config.build().into(), endpoint, token })
    }

    /// A request with the token, which goes to the hub alone: redirects do not take it along.
    pub(super) fn get(&self, address: &str) -> ureq::RequestBuilder<ureq::typestate::WithoutBody> {
        let request = self.agent.get(address);
        match &self.token {
            Some(token) => request.header("Authorization", format!("Bearer {token}")),
            None => request,
        }
    }

    /// The files of a model that are needed.
    pub(super) fn list(&self, named: &Named) -> Result<Remote, Refused> {
        let Named { id, revision, file } = named;
        let address = format!("{}/api/models/{id}/revision/{revision}?blobs=true", self.endpoint);
        let mut answer = self
            .get(&address)
            .call()
            .map_err(|error| Refused::Unreachable(format!("{} does not answer: {error}", self.endpoint)))?;
        match answer.status().as_u16() {
            200 => {}
            401 | 403 => {
                let reason = format!("{}: {id} is gated, private or not there; HF_TOKEN says who asks", self.endpoint);
                return Err(Refused::Answered(reason));
            }
            404 => return Err(Refused::Answered(format!("{} has no {id} at {revision}", self.endpoint))),
            status if status >= 500 => {
                return Err(Refused::Unreachable(format!("{} answers with status {status}", self.endpoint)));
            }
            status => return Err(Refused::Answered(format!("{} answers with status {status}", self.endpoint))),
        }
        let wrong = |reason: String| Refused::Answered(format!("{} says of {id}: {reason}", self.endpoint));
        let bytes = answer.body_mut().with_config().limit(MOST_LIST_BYTES).read_to_vec();
        let bytes = bytes.map_err(|error| wrong(error.to_string()))?;
        let told: Value = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        let commit = told["sha"].as_str().filter(|commit| is_digest(commit, 40));
        let commit = commit.ok_or_else(|| wrong("it names no commit".to_owned()))?.to_owned();
        let all = told["siblings"].as_array().ok_or_else(|| wrong("it lists no files".to_owned()))?;
        let name = |entry: &Value| entry["rfilename"].as_str().filter(|name| is_plain(name)).map(str::to_owned);
        let names: Vec<String> = all.iter().filter_map(name).collect();
        let mut files = Vec::new();
        for entry in all {
            let Some(name) = name(entry).filter(|name| is_wanted(name, file.as_deref(), &names)) else { continue };
            let of_large = entry["lfs"]["sha256"].as_str().filter(|digest| is_digest(digest, 64));
            let of_small = entry["blobId"].as_str().filter(|digest| is_digest(digest, 40));
            let digest = match (entry["lfs"].is_object(), of_large, of_small) {
                (true, Some(digest), _) => Some(Digest::Content(digest.to_owned())),
                (false, _, Some(digest)) => Some(Digest::Blob(digest.to_owned())),
                _ => None,
            };
            let size = entry["lfs"]["size"].as_u64().or(entry["size"].as_u64());
            let (Some(digest), Some(size)) = (digest, size) else {
                return Err(wrong(format!("{name} has no size or no digest")));
            };
            files.push(RemoteFile { name, size, digest });
        }
        let expected = file.as_deref().unwrap_or("config.json");
        if !files.iter().any(|file| file.name == expected) {
            return Err(wrong(format!("it has no {expected}")));
        }
        // A model is there once its configuration is.
        files.sort_by_key(|file| file.name == expected);
        Ok(Remote { commit, files })
    }
}

fn is_digest(text: &str, len: usize) -> bool {
    text.len() == len && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Returns whether a file of the repository is downloaded: weights in one of the available formats,
/// and the small files.
fn is_wanted(name: &str, file: Option<&str>, all: &[String]) -> bool {
    if let Some(file) = file {
        return name == file;
    }
    let is_model = |name: &str| name.starts_with("model") && name.ends_with(".safetensors");
    match name.rsplit_once('.') {
        Some((_, "safetensors")) => is_model(name) || !all.iter().any(|name| is_model(name)),
        Some((_, "json" | "jinja" | "model")) => true,
        _ => false,
    }
}
