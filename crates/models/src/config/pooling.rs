//! Pooling of a model's embeddings: `modules.json` of sentence-transformers.

use std::path::Path;

use serde_json::Value;
use warpfold_engine::Pooling;

use super::fields::Fields;
use crate::Error;
use crate::error;
use crate::files::read_small_text;

/// Default pooling of a model, as its publisher configured it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolingDefaults {
    /// Hidden states that become an embedding.
    pub pooling: Pooling,
    /// Set if embeddings have the length 1.
    pub is_normalized: bool,
}

/// The defaults of vLLM.
impl Default for PoolingDefaults {
    fn default() -> Self {
        Self { pooling: Pooling::Last, is_normalized: true }
    }
}

/// The modes of sentence-transformers, by their flags and by the names of later versions.
const MODES: [(&str, &str, Pooling); 3] = [
    ("pooling_mode_lasttoken", "lasttoken", Pooling::Last),
    ("pooling_mode_mean_tokens", "mean", Pooling::Mean),
    ("pooling_mode_cls_token", "cls", Pooling::Cls),
];

impl PoolingDefaults {
    /// Reads those of a folder from the modules that it lists, if it does.
    pub(crate) fn of_folder(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("modules.json");
        if !path.exists() {
            let alone = folder.join("1_Pooling/config.json");
            let pooling = alone.exists().then(|| mode(&Fields::read(&alone)?)).transpose()?;
            return Ok(pooling.map_or_else(Self::default, |pooling| Self { pooling, ..Self::default() }));
        }
        let modules: Vec<Value> = serde_json::from_str(&read_small_text(&path)?)
            .map_err(|reason| error::file(&path, format!("it is no list of modules: {reason}")))?;
        let mut defaults = Self { is_normalized: false, ..Self::default() };
        for module in &modules {
            let text = |name: &str| module[name].as_str().unwrap_or_default();
            match text("type").rsplit('.').next().unwrap_or_default() {
                "Transformer" => {}
                "Pooling" => {
                    let inner = Path::new(text("path"));
                    let is_inside = inner.components().all(|part| matches!(part, std::path::Component::Normal(_)));
                    if !is_inside {
                        return Err(error::file(&path, format!("{} is outside of the folder", inner.display())));
                    }
                    defaults.pooling = mode(&Fields::read(&folder.join(inner).join("config.json"))?)?;
                }
                "Normalize" => defaults.is_normalized = true,
                other => return Err(error::unsupported(&path, format!("module {other}"))),
            }
        }
        Ok(defaults)
    }
}

/// The one mode that a `config.json` of pooling says.
fn mode(fields: &Fields) -> Result<Pooling, Error> {
    let mut modes: Vec<String> = fields.text("pooling_mode")?.into_iter().collect();
    for name in fields.names().filter(|name| name.starts_with("pooling_mode_")) {
        if fields.flag(name)? == Some(true) {
            modes.push(name.to_owned());
        }
    }
    let known = |mode: &String| MODES.iter().find(|(flag, name, _)| flag == mode || name == mode);
    match modes.as_slice() {
        [mode] => known(mode).map(|(_, _, pooling)| *pooling).ok_or_else(|| {
            error::unsupported(&fields.path, format!("{mode}; known: last token, mean and first token"))
        }),
        modes => Err(error::unsupported(&fields.path, format!("{} modes of pooling, not one", modes.len()))),
    }
}
