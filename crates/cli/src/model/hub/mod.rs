//! `hf:OWNER/NAME`: models that come from the Hugging Face hub into its usual cache.
//!
//! `api` asks which files there are, `fetch` brings each one whole, checked and resumed. The cache
//! is that of huggingface_hub: content by its digest in `blobs`, links to it in `snapshots`, the
//! revision of a branch in `refs`. HF_ENDPOINT, HF_HUB_OFFLINE, HF_TOKEN, HF_HUB_CACHE and HF_HOME
//! mean what they mean there. TLS is the feature `download`; without it endpoints are http alone.
//! Deliberately absent: a lock; two programs that fetch one file at once do its work twice.

mod api;
mod fetch;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::progress::Progress;

use api::{Hub, Remote};

/// A model of the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    /// `owner/name`.
    id: String,
    /// A branch, a tag or a commit.
    revision: String,
    /// One GGUF file of it, instead of all that a folder needs.
    file: Option<String>,
}

impl Named {
    /// Parses `OWNER/NAME`, `OWNER/NAME@REVISION` or `OWNER/NAME/FILE.gguf`.
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let wrong =
            || Failure::usage(format!("hf:{text} is none of OWNER/NAME, OWNER/NAME@REVISION, OWNER/NAME/FILE.gguf"));
        let (path, revision) = text.split_once('@').unwrap_or((text, "main"));
        let parts: Vec<&str> = path.split('/').collect();
        let (id, file) = match parts[..] {
            [owner, name] => ([owner, name], None),
            [owner, name, file] if file.ends_with(".gguf") => ([owner, name], Some(file.to_owned())),
            _ => return Err(wrong()),
        };
        let are_plain = id.into_iter().chain(file.as_deref()).chain([revision]).all(is_plain);
        let named = Self { id: id.join("/"), revision: revision.to_owned(), file };
        are_plain.then_some(named).ok_or_else(wrong)
    }

    /// Its folder in a cache.
    fn folder(&self, cache: &Path) -> PathBuf {
        cache.join(format!("models--{}", self.id.replace('/', "--")))
    }

    /// The name under which it is served.
    pub(super) fn name(&self) -> &str {
        self.file.as_deref().map_or(&self.id, |file| file.trim_end_matches(".gguf"))
    }
}

/// Returns whether a path component is a plain name that cannot leave its folder.
fn is_plain(part: &str) -> bool {
    let is_known = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
    !part.is_empty() && part.len() <= 200 && !part.starts_with('.') && part.chars().all(is_known)
}

fn is_set(name: &str) -> bool {
    env::var(name).is_ok_and(|value| ["1", "true", "yes", "on"].contains(&value.to_lowercase().as_str()))
}

/// The folder or file of a model in the cache, which it is brought to where it is not all there.
pub(super) fn locate(named: &Named, cache: &Path) -> Result<PathBuf, Failure> {
    if is_set("HF_HUB_OFFLINE") {
        let is_missing =
            || Failure::usage(format!("hf:{} is not in {}, and HF_HUB_OFFLINE is set", named.id, cache.display()));
        return cached(named, cache).ok_or_else(is_missing);
    }
    let hub = Hub::of_environment()?;
    let remote = match hub.list(named) {
        Ok(remote) => remote,
        // What is there is better than nothing where nobody answers.
        Err(api::Refused::Unreachable(reason)) => match cached(named, cache) {
            Some(path) => {
                crate::output::note(&format!("{reason}; the cache has the model\n"));
                return Ok(path);
            }
            None => return Err(Failure::run(reason)),
        },
        Err(api::Refused::Answered(reason)) => return Err(Failure::usage(reason)),
    };
    bring(&hub, named, cache, &remote)
}

/// Returns the cached copy of a model.
fn cached(named: &Named, cache: &Path) -> Option<PathBuf> {
    let folder = named.folder(cache);
    let refs = fs::read_to_string(folder.join("refs").join(&named.revision));
    let commit = refs.map_or_else(|_| named.revision.clone(), |text| text.trim().to_owned());
    let snapshot = folder.join("snapshots").join(commit);
    let path = named.file.as_ref().map_or_else(|| snapshot.clone(), |file| snapshot.join(file));
    // The last one that is brought.
    let last = if named.file.is_some() { path.clone() } else { snapshot.join("config.json") };
    last.exists().then_some(path)
}

fn bring(hub: &Hub, named: &Named, cache: &Path, remote: &Remote) -> Result<PathBuf, Failure> {
    let folder = named.folder(cache);
    let snapshot = folder.join("snapshots").join(&remote.commit);
    let cannot = |path: &Path, error: std::io::Error| Failure::run(format!("cannot write {}: {error}", path.display()));
    for folder in [&folder.join("blobs"), &folder.join("refs"), &snapshot] {
        fs::create_dir_all(folder).map_err(|error| cannot(folder, error))?;
    }
    let all: u64 = remote.files.iter().map(|file| file.size).sum();
    let progress = Progress::new();
    let mut before = 0;
    progress.begin(format!("downloading {}", named.id));
    let brought = remote.files.iter().try_for_each(|file| {
        let blob = folder.join("blobs").join(file.digest.name());
        let place = snapshot.join(&file.name);
        if !place.exists() {
            if !blob.exists() {
                hub.fetch(named, &remote.commit, file, &blob, &mut |done| progress.show_bytes(before + done, all))?;
            }
            link(&blob, &place, &file.digest.name()).map_err(|error| cannot(&place, error))?;
        }
        before += file.size;
        progress.show_bytes(before, all);
        Ok::<_, Failure>(())
    });
    progress.end();
    brought?;
    let path = folder.join("refs").join(&named.revision);
    fs::write(&path, &remote.commit).map_err(|error| cannot(&path, error))?;
    Ok(named.file.as_ref().map_or_else(|| snapshot.clone(), |file| snapshot.join(file)))
}

/// Gives content a name in a snapshot.
#[cfg(unix)]
fn link(_: &Path, place: &Path, digest: &str) -> std::io::Result<()> {
    // One that leads nowhere is in the way.
    fs::remove_file(place).or_else(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })?;
    std::os::unix::fs::symlink(Path::new("../../blobs").join(digest), place)
}

#[cfg(not(unix))]
fn link(blob: &Path, place: &Path, _: &str) -> std::io::Result<()> {
    fs::rename(blob, place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_and_lead_nowhere_else() {
        let named = |text| Named::parse(text).expect("a name");
        assert_eq!(named("a/b"), Named { id: "a/b".to_owned(), revision: "main".to_owned(), file: None });
        assert_eq!(named("a/b@v1.0").revision, "v1.0");
        assert_eq!(named("a/b/c.Q4_1.gguf").name(), "c.Q4_1");
        for text in
            ["", "a", "a/", "/a", "../b", "a/..", "a/b/c", "a/b/../c.gguf", "a/b@", "a/b@../c", "a b/c", "a/b/.gguf"]
        {
            assert!(Named::parse(text).is_err(), "{text}");
        }
    }
}
