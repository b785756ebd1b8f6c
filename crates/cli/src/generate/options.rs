//! The options of `generate`.

use clap::Args;
use serde::Deserialize;

/// Sampling and stop options of an answer. Lines of a request file have the same fields.
#[derive(Debug, Clone, Args)]
pub(super) struct Answer {
    /// Most tokens of an answer. Default: 128, or as many as the model has room for.
    #[arg(long, value_name = "N")]
    pub(super) max_tokens: Option<usize>,
    /// Sampling temperature; 0 is greedy. The defaults of this and the next three options are those
    /// of the model's generation_config.json, or 1, all, 1 and 0.
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    pub(super) temperature: Option<f32>,
    /// Sample from the K most likely tokens.
    #[arg(long, value_name = "K")]
    pub(super) top_k: Option<u32>,
    /// Sample from the fewest most likely tokens whose probabilities sum to this.
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub(super) top_p: Option<f32>,
    /// Sample from tokens at least this likely, relative to the most likely one.
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub(super) min_p: Option<f32>,
    /// Random seed: the same seed gives the same answer. Random by default, and printed by --json.
    #[arg(long, value_name = "S")]
    pub(super) seed: Option<u64>,
    /// Number of answers to each prompt.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) n: usize,
    /// Use beam search with W beams instead of sampling.
    #[arg(long, value_name = "W")]
    pub(super) beam: Option<usize>,
    /// Stop string: ends an answer and is not part of it; may be given several times.
    #[arg(long, value_name = "TEXT")]
    pub(super) stop: Vec<String>,
    /// Continue after end-of-sequence tokens.
    #[arg(long)]
    pub(super) ignore_eos: bool,
    /// Add the logprob of each token and of the K most likely ones; needs --json.
    #[arg(long, value_name = "K")]
    pub(super) logprobs: Option<usize>,
}

/// A line of a request file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    pub(super) prompt: Option<String>,
    pub(super) prompt_tokens: Option<Vec<u32>>,
    max_tokens: Option<usize>,
    temperature: Option<f32>,
    top_k: Option<u32>,
    top_p: Option<f32>,
    min_p: Option<f32>,
    seed: Option<u64>,
    n: Option<usize>,
    stop: Option<Stop>,
    ignore_eos: Option<bool>,
    logprobs: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "stop is a text or a list of texts")]
enum Stop {
    One(String),
    Many(Vec<String>),
}

impl Line {
    /// Returns the options, overridden by those of the line.
    pub(super) fn over(self, base: &Answer) -> Answer {
        let base = base.clone();
        Answer {
            max_tokens: self.max_tokens.or(base.max_tokens),
            temperature: self.temperature.or(base.temperature),
            top_k: self.top_k.or(base.top_k),
            top_p: self.top_p.or(base.top_p),
            min_p: self.min_p.or(base.min_p),
            seed: self.seed.or(base.seed),
            n: self.n.unwrap_or(base.n),
            beam: base.beam,
            stop: match self.stop {
                None => base.stop,
                Some(Stop::One(stop)) => vec![stop],
                Some(Stop::Many(stop)) => stop,
            },
            ignore_eos: self.ignore_eos.unwrap_or(base.ignore_eos),
            logprobs: self.logprobs.or(base.logprobs),
        }
    }
}
