//! Sampling defaults of a model: `generation_config.json`.

use std::fmt;

use warpfold_engine::Sampling;

use super::fields::Fields;
use crate::Error;

/// Sampling parameters recommended by a model's publisher, used where a request sets none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SamplingDefaults {
    /// Divides the logits.
    pub temperature: Option<f32>,
    /// Draws from so many likely tokens.
    pub top_k: Option<u32>,
    /// Draws from the likely tokens whose probabilities sum to this.
    pub top_p: Option<f32>,
    /// Draws from tokens at least this likely, relative to the most likely one.
    pub min_p: Option<f32>,
    /// Divides the logits of tokens that were there.
    pub repetition_penalty: Option<f32>,
    /// Tokens of an answer.
    pub max_new_tokens: Option<usize>,
}

impl SamplingDefaults {
    /// Reads a `generation_config.json` as vLLM does.
    pub(crate) fn read(fields: &Fields) -> Result<Self, Error> {
        let number = |name| Ok::<_, Error>(fields.number(name)?.map(|number| number as f32));
        let top_k = fields.size("top_k")?.filter(|k| *k > 0);
        let top_k = top_k.map(|k| u32::try_from(k).map_err(|_| fields.wrong("top_k", format!("{k} is no count"))));
        let defaults = Self {
            temperature: number("temperature")?,
            top_k: top_k.transpose()?,
            top_p: number("top_p")?,
            min_p: number("min_p")?,
            repetition_penalty: number("repetition_penalty")?,
            max_new_tokens: fields.size("max_new_tokens")?.filter(|len| *len > 0),
        };
        let is_valid = defaults.sampling().validate(usize::MAX);
        is_valid.map_err(|error| crate::error::file(&fields.path, error))?;
        Ok(defaults)
    }

    /// Sampling by them alone.
    #[must_use]
    pub fn sampling(&self) -> Sampling {
        let base = Sampling::default();
        Sampling {
            temperature: self.temperature.unwrap_or(base.temperature),
            top_k: self.top_k,
            top_p: self.top_p.unwrap_or(base.top_p),
            min_p: self.min_p.unwrap_or(base.min_p),
            repetition_penalty: self.repetition_penalty.unwrap_or(base.repetition_penalty),
            ..base
        }
    }
}

/// Lists the parameters that are set; empty if none is.
impl fmt::Display for SamplingDefaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |value: Option<&dyn ToString>| value.map(ToString::to_string);
        let all = [
            ("temperature", text(self.temperature.as_ref().map(|v| v as _))),
            ("top_k", text(self.top_k.as_ref().map(|v| v as _))),
            ("top_p", text(self.top_p.as_ref().map(|v| v as _))),
            ("min_p", text(self.min_p.as_ref().map(|v| v as _))),
            ("repetition_penalty", text(self.repetition_penalty.as_ref().map(|v| v as _))),
            ("max_new_tokens", text(self.max_new_tokens.as_ref().map(|v| v as _))),
        ];
        let said = all.into_iter().filter_map(|(name, value)| Some(format!("{name} {}", value?)));
        f.write_str(&said.collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn defaults(text: &str) -> Result<SamplingDefaults, Error> {
        SamplingDefaults::read(&Fields::parse(Path::new("generation_config.json"), text).expect("an object"))
    }

    #[test]
    fn what_a_model_says_of_sampling_is_taken() {
        let text = r#"{"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "eos_token_id": [1, 2]}"#;
        let found = defaults(text).expect("it is right");
        assert_eq!(found.to_string(), "temperature 0.6, top_k 20, top_p 0.95");
        assert_eq!((found.sampling().top_k, found.sampling().min_p), (Some(20), 0.0));
        assert_eq!(defaults("{}").expect("it says nothing"), SamplingDefaults::default());
        let error = defaults(r#"{"top_p": 7}"#).expect_err("no probability").to_string();
        assert!(error.starts_with("generation_config.json") && error.contains("top_p"), "{error}");
    }
}
