//! The model that is part of the program: fairy tales, 1.7 million parameters.
//!
//! It speaks on any machine without a file or a network. `shipped/README.md` says what it learned
//! from, and how.

use std::path::Path;

use crate::files::Checkpoint;
use crate::{Error, ModelFiles, SamplingDefaults, Tokenizer, config, error, template};

/// The name of the model that ships.
pub const SHIPPED: &str = "warpfold-tales";

/// An opening that suits it.
pub const SHIPPED_OPENING: &str = "Once upon a time";

/// The temperature at which it tells tales best.
const TEMPERATURE: f32 = 0.6;

const CONFIG: &str = include_str!("../shipped/config.json");
const TOKENIZER: &[u8] = include_bytes!("../shipped/tokenizer.json");
const TOKENIZER_CONFIG: &str = include_str!("../shipped/tokenizer_config.json");
const WEIGHTS: &[u8] = include_bytes!("../shipped/model.safetensors");

impl ModelFiles {
    /// The model that is part of the program, called [`SHIPPED`]. It continues tales, such as
    /// [`SHIPPED_OPENING`]; in a chat it takes what was said as the beginning of one.
    ///
    /// # Errors
    /// None that a test would not have met: the files do not change.
    pub fn shipped() -> Result<Self, Error> {
        let path = |file: &str| Path::new(SHIPPED).join(file);
        let config = config::of_text(&path("config.json"), CONFIG)?;
        let tokenizer = Tokenizer::of_json(&path("tokenizer.json"), TOKENIZER)?;
        let wrong = |e: serde_json::Error| error::file(&path("tokenizer_config.json"), e);
        let template = template::of_config(&serde_json::from_str(TOKENIZER_CONFIG).map_err(wrong)?);
        let checkpoint = Checkpoint::of_memory(&path("model.safetensors"), WEIGHTS)?;
        let defaults = SamplingDefaults { temperature: Some(TEMPERATURE), ..SamplingDefaults::default() };
        Ok(Self::of_parts(config, tokenizer, template, defaults, checkpoint))
    }
}
