//! Locates a model: by path, or by name in the local cache of the Hugging Face hub.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use warpfold_models::SHIPPED;

use super::hub::Named;
use crate::failure::Failure;

/// Prefix of the names of models on the Hugging Face hub.
const HUB: &str = "hf:";

/// Returns whether an argument is words for the built-in model: no model of that name exists, and
/// none could.
pub(crate) fn is_words(model: &str) -> bool {
    model.trim().contains(char::is_whitespace) && !model.contains(['/', '\\']) && !Path::new(model).exists()
}

/// The folder or file of a model.
pub(super) fn locate(model: &str) -> Result<PathBuf, Failure> {
    if let Some(name) = model.strip_prefix(HUB) {
        let named = Named::parse(name)?;
        let hub = hub().ok_or_else(|| Failure::usage("there is no folder for the Hugging Face cache (HF_HOME)"))?;
        return super::hub::locate(&named, &hub);
    }
    let path = PathBuf::from(model);
    if path.exists() {
        return Ok(path);
    }
    if model.trim().is_empty() {
        return Err(Failure::usage(format!(
            "the name of the model is empty; leave it out, or write '{SHIPPED}', for the model that is part of the program"
        )));
    }
    if model.contains(char::is_whitespace) {
        return Err(Failure::usage(format!(
            "there is no model {model:?}; if that is a prompt: warpfold generate {SHIPPED} {model:?}"
        )));
    }
    if !is_hub_name(model) {
        return Ok(path);
    }
    let Some(hub) = hub() else {
        return Err(Failure::usage(format!("there is no {model}, and no folder of the Hugging Face cache (HF_HOME)")));
    };
    snapshot(&hub, model).ok_or_else(|| {
        let hub = hub.display();
        Failure::usage(format!(
            "there is no {model} here, nor in the Hugging Face cache {hub}; get it by: {HUB}{model}"
        ))
    })
}

/// The name under which a model is served: that of the hub, or of its folder or file.
pub(crate) fn name(model: Option<&str>) -> String {
    let of_hub = model.and_then(|model| model.strip_prefix(HUB)).map(Named::parse);
    if let Some(Ok(named)) = of_hub {
        return named.name().to_owned();
    }
    match model {
        Some(model) if is_hub_name(model) && !Path::new(model).exists() => model.to_owned(),
        Some(model) => {
            let path = Path::new(model.trim_end_matches(".gguf"));
            path.file_name().map_or_else(|| "model".to_owned(), |name| name.to_string_lossy().into_owned())
        }
        None => SHIPPED.to_owned(),
    }
}

/// `owner/name`.
fn is_hub_name(model: &str) -> bool {
    let is_part = |part: &str| {
        let is_plain = part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        !part.is_empty() && !part.starts_with('.') && is_plain
    };
    model.split_once('/').is_some_and(|(owner, name)| is_part(owner) && is_part(name)) && !model.ends_with(".gguf")
}

/// The cache, as huggingface_hub finds it.
fn hub() -> Option<PathBuf> {
    let folder = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    folder("HF_HUB_CACHE")
        .or_else(|| folder("HF_HOME").map(|home| home.join("hub")))
        .or_else(|| folder("HOME").map(|home| home.join(".cache/huggingface/hub")))
}

/// The files of the revision that `main` names.
fn snapshot(hub: &Path, model: &str) -> Option<PathBuf> {
    let folder = hub.join(format!("models--{}", model.replace('/', "--")));
    let revision = fs::read_to_string(folder.join("refs/main")).ok()?;
    let snapshot = folder.join("snapshots").join(revision.trim());
    snapshot.join("config.json").exists().then_some(snapshot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_hub_are_told_from_paths() {
        for name in ["Qwen/Qwen3-0.6B", "HuggingFaceTB/SmolLM2-135M-Instruct"] {
            assert!(is_hub_name(name), "{name}");
        }
        for path in ["/a/b", "./a", "a/b/c", "models/a.gguf", "a", "../a"] {
            assert!(!is_hub_name(path), "{path}");
        }
    }

    #[test]
    fn a_model_is_called_as_its_file_or_as_the_hub_calls_it() {
        assert_eq!(name(Some("Qwen/Qwen3-0.6B")), "Qwen/Qwen3-0.6B");
        assert_eq!(name(Some("/a/SmolLM2-135M.Q4_1.gguf")), "SmolLM2-135M.Q4_1");
        assert_eq!(name(Some("hf:a/b@v1")), "a/b");
        assert_eq!(name(Some("hf:a/b/c.gguf")), "c");
        assert_eq!(name(Some("/a/b/")), "b");
        assert_eq!(name(Some("/")), "model");
    }

    #[test]
    fn words_are_no_model() {
        assert!(is_words("Once upon") && is_words("Hi there, you"));
        for model in ["Once", "a/b c", "./my model", "", " ", "Qwen/Qwen3-0.6B"] {
            assert!(!is_words(model), "{model}");
        }
    }

    #[test]
    fn a_snapshot_of_the_cache_is_found() {
        let hub = env::temp_dir().join(format!("warpfold-hub-{}", std::process::id()));
        let folder = hub.join("models--a--b");
        let files = folder.join("snapshots/123");
        fs::create_dir_all(folder.join("refs")).expect("a folder");
        fs::create_dir_all(&files).expect("a folder");
        fs::write(folder.join("refs/main"), "123\n").expect("a file");
        assert_eq!(snapshot(&hub, "a/b"), None);
        fs::write(files.join("config.json"), "{}").expect("a file");
        assert_eq!(snapshot(&hub, "a/b"), Some(files));
        assert_eq!(snapshot(&hub, "a/c"), None);
        fs::remove_dir_all(hub).expect("the folder is there");
    }
}
